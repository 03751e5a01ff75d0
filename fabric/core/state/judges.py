"""Finds the judges of a stage's output, and the agent whose schema an answer has to fit (docs/specification/stages.md).

A judge is a step of the stage that it judges, on a branch behind the author's. It is a model, or a tool that the engine
calls itself (then the step has no agent). Its verdict is journaled like any answer and read by the gate, which stays
pure. The critic's score of the validate stage is that stage's own work.

An ``output_schema`` belongs to the role: of the worker that a brief names, of the aggregator, of the finalizer. An
agent that takes over a step keeps that schema.
"""

from __future__ import annotations

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.gates import OracleCheck
from fabric.core.state.run import Run, Step
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value

PLAN_CRITIC = "critic"
GROUNDING_CRITIC = "grounding_critic"
ORACLE = "oracle"
FIRST = 1
"""Branch of a stage's judge without an oracle; the author is on branch 0."""
ORACLE_FROM = 2
"""Branch of the oracle's first check; each check has its own, in the fabric's order."""


@value()
class Judge:
    """One judge of a stage."""

    name: str
    """The check of the gate that reads its verdict."""
    branch: int
    agent: str = ""
    """Agent that judges; "": the engine calls a tool."""
    check: OracleCheck | None = None
    """The oracle's check; None for an agent."""


def list_judges(spec: FabricSpec, stage: Stage) -> tuple[Judge, ...]:
    """Return the judges of a stage, in the order of its gate's checks."""
    found: list[Judge] = []
    critic, gates = spec.topology.plan_critic, spec.gates
    if stage is Stage.PLAN and critic is not None:
        found.append(Judge(PLAN_CRITIC, FIRST, critic))
    written = stage is Stage.FAN_IN or (stage is Stage.FINALIZE and spec.topology.finalizer is not None)
    if written and gates.grounding_critic is not None:
        found.append(Judge(GROUNDING_CRITIC, FIRST, gates.grounding_critic))
    if stage is Stage.FINALIZE:
        for n, check in enumerate(gates.oracle or ()):
            if check.asks_world:
                found.append(Judge(ORACLE, ORACLE_FROM + n, check.critic or "", check))
    return tuple(found)


def is_scored(spec: FabricSpec, stage: Stage) -> bool:
    """Return True if a critic or judge scores the stage's output."""
    critic = stage is Stage.VALIDATE and spec.topology.critic is not None
    return critic or any(judge.agent for judge in list_judges(spec, stage))


def find_judge(spec: FabricSpec, step: Step) -> Judge:
    """Return the judge of a judging step. Raises LookupError for another step."""
    for judge in list_judges(spec, step.stage):
        if judge.branch == step.branch:
            return judge
    raise LookupError(f"{step.id} is no judge's")


def is_judge(step: Step) -> bool:
    """Return True if the step judges another step's output."""
    return step.stage is not Stage.FAN_OUT and step.branch >= FIRST


def contract(run: Run, spec: FabricSpec, step: Step) -> str:
    """Return the agent whose schema a step's answer has to fit; "" if there is none."""
    if not spec.output_schemas or is_judge(step):
        return ""
    if step.stage is Stage.FAN_OUT:
        named = run.stages[step.stage].agents
        name = named[step.branch] if step.branch < len(named) else ""
        if step.turn is not None:  # A verdict has no data.
            name = "" if step.turn.choices else step.turn.agent
    else:
        name = {Stage.FAN_IN: spec.topology.aggregator, Stage.FINALIZE: spec.topology.finalizer}.get(step.stage) or ""
    return name if name in spec.output_schemas else ""


def find_contract(run: Run, spec: FabricSpec, stage: Stage, step_id: str = "") -> str:
    """Return the agent whose schema an output of a stage or branch has to fit. "": there is none."""
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
    return name if name in spec.output_schemas else ""
