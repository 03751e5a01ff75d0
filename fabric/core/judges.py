"""Who judges what a stage made before its gate passes it, beside the stage's own agents: a table over the spec (semantics.md 1, 9).

A judge is a step of the stage that it judges for, on a branch behind the author's: a model, or a tool that the engine asks itself (then the step has no
agent). Its verdict is journaled like any answer and read by the gate, which stays pure. What the critic of the validate stage scores is that stage's own work.
"""

from __future__ import annotations

from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.gates import OracleCheck
from fabric.core.run import Step
from fabric.core.spec import FabricSpec

PLAN_CRITIC = "critic"
GROUNDING_CRITIC = "grounding_critic"
ORACLE = "oracle"
FIRST = 1
"""Branch of the judge that a stage has where no oracle is asked: the author is on branch 0."""
ORACLE_FROM = 2
"""Branch of the oracle's first check; each check has its own, in the fabric's order."""


@value()
class Judge:
    """One judge of a stage."""

    name: str
    """The check of the gate that reads its verdict."""
    branch: int
    agent: str = ""
    """Who judges; empty: the engine asks a tool."""
    check: OracleCheck | None = None
    """Of the oracle: what is asked."""


def judges_of(spec: FabricSpec, stage: Stage) -> tuple[Judge, ...]:
    """Those of a stage, in the order of its gate's checks."""
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


def scored(spec: FabricSpec, stage: Stage) -> bool:
    """Whether somebody says how sure they are of what a stage made."""
    critic = stage is Stage.VALIDATE and spec.topology.critic is not None
    return critic or any(judge.agent for judge in judges_of(spec, stage))


def judge_of(spec: FabricSpec, step: Step) -> Judge:
    """The judge that a step is the work of. LookupError for a step that is none's."""
    for judge in judges_of(spec, step.stage):
        if judge.branch == step.branch:
            return judge
    raise LookupError(f"{step.id} is no judge's")


def is_judge(step: Step) -> bool:
    """Whether a step judges what another one made."""
    return step.stage is not Stage.FAN_OUT and step.branch >= FIRST
