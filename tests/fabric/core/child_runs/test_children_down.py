"""A child run takes cancels, crashes, deadlines, replans, limits, people and nesting from above."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.events.child_inputs import ChildEnded
from fabric.core.events.inputs import DecisionMade
from fabric.core.schema.payloads import Plan
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.core.values.units import US
from tests.fabric.core.fabrics import plan, spec
from tests.fabric.core.families import Household, descendants
from tests.fabric.core.family_scenes import (
    ASKED,
    BLOCKED,
    ROOM,
    household,
    household_children,
    once_bad,
    whole,
)
from tests.fabric.core.scripts import HANGS, Answer, fails, planned, summary

# -- down -------------------------------------------------------------------------------------------------------------


def test_cancel_goes_down_and_the_parent_ends_last() -> None:
    family = household(10, {"worker": HANGS}).go(until=lambda family: len(household_children(family)) == 3)
    now = family.now
    family.cancel()
    whole(family)
    assert {member.run.state for member in family.runs.values()} == {RunState.CANCELLED}
    assert {member.run.ended_at for member in family.runs.values()} == {now}, "it waits for nothing but its own way"
    assert family.root.kinds[-1] == "run_ended"
    assert family.root.kinds.index("child_answered") > family.root.kinds.index("cancel_accepted")


@pytest.mark.parametrize("at", range(60))
def test_cancel_at_any_step_reaches_every_descendant(at: int) -> None:
    family = household(10, {"worker": summary("Found.").after(5.0)}).go(steps=at)
    family.cancel().go()
    whole(family)
    assert family.end.state in (RunState.CANCELLED, RunState.COMPLETED)


@pytest.mark.parametrize("at", range(0, 90, 2))
@pytest.mark.parametrize("who", ["root", "child"])
def test_a_crash_at_any_step_changes_nothing_of_the_result(at: int, who: str) -> None:
    undisturbed = household(10).go()
    family = household(10).go(steps=at)
    victim = "root" if who == "root" or not family.children else family.children[at % len(family.children)].run_id
    if family.runs[victim].driver is not None:
        family.crash(victim)
    family.go()
    whole(family)
    assert family.root.outcome == undisturbed.root.outcome
    assert len(family.children) == 3


def test_a_crash_of_the_parents_process_writes_nothing_and_repeats_nothing() -> None:
    family = household(10, {"worker": summary("Found.").after(5.0)})
    family.go(until=lambda family: len(household_children(family)) == 3)
    before = len(family.root.rows)
    family.crash("root")
    family.go(until=lambda family: family.root.claims == 2 and family.root.driver is None)
    assert len(family.root.rows) == before
    family.go()
    whole(family)
    assert len(family.children) == 3


def test_the_stage_deadline_lets_the_children_go_and_keeps_what_they_have() -> None:
    def worker(command: Any) -> Answer:
        return HANGS if (*command.messages,)[1].part == 0 else summary("Found.")

    deadlines = {"interactive": {"call_s": 20, "stage_s": 60, "run_s": 300}}
    table = {
        "provider_failure": {"interactive": {"rungs": [{"reaction": "retry", "times": 9}, {"reaction": "surface"}]}}
    }
    family = household(10, {"worker": worker}, deadlines=deadlines, table=table).go()
    whole(family)
    assert family.end.state is not RunState.COMPLETED
    assert family.root.outcome is not None
    assert "Found." in family.root.outcome["text"]


# -- replanning ------------------------------------------------------------------------------------------------------


def replanning(**fields: Any) -> Household:
    """The first plan's fan-out fails in one slice while the others are still at work."""
    plans = [planned(10), planned(2)]
    table = {
        "schema_grounding_fail": {"interactive": {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "abort"}]}}
    }
    bad = fails(Cause.BAD_REQUEST, "no").after(0.5)
    answers = once_bad(1, bad, summary("Found.").after(8.0))
    return household(10, {"planner": plans, "worker": answers}, table=table, **fields)


def test_a_late_child_of_an_old_epoch_ischarged_and_ignored() -> None:
    family = replanning().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert family.root.of(ev.Replanned)
    late = [fact for fact in family.root.of(ev.ChildAnswered) if fact.late]
    assert late
    assert sum(fact.cost_usd_micros for fact in late) == sum(
        child.spent for child in family.children if child.run_id in {fact.child_id for fact in late}
    )
    told = [request for run_id, request in family.requests if request.agent == "aggregator"]
    assert len(told) == 1
    assert told[0].messages[1].text.count("## Part") == 2


