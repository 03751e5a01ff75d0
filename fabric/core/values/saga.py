"""Knowledge about the calls that change the world, and its consequences: data and tables alone
(docs/specification/changes.md).

A *mutation* is a call of a mutating or irreversible tool, under its idempotency key. The result of an attempt is its
*outcome*. The *status* is the mutation's effect on the world. Unwinding depends on the status alone: each mutation
that was executed, or may have been, is undone, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from fabric.core.values.fingerprint import digest
from fabric.core.values.frozen import value


class Effect(StrEnum):
    """Effect of a tool on the world."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    MUTATING = "mutating"
    IRREVERSIBLE = "irreversible"


MUTATES = frozenset({Effect.MUTATING, Effect.IRREVERSIBLE})
"""Effects that are journaled as mutations."""


class Outcome(StrEnum):
    """Outcome of one attempt of a call, as far as it is known."""

    ANSWERED = "answered"
    """Executed, whatever the answer was."""
    REJECTED = "rejected"
    """Not executed: refused by the other side (4xx), or never sent."""
    UNKNOWN = "unknown"
    """Possibly executed: no answer in time, a broken connection, 5xx, an exception, its process gone, aborted."""
    LATE = "late"
    """Aborted, and executed as it turned out."""


class Status(StrEnum):
    """A mutation's effect on the world."""

    UNTRACKED = "untracked"
    """The tool changes nothing that would have to be undone."""
    OPEN = "open"
    """Its intent is journaled and nothing more is known."""
    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    BY_HAND = "by_hand"
    """A person undid it and reported that."""
    SKIPPED = "skipped"
    """It cannot be undone, and was reported so."""
    ABANDONED = "abandoned"
    """It stays: its compensation failed for good without a person to take it over, or unwinding was stopped."""


STATUS: Mapping[tuple[Effect, Outcome], Status] = {
    (Effect.READ_ONLY, Outcome.ANSWERED): Status.UNTRACKED,
    (Effect.READ_ONLY, Outcome.REJECTED): Status.UNTRACKED,
    (Effect.READ_ONLY, Outcome.UNKNOWN): Status.UNTRACKED,
    (Effect.READ_ONLY, Outcome.LATE): Status.UNTRACKED,
    (Effect.IDEMPOTENT, Outcome.ANSWERED): Status.UNTRACKED,
    (Effect.IDEMPOTENT, Outcome.REJECTED): Status.UNTRACKED,
    (Effect.IDEMPOTENT, Outcome.UNKNOWN): Status.UNTRACKED,
    (Effect.IDEMPOTENT, Outcome.LATE): Status.UNTRACKED,
    (Effect.MUTATING, Outcome.ANSWERED): Status.EXECUTED,
    (Effect.MUTATING, Outcome.REJECTED): Status.NOT_EXECUTED,
    (Effect.MUTATING, Outcome.UNKNOWN): Status.UNKNOWN,
    (Effect.MUTATING, Outcome.LATE): Status.EXECUTED,
    (Effect.IRREVERSIBLE, Outcome.ANSWERED): Status.EXECUTED,
    (Effect.IRREVERSIBLE, Outcome.REJECTED): Status.NOT_EXECUTED,
    (Effect.IRREVERSIBLE, Outcome.UNKNOWN): Status.UNKNOWN,
    (Effect.IRREVERSIBLE, Outcome.LATE): Status.EXECUTED,
}
"""Status by effect and outcome; total by test."""


class Then(StrEnum):
    """Reaction to a call with an unknown outcome."""

    AGAIN = "again"
    """It goes out once more under its key."""
    RECONCILE = "reconcile"
    """Call the tool's reconcile tool; without one, open a review."""
    ESCALATE = "escalate"
    """Open a review. The engine never sends it again on its own."""


ON_UNKNOWN: Mapping[Effect, Then] = {
    Effect.READ_ONLY: Then.AGAIN,
    Effect.IDEMPOTENT: Then.AGAIN,
    Effect.MUTATING: Then.RECONCILE,
    Effect.IRREVERSIBLE: Then.ESCALATE,
}
"""Total by test."""


