"""The five stages and every way out of each: one table (S0 "Canonical Staged Flow"; docs/specification/stages.md)."""

from __future__ import annotations

from enum import StrEnum

FORMAT = 1
"""Format that this program reads, raised with every new event, input or version of one. A run or an input above it
needs a newer program.
"""


class Stage(StrEnum):
    """The five stages, in order."""

    PLAN = "plan"
    FAN_OUT = "fan_out"
    FAN_IN = "fan_in"
    VALIDATE = "validate"
    FINALIZE = "finalize"


class StageOutcome(StrEnum):
    """Outcome of a stage."""

    PASSED = "passed"
    REPLAN = "replan"
    ENDED = "ended"
    """The run ends here: surfaced, aborted, halted or cancelled while this stage was current."""


class End(StrEnum):
    """End of a transition that leads to no stage."""

    COMPLETE = "complete"
    STOP = "stop"


TRANSITIONS: dict[tuple[Stage, StageOutcome], Stage | End] = {
    (Stage.PLAN, StageOutcome.PASSED): Stage.FAN_OUT,
    (Stage.PLAN, StageOutcome.REPLAN): Stage.PLAN,
    (Stage.PLAN, StageOutcome.ENDED): End.STOP,
    (Stage.FAN_OUT, StageOutcome.PASSED): Stage.FAN_IN,
    (Stage.FAN_OUT, StageOutcome.REPLAN): Stage.PLAN,
    (Stage.FAN_OUT, StageOutcome.ENDED): End.STOP,
    (Stage.FAN_IN, StageOutcome.PASSED): Stage.VALIDATE,
    (Stage.FAN_IN, StageOutcome.REPLAN): Stage.PLAN,
    (Stage.FAN_IN, StageOutcome.ENDED): End.STOP,
    (Stage.VALIDATE, StageOutcome.PASSED): Stage.FINALIZE,
    (Stage.VALIDATE, StageOutcome.REPLAN): Stage.PLAN,
    (Stage.VALIDATE, StageOutcome.ENDED): End.STOP,
    (Stage.FINALIZE, StageOutcome.PASSED): End.COMPLETE,
    (Stage.FINALIZE, StageOutcome.REPLAN): Stage.PLAN,
    (Stage.FINALIZE, StageOutcome.ENDED): End.STOP,
}


class RunState(StrEnum):
    """State of a run (docs/specification/decision-table.md). Waiting is derived: running, nothing live, an open
    review.
    """

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    UNWINDING = "unwinding"
    QUARANTINED = "quarantined"
    COMPLETED = "completed"
    STOPPED = "stopped"
    """A protection stopped an agent, and its last answer passed the gates: an outcome, and no success."""
    FAILED = "failed"
    ABORTED = "aborted"
    CANCELLED = "cancelled"


ANSWERED = frozenset({RunState.COMPLETED, RunState.STOPPED})
"""States of a run whose outcome passed all gates. Only ``completed`` is a success."""
STATIC_ANSWER = "the fabric's static answer was given, because "
"""Begins the reason of a run that completed by *safe fallback*: its outcome has nothing from its agents."""
PROVIDER_AWAY = "waits for the provider until "
"""Begins the reason of a run that only waits for an endpoint that is away. The run goes on without a person."""
TERMINAL = ANSWERED | {RunState.FAILED, RunState.ABORTED, RunState.CANCELLED}
"""States that absorb: nothing leaves them."""
LIVE_STATES = tuple(state for state in RunState if state not in TERMINAL)
"""States of runs that have not ended."""
UNMOVED = TERMINAL | {RunState.QUEUED}
"""States in which a run has nothing to do by itself."""
