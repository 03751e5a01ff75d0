"""The stages around a fan-out, alike in every topology: plan -> fan-out -> fan-in -> validate -> finalize (S0). What happens in the fan-out is its topology's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core.failure import Failure
from fabric.core.flow import Stage
from fabric.core.judges import is_judge
from fabric.core.run import Step
from fabric.core.topologies import debate, graph, handoff, hierarchical, sop, supervisor
from fabric.core.topologies.shape import Concluded, Topology
from fabric.core.work import Work

JSON = Any
TOPOLOGIES: Mapping[str, Topology] = {
    "supervisor": supervisor,
    "sop": sop,
    "graph": graph,
    "handoff": handoff,
    "hierarchical": hierarchical,
    "debate": debate,
}
"""The module of each kind. Total over ``spec_topologies.BY_KIND``, by test."""


def of(work: Work) -> Topology:
    """The topology that a run has."""
    return TOPOLOGIES[work.compiled.spec.topology.kind]


def agents(work: Work, stage: Stage) -> tuple[str, ...]:
    """The agent of each branch of ``stage`` that is open from its beginning."""
    topology = work.compiled.spec.topology
    role = {
        Stage.PLAN: work.run.planner or topology.planner,
        Stage.FAN_IN: topology.aggregator,
        Stage.VALIDATE: topology.critic,
        Stage.FINALIZE: topology.finalizer,
    }
    if stage is Stage.FAN_OUT:
        return of(work).begins(work)
    name = role[stage]
    return () if name is None else (name,)


def concluded(work: Work, stage: Stage, steps: list[Step]) -> Concluded | Failure | None:
    """The stage's output, what failed, or None while it is open. ``steps``: those that count in it."""
    if stage is Stage.FAN_OUT:
        return of(work).concluded(work, steps)
    if ref := work.run.stages[stage].edited_ref:
        judged = all(step.status == "done" for step in steps if is_judge(step))
        return Concluded(work.ctx.output(ref), ref) if judged else None
    if any(step.status != "done" for step in steps):
        return None
    if steps and not is_judge(steps[0]):
        return _from_agent(work, stage, steps[0])
    return _CONCLUDE[stage](work)


def _from_agent(work: Work, stage: Stage, step: Step) -> Concluded:
    output = work.ctx.output(step.output_ref)
    if stage is Stage.VALIDATE:
        ref = work.run.stages[Stage.FAN_IN].output_ref
        return Concluded(work.ctx.output(ref), ref, step.id, output["score"])
    return Concluded(output, step.output_ref, step.id)


def _fixed_plan(work: Work) -> Concluded:
    return Concluded(of(work).plan(work))


def joined(work: Work) -> Concluded:
    """What the fan-in passes on without an aggregator."""
    return of(work).joined(work)


def _passed_on(work: Work) -> Concluded:
    ref = work.run.stages[Stage.FAN_IN].output_ref
    return Concluded(work.ctx.output(ref), ref)


def _outcome(work: Work) -> Concluded:
    ref = work.run.stages[Stage.VALIDATE].output_ref
    return Concluded(work.ctx.output(ref), ref)


_CONCLUDE = {Stage.PLAN: _fixed_plan, Stage.FAN_IN: joined, Stage.VALIDATE: _passed_on, Stage.FINALIZE: _outcome}
"""What the engine does in a stage without an agent."""