def test_a_slice_that_runs_again_does_only_what_is_missing() -> None:
    table = {
        "schema_grounding_fail": ASKED,
        "provider_failure": {tier: {"rungs": [{"reaction": "surface"}]} for tier in Tier},
    }
    bad = fails(Cause.BAD_REQUEST, "no").after(5.0)
    answers = once_bad(1, bad, summary("Found."))
    family = household(10, {"worker": answers}, table=table, fan_in={"mode": "quorum", "k": 10})
    family.go(until=lambda family: bool(family.root.run.reviews) and not family.root.run.family.alive)
    review = next(iter(family.root.run.reviews.values())).fact
    decision = DecisionMade(input_id="d", review_id=review.review_id, verb="approve", actor="bob", digest=review.digest)
    family.put("root", decision)
    family.go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert [fact.briefs for fact in family.root.of(ev.ChildSpawned)][3:] == [(0,)]
    assert sum(request.agent == "worker" for _, request in family.requests) == 11
    told = [request for _, request in family.requests if request.agent == "aggregator"]
    assert told[0].messages[1].text.count("## Part") == 10
    assert "No result" not in told[0].messages[1].text


def test_what_a_child_had_done_when_it_was_told_to_stop_is_kept_for_the_next_round() -> None:
    table = {
        "schema_grounding_fail": ASKED,
        "provider_failure": {tier: {"rungs": [{"reaction": "surface"}]} for tier in Tier},
    }

    def worker(command: Any) -> Answer:
        return summary("Found.").after(1.0 + 5.0 * (*command.messages,)[1].part)

    first = children.build_id("root", "fan_out.0.e0.r0.run")
    bad = [fails(Cause.BAD_REQUEST, "no").after(3.0), summary("Found.")]
    family = household(10, {"worker": worker, f"worker@{first}": bad}, table=table)
    family.go(until=lambda family: bool(family.root.run.reviews) and not family.root.run.family.alive)
    kept = {fact.step_id: fact.missing for fact in family.root.of(ev.ChildAnswered) if not fact.late}
    assert kept["fan_out.1.e0.r0"] == (4, 5)
    review = next(iter(family.root.run.reviews.values())).fact
    decision = DecisionMade(input_id="d", review_id=review.review_id, verb="approve", actor="bob", digest=review.digest)
    family.put("root", decision)
    family.go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    again = {fact.step_id: fact.briefs for fact in family.root.of(ev.ChildSpawned)[3:]}
    assert again["fan_out.1.e0.r1"] == (4, 5)


# -- limits ----------------------------------------------------------------------------------------------------------


def test_the_agents_of_a_cut_fan_out_are_counted_one_by_one() -> None:
    family = household(10, limits={"sub_agents_spawned": 9}).go()
    assert family.children == []
    assert family.root.of(ev.ReactionDecided)[0].cause.cause is Cause.PLAN_GATE
    assert household(10, limits={"sub_agents_spawned": 10}).go().end.state is RunState.COMPLETED


def test_a_full_family_is_a_sub_agent_cap_and_no_loop() -> None:
    family = household(10, full=lambda batch: True).go()
    whole(family)
    assert family.children == []
    assert family.root.of(ev.ReactionDecided)[0].cause.cause is Cause.SUB_AGENT_CAP
    assert family.root.claims <= 8


# -- people ----------------------------------------------------------------------------------------------------------


def test_a_review_in_a_child_stops_the_clocks_of_its_parent_too() -> None:
    answers = once_bad(1, BLOCKED, summary("Found."))
    family = household(10, {"worker": answers}, table={"unsafe_output": ASKED}, tier=Tier.HIGH_STAKES)
    family.go(until=lambda family: family.root.run.suspended is not None)
    assert family.held == []
    assert visible_state(family.root.run) is RunState.WAITING
    asked = next(child for child in family.children if child.run.reviews)
    review = next(iter(asked.run.reviews.values())).fact
    family.now = review.due_at - US  # Hours after the stage's deadline.
    decision = DecisionMade(input_id="d", review_id=review.review_id, verb="approve", actor="bob", digest=review.digest)
    family.put(asked.run_id, decision)
    family.go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert [fact.waiting for fact in family.root.of(ev.ChildWaiting)] == [True, False]


def test_silence_on_a_childs_review_and_the_family_ends() -> None:
    answers = once_bad(1, BLOCKED, summary("Found."))
    family = household(10, {"worker": answers}, table={"unsafe_output": ASKED}, tier=Tier.HIGH_STAKES).go()
    whole(family)
    assert family.end.state is RunState.ABORTED


# -- nested ----------------------------------------------------------------------------------------------------------


def nested(depth: int = 8, **more: Any) -> Household:
    """A root with two leads; each is a supervisor of workers, with a plan of its own."""
    limits = {**ROOM, "recursion": depth}
    people = {"worker": {"tools": ()}}
    outer = spec(roles=("aggregator",), tools=(), limits=limits, agents=people, topology={"plan": plan(2)}, **more)
    inner = outer.model_copy(update={"topology": outer.topology.model_copy(update={"plan": outer.topology.plan})})
    return Household(outer, {"worker": summary("Found.")}, nested={"worker": inner}).start()


