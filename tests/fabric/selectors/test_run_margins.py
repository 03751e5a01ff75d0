"""Margins: a row for every protection, numbers that agree with what trips."""

from __future__ import annotations

import pytest

from fabric.core.flow import RunState, Stage
from fabric.core.mechanisms import ORDER
from fabric.core.policy import Budget, FlowPolicy, Limits, LoopDetector, Retry
from fabric.selectors.run_margins import MARGINS, margins_of, settings_of
from fabric.selectors.run_story import RunStory
from tests.fabric.selectors.journals import Teller

POLICY = FlowPolicy(
    budget=Budget(run_usd_micros=10_000, run_tokens=1_000, stage_usd_micros=5_000, agent_usd_micros=4_000)
)
WORKER = "fan_out.0.e0.r0"


def near(teller: Teller, policy: FlowPolicy = POLICY):
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    assert story.run is not None, story.unreadable
    return {margin.name: margin for margin in margins_of(story.run, policy, story.at)}


def begun() -> Teller:
    return Teller().start(100).planned().enter(Stage.FAN_OUT, "reader", "reader", stage_s=120)


def test_every_mechanism_has_a_row_that_measures_or_says_why_not():
    assert {module.NAME for module in ORDER} <= set(MARGINS)
    assert all((row.measure is None) == bool(row.nothing) for row in MARGINS.values())


def test_every_limit_of_the_policy_is_shown_by_exactly_one_row():
    shown: dict[type, list[str]] = {}
    for row in MARGINS.values():
        if row.policy is not None:
            part = row.policy(POLICY)
            shown.setdefault(type(part), []).extend(row.fields or type(part).model_fields)
    for part in (Budget, Limits, LoopDetector, Retry):
        assert sorted(shown[part]) == sorted(part.model_fields), part


def test_money_counts_what_is_reserved():
    margins = near(begun().ask(WORKER, 1, "reader"))
    assert (margins["money"].observed, margins["money"].limit) == (100 + 500, 10_000)
    margins = near(begun().ask(WORKER, 1, "reader").answer(WORKER, 1, cost=2_000, tokens=400))
    assert margins["money"].observed == 2_100
    assert (margins["tokens"].observed, margins["money, stage"].where, margins["money, agent"].observed) == (
        410,
        "fan-out",
        2_000,
    )


def test_the_deadline_runs_and_stands_still():
    teller = begun().wait(29)
    assert near(teller.ask(WORKER, 1, "reader"))["run deadline"].share == pytest.approx(0.3)
    from fabric.core import events as ev

    teller.tell(ev.DeadlinesSuspended(run_remaining_us=70_000_000, stage_remaining_us=90_000_000)).wait(500)
    still = near(teller.put_to("owner", Stage.FAN_OUT))["run deadline"]
    assert still.share == pytest.approx(0.3)
    assert still.at_limit.startswith("suspended")


def test_identical_calls_are_those_that_were_executed():
    teller = begun()
    for turn in (1, 2):
        teller.ask(WORKER, turn, "reader").answer(WORKER, turn, calls=1)
        teller.use(WORKER, turn, 0, "reader", args="same").result(WORKER, turn, 0, args=f"a{turn}.0")
    margins = near(teller)
    same = margins["identical calls"]
    assert (same.observed, same.limit, same.where, same.trips_at_limit) == (2, 3, "reader", True)
    assert margins["same call in a row"].observed == 2


def test_counts_of_agents_turns_and_corrections():
    teller = begun().ask(WORKER, 1, "reader").answer(WORKER, 1, verdict="rejected").ask(WORKER, 2, "reader")
    margins = near(teller)
    assert margins["sub-agents spawned"].observed == margins["sub-agents alive"].observed == 2
    assert (margins["turns"].observed, margins["turns"].where) == (2, "reader")
    assert (margins["corrections"].observed, margins["corrections"].limit) == (1, 3)
    assert margins["hops"].observed == 0


def test_retries_take_tokens_and_first_attempts_earn_them_back():
    teller = begun().ask(WORKER, 1, "reader").fail(WORKER, 1).back_off(WORKER, 1, 1)
    assert near(teller)["retry tokens"].left == pytest.approx(9)
    other = "fan_out.1.e0.r0"
    assert near(teller.ask(other, 1, "reader"))["retry tokens"].left == pytest.approx(9.1)


def test_replans_are_charged_to_their_stage():
    margin = near(begun().replan(Stage.FAN_IN, 1))["replans"]
    assert (margin.observed, margin.limit, margin.where) == (1, 2, "fan-in")


def test_the_nearest_is_first():
    story = RunStory("r")
    for event in begun().replan(Stage.FAN_IN, 1).replan(Stage.FAN_IN, 2).events:
        story.add(event)
    found = margins_of(story.run, POLICY, story.at)
    assert found[0].name == "replans"
    assert [margin.share for margin in found] == sorted((margin.share for margin in found), reverse=True)


def test_a_run_that_ended_has_margins_as_they_stood():
    assert near(begun().end(RunState.COMPLETED))["money"].observed == 100


def test_settings_say_what_the_fabric_changed():
    policy = FlowPolicy(budget=Budget(run_usd_micros=7), retry=Retry(bucket=3))
    story = RunStory("r")
    for event in begun().events:
        story.add(event)
    changed = {name: [one.name for one in settings_of(name, policy, story.run) if one.own] for name in MARGINS}
    assert {name: own for name, own in changed.items() if own} == {
        "budget": ["run_usd_micros"],
        "retry_budget": ["bucket"],
    }
    assert all(one.source for name in MARGINS for one in settings_of(name, policy, story.run))
