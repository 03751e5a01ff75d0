"""What is known of the calls that change the world, and what follows from it: data and tables alone (semantics.md 4 "Saga").

A *mutation* is a call of a tool that is mutating or irreversible, under its idempotency key. What came of it is its *outcome*; what that says about
the world is its *status*. What counts for unwinding is the status alone: whatever was executed, or may have been, is undone, the newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from fabric.core.fingerprint import digest
from fabric.core.frozen import value


class Effect(StrEnum):
    """What running a tool does to the world."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    MUTATING = "mutating"
    IRREVERSIBLE = "irreversible"


MUTATES = frozenset({Effect.MUTATING, Effect.IRREVERSIBLE})
"""Effects that are journaled as mutations."""


class Outcome(StrEnum):
    """What came of one attempt of a call, as far as anybody can tell."""

    ANSWERED = "answered"
    """It was done, whatever it said."""
    REJECTED = "rejected"
    """It was not done: refused by the other side (4xx), or never sent."""
    UNKNOWN = "unknown"
    """It may have been done: no answer in time, a broken connection, 5xx, an exception, its process gone, let go of."""
    LATE = "late"
    """It was let go of, and turned out to have been done."""


class Status(StrEnum):
    """What a mutation did to the world."""

    UNTRACKED = "untracked"
    """The tool changes nothing that would have to be undone."""
    OPEN = "open"
    """Its intent is journaled and nothing is known of it yet."""
    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    UNKNOWN = "unknown"
    UNDONE = "undone"
    BY_HAND = "by_hand"
    """A person undid it and said so."""
    SKIPPED = "skipped"
    """It cannot be undone, and it was said."""
    ABANDONED = "abandoned"
    """Its compensation failed for good and nobody took it over, or unwinding was stopped: it stays."""


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
"""What an outcome says about the world; total by test."""


class Then(StrEnum):
    """What is done about a call whose outcome is unknown."""

    AGAIN = "again"
    """It goes out once more under its key."""
    RECONCILE = "reconcile"
    """The tool's reconcile tool is asked; without one a person is."""
    ESCALATE = "escalate"
    """A person is asked. It is never sent again by itself."""


ON_UNKNOWN: Mapping[Effect, Then] = {
    Effect.READ_ONLY: Then.AGAIN,
    Effect.IDEMPOTENT: Then.AGAIN,
    Effect.MUTATING: Then.RECONCILE,
    Effect.IRREVERSIBLE: Then.ESCALATE,
}
"""Total by test."""


class Unwinds(StrEnum):
    """Whether a run that ends by a reaction undoes what it did."""

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
"""By reaction, the direct ones (finalize, reject, cancel, an operator's terminate) among them; total by test. Replan: the old epoch, but for
what is carried over. Terminate and safe fallback unwind where they become a surface."""

DOUBTFUL = frozenset({Status.OPEN, Status.UNKNOWN})
"""Nobody knows whether it was done. A call whose attempt is over and whose mutation still is open is as doubtful as one that was journaled so."""
STANDING = DOUBTFUL | {Status.EXECUTED}
"""It has, or may have, changed the world, and nothing was done about that."""
STAYS = STANDING | {Status.SKIPPED, Status.ABANDONED}
"""It has, or may have, changed the world, and is not undone: what a child hands up (``handing_up``)."""
UNWOUND = frozenset({Status.UNDONE, Status.BY_HAND, Status.SKIPPED, Status.ABANDONED})
"""It was come to when its run was unwound: what stands in the world under its key now, if anything does, is not what was asked for."""


BEFORE = "before:"
"""What the command id of a mutation begins with that an earlier try made: no call of this run has such an id."""


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
    """What ended the attempt whose outcome is unknown, a ``Cause``; empty: its process is gone, or it was let go of."""
    reason: str = ""
    asked: bool = False
    """True: its reconcile tool was asked as often as it may be, and did not say."""
    result_ref: str = ""
    """Content with what it answered; empty: nothing that is known."""
    doubted: bool = False
    """True: an attempt before this one may have been executed under its key, so that being refused says nothing about the world."""
    child_id: str = ""
    """The child run that made it and handed it up; empty: this run's own."""


