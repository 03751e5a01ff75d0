"""The fan-in policy: all, quorum(k), best_effort (docs/specification/stages.md), and the caps on agents (docs/specification/protections.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import plan, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, fails, planned, summary


def branches(*answers):
    """A worker's script: what each branch answers."""
    return lambda command: answers[int(command.step_id.split(".")[1])]


DOWN = fails(Cause.AUTH, "the key was refused")


def test_all_waits_for_every_branch_and_fails_with_the_first_that_is_lost():
    world = ran(spec(), {"planner": planned(3), "worker": branches(summary(), DOWN.after(5), HANGS)})
    assert world.end.state is RunState.FAILED
    assert world.elapsed_s == pytest.approx(1 + 5)
    partial = world.of(ev.ReactionDecided)[-1]
    assert (partial.failure_type, partial.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.PARTIAL_FAN_IN)
    assert (partial.cause.evidence.limit, partial.cause.evidence.observed) == (3, 1)
    assert "worker: the key was refused (1 of 3 agents brought no result, and all must)" in world.end.reason
    assert [abort.command_id for abort in world.aborted] == ["fan_out.2.e0.r0.t1"]


def test_a_failed_branch_takes_its_own_ladder_first_and_only_once():
    world = ran(spec(), {"planner": planned(2), "worker": branches(summary(), fails(Cause.SERVER_ERROR))})
    assert world.asked("worker") == 1 + 3
    assert [fact.reason for fact in world.of(ev.RungSkipped)][
        -1
    ] == "each agent that failed was tried again already, as often as its own cell says"


def test_in_batch_a_partial_fan_in_is_replanned():
    def worker(command):
        return summary() if ".e1" in command.step_id or command.step_id.startswith("fan_out.0") else DOWN

    table = {"provider_failure": {"batch": {"rungs": [{"reaction": "surface"}]}}}
    world = ran(spec(table=table), {"planner": planned(2), "worker": worker}, tier=Tier.BATCH)
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == ["surface", "replan"]


def test_a_quorum_goes_on_with_k_and_lets_go_of_the_rest():
    fabric = spec(fan_in={"mode": "quorum", "k": 2})
    script = {"planner": planned(4), "worker": branches(summary("A."), DOWN, summary("C.").after(5), HANGS)}
    world = ran(fabric, script)
    assert world.end.state is RunState.COMPLETED
    assert world.elapsed_s == pytest.approx(1 + 5 + 3)
    assert [(part["branch"], part["gap"]) for part in world.content_of(ev.StageLeft)[0]["output"]] == [
        *((0, ""), (1, "the key was refused"), (2, ""), (3, "the quorum is met")),
    ]
    assert world.end.reason == "finished, with 2 of the branches missing"
    assert world.outcome["gaps"] == ["Part 2 (worker): the key was refused", "Part 4 (worker): the quorum is met"]


def test_a_branch_that_a_person_is_asked_about_keeps_its_cause_when_the_quorum_is_met():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "escalate"}]}}}
    fabric = spec(fan_in={"mode": "quorum", "k": 1}, table=table)
    world = ran(fabric, {"planner": planned(2), "worker": branches(DOWN, summary("B.").after(5))})
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["gaps"] == ["Part 1 (worker): the key was refused; the quorum is met"]


def test_a_quorum_that_cannot_be_met_any_more_lets_go_of_the_rest_at_once():
    fabric = spec(fan_in={"mode": "quorum", "k": 2})
    world = ran(fabric, {"planner": planned(3), "worker": branches(DOWN, DOWN.after(3), HANGS)})
    assert world.end.state is RunState.FAILED
    assert world.elapsed_s == pytest.approx(1 + 3)
    assert "2 of 3 agents brought no result, and 2 must" in world.end.reason


def test_a_quorum_larger_than_the_plan_means_all():
    fabric = spec(fan_in={"mode": "quorum", "k": 5})
    assert ran(fabric, {"planner": planned(2)}).end.state is RunState.COMPLETED


def test_best_effort_goes_on_with_whatever_came_and_names_the_gap():
    fabric = spec(fan_in={"mode": "best_effort"})
    world = ran(fabric, {"planner": planned(3), "worker": branches(DOWN, summary("B.").after(9), DOWN)})
    assert world.end.state is RunState.COMPLETED
    merge = next(request for request in world.requests if request.agent == "aggregator").messages[-1].text
    assert "No result: the key was refused" in merge
    assert "B." in merge


def test_best_effort_with_nothing_at_all_fails():
    fabric = spec(fan_in={"mode": "best_effort"})
    world = ran(fabric, {"planner": planned(2), "worker": DOWN})
    assert world.end.state is RunState.FAILED
    assert world.outcome is None


@pytest.mark.parametrize(("count", "state"), [(16, RunState.COMPLETED), (17, RunState.ABORTED)])
def test_a_plan_of_16_branches_passes_and_one_of_17_is_malformed(count, state):
    world = ran(spec(), {"planner": planned(count)})
    assert world.end.state is state
    if state is RunState.ABORTED:
        assert "17 of them, at most 16 are allowed" in world.end.reason
        assert world.asked("worker") == 0


def test_agents_alive_are_counted_before_any_is_started():
    world = ran(spec(limits={"sub_agents_alive": 2}), {"planner": planned(3)})
    assert world.end.state is RunState.ABORTED
    assert "briefs: 3 of them, and this run may start 2 more agents" in world.end.reason
    assert world.asked("worker") == 0
    fixed = ran(spec(roles=(), topology={"plan": plan(3)}, limits={"sub_agents_alive": 2}))
    assert "3 agents would work at once, and the run may have 2" in fixed.end.reason
    assert fixed.of(ev.StageEntered)[1].agents == ()


def test_agents_are_counted_over_the_whole_run_replans_included():
    fabric = spec(limits={"sub_agents_spawned": 5})
    world = ran(fabric, {"planner": planned(3), "worker": fails(Cause.TOOL_CONSTRAINT)}, tier=Tier.BATCH)
    assert world.end.state is RunState.ABORTED
    assert "briefs: 3 of them, and this run may start 2 more agents" in world.end.reason
    assert world.asked("worker") == 3


def test_a_brief_reaches_the_branch_it_was_written_for():
    world = ran(spec(), {"planner": planned(3)})
    briefs = [r.messages[1].text for r in world.requests if r.agent == "worker"]
    assert [brief["instructions"] in text for brief, text in zip(plan(3)["briefs"], briefs, strict=True)] == [True] * 3
