"""Defines a supposed failure, and the engine's reactions to it: data alone, ready to be shown.

Each failure type has default circumstances: the agent, the stage, the trip. The drills use these places too
(``simulator/drills``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposing:
    """Circumstances of a failure; missing ones are those of a drill."""

    stage: Stage | None = None
    cause: Cause | None = None
    """Finer than the failure type; it has to be of that row."""
    agent: str = ""
    """Failing worker of a fan-out; "": the first one."""
    of_call: bool = False
    """For a cost overrun: True if one call would cost too much, False if the next stage would."""
    breaker_open: bool = False
    """For a provider failure: True if the circuit breaker refused the call, so that it was not sent."""
    retry_after_s: float | None = None
    """For a provider failure: the Retry-After, in seconds; None: none."""


WaitOf = Literal["backoff", "retry_after", "breaker", "named", "failover", "node"]


@dataclass(frozen=True, slots=True)
class AttemptWait:
    """Wait before the next attempt, in seconds: drawn between these two, or exact where they are equal."""

    low_s: float
    high_s: float
    of: WaitOf


@dataclass(frozen=True, slots=True)
class Asks:
    """A review, or a follow-up that is left. Seconds count from its opening."""

    role: str
    reviewers: tuple[str, ...]
    """Names and roles that the fabric lists as its reviewers."""
    remind_s: float
    onward_s: float
    """After this ``onward_to`` may answer as well."""
    onward_to: tuple[str, ...]
    due_s: float
    on_expiry: str
    """``reject``, or ``nothing``."""
    approvals: int
    verbs: Mapping[str, str]
    """Possible answers, each with its effect."""
    model: str = ""
    """Fallback that an approval may name; "": none."""


@dataclass(frozen=True, slots=True)
class WalkLine:
    """One line of the walk."""

    what: Literal["decided", "skipped", "left"]
    """A reaction, a skipped rung, or a follow-up that the reaction before leaves."""
    rung: int
    """Number of the rung, from 1; 1 for a direct reaction."""
    reaction: str
    failure: FailureType | None
    """The row that it is of; None: a direct reaction. Not the supposed one where a branch that ended leaves a gap."""
    use: int = 0
    """Number of this use of the rung, from 1."""
    times: int | None = None
    why: str = ""
    """Why a rung is passed over; of a reaction what failed."""
    waits: AttemptWait | None = None
    asks: Asks | None = None
    model: str = ""
    """Model that takes over; "": none."""


@dataclass(frozen=True, slots=True)
class WalkRung:
    """One rung of the failure's ladder."""

    rung: int
    """Number of the rung, from 1."""
    reaction: str
    times: int | None
    """None: without bound."""
    per: str
    """Scope in which its uses are counted: ``call``, ``node``, ``step``, ``stage``, ``unbounded``."""
    layer: str
    """The retry layer of the rung; "": the fabric has none."""
    accompanies: tuple[str, ...]
    role: str
    """Role that must answer, if the rung is a review; else ""."""
    critic: bool
    uses: int
    """Times that the walk takes it."""
    why: str
    """Reason for which it is skipped; "": it is taken, or not reached."""

    @property
    def state(self) -> Literal["taken", "passed_over", "not_reached"]:
        """Fate of the rung in the walk."""
        return "taken" if self.uses else "passed_over" if self.why else "not_reached"


@dataclass(frozen=True, slots=True)
class Supposed:
    """The engine's reactions to a failure that stays in spite of them, where every review is rejected or expires."""

    failure: FailureType
    tier: Tier
    stage: Stage
    agent: str
    """Failing agent; "": the stage as a whole."""
    cause: Cause
    own: bool
    """True if the fabric has a cell of its own for the failure; False: the default table's cell."""
    ladder: tuple[WalkRung, ...]
    lines: tuple[WalkLine, ...]
    state: RunState
    """Final state of the run."""
    reason: str
    """Why it ends, in the engine's words."""
    notes: tuple[str, ...] = field(default=())
    """Assumptions of the walk."""


class NotSupposed(ValueError):
    """Raised when the failure cannot happen so in this fabric; the sentence names the reason."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Circumstances of a failure."""

    stages: tuple[Stage, ...]
    """Stages where it happens: the first with an agent is taken."""
    cause: Cause
    mechanism: str
    message: str
    whole: bool = False
    """True: the failure belongs to the stage, and to no step."""
    call: bool = False
    """True: a call failed."""
    blocked: bool = False
    """True: a proposed call was blocked, and its model can receive the message."""
    cured: bool = True
    """True: the failure is gone when the stronger agent does the work."""
    answers: bool = False
    """True: a stopped agent can still answer with the material that it has."""


_F, _S = FailureType, Stage
_ANSWERS = (_S.FINALIZE, _S.FAN_IN, _S.FAN_OUT)
MET: Mapping[FailureType, Circumstances] = {
    _F.TOOL_LOOP: Circumstances(
        (_S.FAN_OUT,), Cause.LOOP_DETECTED, "loop_detector", "the same call again and again", blocked=True, answers=True
    ),
    _F.DEADLOCK: Circumstances(
        (_S.FAN_OUT,), Cause.BRIEF_REPEATED, "deadlock_monitor", "two briefs say the same", whole=True, cured=False
    ),
    _F.COST_OVERRUN: Circumstances(
        (_S.VALIDATE, _S.FINALIZE), Cause.BUDGET_GATE, "budget", "the budget is spent", whole=True, cured=False
    ),
    _F.PROVIDER: Circumstances(_ANSWERS, Cause.SERVER_ERROR, "provider", "the endpoint answered 503", call=True),
    _F.SCHEMA_GROUNDING: Circumstances(_ANSWERS, Cause.GROUNDING, "validation_gate", "it cites what is not there"),
    _F.PLAN_MALFORMED: Circumstances(
        (_S.PLAN,), Cause.PLAN_GATE, "validation_gate", "the plan is malformed", cured=False
    ),
    _F.NO_PROGRESS: Circumstances(
        (_S.FAN_OUT,), Cause.NO_PROGRESS, "progress", "turns without any progress", answers=True
    ),
    _F.UNSAFE_OUTPUT: Circumstances(
        _ANSWERS, Cause.CONTENT_FILTER, "agent_loop", "a content filter withheld the answer"
    ),
}
"""Total over the failure types, by test."""


def agent_in(spec: FabricSpec, stage: Stage, worker: str = "", planner: str = "") -> str:
    """Return the agent of a stage; "": the engine. ``worker``: for a fan-out; ``planner``: the present planner."""
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
    """Return the first worker that does its work itself. ``armed``: the first of those with a tool, if there is one."""
    workers = spec.topology.hands() or spec.topology.workers
    able = (name for name in workers if not armed or spec.tools_of(spec.agent(name)))
    return next(able, workers[0])


def find_circumstances(spec: FabricSpec, failure: FailureType, given: Supposing) -> tuple[Circumstances, Stage, Cause]:
    """Return the circumstances, the stage and the cause of a failure. Raises NotSupposed if it cannot happen there."""
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