def test_a_worker_that_is_a_supervisor_is_a_run_of_its_own_until_the_recursion_limit() -> None:
    # The worker's topology names the worker again: only the recursion limit ends it.
    family = nested(depth=3).go()
    whole(family)
    assert {child.run.depth for child in family.children} == {2, 3}
    deepest = [child for child in family.children if child.run.depth == 3]
    causes = {fact.cause.cause for child in deepest for fact in child.of(ev.ReactionDecided)}
    assert causes == {Cause.RECURSION_LIMIT}
    up = {
        fact.cause.cause for child in family.children if child.run.depth == 2 for fact in child.of(ev.ReactionDecided)
    }
    assert Cause.RECURSION_LIMIT in up


def two_levels(script: dict[str, Any] | None = None, **more: Any) -> Household:
    """A root with two briefs for a lead, which has a plan of two workers."""
    limits = {**ROOM, **more.pop("limits", {})}
    tree = spec(
        roles=("aggregator", "critic"),
        tools=(),
        limits=limits,
        topology={"plan": plan(2, "critic"), "workers": ["worker", "critic"], "critic": None},
        **more,
    )
    inner = tree.model_copy(
        update={"topology": tree.topology.model_copy(update={"plan": Plan.model_validate(plan(2, "worker"))})}
    )
    given = {"worker": summary("Found."), **(script or {})}
    return Household(tree, given, nested={"critic": inner}).start()


def test_a_nested_supervisor_plans_merges_and_answers_its_brief() -> None:
    family = two_levels().go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert len(family.children) == 2
    for child in family.children:
        assert child.run.state is RunState.COMPLETED
        assert child.run.topology == "critic"
        assert child.outcome["text"] == "All of it."
    asked = [(run_id == "root", request.agent) for run_id, request in family.requests]
    assert asked.count((False, "worker")) == 4
    assert asked.count((True, "worker")) == 0
    told = [request for run_id, request in family.requests if run_id != "root" and request.agent == "worker"]
    assert all("Your part: Part" in request.messages[1].text for request in told)


def test_a_nested_fan_out_may_be_cut_again_and_a_cancel_reaches_the_last_of_them() -> None:
    family = two_levels({"worker": HANGS}, limits={"fan_out_inline_max": 1})
    family.go(until=lambda family: sum(member.run.state is RunState.RUNNING for member in family.runs.values()) >= 9)
    depths = sorted({member.run.depth for member in family.runs.values()})
    assert depths[-1] >= 3
    family.cancel()
    whole(family)
    assert {member.run.state for member in family.runs.values()} <= {RunState.CANCELLED}
    assert len(list(descendants(family, "root"))) == len(family.children)


# -- inputs that no run waits for ------------------------------------------------------------------------------------


def test_a_childs_end_that_no_run_waits_for_is_recorded_and_changes_nothing() -> None:
    family = household(10, {"worker": HANGS}).go(until=lambda family: len(household_children(family)) == 3)
    given = ChildEnded(
        input_id="child:x",
        child_id="x",
        command_id="fan_out.0.e0.r0.run",
        state=RunState.COMPLETED,
        reason="finished",
        cost_usd_micros=5,
        tokens=5,
    )
    before = family.root.spent
    family.put("root", given)
    family.go(until=lambda family: not family.root.inbox and family.root.driver is None)
    assert family.root.kinds[-1] == "input_ignored"
    assert family.root.spent == before


def test_results_are_read_as_they_are_written() -> None:
    family = household(10).go()
    fact = family.root.of(ev.ChildAnswered)[0]
    event = next(event for event in family.root.events if event.fact == fact)
    content = family.root.content(event.content_ref)
    assert [part["brief"] for part in content["parts"]] == list(range(3))
    assert json.loads(json.dumps(content)) == content


def test_a_slice_does_not_plan_anew_since_the_plan_is_its_parents() -> None:
    replanned = {"rungs": [{"reaction": "replan", "times": 1}, {"reaction": "surface"}]}
    table = {"unsafe_output": dict.fromkeys(Tier, replanned)}
    family = household(10, {"worker": once_bad(1, BLOCKED, summary("Found."))}, table=table).go()
    whole(family)
    assert not any(child.of(ev.Replanned) for child in family.children)
    assert {request.agent for run_id, request in family.requests if run_id != "root"} == {"worker"}


def test_a_run_that_is_done_waits_for_the_children_it_let_go_of() -> None:
    # The quorum is met by one slice; another hangs, and its process is gone when it is told to stop.
    family = household(10, {"worker": summary("Found.")}, fan_in={"mode": "quorum", "k": 3})
    family.go(until=lambda family: len(family.children) == 3)
    last = family.children[-1].run_id
    family.script = {**family.script, f"worker@{last}": HANGS}
    family.deaf = last
    family.go(until=lambda family: family.root.run.ending is not None)
    assert family.root.run.ending is not None
    assert family.root.run.ending.state is RunState.COMPLETED
    assert "root" not in family.held
    family.deaf = ""
    family.go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert family.root.outcome["text"] == "All of it."
