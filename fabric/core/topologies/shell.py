"""Stages around a fan-out, alike in every topology: plan -> fan-out -> fan-in -> validate -> finalize (S0). The
topology runs the fan-out.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.decision.work import Work
from fabric.core.state.failure import Failure
from fabric.core.state.judges import is_judge
from fabric.core.state.run import Step
from fabric.core.topologies import debate, graph, handoff, hierarchical, sop, supervisor
from fabric.core.topologies.shape import StageOutput, Topology
from fabric.core.values.flow import Stage

TOPOLOGIES: Mapping[str, Topology] = {
    "supervisor": supervisor,
    "sop": sop,
    "graph": graph,
    "handoff": handoff,
    "hierarchical": hierarchical,
    "debate": debate,
}
"""The module of each kind. Total over ``kinds.BY_KIND``, by test."""


def find_topology(work: Work) -> Topology:
    """Return the topology of a run."""
    return TOPOLOGIES[work.compiled_fabric.spec.topology.kind]


def agents(work: Work, stage: Stage) -> tuple[str, ...]:
    """Return the agent of each branch of ``stage`` that is open from its beginning."""
    topology = work.compiled_fabric.spec.topology
    role = {
        Stage.PLAN: work.run.planner or topology.planner,
        Stage.FAN_IN: topology.aggregator,
        Stage.VALIDATE: topology.critic,
        Stage.FINALIZE: topology.finalizer,
    }
    if stage is Stage.FAN_OUT:
        return find_topology(work).begins(work)
    name = role[stage]
    return () if name is None else (name,)


def conclude_stage(work: Work, stage: Stage, steps: list[Step]) -> StageOutput | Failure | None:
    """Return the stage's output, its failure, or None while it is open. ``steps``: those that count in it."""
    if stage is Stage.FAN_OUT:
        return find_topology(work).conclude_fan_out(work, steps)
    if ref := work.run.stages[stage].edited_ref:
        judged = all(step.status == "done" for step in steps if is_judge(step))
        return StageOutput(work.ctx.output(ref), ref) if judged else None
    for step in steps:
        if step.status != "done":
            return None
    if steps and not is_judge(steps[0]):
        return _build_output(work, stage, steps[0])
    return _CONCLUDE[stage](work)


def _build_output(work: Work, stage: Stage, step: Step) -> StageOutput:
    output = work.ctx.output(step.output_ref)
    if stage is Stage.VALIDATE:
        ref = work.run.stages[Stage.FAN_IN].output_ref
        return StageOutput(work.ctx.output(ref), ref, step.id, output["score"])
    return StageOutput(output, step.output_ref, step.id)


def _fixed_plan(work: Work) -> StageOutput:
    return StageOutput(find_topology(work).plan(work))


def join_outputs(work: Work) -> StageOutput:
    """Return the fan-in's output without an aggregator."""
    return find_topology(work).join_outputs(work)


def _read_output(work: Work) -> StageOutput:
    ref = work.run.stages[Stage.FAN_IN].output_ref
    return StageOutput(work.ctx.output(ref), ref)


def _outcome(work: Work) -> StageOutput:
    ref = work.run.stages[Stage.VALIDATE].output_ref
    return StageOutput(work.ctx.output(ref), ref)


_CONCLUDE = {
    Stage.PLAN: _fixed_plan,
    Stage.FAN_IN: join_outputs,
    Stage.VALIDATE: _read_output,
    Stage.FINALIZE: _outcome,
}
"""Outputs that the engine makes in a stage without an agent."""
