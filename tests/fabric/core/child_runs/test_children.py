"""Child runs: slices of a large fan-out, and workers that are supervisors themselves. Every figure is a counter; nothing is timed."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.decision import slices
from fabric.core.mechanisms import budget, find_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from tests.fabric.core.family_scenes import (
    ABORTED,
    BLOCKED,
    charged,
    household,
    household_children,
    once_bad,
    told,
    whole,
)
from tests.fabric.core.scripts import HANGS, Answer, fails, summary

# -- how a fan-out is cut ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("briefs", "most", "sizes"),
    [(64, 64, []), (65, 64, [32, 33]), (1_000, 64, [62, 63]), (200, 64, [50]), (5, 1, [1]), (1, 1, [])],
)
def test_a_fan_out_is_cut_as_evenly_as_can_be(briefs: int, most: int, sizes: list[int]) -> None:
    names = slices.cut(briefs, most)
    if not sizes:
        assert names == ()
        return
    spans = [name.removeprefix(slices.SLICE).split("-") for name in names]
    first_last = [(int(first), int(last)) for first, last in spans]
    assert len(names) == -(-briefs // most)
    assert sorted({last - first + 1 for first, last in first_last}) == sizes
    assert [n for first, last in first_last for n in range(first, last + 1)] == list(range(1, briefs + 1))


def test_a_fan_out_within_the_limit_has_no_children() -> None:
    family = household(4).go()
    assert family.end.state is RunState.COMPLETED
    assert family.children == []


# -- slices ----------------------------------------------------------------------------------------------------------


def test_a_large_fan_out_is_done_by_child_runs_and_comes_to_the_same() -> None:
    inline = household(10, inline=10).go()
    family = household(10).go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert family.root.outcome == inline.root.outcome
    assert len(family.children) == 3
    assert [len(child.of(ev.LineagePinned)[0].briefs) for child in family.children] == [3, 3, 4]
    asked = [request.agent for _, request in family.requests]
    assert asked.count("worker") == 10
    assert {run_id for run_id, request in family.requests if request.agent != "worker"} == {"root"}
    assert family.root.spent == sum(child.spent for child in family.children) + sum(
        charged(event.fact) for event in family.root.events
    )


def test_every_part_stands_in_its_place() -> None:
    family = household(10, {"aggregator": None}, roles=("planner",))
    family.script = {**family.script, "worker": told("part")}
    family.go()
    whole(family)
    text = family.root.outcome["text"]
    assert [line for line in text.split("\n") if line.startswith("Part ")] == [f"Part {n}" for n in range(1, 11)]


def test_a_parent_holds_nothing_while_it_waits_and_keeps_its_deadline_as_its_alarm() -> None:
    family = household(10, {"worker": HANGS}).go(until=lambda family: len(household_children(family)) == 3)
    assert "root" not in family.held
    root = family.root.run
    assert family.root.wake == min(root.deadline_at, root.stages[root.stage].deadline_at)
    assert root.state is RunState.RUNNING


def test_a_child_has_its_parents_deadline_trace_and_a_level_more() -> None:
    family = household(10).go()
    stage = next(fact for fact in family.root.of(ev.StageEntered) if fact.stage == "fan_out")
    for child in family.children:
        assert child.run.deadline_at == min(stage.deadline_at, family.root.run.deadline_at)
        assert child.run.depth == 2
        assert child.run.revision == family.root.run.revision


def test_each_child_answers_once_and_each_answer_moves_the_parent_once() -> None:
    family = household(10).go()
    spawned, answered = family.root.of(ev.ChildSpawned), family.root.of(ev.ChildAnswered)
    assert [fact.child_id for fact in spawned] == [child.run_id for child in family.children]
    assert sorted(fact.child_id for fact in answered) == sorted(fact.child_id for fact in spawned)
    assert family.root.claims <= 1 + len(spawned)


def test_a_childs_slice_is_reserved_and_what_it_does_not_spend_comes_back() -> None:
    family = household(10, budget={"run_usd_micros": 40_000_000}).go(
        until=lambda family: bool(household_children(family))
    )
    ledger = find_state(family.root.run.guards, budget)
    held = {key: one.usd_micros for key, one in ledger.reserved.items()}
    caps = [fact.reserved_usd_micros for fact in family.root.of(ev.ChildSpawned)]
    assert sum(held.values()) == sum(caps)
    left = 40_000_000 - ledger.spent_usd_micros
    # Three quarters of what is left, by briefs; the rest is the parent's own.
    assert [round(cap / (0.75 * left), 3) for cap in caps] == [0.3, 0.3, 0.4]
    family.go()
    whole(family)
    assert family.root.spent < 40_000_000 // 100


def test_a_child_never_spends_above_its_slice() -> None:
    family = household(10, {"worker": summary("x" * 200)}, budget={"run_usd_micros": 120_000})
    family.go()
    whole(family)
    assert family.root.spent <= 120_000


def test_token_caps_go_down_with_the_slice() -> None:
    family = household(10, budget={"run_tokens": 100_000}).go()
    whole(family)
    caps = [child.of(ev.LineagePinned)[0].cap_tokens for child in family.children]
    assert all(caps)
    assert sum(caps) <= 75_000


# -- what fails ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["all", "best_effort", "quorum"])
def test_a_missing_branch_in_a_slice_is_the_parents_review(mode: str) -> None:
    fan_in = {"mode": mode, "k": 7} if mode == "quorum" else {"mode": mode}
    bad = fails(Cause.BAD_REQUEST, "no")
    family = household(10, {"worker": once_bad(1, bad, summary("Found."))}, fan_in=fan_in)
    family.go()
    whole(family)
    if mode == "all":
        assert family.end.state is not RunState.COMPLETED
        causes = [fact.cause.cause for fact in family.root.of(ev.ReactionDecided)]
        assert Cause.PARTIAL_FAN_IN in causes
    else:
        assert family.end.state is RunState.COMPLETED
        missing = [n for fact in family.root.of(ev.ChildAnswered) for n in fact.missing]
        assert missing or mode == "quorum"
    if mode == "best_effort":
        assert len(family.root.outcome["gaps"]) == 1


def test_a_quorum_lets_the_other_children_go_and_waits_for_them() -> None:
    slow = summary("late").after(20.0)

    def worker(command: Any) -> Answer:
        return summary("Found.")

    family = household(10, {"worker": worker}, fan_in={"mode": "quorum", "k": 3})
    family.go(until=lambda family: len(family.children) == 3)
    last = family.children[-1].run_id
    family.script = {**family.script, f"worker@{last}": slow}
    family.go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert family.root.of(ev.ChildLetGo)
    stopped = [child for child in family.children if child.run.state is RunState.CANCELLED]
    assert stopped
    late = [fact for fact in family.root.of(ev.ChildAnswered) if fact.late]
    assert late or all(fact.child_id not in {c.run_id for c in stopped} for fact in late)


def test_a_childs_failure_goes_through_the_parents_table_with_its_id_and_reason() -> None:
    answers = once_bad(1, BLOCKED, summary("Found.").after(9.0))
    family = household(10, {"worker": answers}, table={"unsafe_output": ABORTED}).go()
    whole(family)
    assert [child.run.state for child in family.children].count(RunState.ABORTED) == 1
    child = next(child for child in family.children if child.run.state is RunState.ABORTED)
    (decided,) = family.root.of(ev.ReactionDecided)
    assert (decided.cause.mechanism, decided.cause.cause) == ("child", Cause.CONTENT_FILTER)
    assert decided.cause.evidence.scope == f"child:{child.run_id}"
    assert child.run_id in decided.cause.message
    assert child.run.reason in decided.cause.message
    assert family.end.state is RunState.ABORTED


def test_a_failed_child_may_be_run_again_like_any_branch() -> None:
    retried = {"rungs": [{"reaction": "retry", "times": 1}, {"reaction": "abort"}]}
    table: JSON = {"unsafe_output": {**ABORTED, "interactive": retried}}
    # The child retries a blocked branch once, then aborts; its parent runs the child once more.
    first = children.build_id("root", "fan_out.0.e0.r0.run")
    family = household(10, {f"worker@{first}": BLOCKED}, table=table, inline=5).go()
    whole(family)
    assert family.end.state is RunState.COMPLETED
    assert [fact.command_id for fact in family.root.of(ev.ChildSpawned)][2:] == ["fan_out.0.e0.r1.run"]
    assert family.end.recovered


def test_a_child_that_is_cancelled_by_a_person_is_a_branch_without_a_result() -> None:
    family = household(10, {"worker": HANGS}, fan_in={"mode": "best_effort"})
    family.go(until=lambda family: len(household_children(family)) == 3)
    stopped = family.children[0]
    family.script = {**family.script, "worker": summary("Found.")}
    family.cancel(stopped.run_id)
    failed = family.root.of(ev.StepFailed)
    assert [fact.cause for fact in failed] == [Cause.USER_CANCEL]
    assert stopped.run_id in failed[0].message
    assert not family.root.of(ev.ReactionDecided)
