"""Whose ``output_schema`` an answer, or a payload, has to fit (semantics.md 1 "Typed data").

A schema is a promise of whoever has the role: of the worker that a brief names, of the aggregator, of the finalizer. Who takes over a step keeps it.
"""

from __future__ import annotations

from fabric.core.flow import Stage
from fabric.core.judges import is_judge
from fabric.core.run import Run, Step
from fabric.core.spec import FabricSpec


def contract(run: Run, spec: FabricSpec, step: Step) -> str:
    """The agent whose schema a step's answer has to fit; empty: there is none."""
    if not spec.typed or is_judge(step):
        return ""
    if step.stage is Stage.FAN_OUT:
        named = run.stages[step.stage].agents
        name = named[step.branch] if step.branch < len(named) else ""
        if step.turn is not None:  # A verdict has no data.
            name = "" if step.turn.choices else step.turn.agent
    else:
        name = {Stage.FAN_IN: spec.topology.aggregator, Stage.FINALIZE: spec.topology.finalizer}.get(step.stage) or ""
    return name if name in spec.typed else ""


def contract_of(run: Run, spec: FabricSpec, stage: Stage, step_id: str = "") -> str:
    """The agent whose schema the data of what a stage, or a branch of a fan-out, passes on has to fit; empty: it has none."""
    if stage is Stage.FAN_OUT:
        step = run.steps.get(step_id)
        return "" if step is None else contract(run, spec, step)
    topology = spec.topology
    passed_on = {
        Stage.FAN_IN: topology.aggregator,
        Stage.VALIDATE: topology.aggregator,
        Stage.FINALIZE: topology.finalizer or topology.aggregator,
    }
    name = passed_on.get(stage) or ""
    return name if name in spec.typed else ""
