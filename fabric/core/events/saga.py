"""Facts about calls that change the world: their intent, what became of them, reconciliation, undoing."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.saga import Effect, Outcome, Status
from fabric.core.values.taxonomy import Cause


@value(kw_only=True)
class MutationIntended:
    """A call that changes the world is about to go out, with its compensation. Its ``call_issued`` follows in the
    same commit.
    """

    command_id: str
    attempt: int
    key: str
    """The call's idempotency key. It leaves out the round, so that a step that runs once more finds its earlier
    mutation.
    """
    step_id: str
    call_id: str
    tool: str
    effect: Effect
    compensation: str
    """Tool that undoes it; "": irreversible."""
    carry_over: bool
    """True: it stays when the run is replanned."""
    args_ref: str
    deadline_at: int
    """Deadline of the call. Until then it may still reach the other side, even while it is being reconciled
    or undone.
    """
    kind: ClassVar[str] = "mutation_intended"
    version: ClassVar[int] = 1


@value(kw_only=True)
class MutationSettled:
    """The outcome of a mutation is known now. Content: its result, where that came late or by reconciliation."""

    command_id: str
    attempt: int
    key: str
    tool: str
    outcome: Outcome
    status: Status
    reason: str = ""
    cause: Cause | None = None
    """Cause of the attempt's end, where it failed."""
    result_ref: str = ""
    kind: ClassVar[str] = "mutation_settled"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReconciliationIssued:
    """It is unknown whether a mutation was executed, so its reconcile tool is called. Content: the arguments,
    ``{"args": {"key", "args"}}``.
    """

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
    """An attempt to reconcile brought no answer; the next one follows at ``not_before``."""

    command_id: str
    attempt: int
    cause: Cause
    message: str
    not_before: int
    interrupted: bool = False
    """True: it counts as no failure. The process of the attempt is gone; or the tool answered "not executed" before
    the call's deadline, when the call may still arrive.
    """
    kind: ClassVar[str] = "reconciliation_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ReconciliationEnded:
    """Reconciliation of a mutation ended: its outcome is known, or will stay unknown."""

    command_id: str
    of_key: str
    found: Literal["executed", "not_executed", "unknown"]
    reason: str = ""
    kind: ClassVar[str] = "reconciliation_ended"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingStarted:
    """The run's mutations are undone, the newest first. Content, before a replan: the planner's report."""

    purpose: Literal["ending", "replan"]
    order: tuple[str, ...]
    """Keys of the mutations, the next one first."""
    stage: Stage
    reason: str = ""
    kind: ClassVar[str] = "unwinding_started"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationIssued:
    """A compensation is about to go out. Content of the first attempt: the arguments, ``{"args": {"key", "args",
    "result"}}``.
    """

    command_id: str
    attempt: int
    of_key: str
    of_tool: str
    tool: str
    key: str
    deadline_at: int
    """Deadline of the compensation by the tool's timeout, whatever the run's deadline is."""
    args_ref: str = ""
    kind: ClassVar[str] = "compensation_issued"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationAnswered:
    """One mutation is undone. Content: the compensation's answer."""

    command_id: str
    attempt: int
    of_key: str
    tool: str
    sanitized: bool = False
    kind: ClassVar[str] = "compensation_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationFailed:
    """A compensation attempt failed. The next may start at ``not_before``; 0: none, it is stuck."""

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
    """The process of this compensation attempt is gone. The attempt goes out again under its key, and counts as no
    failure.
    """

    command_id: str
    attempt: int
    of_key: str
    kind: ClassVar[str] = "compensation_interrupted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationStuck:
    """A compensation failed as often as allowed: a review opens."""

    command_id: str
    of_key: str
    tool: str
    attempts: int
    message: str
    kind: ClassVar[str] = "compensation_stuck"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationResumed:
    """A person decided that a stuck compensation is retried, from its first attempt."""

    command_id: str
    of_key: str
    kind: ClassVar[str] = "compensation_resumed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationByHand:
    """A person undid the mutation by hand and reported it. Content: their report."""

    of_key: str
    tool: str
    """The tool that made the mutation."""
    actor: str
    kind: ClassVar[str] = "compensation_by_hand"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationSkipped:
    """A mutation is not undone, since its tool is irreversible."""

    of_key: str
    tool: str
    reason: str
    kind: ClassVar[str] = "compensation_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CompensationAbandoned:
    """A mutation stays in the world, and no further attempt is made to undo it."""

    of_key: str
    tool: str
    reason: str
    kind: ClassVar[str] = "compensation_abandoned"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingFinished:
    """Nothing is left to undo. ``stays``: tools whose calls could not be undone, the newest first."""

    purpose: Literal["ending", "replan"]
    undone: int
    stays: tuple[str, ...] = ()
    kind: ClassVar[str] = "unwinding_finished"
    version: ClassVar[int] = 1


@value(kw_only=True)
class UnwindingOmitted:
    """The run ends without undoing its mutations, and lists the tools that made them, the newest call first."""

    reason: str
    stays: tuple[str, ...]
    kind: ClassVar[str] = "unwinding_omitted"
    version: ClassVar[int] = 1
