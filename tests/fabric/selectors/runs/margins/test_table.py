"""Margins: a row for every protection, numbers that agree with what trips."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.mechanisms import ORDER
from fabric.core.schema.limits import Unit
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import PER_STEP
from fabric.core.spec.policies.budgets import Budget
from fabric.core.spec.policies.flow_policy import FlowPolicy, policy_limit
from fabric.core.spec.policies.limits import Limits, Retry
from fabric.core.spec.policies.loop_limits import LoopDetector
from fabric.core.spec.policies.people import Humans
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.spending import UsualRate
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier
from fabric.selectors.runs.margins.protections import list_settings
from fabric.selectors.runs.margins.table import MARGINS, list_margins, settings_group, spend_rate
from fabric.selectors.runs.margins.watches import STREAKS
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.core.fabrics import spec
from tests.fabric.selectors.journals import Teller

POLICY = FlowPolicy(
    budget=Budget(run_usd_micros=10_000, run_tokens=1_000, stage_usd_micros=5_000, agent_usd_micros=4_000)
)
WORKER = "fan_out.0.e0.r0"


def under(policy: FlowPolicy) -> FabricSpec:
    """A fabric with that policy."""
    reader = spec().agents[0].model_copy(update={"name": "reader"})
    return spec().model_copy(update={"policy": policy, "agents": (*spec().agents, reader)})


def near(teller: Teller, policy: FlowPolicy = POLICY):
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    assert story.run is not None, story.unreadable
    return {margin.key: margin for margin in list_margins(story.run, under(policy), story.at, story.tripped)}


def begun() -> Teller:
    return Teller().start(100).planned().enter(Stage.FAN_OUT, "reader", "reader", stage_s=120)


def test_every_mechanism_has_a_row_that_measures_or_says_why_not():
    assert {module.NAME for module in ORDER} <= set(MARGINS)
    assert all((row.measure is None) == bool(row.nothing) for row in MARGINS.values())
    assert all(row.title and row.stops for row in MARGINS.values())


def test_a_margin_to_a_limit_has_the_words_of_its_field():
    for key, margin in near(begun().ask(WORKER, 1, "reader")).items():
        if "." in key:
            declared = policy_limit(key)
            assert (margin.name, margin.unit) == (declared.title, declared.unit)
            assert margin.at_limit.endswith(declared.stops) or "waits for a person" in margin.at_limit


def test_every_limit_of_the_policy_is_shown_by_exactly_one_row():
    shown: dict[type, list[str]] = {}
    for name, row in MARGINS.items():
        if (part := settings_group(name, POLICY, Tier.BATCH)) is not None:
            shown.setdefault(type(part), []).extend(row.fields or type(part).model_fields)
    for part in (Budget, Limits, LoopDetector, Retry):
        assert sorted(shown[part]) == sorted(part.model_fields), part


def test_a_breakers_streaks_are_of_one_step_and_of_the_breaker_that_opens_first():
    behind = FlowPolicy.model_validate(
        {
            "budget": {"run_usd_micros": 10_000},
            "breakers": [
                {"preset": "semantic"},
                {
                    "scope": "stage",
                    "signals": [{"names": ["identical_call"], "mode": "consecutive", "threshold": 5}],
                },
            ],
        }
    )
    teller = begun().ask(WORKER, 1, "reader")
    margins = near(teller, behind)
    assert {name: margins[name].limit for name in STREAKS.values()} == dict(
        zip(STREAKS.values(), (3, 2, 1), strict=True)
    )
    assert not set(STREAKS.values()) & set(near(teller)), "no breaker counts them"
    teller.answer(WORKER, 1, verdict="rejected")
    off = near(teller, behind)["Answers off schema, breaker"]
    assert (off.observed, off.where, off.trips_at_limit, off.share) == (1, "reader", True, 0.5)
    assert off.at_limit == "the agent's breaker opens for 60 s: its next call is refused"
    assert set(STREAKS) == PER_STEP


IDENTICAL = {"names": ["identical_call"], "mode": "consecutive"}


@pytest.mark.parametrize(
    ("scope", "met", "others"),
    [
        ("agent", "reader", "planner"),
        ("stage", "fan_out", "plan"),
        ("tool", "read_document", "search"),
        ("provider", "scripted", "elsewhere"),
    ],
)
def test_a_named_breakers_streaks_are_those_of_the_steps_that_meet_it(scope, met, others):
    teller = begun()
    for turn in (1, 2):
        teller.ask(WORKER, turn, "reader").answer(WORKER, turn, calls=1).use(WORKER, turn, 0, "reader", "h").result(
            WORKER, turn, 0, "h"
        )
    named = [
        {"scope": scope, "only": [name], "signals": [IDENTICAL | {"threshold": n}]}
        for name, n in ((others, 2), (met, 5))
    ]

    def seen(*breakers):
        policy = FlowPolicy.model_validate({"budget": {"run_usd_micros": 10_000}, "breakers": breakers})
        margin = near(teller, policy)["Identical calls, breaker"]
        return margin.observed, margin.limit, margin.where

    assert seen(named[0]) == (0, 2, ""), "it stands in front of none of them"
    assert seen(*named) == (2, 5, "reader")
    assert seen(*named, {"scope": "fabric", "signals": [IDENTICAL | {"threshold": 4}]}) == (2, 4, "reader")


def test_money_counts_what_is_reserved():
    margins = near(begun().ask(WORKER, 1, "reader"))
    assert (margins["budget.run_usd_micros"].observed, margins["budget.run_usd_micros"].limit) == (100 + 500, 10_000)
    margins = near(begun().ask(WORKER, 1, "reader").answer(WORKER, 1, cost=2_000, tokens=400))
    assert margins["budget.run_usd_micros"].observed == 2_100
    assert (
        margins["budget.run_tokens"].observed,
        margins["budget.stage_usd_micros"].where,
        margins["budget.agent_usd_micros"].observed,
    ) == (
        410,
        "fan-out",
        2_000,
    )


def test_the_agent_that_is_nearest_to_its_cap_is_measured_by_its_own_where_it_has_one():
    spent = begun().ask(WORKER, 1, "reader").answer(WORKER, 1, cost=2_000, tokens=400)

    def seen(**caps):
        margin = near(spent, FlowPolicy(budget=Budget(run_usd_micros=10_000, **caps))).get("budget.agent_usd_micros")
        return margin and (margin.observed, margin.limit, margin.where)

    assert seen() is None
    assert seen(agent_usd_micros=4_000) == (2_000, 4_000, "reader")
    assert seen(agent_usd_micros=4_000, agents={"reader": {"usd_micros": 2_500}}) == (2_000, 2_500, "reader")
    assert seen(agents={"worker": {"usd_micros": 2_500}}) == (0, 2_500, "worker"), "it has spent nothing yet"
    assert seen(agents={"reader": {"usd_micros": 2_500}}) == (2_000, 2_500, "reader")


def test_the_deadline_runs_and_stands_still():
    teller = begun().wait(29)
    assert near(teller.ask(WORKER, 1, "reader"))["deadlines.run_s"].share == pytest.approx(0.3)
    teller.tell(ev.DeadlinesSuspended(run_remaining_us=70_000_000, stage_remaining_us=90_000_000)).wait(500)
    still = near(teller.put_to("owner", Stage.FAN_OUT))["deadlines.run_s"]
    assert still.share == pytest.approx(0.3)
    assert still.at_limit.startswith("suspended")


def test_a_review_about_the_stage_holds_its_deadline_as_the_engine_does():
    """In the interactive tier the clocks are not suspended: the run's goes on, and the stage's is not judged while a person is asked."""
    teller = begun().wait(30).put_to("owner", Stage.FAN_OUT).wait(195)
    policy = FlowPolicy(budget=POLICY.budget, humans=Humans(due_s=3_600))
    asked = near(teller.tell(ev.ReviewReminded(review_id="esc-1", step="reminder")), policy)
    assert (asked["deadlines.stage_s"].observed, asked["deadlines.stage_s"].limit) == (pytest.approx(30), 120)
    assert "while a person is asked" in asked["deadlines.stage_s"].at_limit
    assert asked["deadlines.run_s"].share > 1
    # A review about one step holds nothing: the engine fails the stage all the same.
    other = begun().wait(30).put_to("owner", Stage.FAN_OUT, WORKER).wait(195)
    other.tell(ev.ReviewReminded(review_id="esc-1", step="reminder"))
    assert near(other, policy)["deadlines.stage_s"].share > 1


def tripped(mechanism: str, cause: Cause, limit=None, observed=None, unit="", scope="", **details) -> ev.TripRecord:
    return ev.TripRecord(
        mechanism=mechanism, cause=cause, message="no", evidence=Evidence(limit, observed, unit, scope, details=details)
    )


TRIPPED = [
    (
        tripped("budget", Cause.BUDGET_GATE, 100, 7_485, "usd_micros", "run", worst_case=7_485),
        "budget.run_usd_micros",
        "refused: $0.007485 needed, $0.0001 left",
    ),
    (
        tripped("budget", Cause.BUDGET_GATE, 100, 120, "tokens", "run", worst_case=60),
        "budget.run_tokens",
        "refused: 60 needed, 40 left",
    ),
    (
        tripped("budget", Cause.BUDGET_GATE, 5, 9, "usd_micros", "stage:fan_out", worst_case=9),
        "budget.stage_usd_micros",
        "refused: $0.000009 needed, $0.000005 left",
    ),
    (
        tripped("loop_detector", Cause.LOOP_DETECTED, 3, 3, "calls", "step", detector="identical_calls"),
        "loop_detector.identical_threshold",
        "at 3 of 3 it was not executed",
    ),
    (
        tripped("loop_detector", Cause.LOOP_DETECTED, 2, 2, "calls", "step", detector="repeated_cycle"),
        "repeated cycle",
        "at 2 of 2 it was not executed",
    ),
    (
        tripped("loop_detector", Cause.LOOP_DETECTED, 6, 6, "calls", "step", detector="same_call_in_a_row"),
        "loop_detector.consecutive_threshold",
        "at 6 of 6 it was not executed",
    ),
    (tripped("hop_limit", Cause.HOP_LIMIT, 5, 6, "hops", "run"), "limits.hops", "6 asked for, 5 allowed"),
    (tripped("run_caps", Cause.EVENT_CAP, 90, 91, "events", "run"), "limits.run_events", "91 asked for, 90 allowed"),
    (
        tripped("deadline", Cause.DEADLINE_NEAR, 3.0, 1.25, "s", "stage:fan_out"),
        "deadlines.stage_s",
        "1.2 s left, 3.0 s needed",
    ),
    (tripped("deadline", Cause.RUN_DEADLINE, 1, 2, "us since epoch", "run"), "deadlines.run_s", "it has passed"),
    (
        tripped("retry_budget", Cause.RETRY_BUDGET_EMPTY, 10, 0, "retry tokens", "run"),
        "retry.bucket",
        "no retry token was left",
    ),
    (
        tripped("agent_loop", Cause.CORRECTIONS_SPENT, 3, 4, "corrections", "step:x"),
        "limits.corrections_per_step",
        "it stayed wrong",
    ),
]


@pytest.mark.parametrize(("record", "key", "told"), TRIPPED)
def test_what_tripped_is_first_however_far_it_stands(record, key, told):
    decided = ev.ReactionDecided(
        failure_type=FailureType.PROVIDER, tier=Tier.INTERACTIVE, table="t", rung=0, reaction="abort", scope="stage:fan_out", spent=0,
        bound=2, cause=tripped("provider", Cause.TIMEOUT), causes=(record,),
    )  # fmt: skip
    story = RunStory("r")
    for event in (
        begun()
        .replan(Stage.FAN_IN, 1)
        .replan(Stage.FAN_IN, 2)
        .enter(Stage.FAN_OUT, "reader")
        .tell(decided, decided)
        .events
    ):
        story.add(event)
    assert story.run is not None, story.unreadable
    first, second, *_ = list_margins(story.run, under(POLICY), story.at, story.tripped)
    assert (first.key, first.fired.times, first.fired.trip_words, first.fired.ended) == (key, 2, told, True)
    assert first.row in MARGINS
    assert (second.key, second.fired) == ("limits.replans_per_stage", None)


def test_a_wait_that_the_fabric_leaves_to_the_tier_is_told_by_the_tier():
    story = RunStory("r")
    for event in begun().events:
        story.add(event)
    due = next(one for one in list_settings("escalation", POLICY, story.run) if one.name == "due_s")
    assert (due.value, due.by_tier, due.own) == (300.0, True, False)
    assert (due.title, due.unit) == ("Answer within", Unit.SECONDS)
    chosen = FlowPolicy(budget=POLICY.budget, humans=Humans(due_s=7))
    due = next(one for one in list_settings("escalation", chosen, story.run) if one.name == "due_s")
    assert (due.value, due.by_tier, due.own) == (7, False, True)


def test_identical_calls_are_those_that_were_executed():
    teller = begun()
    for turn in (1, 2):
        teller.ask(WORKER, turn, "reader").answer(WORKER, turn, calls=1)
        teller.use(WORKER, turn, 0, "reader", args="same").result(WORKER, turn, 0, args=f"a{turn}.0")
    margins = near(teller)
    same = margins["loop_detector.identical_threshold"]
    assert (same.observed, same.limit, same.where, same.trips_at_limit) == (2, 3, "reader", True)
    assert margins["loop_detector.consecutive_threshold"].observed == 2


def test_counts_of_agents_turns_and_corrections():
    teller = begun().ask(WORKER, 1, "reader").answer(WORKER, 1, verdict="rejected").ask(WORKER, 2, "reader")
    margins = near(teller)
    assert margins["limits.sub_agents_spawned"].observed == margins["limits.sub_agents_alive"].observed == 2
    assert (margins["limits.turns"].observed, margins["limits.turns"].where) == (2, "reader")
    assert (margins["limits.corrections_per_step"].observed, margins["limits.corrections_per_step"].limit) == (1, 3)
    assert margins["limits.hops"].observed == 0


def test_retries_take_tokens_and_first_attempts_earn_them_back():
    teller = begun().ask(WORKER, 1, "reader").fail(WORKER, 1).back_off(WORKER, 1, 1)
    assert near(teller)["retry.bucket"].remaining == pytest.approx(9)
    other = "fan_out.1.e0.r0"
    assert near(teller.ask(other, 1, "reader"))["retry.bucket"].remaining == pytest.approx(9.1)


def test_replans_are_charged_to_their_stage():
    margin = near(begun().replan(Stage.FAN_IN, 1))["limits.replans_per_stage"]
    assert (margin.observed, margin.limit, margin.where) == (1, 2, "fan-in")


def test_the_nearest_is_first():
    story = RunStory("r")
    for event in begun().replan(Stage.FAN_IN, 1).replan(Stage.FAN_IN, 2).events:
        story.add(event)
    found = list_margins(story.run, under(POLICY), story.at)
    assert found[0].key == "limits.replans_per_stage"
    assert [margin.share for margin in found] == sorted((margin.share for margin in found), reverse=True)


def test_a_run_that_ended_has_margins_as_they_stood():
    assert near(begun().end(RunState.COMPLETED))["budget.run_usd_micros"].observed == 100


def test_settings_say_what_the_fabric_changed():
    policy = FlowPolicy(budget=Budget(run_usd_micros=7), retry=Retry(bucket=3))
    story = RunStory("r")
    for event in begun().events:
        story.add(event)
    changed = {name: [one.name for one in list_settings(name, policy, story.run) if one.own] for name in MARGINS}
    assert {name: own for name, own in changed.items() if own} == {
        "budget": ["run_usd_micros"],
        "retry_budget": ["bucket"],
    }


def test_the_spend_rate_is_measured_against_what_is_configured_or_usual():
    def measured(rule):
        policy = FlowPolicy.model_validate({"budget": {"run_usd_micros": 6_000_000}, "cost_velocity": rule})
        return spend_rate(story.run, policy, 1_000)

    story = RunStory("r")
    for event in Teller().start().enter(Stage.PLAN, "planner").events:
        story.add(event)
    assert measured({}) is None
    configured = measured({"usd_micros_per_minute": 5_000})
    assert (configured.observed, configured.limit, configured.unit) == (1_000, 5_000, Unit.USD_A_MINUTE)
    rates = (UsualRate(scope="run", usd_micros=90_000, tokens=1, runs=5),)
    story.add(Event(story.run.seq + 1, story.at, ev.UsualRatesPinned(rates=rates)))
    assert measured({}).limit == 900_000
    assert "10 times what is usual" in measured({}).at_limit


def asking(teller: Teller, turns: int, masked: str = "m") -> Teller:
    """Turns of a worker, each with one call that came to the same."""
    for turn in range(1, turns + 1):
        teller.ask(WORKER, turn, "reader")
        proposed = ev.ProposedCall(call_id=f"c{turn}", tool="look", args_hash=f"a{turn}")
        command = f"{WORKER}.t{turn}"
        answer = ev.ModelAnswered(command_id=command, attempt=1, step_id=WORKER, verdict="calls", calls=(proposed,))
        refused = ev.CallRefused(
            step_id=WORKER,
            call_id=f"c{turn}",
            tool="look",
            args_hash=f"a{turn}",
            cause=Cause.TOOL_CONSTRAINT,
            mechanism="x",
            problem=masked,
        )
        teller.tell(answer, refused)
    return teller


def test_turns_without_progress_are_counted_until_something_changes():
    margin = near(asking(begun(), 4))["progress.agent_turns"]
    assert (margin.observed, margin.limit, margin.where, margin.trips_at_limit) == (4, 6, "reader", True)
    further = near(asking(begun(), 8))["progress.agent_turns"]
    assert (further.observed, further.limit) == (8, 12), "it was asked again past the first limit"
    other = "fan_out.1.e0.r0"
    brought = asking(begun(), 4).ask(other, 1, "reader").answer(other, 1)
    assert near(brought)["progress.agent_turns"].observed == 0
    assert near(begun())["progress.agent_turns"].observed == 0


def test_visits_have_a_margin_where_they_have_a_limit():
    assert "limits.max_node_visits" not in near(begun())
    policy = FlowPolicy(budget=POLICY.budget, limits=Limits(max_node_visits=3, max_visits={Stage.PLAN: 2}))
    margin = near(begun(), policy)["limits.max_node_visits"]
    assert (margin.observed, margin.limit, margin.where, margin.trips_at_limit) == (1, 2, "plan", False)


def test_a_deadlock_has_a_margin_once_it_has_tripped():
    cause = ev.TripRecord(
        mechanism="deadlock_monitor",
        cause=Cause.HANDOFF_CYCLE,
        message="deadlock monitor: ...",
        evidence=Evidence(2, 2, "times", "epoch:0", "20 moves", {"cycle": ["a", "b", "a"]}),
    )
    decided = ev.ReactionDecided(
        failure_type=FailureType.DEADLOCK, tier=Tier.BATCH, table="t", rung=1, reaction="abort",
        scope="stage:fan_out", spent=0, bound=None, cause=cause,
    )  # fmt: skip
    assert "Cycle of handoffs" not in near(begun())
    margin = near(begun().tell(decided))["Cycle of handoffs"]
    assert (margin.row, margin.fired.trip_words, margin.fired.ended) == ("deadlock_monitor", "a -> b -> a", True)
