"""How each failure is met, where nothing else is said: by whom, in which stage, and what trips. The same places as the drills have (``simulator/drills``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fabric.core.flow import Stage
from fabric.core.spec import FabricSpec
from fabric.core.supposed.models import Supposing
from fabric.core.taxonomy import CLASSIFY, Cause, FailureType


class NotSupposed(ValueError):
    """The failure cannot be met so in this fabric; the sentence says what stands in the way."""


@dataclass(frozen=True, slots=True)
class Met:
    """What stands beside a failure."""

    stages: tuple[Stage, ...]
    """Where it is met: the first in which somebody works."""
    cause: Cause
    mechanism: str
    message: str
    whole: bool = False
    """Whether it is the stage's, and no step's."""
    call: bool = False
    """Whether it is a call's that failed."""
    blocked: bool = False
    """Whether a proposed call was withheld, so that its model can be told."""
    cured: bool = True
    """Whether it is gone where the agent above does the work."""
    answers: bool = False
    """Whether an agent that is stopped can still answer with what it has."""


_F, _S = FailureType, Stage
_ANSWERS = (_S.FINALIZE, _S.FAN_IN, _S.FAN_OUT)
MET: Mapping[FailureType, Met] = {
    _F.TOOL_LOOP: Met(
        (_S.FAN_OUT,), Cause.LOOP_DETECTED, "loop_detector", "the same call again and again", blocked=True, answers=True
    ),
    _F.DEADLOCK: Met(
        (_S.FAN_OUT,), Cause.BRIEF_REPEATED, "deadlock_monitor", "two briefs say the same", whole=True, cured=False
    ),
    _F.COST_OVERRUN: Met(
        (_S.VALIDATE, _S.FINALIZE), Cause.BUDGET_GATE, "budget", "the budget is spent", whole=True, cured=False
    ),
    _F.PROVIDER: Met(_ANSWERS, Cause.SERVER_ERROR, "provider", "the endpoint answered 503", call=True),
    _F.SCHEMA_GROUNDING: Met(_ANSWERS, Cause.GROUNDING, "validation_gate", "it cites what is not there"),
    _F.PLAN_MALFORMED: Met((_S.PLAN,), Cause.PLAN_GATE, "validation_gate", "the plan is malformed", cured=False),
    _F.NO_PROGRESS: Met((_S.FAN_OUT,), Cause.NO_PROGRESS, "progress", "turns without any progress", answers=True),
    _F.UNSAFE_OUTPUT: Met(_ANSWERS, Cause.CONTENT_FILTER, "agent_loop", "a content filter withheld the answer"),
}
"""Total over the failure types, by test."""


def agent_in(spec: FabricSpec, stage: Stage, worker: str = "", planner: str = "") -> str:
    """Who works in a stage; empty: the engine does. ``worker``: whom of a fan-out; ``planner``: who plans by now."""
    topology = spec.topology
    found = {
        Stage.PLAN: planner or topology.planner,
        Stage.FAN_OUT: worker or (topology.hands() or topology.workers)[0],
        Stage.FAN_IN: topology.aggregator,
        Stage.VALIDATE: topology.critic,
        Stage.FINALIZE: topology.finalizer,
    }
    return found[stage] or ""


def first_worker(spec: FabricSpec, *, armed: bool) -> str:
    """The first worker that does its work itself; ``armed``: the first of those that has a tool, where one has."""
    workers = spec.topology.hands() or spec.topology.workers
    able = (name for name in workers if not armed or spec.tools_of(spec.agent(name)))
    return next(able, workers[0])


def met_in(spec: FabricSpec, failure: FailureType, given: Supposing) -> tuple[Met, Stage, Cause]:
    """How it is met, where, and what its cause is. NotSupposed where it cannot be."""
    met = MET[failure]
    cause = given.cause or _cause(spec, failure)
    if CLASSIFY[cause].goes_to != failure:
        raise NotSupposed(f"{cause} is no cause of {failure}: it goes to {CLASSIFY[cause].goes_to}")
    if given.agent and given.agent not in spec.topology.workers:
        raise NotSupposed(f"{given.agent[:80]!r} is no worker; there are: {', '.join(spec.topology.workers)}")
    if given.stage is not None:
        return met, given.stage, cause
    stages = (stage for stage in met.stages if agent_in(spec, stage))
    last = met.stages[-1]
    return met, next(stages, last), cause


def _cause(spec: FabricSpec, failure: FailureType) -> Cause:
    if failure is FailureType.SCHEMA_GROUNDING and spec.gates.citations == "off":
        return Cause.CORRECTIONS_SPENT
    return MET[failure].cause
