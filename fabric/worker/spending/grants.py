"""A process's share of budgets that cross runs: the amounts in memory, and the moments to request more.

The book belongs to the loop thread: every call of it is made there, and it never waits. ``grant_desk`` requests from
the database, on a thread of its own. Money comes in *chunks*, a grant each: a reservation is taken from one chunk,
and the rest after its settlement serves the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fabric.runtime.ports.spending import Budget, Cap, Grant, Reservation, Settlement

CALLS = 4
"""Size of a chunk in worst cases; it doubles when the last one did not last a second."""
CALLS_MAX = 1_024
LASTS_S = 1.0
LIFE_S = 300.0
"""Seconds after which a chunk is closed, so that its spending is reported to the budget."""
OVERDUE_S = 2 * LIFE_S
"""Age in seconds at which a chunk is closed even with open reservations in the book: the store knows better."""
IDLE_S = 1.0
"""Seconds after which an unspent chunk is returned when another process wants it."""

Key = tuple[str, str, int]
Answer = Callable[["Budget | None"], None]
"""Callback when a need was met (None: look again) or refused (the budget's standing)."""


@dataclass(frozen=True, slots=True)
class GrantRequest:
    """A request to the desk. ``rests``: own grants of the scope to be lowered first, by id, since none of them has
    enough left.
    """

    scope: str
    enough: int
    chunk: int
    rests: dict[str, int]
    needed: bool
    """True: a run waits, so it is refused only after others were asked to return idle grants. False: ahead of need."""
    cap: Cap | None = None
    """Cap of the budget where it does not exist yet."""


class GrantClient(Protocol):
    """Client of the store. Answers arrive on the loop thread."""

    def ask(self, ask: GrantRequest, answered: Callable[[GrantRequest, Grant | Budget], None]) -> None:
        """Take a grant; ``answered`` follows once, however long the database is away."""
        ...

    def keep(self, amounts: dict[str, int]) -> None:
        """Lower grants to these amounts."""
        ...

    def close(self, grant_ids: Sequence[str]) -> None:
        """Close grants, so that no call reserves from them. Their settled amount goes to the budget, now or at a
        reaper's look.
        """
        ...


@dataclass(slots=True)
class _Chunk:
    grant: Grant
    amount: int
    left: int
    calls: int
    taken_at: float
    used_at: float
    open: int = 0
    """Number of unsettled reservations."""
    ended: bool = False
    """True: not spent from any more; closed once no reservation is open."""


@dataclass(slots=True)
class _Scope:
    chunks: list[_Chunk] = field(default_factory=list)
    waiting: list[tuple[int, Answer]] = field(default_factory=list)
    asking: bool = False
    calls: int = CALLS
    taken_at: float = float("-inf")
    worst: int = 0
    """Largest requested reservation since the last chunk."""
    cap: Cap | None = None


class GrantBook:
    """Amounts that this process may spend, by scope. ``now`` is a monotonic clock, in seconds.

    Reservations from a grant, settled ones at their cost, never exceed its amount, unless a call cost more than its
    worst case.
    """

    def __init__(self, desk: GrantClient, now: Callable[[], float]) -> None:
        self._desk, self._now = desk, now
        self._scopes: dict[str, _Scope] = {}
        self._chunks: dict[str, _Chunk] = {}
        self._held: dict[Key, list[tuple[str, int]]] = {}
        """Open reservations by key: grant and amount."""

    # -- looking -------------------------------------------------------------------------------------------------------

    def chunks(self, scope: str) -> tuple[tuple[str, int], ...]:
        """Return the open grants, oldest first, with the rest of each."""
        held = self._scopes.get(scope)
        return tuple((one.grant.grant_id, one.left) for one in self._spendable(held)) if held else ()

    def available(self, scope: str) -> int:
        """Return the largest reservation that one grant has room for now."""
        return max((left for _, left in self.chunks(scope)), default=0)

    def holds_any(self) -> bool:
        """Return True if there is anything that others could want."""
        return bool(self._chunks)

    def _spendable(self, held: _Scope) -> list[_Chunk]:
        until = self._now() - LIFE_S
        return [one for one in held.chunks if not one.ended and one.taken_at > until]

    # -- spending ------------------------------------------------------------------------------------------------------

    def spend(self, reservations: Iterable[Reservation]) -> None:
        """Take reservations out of their grants, when the batch that journals them is handed over.

        Raises ValueError, without taking any, when one does not fit.
        """
        taken: list[Reservation] = []
        for one in reservations:
            chunk = self._chunks.get(one.grant_id)
            if chunk is None or chunk.ended or chunk.left < one.usd_micros or one.usd_micros < 0:
                left = chunk.left if chunk and not chunk.ended else 0
                self.unspend(taken)
                raise ValueError(f"a reservation of {one.usd_micros} from the grant {one.grant_id}, which has {left}")
            taken.append(one)
            chunk.left -= one.usd_micros
            chunk.open += 1
            chunk.used_at = self._now()
            key = (one.run_id, one.command_id, one.attempt)
            self._held.setdefault(key, []).append((one.grant_id, one.usd_micros))
            held = self._scopes[chunk.grant.scope]
            held.worst = max(held.worst, one.usd_micros)
            self._ahead(chunk.grant.scope, held)

    def unspend(self, reservations: Iterable[Reservation]) -> None:
        """Put back the reservations of a batch that was surely not written. Leave them where this is unknown:
        closing the grant counts them.
        """
        for one in reservations:
            self._settle((one.run_id, one.command_id, one.attempt), 0)

    def settle_grants(self, settlements: Iterable[Settlement]) -> None:
        """Give back unused amounts, when the batch with these settlements has committed. Others' reservations are
        skipped.
        """
        for one in settlements:
            self._settle((one.run_id, one.command_id, one.attempt), one.usd_micros)

    def _settle(self, key: Key, amount: int | None) -> None:
        for grant_id, worst in self._held.pop(key, ()):
            chunk = self._chunks.get(grant_id)
            if chunk is not None:
                chunk.left += worst - (worst if amount is None else amount)
                chunk.open -= 1
                self._close_if_done([chunk])

    def drop_grants(self, grant_ids: Iterable[str]) -> None:
        """Spend no more from these: a batch was refused because one of them is not open (``Written.GRANT_GONE``).
        Unspend it first.
        """
        found = [self._chunks[grant_id] for grant_id in grant_ids if grant_id in self._chunks]
        for chunk in found:
            chunk.ended = True
        self._close_if_done(found)

    def forget_all(self) -> None:
        """Forget all grants: the incarnation lost its lease, so the reaper collects them."""
        self._forget(list(self._chunks.values()))
        self._held.clear()

    def _forget(self, chunks: Iterable[_Chunk]) -> None:
        for chunk in chunks:
            chunk.ended = True
            del self._chunks[chunk.grant.grant_id]
            self._scopes[chunk.grant.scope].chunks.remove(chunk)

    # -- asking --------------------------------------------------------------------------------------------------------

    def need(self, scope: str, amount: int, answer: Answer, cap: Cap | None = None) -> None:
        """Request room for ``amount``; ``answer`` is called later: None when it may fit by now, else the budget's
        standing.

        ``cap``: cap of the budget where it does not exist yet.
        """
        held = self._scopes.setdefault(scope, _Scope())
        held.cap = cap or held.cap
        held.waiting.append((amount, answer))
        held.worst = max(held.worst, amount)
        if not held.asking:
            self._ask(scope, held, needed=True)

    def _ahead(self, scope: str, held: _Scope) -> None:
        """Request the next chunk when half of the last one is used. Near the cap a chunk is one reservation, and is
        requested only when it is needed.
        """
        spendable = self._spendable(held)
        if held.asking or not spendable:
            return
        last = spendable[-1]
        if last.calls > 1 and 2 * sum(one.left for one in spendable) < last.amount:
            self._ask(scope, held, needed=False)

    def _ask(self, scope: str, held: _Scope, *, needed: bool) -> None:
        now = self._now()
        enough = held.waiting[0][0] if held.waiting else held.worst
        held.calls = min(CALLS_MAX, 2 * held.calls) if now - held.taken_at < LASTS_S else CALLS
        rests: dict[str, int] = {}
        for one in self._spendable(held) if needed else ():
            if one.left < enough:
                rests[one.grant.grant_id] = self._rest_of(one)
        held.asking = True
        chunk = max(enough, held.worst) * held.calls
        self._desk.ask(GrantRequest(scope, enough, chunk, rests, needed, held.cap), self._take_answer)
        self._close_if_done(list(held.chunks))

    def _take_answer(self, ask: GrantRequest, found: Grant | Budget) -> None:
        held = self._scopes[ask.scope]
        held.asking = False
        if isinstance(found, Grant):
            now = self._now()
            made = _Chunk(found, found.amount, found.amount, found.amount // max(1, ask.enough), now, now)
            held.chunks.append(made)
            self._chunks[found.grant_id] = made
            held.taken_at, held.worst = now, 0
            self._wake(held)
        elif ask.needed:
            refused = [one for one in held.waiting if one[0] >= ask.enough]
            held.waiting = [one for one in held.waiting if one[0] < ask.enough]
            for _, answer in refused:
                answer(found)
        if held.waiting and not held.asking:
            self._ask(ask.scope, held, needed=True)

    def _wake(self, held: _Scope) -> None:
        """Answer as many waiting needs, in their order, as there is room for."""
        room = [one.left for one in self._spendable(held)]
        still: list[tuple[int, Answer]] = []
        answers: list[Answer] = []
        for amount, answer in held.waiting:
            place = next((n for n, left in enumerate(room) if left >= amount), None)
            if place is None:
                still.append((amount, answer))
            else:
                room[place] -= amount
                answers.append(answer)
        held.waiting = still
        for answer in answers:
            answer(None)

    # -- giving back ---------------------------------------------------------------------------------------------------

    def return_wanted(self, grant_ids: Iterable[str]) -> None:
        """Give back the unreserved rest of idle grants that others want."""
        now = self._now()
        amounts: dict[str, int] = {}
        for grant_id in grant_ids:
            chunk = self._chunks.get(grant_id)
            if chunk is None or chunk.ended or now - chunk.used_at < IDLE_S:
                continue
            amounts[grant_id] = self._rest_of(chunk)
        if amounts:
            self._desk.keep(amounts)
            self._close_if_done([self._chunks[grant_id] for grant_id in amounts])

    @staticmethod
    def _rest_of(chunk: _Chunk) -> int:
        """End a chunk and return the amount to which it is lowered."""
        chunk.amount -= max(0, chunk.left)
        chunk.left, chunk.ended = 0, True
        return chunk.amount

    def tick(self) -> None:
        """End expired chunks; call it every second or so."""
        until = self._now() - LIFE_S
        for chunk in self._chunks.values():
            if chunk.taken_at <= until:
                chunk.ended = True
        self._close_if_done(list(self._chunks.values()))
        # A batch without a reported fate leaves its reservations here until their chunk is overdue.
        self._held = {
            key: held for key, held in self._held.items() if any(grant_id in self._chunks for grant_id, _ in held)
        }

    def end(self) -> None:
        """Close every chunk at the process's end. The next owner of a run or the reaper settles open reservations."""
        self._close(list(self._chunks.values()))

    def _close_if_done(self, chunks: Sequence[_Chunk]) -> None:
        overdue = self._now() - OVERDUE_S
        self._close([one for one in chunks if one.ended and (not one.open or one.taken_at <= overdue)])

    def _close(self, chunks: Sequence[_Chunk]) -> None:
        if chunks:
            self._forget(chunks)
            self._desk.close([one.grant.grant_id for one in chunks])
