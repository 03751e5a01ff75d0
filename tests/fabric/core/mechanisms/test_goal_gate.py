"""A goal node must have ended in success or partial success before exit (docs/specification/protections.md)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.mechanisms import goal_gate
from fabric.core.spec.policies.limits import GoalGates
from fabric.core.state.run import Run, StageRun
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import PASS, Cause, Tier
from tests.fabric.core.fabrics import agent, lone, proposal, spec, tree, view
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, planned, say, summary


def part(name: str, gap: str = ""):
    return {"branch": 0, "agent": name, "title": "Part", "ref": "" if gap else "ref", "gap": gap}


def check(nodes, parts=(), run: Run | None = None):
    judged = proposal(kind="exit", stage=Stage.FINALIZE, step_id="", payload=list(parts))
    return goal_gate.check(GoalGates(nodes=nodes), goal_gate.State(), judged, view(run))


def test_without_goals_everything_may_exit():
    assert check((), [part("worker", "timed out")]) is PASS


def test_a_worker_is_met_by_one_branch_with_a_result_and_by_none_it_is_not():
    assert check(("worker",), [part("worker")]) is PASS
    assert check(("worker",), [part("worker", "timed out"), part("worker")]) is PASS
    verdict = check(("worker",), [part("worker", "timed out"), part("other")])
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.GOAL_UNMET, 1, 0)
    assert verdict.message == "a goal was not reached: worker brought no result (timed out)"


def test_a_worker_without_a_part_is_not_met():
    assert check(("worker",), [part("other")]).evidence.details["problems"] == ["worker was given no part of the plan"]


def test_a_stage_is_met_when_it_was_passed():
    def run(left: bool) -> Run:
        return Run("run", stages={Stage.VALIDATE: StageRun(Stage.VALIDATE, 0, 0, (), left=left)})

    assert check(("validate", "finalize"), run=run(True)) is PASS
    assert check(("validate",), run=run(False)).message == "a goal was not reached: stage validate was not passed"
    assert check(("validate",), run=Run("run")).cause is Cause.GOAL_UNMET


def test_a_goal_that_names_no_agent_is_refused_with_its_path():
    with pytest.raises(ValidationError, match=r"policy.goal_gates.nodes.1: 'writer' is no stage and no worker"):
        spec(goal_gates={"nodes": ["worker", "writer"]})
    assert spec(goal_gates={"nodes": ["plan", "worker"]}).policy.goal_gates.nodes == ("plan", "worker")


# -- in the engine -----------------------------------------------------------------------------------------------------

BEST_EFFORT = {"mode": "best_effort"}
BROKEN = {"schema_grounding_fail": {str(tier): {"rungs": [{"reaction": "surface"}]} for tier in Tier}}


def two_workers(goals, *, planner: bool = False, **fields):
    """A worker and a checker, either of which the fan-in policy does without."""
    briefs = [{"agent": name, "title": name, "instructions": "Do it."} for name in ("worker", "checker")]
    fixed = {"goal": "Answer.", "briefs": briefs, "exit_criteria": ["It answers."]}
    topology = {"workers": ["worker", "checker"], **({} if planner else {"plan": fixed})}
    given = {"fan_in": BEST_EFFORT, "table": BROKEN, "topology": topology, "goal_gates": goals, **fields}
    made = tree(roles=("planner",) if planner else (), **given)
    made["agents"].append(agent("checker"))
    return type(lone()).model_validate(made), fixed


@pytest.mark.parametrize(
    ("tier", "reaction"), [(Tier.INTERACTIVE, "abort"), (Tier.BATCH, "abort"), (Tier.HIGH_STAKES, "escalate")]
)
def test_an_unmet_goal_is_a_direct_reaction(tier, reaction):
    fabric, _ = two_workers({"nodes": ["checker"]})
    world = ran(fabric, {"checker": fails(Cause.UNKNOWN, "broken"), "worker": summary()}, tier=tier)
    decided = world.of(ev.ReactionDecided)[-1]
    assert (decided.cause.cause, decided.failure_type, decided.reaction) == (Cause.GOAL_UNMET, None, reaction)
    assert decided.cause.message == "a goal was not reached: checker brought no result (broken)"
    left = [fact.stage for fact in world.of(ev.StageLeft) if fact.outcome == "passed"]
    assert left == [Stage.PLAN, Stage.FAN_OUT, Stage.FAN_IN, Stage.VALIDATE]
    if reaction == "escalate":
        world.decide("reject").go()
    assert world.end.state is RunState.ABORTED


def test_without_the_goal_the_same_run_completes_and_with_it_met_too():
    script = {"checker": fails(Cause.UNKNOWN, "broken"), "worker": summary()}
    for goals in ({}, {"nodes": ["worker", "validate", "finalize"]}):
        world = ran(two_workers(goals)[0], script)
        assert world.end.state is RunState.COMPLETED
        assert world.reactions == ["surface"]


def test_with_a_retry_target_the_run_goes_back_and_recovers():
    fabric, plan = two_workers({"nodes": ["checker"], "retry": "replan"}, planner=True)
    answers = [fails(Cause.UNKNOWN, "broken"), summary("Checked.")]
    world = ran(fabric, {"planner": planned(**plan), "checker": answers, "worker": summary()})
    assert world.reactions == ["surface", "replan"]
    assert world.of(ev.Replanned)[0].stage is Stage.FINALIZE
    assert "checker brought no result (broken)" in world.requests[3].messages[-1].text
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)


def test_the_retry_target_is_bounded_by_the_stages_replans():
    fabric, plan = two_workers({"nodes": ["checker"], "retry": "replan"}, planner=True)
    script = {"planner": planned(**plan), "checker": say("no"), "worker": summary()}
    world = ran(fabric, script, tier=Tier.BATCH)
    assert [reaction for reaction in world.reactions if reaction != "surface"] == ["replan", "replan", "abort"]
    assert world.end.state is RunState.ABORTED
