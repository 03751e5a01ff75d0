"""Supervisor: plan (typed, with briefs and an exit criterion) -> fan-out to N agents -> fan-in policy -> validate gate -> finalize (S0)."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from fabric.core import calls
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.policy import FanIn
from fabric.core.run import Step
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work

JSON = Any
_BRANCH = attrgetter("branch")


@value()
class Concluded:
    """A stage's output: the payload to judge, and where it stands when an answer holds it already."""

    payload: JSON
    ref: str = ""
    """Content reference; empty: the engine made the payload and journals it with ``StageLeft``."""
    step_id: str = ""
    """The step that made it, where one did."""
    score: float | None = None


def agents(work: Work, stage: Stage) -> tuple[str, ...]:
    """The agent of each branch of ``stage``."""
    topology = work.compiled.spec.topology
    role = {
        Stage.PLAN: topology.planner,
        Stage.FAN_IN: topology.aggregator,
        Stage.VALIDATE: topology.critic,
        Stage.FINALIZE: topology.finalizer,
    }
    if stage is Stage.FAN_OUT:
        plan = work.ctx.output(work.run.stages[Stage.PLAN].output_ref)
        return tuple(brief["agent"] for brief in plan["briefs"])
    name = role[stage]
    return () if name is None else (name,)


def steps_of(work: Work, stage: Stage) -> list[Step]:
    """The steps that count in ``stage``: the latest round of each branch, in branch order."""
    found = [step for step in work.run.steps.values() if step.stage == stage and step.status != "void"]
    return sorted(found, key=_BRANCH) if len(found) > 1 else found


def concluded(work: Work, stage: Stage, steps: list[Step]) -> Concluded | Failure | None:
    """The stage's output, what failed, or None while it is open. ``steps``: those that count in it."""
    if stage is Stage.FAN_OUT:
        return _fan_out(work, steps)
    if any(step.status != "done" for step in steps):
        return None
    if steps:
        return _from_agent(work, stage, steps[0])
    return _CONCLUDE[stage](work)


def _from_agent(work: Work, stage: Stage, step: Step) -> Concluded:
    output = work.ctx.output(step.output_ref)
    if stage is Stage.VALIDATE:
        ref = work.run.stages[Stage.FAN_IN].output_ref
        return Concluded(work.ctx.output(ref), ref, step.id, output["score"])
    return Concluded(output, step.output_ref, step.id)


def _fixed_plan(work: Work) -> Concluded:
    plan = work.compiled.spec.topology.plan
    assert plan is not None  # the spec has a planner or a fixed plan
    return Concluded(plan.model_dump(mode="json"))


def _joined(work: Work) -> Concluded:
    """Without an aggregator the summaries stand one after the other, each under its title."""
    parts = work.ctx.output(work.run.stages[Stage.FAN_OUT].output_ref)
    given = [(part["title"], work.ctx.output(part["ref"])) for part in parts if part["ref"]]
    text = (
        given[0][1]["text"] if len(given) == 1 else "\n\n".join(f"{title}\n{found['text']}" for title, found in given)
    )
    cited = list(dict.fromkeys(name for _, found in given for name in found["citations"]))
    return Concluded({"text": text or "No branch came back with a result.", "citations": cited})


def _passed_on(work: Work) -> Concluded:
    ref = work.run.stages[Stage.FAN_IN].output_ref
    return Concluded(work.ctx.output(ref), ref)


def _outcome(work: Work) -> Concluded:
    ref = work.run.stages[Stage.VALIDATE].output_ref
    return Concluded(work.ctx.output(ref), ref)


_CONCLUDE = {Stage.PLAN: _fixed_plan, Stage.FAN_IN: _joined, Stage.VALIDATE: _passed_on, Stage.FINALIZE: _outcome}
"""What the engine does in a stage without an agent."""


# -- fan-out and the fan-in policy -------------------------------------------------------------------------------------


def _fan_out(work: Work, steps: list[Step]) -> Concluded | Failure | None:
    """All branches over, or the policy decided early: then the others are let go."""
    policy = work.compiled.spec.policy.fan_in
    done = sum(step.status == "done" for step in steps)
    failed = [step for step in steps if step.status == "failed"]
    needed = _needed(policy, len(steps))
    if len(steps) - len(failed) < needed:
        _cancel_rest(work, steps, "the fan-in policy cannot be met any more")
        return _partial(work, policy, failed, done, needed, len(steps))
    enough = policy.mode == "quorum" and done >= needed
    if not enough and done + len(failed) < len(steps):
        return None
    if enough:
        _cancel_rest(work, steps, "the quorum is met")
    return Concluded([_part(work, step) for step in steps_of(work, Stage.FAN_OUT)])


def _needed(policy: FanIn, branches: int) -> int:
    if policy.mode == "all":
        return branches
    return min(policy.k or 1, branches) if policy.mode == "quorum" else 1


def _cancel_rest(work: Work, steps: list[Step], reason: str) -> None:
    for step in steps:
        if step.status in ("active", "parked"):
            calls.let_go_all(work, reason, step.id)
            for question in [q.fact for q in work.run.questions.values() if q.fact.step_id == step.id]:
                work.emit(ev.EscalationWithdrawn(escalation_id=question.escalation_id, reason=reason))
            work.emit(ev.StepFailed(step_id=step.id, cause=Cause.PARTIAL_FAN_IN, message=reason))


def _partial(work: Work, policy: FanIn, failed: list[Step], done: int, needed: int, branches: int) -> Failure:
    why = "; ".join(f"branch {step.branch + 1} ({step.agent}): {step.message}" for step in failed[:3])
    evidence = Evidence(needed, done, "branches", "stage:fan_out", details={"mode": policy.mode, "branches": branches})
    message = f"{len(failed)} of {branches} branches came back without a result, {needed} are needed; {why}"
    return Failure((Trip("fan_in", Cause.PARTIAL_FAN_IN, evidence, message),), Stage.FAN_OUT)


def _part(work: Work, step: Step) -> JSON:
    plan = work.ctx.output(work.run.stages[Stage.PLAN].output_ref)
    part = {"branch": step.branch, "agent": step.agent, "title": plan["briefs"][step.branch]["title"]}
    if step.status != "done":
        return {**part, "ref": "", "gap": step.message or "no result"}
    return {**part, "ref": step.output_ref, "gap": ""}