class Unwinds(StrEnum):
    """Rule for undoing when a run ends by a reaction."""

    YES = "yes"
    NO = "no"
    UNLESS_POLICY = "unless_policy"
    """Yes, unless ``policy.saga.unwind_on_cancel`` is false; then it says what stays."""
    NO_AND_SAYS_SO = "no_and_says_so"


UNWINDS: Mapping[str, Unwinds] = {
    "finalize": Unwinds.NO,
    "terminate": Unwinds.NO,
    "safe_fallback": Unwinds.NO,
    "surface": Unwinds.YES,
    "abort": Unwinds.YES,
    "halt": Unwinds.YES,
    "reject": Unwinds.YES,
    "cancel": Unwinds.UNLESS_POLICY,
    "terminated": Unwinds.NO_AND_SAYS_SO,
    "replan": Unwinds.YES,
    "escalate": Unwinds.NO,
    "handover": Unwinds.NO,
    "fallback_model": Unwinds.NO,
    "cheaper_model": Unwinds.NO,
    "wait_for_breaker": Unwinds.NO,
    "retry_node": Unwinds.NO,
    "accept_partial": Unwinds.NO,
    "route": Unwinds.NO,
    "go_back": Unwinds.NO,
    "inject": Unwinds.NO,
    "retry": Unwinds.NO,
}
"""Rule by reaction, the direct ones (finalize, reject, cancel, an operator's terminate) included; total by test. A
replan unwinds the old epoch, except mutations that are carried over. Terminate and safe fallback unwind where
they become a surface.
"""

DOUBTFUL = frozenset({Status.OPEN, Status.UNKNOWN})
"""Statuses with unknown execution. A call whose attempt is over while its mutation is still open counts too."""
STANDING = DOUBTFUL | {Status.EXECUTED}
"""Statuses of mutations that changed the world, or may have, and were not handled yet."""
STAYS = STANDING | {Status.SKIPPED, Status.ABANDONED}
"""Statuses of mutations that changed the world, or may have, and are not undone; a child hands them up
(``handing_up``).
"""
UNWOUND = frozenset({Status.UNDONE, Status.BY_HAND, Status.SKIPPED, Status.ABANDONED})
"""Statuses that unwinding gives."""
CHANGED = STAYS | UNWOUND
"""Statuses of mutations that changed the world, or may have, undone or not."""


@value(kw_only=True)
class Mutation:
    """One call that changes the world, under its key."""

    key: str
    command_id: str
    attempt: int
    step_id: str
    call_id: str
    tool: str
    effect: Effect
    compensation: str
    carry_over: bool
    epoch: int
    args_ref: str
    deadline_at: int
    status: Status = Status.OPEN
    cause: str = ""
    """Cause (``Cause``) of the end of the attempt whose outcome is unknown; "": its process is gone, or an abort."""
    reason: str = ""
    asked: bool = False
    """True: its reconcile tool was called as often as allowed, without an answer."""
    result_ref: str = ""
    """Reference of its answer; "": unknown."""
    doubted: bool = False
    """True: an earlier attempt may have been executed under its key, so that a rejection proves nothing."""
    child_id: str = ""
    """The child run that made it and handed it up; "": this run's own."""


@value(kw_only=True)
class Errand:
    """A call of the saga's own: a compensation or a reconciliation."""

    command_id: str
    attempt: int
    key: str
    """The key of the mutation that it is about."""
    tool: str
    own_key: str
    """Its idempotency key, equal for all its attempts."""
    deadline_at: int
    args_ref: str
    out: bool = True
    """False: its last attempt failed."""
    failures: int = 0
    not_before: int = 0
    """Earliest start of the next attempt; 0: at once."""
    stuck: bool = False
    """True: a review is open, and nothing happens before its answer."""
    command: str = ""
    """For a reconciliation: the call that waits for its result."""
    step_id: str = ""


