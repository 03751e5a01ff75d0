"""The ports of what runs share across processes: money under a cap, retry tokens and guard rows; with the values that cross them.

Each store goes by its database's own clock. Instants are microseconds since the epoch, UTC; durations are seconds; money is micro-dollars.

A *budget* is a scope with a cap. A process takes a *grant* out of it, an amount that nobody else can spend from then on, and writes
*reservations* into the grant, one for each call at its worst case, with the run's own batch. A reservation is settled once: at what the call cost, or at
its worst case. A grant that is closed gives to the budget what its reservations used, and the rest back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from fabric.core.audit import AuditEntry
from fabric.core.frozen import value
from fabric.runtime.batch_parts import Entries, Reservation, SettledBy, Settlement
from fabric.runtime.ports import Written

__all__ = [
    "BucketStore",
    "Budget",
    "BudgetMissing",
    "Cap",
    "Count",
    "Entries",
    "Grant",
    "GrantStore",
    "GuardChanged",
    "GuardRow",
    "GuardStore",
    "Held",
    "Reaped",
    "Reservation",
    "SettledBy",
    "Settlement",
    "TokenAsk",
    "TokensLeft",
]
# -- money -------------------------------------------------------------------------------------------------------------


@value(kw_only=True)
class Budget:
    """Where a shared budget stands: the evidence of a refusal."""

    scope: str
    """``fabric:<id>`` (an hour's money), ``session:<fabric>:<key>``, ``workspace:<id>``."""
    cap: int
    """What may be spent altogether, or in any hour."""
    spent: int
    granted: int
    """What processes hold, spent or not."""
    overrun: int
    """What calls cost above their reservations and found no room below the cap."""
    hourly: bool
    """True: ``spent`` is what was spent in the last hour, in windows of five minutes."""
    asked_at: int
    """The store's instant of this."""

    @property
    def left(self) -> int:
        """What can be granted now; 0 also when the cap was lowered below what is spent and granted."""
        return max(0, self.cap - self.spent - self.granted)


@value()
class Cap:
    """What a budget begins with that is not there yet, when somebody first asks it for a grant."""

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
class Held:
    """A reservation as it stands. ``settled`` None: open."""

    run_id: str
    command_id: str
    attempt: int
    usd_micros: int
    settled: int | None
    reason: str


@value()
class Reaped:
    """What a reaper did: grants of the dead that it closed, reservations that it settled at worst case."""

    grants: int
    reservations: int


class BudgetMissing(LookupError):
    """There is no budget of that scope: give it a cap first."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"the scope {scope!r} has no budget: set its cap before asking for a grant")


class GrantStore(Protocol):
    """Shared budgets. ``spent + granted <= cap`` holds after every call; every method may be repeated when its answer was lost.

    Locks are taken in one order everywhere: run, grants by id, budgets by scope. Raises StoreUnavailable when the database is away.
    """

    def set_cap(
        self, scope: str, cap: int, *, workspace_id: str, hourly: bool = False, only_new: bool = False
    ) -> Budget:
        """Sets a budget's cap, making the budget if it is not there; ``only_new``: a known one is left as it is.

        A cap below what is spent and granted is kept from then on: nothing is granted until it is met again. ``hourly`` of a known one stays.
        """
        ...

    def budgets(self, scopes: Sequence[str]) -> list[Budget]:
        """Where they stand; a scope without a budget is left out."""
        ...

    def take(self, incarnation: str, scope: str, *, grant_id: str, enough: int, chunk: int) -> Grant | Budget:
        """Grants ``grant_rules.chunk_of(what is left, enough, chunk)``; the Budget when not even ``enough`` is left.

        ``grant_id`` is the caller's: asked again after a lost answer, it is the same grant. BudgetMissing for a scope without a cap;
        StoreUnavailable for an incarnation without a lease.
        """
        ...

    def keep(self, incarnation: str, amounts: Mapping[str, int]) -> None:
        """Lowers open grants of this incarnation to these amounts, by grant id; the rest goes back to the budget at once."""
        ...

    def close(self, incarnation: str, grant_ids: Sequence[str]) -> list[str]:
        """Ends grants of this incarnation: nothing can be reserved from them from now on. Gives back, in order, the ids of those that are closed;
        one with an open reservation stays ``closing`` until that is settled and somebody asks again, or a reaper looks.
        """
        ...

    def reclaim(self, incarnation: str, scope: str) -> int:
        """Asks other incarnations for what they hold of a scope and have not reserved; how much that is at most."""
        ...

    def wanted(self, incarnation: str) -> list[str]:
        """Open grants of this incarnation that others have asked for."""
        ...

    def reserve(self, entries: Sequence[Entries]) -> list[Written]:
        """Writes reservations and settlements, each run's whole or not at all: GRANT_GONE when it reserves from a grant that is not open.

        At most one of a run. What was written before stays as it is: a reservation is settled once.
        """
        ...

    def held(self, grant_id: str) -> list[Held]:
        """A grant's reservations by run, command and attempt."""
        ...

    def reap(self) -> Reaped:
        """Closes the grants of incarnations that have no lease, their open reservations settled at worst case, for good; and those that a living
        one is closing, whose last reservation was settled meanwhile.
        """
        ...


# -- retry tokens ------------------------------------------------------------------------------------------------------


@value()
class TokenAsk:
    """What is asked of one bucket of retry tokens. All in thousandths of a token."""

    scope: str
    """``provider:<name>`` or ``fabric:<id>``."""
    size: int
    """How much fits in; a bucket starts full, and goes as far below 0 on credit. One number for all that share a bucket."""
    earned: int = 0
    """What first attempts have earned since the last ask."""


@value()
class TokensLeft:
    """``given``: every bucket gave its token; else none did. ``levels``: thousandths of a token in each bucket afterwards."""

    given: bool
    levels: Mapping[str, int]


class BucketStore(Protocol):
    """Retry tokens that all processes share (semantics.md 4)."""

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """Takes one token from each bucket, or none; what was earned is credited either way.

        ``first_in_stage``: the run has not retried in this stage, so that an empty bucket may give one on credit, one a second.
        """
        ...

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """Credits what was earned."""
        ...


# -- guard rows --------------------------------------------------------------------------------------------------------


@value(kw_only=True)
class GuardRow:
    """One guard's shared state. What its states and signals mean is the guard's business."""

    scope: str
    kind: str
    """Which guard: ``circuit_breaker`` ..."""
    state: str = ""
    """Empty: it was never changed."""
    generation: int = 0
    """Grows with each change; whatever was counted or decided in an older one changes nothing."""
    changed_at: int = 0
    permits: Mapping[str, int]
    """Who may probe, and until when: by holder. One that has run out may still stand here."""
    counts: Mapping[str, int]
    """By signal, of this generation: all of them, or those of the last minute (``Count.windowed``); of any, the latest instant (``Count.until``)."""
    asked_at: int


@value(kw_only=True)
class Count:
    """What one process counted of a signal since it last told."""

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
    """True: ``n`` is microseconds from now, and the count is the latest such instant on the store's clock. It outlives its generation, and whoever tells it in
    an older one is heeded; ``reset`` with 0 forgets it, in the row's own generation alone. Until then nobody gets a permit.
    """


@value()
class GuardChanged:
    """One change of a guard's row, as its log keeps it."""

    generation: int
    """That the row has from then on."""
    state: str
    at: int


@value()
class RunLine:
    """A line of the audit stream of a run's workspace, to be inserted in the transaction that it tells of."""

    run_id: str
    entry: AuditEntry


class GuardStore(Protocol):
    """Guard rows that all processes share: changed by one conditional update on the generation that was seen."""

    def guards(self, keys: Sequence[tuple[str, str]]) -> list[GuardRow]:
        """The rows of these scopes and kinds, in their order; one that was never changed has generation 0."""
        ...

    def tell(self, counts: Sequence[Count]) -> None:
        """Adds to the counts; those of another generation than the row's are dropped, but for instants."""
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
        """Sets the state, with the next generation and no counts but instants and no permits, and logs it. False: the row is not at ``generation`` any more, or
        ``holder`` is given and has no permit. ``keeps``: the permits go on in the next generation, but ``holder``'s. ``line``: what the audit stream says of it.
        """
        ...

    def changes(self, scope: str, kind: str) -> list[GuardChanged]:
        """What became of a row, the oldest change first: the log of the last days."""
        ...

    def permit(self, scope: str, kind: str, *, generation: int, holder: str, for_s: float, most: int = 1) -> bool:
        """Takes one of ``most`` permits. False: all are out, until one expires or is given up; ``holder`` has one already; the generation is over; or an
        instant that was told is still to come (``Count.until``).
        """
        ...

    def give_up(self, scope: str, kind: str, *, holder: str) -> bool:
        """Gives a permit back without a change. False: ``holder`` has none."""
        ...