@value(kw_only=True)
class Errand:
    """A call of the saga's own: a compensation, or a question whether a mutation was executed."""

    command_id: str
    attempt: int
    key: str
    """The key of the mutation that it is about."""
    tool: str
    own_key: str
    """Its idempotency key, the same for all its attempts."""
    deadline_at: int
    args_ref: str
    out: bool = True
    """False: its last attempt failed."""
    failures: int = 0
    not_before: int = 0
    """When the next attempt may start; 0: at once."""
    stuck: bool = False
    """True: a person is asked, and nothing happens before an answer."""
    command: str = ""
    """Reconciliation: the call that waits for what comes of it."""
    step_id: str = ""


@value(kw_only=True)
class Unwinding:
    """Undoing in progress: ``left`` are keys, the next one first."""

    purpose: str
    """``ending`` or ``replan``."""
    left: tuple[str, ...]
    current: Errand | None = None
    stage: str = ""
    """Replan: the stage that is charged with it."""
    reason: str = ""
    told_ref: str = ""
    """Replan: what the planner is told, as content."""


@value(kw_only=True)
class Saga:
    """Everything a run knows of its mutations. Shared and empty in a run without any."""

    mutations: tuple[Mutation, ...] = ()
    """In the order of their newest intent."""
    checks: tuple[Errand, ...] = ()
    """Reconciliations under way."""
    approved: tuple[str, ...] = ()
    """Calls, by command id, that a person was asked about and let pass."""
    unwinding: Unwinding | None = None
    compensations: int = 0
    """How many compensations were begun."""


EMPTY = Saga()


def key_of(run_id: str, scope: str, tool: str, args_hash: str, ordinal: int) -> str:
    """A mutation's idempotency key. ``scope``: stage, branch and epoch without the round, so that a step that runs once more meets what it did."""
    return digest(run_id, "mutation", scope, tool, args_hash, ordinal)


def scope_of(step_id: str, *, carry_over: bool) -> str:
    """``stage.branch.eEPOCH`` of a step, or ``stage.branch`` for what is carried over a replan."""
    stage, branch, epoch, _ = step_id.split(".")
    return f"{stage}.{branch}" if carry_over else f"{stage}.{branch}.{epoch}"


def by_key(saga: Saga, key: str) -> Mutation | None:
    """The mutation under a key."""
    return next((one for one in saga.mutations if one.key == key), None)


def by_command(saga: Saga, command_id: str) -> Mutation | None:
    """The mutation that a call stands for."""
    return next((one for one in saga.mutations if one.command_id == command_id), None)


def check_of(saga: Saga, command_id: str) -> Errand | None:
    """The reconciliation that a call waits for."""
    return next((one for one in saga.checks if one.command == command_id), None)


def undo_order(mutations: Iterable[Mutation], *, replan: bool) -> tuple[str, ...]:
    """The keys of what is to be undone, the newest intent first. ``replan``: without what is carried over."""
    standing = [one for one in mutations if one.status in STANDING and not (replan and one.carry_over)]
    return tuple(one.key for one in reversed(standing))


def errands(saga: Saga) -> tuple[Errand, ...]:
    """The saga's own calls that are under way: reconciliations, and the current compensation."""
    current = saga.unwinding.current if saga.unwinding is not None else None
    return saga.checks if current is None else (*saga.checks, current)


def errands_out(saga: Saga) -> tuple[Errand, ...]:
    """Those whose attempt is out."""
    return tuple(one for one in errands(saga) if one.out)


def errand_live(saga: Saga) -> bool:
    """Whether one of them is out, or goes out without a person."""
    return any(not one.stuck for one in errands(saga)) or _begins_at(saga) is not None


def _begins_at(saga: Saga) -> int | None:
    """When the next compensation may begin, while none is under way: what may still arrive is not undone before it cannot any more."""
    unwinding = saga.unwinding
    if unwinding is None or unwinding.current is not None or not unwinding.left:
        return None
    mutation = by_key(saga, unwinding.left[0])
    return mutation.deadline_at if mutation is not None and mutation.status in DOUBTFUL else 0


def awaited(saga: Saga, command_id: str, attempt: int) -> Errand | None:
    """The errand whose current attempt that is; None: it is over or was never asked for."""
    for one in errands(saga):
        if (one.command_id, one.attempt) == (command_id, attempt) and one.out:
            return one
    return None


def instants(saga: Saga) -> list[int]:
    """When the saga wants to be stepped by itself: the next attempts that are scheduled."""
    at = _begins_at(saga)
    found = [one.not_before for one in errands(saga) if not one.out and not one.stuck]
    return found if at is None else [*found, at]
