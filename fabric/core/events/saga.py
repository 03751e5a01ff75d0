"""Facts about calls that change the world: their intent, what became of them, reconciliation, undoing."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.saga import Effect, Outcome, Status
from fabric.core.taxonomy import Cause


@value(kw_only=True)
class MutationIntended:
    """A call that changes the world is about to go out; its ``call_issued`` follows in the same commit. Carries the way back."""

    command_id: str
    attempt: int
    key: str
    """The call's idempotency key: without the round, so that a step that runs once more meets what it did before."""
    step_id: str
    call_id: str
    tool: str
    effect: Effect
    compensation: str
    """Tool that undoes it; empty: irreversible."""
    carry_over: bool
    """True: it stays when the run is replanned."""
    args_ref: str
    deadline_at: int
    """The call's own: until then it may still reach the other side, whoever asks or undoes meanwhile."""
    kind: ClassVar[str] = "mutation_intended"
    version: ClassVar[int] = 1


@value(kw_only=True)
class MutationSettled:
    """What is known of a mutation now. Content: its result, where that came late or by reconciliation."""

    command_id: str
    attempt: int
    key: str
    tool: str
    outcome: Outcome
    status: Status
    reason: str = ""
    cause: Cause | None = None
    """What ended the attempt, where it failed."""
    result_ref: str = ""
    kind: ClassVar[str] = "mutation_settled"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReconciliationIssued:
    """Nobody knows whether a mutation was executed: its reconcile tool is asked. Content: the arguments, ``{"args": {"key", "args"}}``."""

    command_id: str
    attempt: int
    of_command: str
    """The call that waits for it."""
    step_id: str
    of_key: str
    tool: str
    key: str
    deadline_at: int
    args_ref: str = ""
    kind: ClassVar[str] = "reconciliation_issued"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReconciliationFailed:
    """It was not learned, and will be asked again at ``not_before``."""

    command_id: str
    attempt: int
    cause: Cause
    message: str
    not_before: int
    interrupted: bool = False
    """True: it counts as no failure: the process that asked is gone, or it was asked before the call could no longer arrive."""
    kind: ClassVar[str] = "reconciliation_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReconciliationEnded:
    """Nothing is asked any more about a mutation: it is known, or nobody will say."""

    command_id: str
    of_key: str
    found: Literal["executed", "not_executed", "unknown"]
    reason: str = ""
    kind: ClassVar[str] = "reconciliation_ended"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingStarted:
    """What the run did is undone, the newest first. Content, before a replan: what the planner will be told."""

    purpose: Literal["ending", "replan"]
    order: tuple[str, ...]
    """Keys of the mutations, the next one first."""
    stage: Stage
    reason: str = ""
    kind: ClassVar[str] = "unwinding_started"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationIssued:
    """The intent to undo one mutation. Content of the first attempt: the arguments, ``{"args": {"key", "args", "result"}}``."""

    command_id: str
    attempt: int
    of_key: str
    of_tool: str
    tool: str
    key: str
    deadline_at: int
    """Its own: the tool's timeout, whatever the run's deadline is."""
    args_ref: str = ""
    kind: ClassVar[str] = "compensation_issued"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationAnswered:
    """One mutation is undone. Content: what the compensation said."""

    command_id: str
    attempt: int
    of_key: str
    tool: str
    sanitized: bool = False
    kind: ClassVar[str] = "compensation_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationFailed:
    """One attempt to undo failed. The next may start at ``not_before``; 0: there is none, it is stuck."""

    command_id: str
    attempt: int
    of_key: str
    cause: Cause
    message: str
    not_before: int
    kind: ClassVar[str] = "compensation_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationInterrupted:
    """The process that held this attempt to undo is gone. It goes out again under its key, and counts as no failure."""

    command_id: str
    attempt: int
    of_key: str
    kind: ClassVar[str] = "compensation_interrupted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationStuck:
    """A compensation failed as often as it may: a person is asked."""

    command_id: str
    of_key: str
    tool: str
    attempts: int
    message: str
    kind: ClassVar[str] = "compensation_stuck"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationResumed:
    """A person said that a stuck compensation shall be tried again, from its first attempt."""

    command_id: str
    of_key: str
    kind: ClassVar[str] = "compensation_resumed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationByHand:
    """A person undid it and said so. Content: what they said."""

    of_key: str
    tool: str
    """The tool whose call it was."""
    actor: str
    kind: ClassVar[str] = "compensation_by_hand"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationSkipped:
    """It cannot be undone: the tool is irreversible."""

    of_key: str
    tool: str
    reason: str
    kind: ClassVar[str] = "compensation_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationAbandoned:
    """It is not undone, and nobody tries any more: it stays as it is."""

    of_key: str
    tool: str
    reason: str
    kind: ClassVar[str] = "compensation_abandoned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingFinished:
    """Nothing is left to be undone. ``stays``: tools whose calls could not be undone, the newest first."""

    purpose: Literal["ending", "replan"]
    undone: int
    stays: tuple[str, ...] = ()
    kind: ClassVar[str] = "unwinding_finished"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingOmitted:
    """The run ends without undoing what it did, and says what stays: the tools, the newest call first."""

    reason: str
    stays: tuple[str, ...]
    kind: ClassVar[str] = "unwinding_omitted"
    version: ClassVar[int] = 1
