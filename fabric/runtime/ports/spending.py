"""Ports of the state that runs share across processes: money under a cap, retry tokens and guard rows.

Each store uses its database's own clock. Instants are microseconds since the epoch, UTC; durations are seconds; money
is micro-dollars.

A *budget* is a scope with a cap. A process takes a *grant* out of it, an amount that no other process can spend from
then on. It writes *reservations* into the grant, one for each call at its worst case, with the run's own batch. A
reservation is settled once: at the call's cost, or at its worst case. Closing a grant books its reservations' amounts
to the budget, and gives the rest back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fabric.core.audit.lines import AuditEntry
from fabric.core.values.frozen import value
from fabric.runtime.ports.batch_parts import Entries, Reservation, SettledBy, Settlement
from fabric.runtime.ports.journal import BatchFate

__all__ = [
    "BucketStore",
    "Budget",
    "BudgetMissing",
    "Cap",
    "Entries",
    "Grant",
    "GrantStore",
    "GuardChanged",
    "GuardRow",
    "GuardStore",
    "OpenReservation",
    "ReaperWork",
    "Reservation",
    "SettledBy",
    "Settlement",
    "SignalCount",
    "TokenAsk",
    "TokensLeft",
]
# -- money -------------------------------------------------------------------------------------------------------------


@value(kw_only=True)
class Budget:
    """State of a shared budget: the evidence of a refusal."""

    scope: str
    """``fabric:<id>`` (an hour's money), ``session:<fabric>:<key>``, ``workspace:<id>``."""
    cap: int
    """Most that may be spent altogether, or in any hour."""
    spent: int
    granted: int
    """Amount granted to processes, spent or not."""
    overrun: int
    """Cost of calls above their reservations that did not fit below the cap."""
    hourly: bool
    """True: ``spent`` is what was spent in the last hour, in windows of five minutes."""
    asked_at: int
    """The store's instant of this answer."""

    @property
    def grantable(self) -> int:
        """Amount that can be granted now; 0 also when the cap was lowered below the spent and granted amount."""
        return max(0, self.cap - self.spent - self.granted)


@value()
class Cap:
    """Initial cap of a budget that does not exist yet, when its first grant is requested."""

    usd_micros: int
    workspace_id: str
    hourly: bool = False


@value()
class Grant:
    """An amount of a budget's money that one incarnation may spend."""

    grant_id: str
    scope: str
    amount: int


@value(kw_only=True)
class OpenReservation:
    """A stored reservation. ``settled`` None: open."""

    run_id: str
    command_id: str
    attempt: int
    usd_micros: int
    settled: int | None
    reason: str


@value()
class ReaperWork:
    """Work of a reaper: closed grants of dead processes, reservations settled at their worst case."""

    grants: int
    reservations: int


class BudgetMissing(LookupError):
    """Raised for a scope without a budget: give it a cap first."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"the scope {scope!r} has no budget: set its cap before asking for a grant")


class GrantStore(Protocol):
    """Shared budgets. ``spent + granted <= cap`` holds after every call; every method may be repeated when its
    answer was lost.

    Locks are taken in one order everywhere: run, grants by id, budgets by scope. Raises StoreUnavailable when the
    database is away.
    """

    def set_cap(
        self, scope: str, cap: int, *, workspace_id: str, hourly: bool = False, only_new: bool = False
    ) -> Budget:
        """Set a budget's cap, and create the budget if it is missing; ``only_new``: an existing one stays unchanged.

        A cap below what is spent and granted is kept from then on: nothing is granted until it is met again.
        ``hourly`` of a known one stays.
        """
        ...

    def budgets(self, scopes: Sequence[str]) -> list[Budget]:
        """Return the state of the scopes' budgets; a scope without a budget is left out."""
        ...

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """Grant ``rules.compute_chunk(left, enough, chunk)``; return the Budget when less than ``enough`` is left.

        ``grant_id`` is the caller's: a repeated request, after a lost answer, returns its first grant. Raises
        BudgetMissing for a scope without a cap; StoreUnavailable for an incarnation without a lease.
        """
        ...

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """Lower open grants of this incarnation to these amounts, by grant id. The rest goes back to the budget at
        once.
        """
        ...

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """End grants of this incarnation: nothing can be reserved from them from now on. Returns, in order, the ids
        of those that are closed. One with an open reservation stays ``closing`` until that is settled and a
        caller or a reaper closes it again.
        """
        ...

    def reclaim(self, incarnation: str, scope: str) -> int:
        """Request other incarnations' unreserved grants of a scope; return the most that they may give."""
        ...

    def list_wanted(self, incarnation: str) -> list[str]:
        """Return ids of this worker process's open grants whose unspent money other processes have requested."""
        ...

    def reserve(self, entries: Sequence[Entries]) -> list[BatchFate]:
        """Write reservations and settlements, each run's whole or not at all. GRANT_GONE: the run reserves from a grant
        that is not open. At most one of a run. A reservation is settled once; earlier settlements stay unchanged.
        """
        ...

    def list_reservations(self, grant_id: str) -> list[OpenReservation]:
        """Return a grant's reservations by run, command and attempt."""
        ...

    def reap(self) -> ReaperWork:
        """Close the grants of incarnations without a lease, and settle their open reservations at worst case, for good.
        Close also those that a living incarnation is closing, once their last reservation is settled.
        """
        ...


# -- retry tokens ------------------------------------------------------------------------------------------------------


@value()
class TokenAsk:
    """Request to one bucket of retry tokens. All amounts in thousandths of a token."""

    scope: str
    """``provider:<name>`` or ``fabric:<id>``."""
    size: int
    """Capacity; a bucket starts full, and goes as far below 0 on credit. One number for all that share a bucket."""
    earned: int = 0
    """Amount that first attempts have earned since the last request."""


@value()
class TokensLeft:
    """``given``: every bucket gave its token; else none did. ``levels``: thousandths of a token in each bucket
    afterwards.
    """

    given: bool
    levels: Mapping[str, int]


class BucketStore(Protocol):
    """Retry tokens that all processes share (docs/specification/protections.md)."""

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """Take one token from each bucket, or none; earned tokens are credited either way.

        ``first_in_stage``: the run has not retried in this stage, so that an empty bucket may give one on credit, one
        a second.
        """
        ...

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """Credit the earned tokens."""
        ...


# -- guard rows --------------------------------------------------------------------------------------------------------


@value(kw_only=True)
class GuardRow:
    """One guard's shared state. The guard alone interprets its states and signals."""

    scope: str
    kind: str
    """Name of the guard, such as ``circuit_breaker``."""
    state: str = ""
    """State as text; "": it was never changed."""
    generation: int = 0
    """Grows with each change; counts and decisions of an older one change nothing."""
    changed_at: int = 0
    permits: Mapping[str, int]
    """Probe permits: expiry by holder. An expired one may still be listed."""
    counts: Mapping[str, int]
    """Counts by signal, of this generation. They are all of them, those of the last minute (``SignalCount.windowed``),
    or the latest instant (``SignalCount.until``).
    """
    asked_at: int


@value(kw_only=True)
class SignalCount:
    """A process's count of a signal since its last report."""

    scope: str
    kind: str
    generation: int
    signal: str
    n: int
    reset: bool = False
    """True: it begins anew at ``n``, as a streak does that was broken. Not for windowed ones."""
    windowed: bool = False
    """True: it counts for a minute, to within ten seconds."""
    until: bool = False
    """True: ``n`` is microseconds from now, and the count is the latest such instant on the store's clock. It
    outlives its generation, and reports from an older one count too. ``reset`` with 0 forgets it, in the row's
    own generation alone. Until that instant no permit is given.
    """


@value()
class GuardChanged:
    """One logged change of a guard's row."""

    generation: int
    """Generation of the row from then on."""
    state: str
    at: int


@value()
class RunLine:
    """A line of the audit stream of a run's workspace, to be inserted in the transaction of its act."""

    run_id: str
    entry: AuditEntry


class GuardStore(Protocol):
    """Guard rows that all processes share: changed by one conditional update on the generation that was seen."""

    def guards(self, keys: Sequence[tuple[str, str]]) -> list[GuardRow]:
        """Return the rows of these scopes and kinds, in order; one that was never changed has generation 0."""
        ...

    def tell(self, counts: Sequence[SignalCount]) -> None:
        """Add to the counts; those of another generation than the row's are dropped, except instants."""
        ...

    def change(
        self,
        scope: str,
        kind: str,
        *,
        generation: int,
        state: str,
        holder: str = "",
        keeps: bool = False,
        line: RunLine | None = None,
    ) -> bool:
        """Set the state, with the next generation, and log it; clear its permits, and its counts except instants.
        Returns False if the row is no longer at ``generation``, or ``holder`` is given and has no permit.
        ``keeps``: the permits other than ``holder``'s stay valid in the next generation. ``line``: the line for
        the audit stream.
        """
        ...

    def changes(self, scope: str, kind: str) -> list[GuardChanged]:
        """Return the changes of a row, the oldest first: the log of the last days."""
        ...

    def permit(self, scope: str, kind: str, *, generation: int, holder: str, for_s: float, most: int = 1) -> bool:
        """Take one of ``most`` permits. Returns False if all are out, until one expires or is given up; if
        ``holder`` has one already; if the generation is over; or before a reported instant (``SignalCount.until``).
        """
        ...

    def give_up(self, scope: str, kind: str, *, holder: str) -> bool:
        """Give a permit back without a change. False: ``holder`` has none."""
        ...