@value(kw_only=True)
class Unwinding:
    """Undoing in progress: ``left`` are keys, the next one first."""

    purpose: str
    """``ending`` or ``replan``."""
    left: tuple[str, ...]
    current: Errand | None = None
    stage: str = ""
    """Before a replan: the stage whose replans it counts towards."""
    reason: str = ""
    told_ref: str = ""
    """Reference of the planner's report, before a replan."""


@value(kw_only=True)
class Saga:
    """A run's knowledge of its mutations. Shared and empty in a run without any."""

    mutations: tuple[Mutation, ...] = ()
    """Mutations in the order of their newest intent."""
    checks: tuple[Errand, ...] = ()
    """Reconciliations under way."""
    approved: tuple[str, ...] = ()
    """Command ids of the calls that a person approved in a review."""
    unwinding: Unwinding | None = None
    compensations: int = 0
    """Number of compensations begun."""


EMPTY = Saga()


def build_key(run_id: str, scope: str, tool: str, args_hash: str, ordinal: int) -> str:
    """Return a mutation's idempotency key. ``scope``: stage, branch and epoch without the round, so that a step that
    runs once more finds its earlier mutation.
    """
    return digest(run_id, "mutation", scope, tool, args_hash, ordinal)


def read_scope(step_id: str, *, carry_over: bool) -> str:
    """Return ``stage.branch.eEPOCH`` of a step, or ``stage.branch`` for a mutation that is carried over a replan."""
    stage, branch, epoch, _ = step_id.split(".")
    return f"{stage}.{branch}" if carry_over else f"{stage}.{branch}.{epoch}"


def find_by_key(saga: Saga, key: str) -> Mutation | None:
    """Return the mutation under a key."""
    return next((one for one in saga.mutations if one.key == key), None)


def find_by_command(saga: Saga, command_id: str) -> Mutation | None:
    """Return the mutation of a call."""
    return next((one for one in saga.mutations if one.command_id == command_id), None)


def find_check(saga: Saga, command_id: str) -> Errand | None:
    """Return the reconciliation that a call waits for."""
    return next((one for one in saga.checks if one.command == command_id), None)


def undo_order(mutations: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    """Return the keys of the mutations to undo, the newest intent first. ``replan``: leave out those that are
    carried over.
    """
    standing = [one for one in mutations if one.status in STANDING and not (replan and one.carry_over)]
    return tuple(one.key for one in reversed(standing))


def errands(saga: Saga) -> tuple[Errand, ...]:
    """Return the saga's own calls that are under way: reconciliations, and the current compensation."""
    current = saga.unwinding.current if saga.unwinding is not None else None
    return saga.checks if current is None else (*saga.checks, current)


def errands_out(saga: Saga) -> tuple[Errand, ...]:
    """Return the errands whose attempt is out."""
    return tuple(one for one in errands(saga) if one.out)


def errand_live(saga: Saga) -> bool:
    """Return True if an errand is out, or goes out without a person."""
    return any(not one.stuck for one in errands(saga)) or _begins_at(saga) is not None


def _begins_at(saga: Saga) -> int | None:
    """Return the instant at which the next compensation may begin, if none is under way. A mutation that may still
    arrive is not undone before its deadline.
    """
    unwinding = saga.unwinding
    if unwinding is None or unwinding.current is not None or not unwinding.left:
        return None
    mutation = find_by_key(saga, unwinding.left[0])
    return mutation.deadline_at if mutation is not None and mutation.status in DOUBTFUL else 0


def awaited_errand(saga: Saga, command_id: str, attempt: int) -> Errand | None:
    """Return the errand with that current attempt; None: it is over or was never issued."""
    for one in errands(saga):
        if (one.command_id, one.attempt) == (command_id, attempt) and one.out:
            return one
    return None


def instants(saga: Saga) -> list[int]:
    """Return the instants of the saga's scheduled attempts, at which the run must be stepped."""
    if saga is EMPTY:
        return []
    at = _begins_at(saga)
    found = [one.not_before for one in errands(saga) if not one.out and not one.stuck]
    return found if at is None else [*found, at]
