"""A process's share of budgets that cross runs: what it holds in memory, and when it asks for more.

The book belongs to the loop thread: every call of it is made there, and it never waits. Who asks the database for it is ``grant_desk``, on a thread of its
own. Money is held in *chunks*, a grant each: a reservation is taken from one chunk, and what its settlement leaves is there for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fabric.runtime.grant_ports import Budget, Cap, Grant, Reservation, Settlement

CALLS = 4
"""A chunk is so many worst cases, and twice as many as before when that one did not last a second."""
CALLS_MAX = 1_024
LASTS_S = 1.0
LIFE_S = 300.0
"""A chunk is not spent from any longer than this, so that what was spent is told to the budget."""
OVERDUE_S = 2 * LIFE_S
"""Then a chunk is closed even if something of it is open as far as the book knows: the store knows better."""
IDLE_S = 1.0
"""What nobody spent from for so long is given back when another process asks for it."""

Key = tuple[str, str, int]
Answer = Callable[["Budget | None"], None]
"""Told when a need was met (None: look again) or refused (where the budget stands)."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What the desk is to take. ``rests``: own grants of the scope to be lowered first, by id, since none of them has enough left."""

    scope: str
    enough: int
    chunk: int
    rests: dict[str, int]
    needed: bool
    """True: somebody waits, so it is refused only after others were asked for what they do not use. False: ahead of need."""
    cap: Cap | None = None
    """What the budget begins with where there is none yet."""


class Desk(Protocol):
    """Who asks the store. What comes back is called on the loop thread."""

    def ask(self, ask: Ask, answered: Callable[[Ask, Grant | Budget], None]) -> None:
        """Takes a grant; ``answered`` follows once, however long the database is away."""
        ...

    def keep(self, amounts: dict[str, int]) -> None:
        """Lowers grants to these amounts."""
        ...

    def close(self, grant_ids: Sequence[str]) -> None:
        """Closes grants: nothing more is reserved from them, and what is settled of them goes to the budget, now or with a reaper's look."""
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
    """Reservations that are not settled."""
    ended: bool = False
    """True: not spent from any more; closed once nothing is open."""


@dataclass(slots=True)
class _Scope:
    chunks: list[_Chunk] = field(default_factory=list)
    waiting: list[tuple[int, Answer]] = field(default_factory=list)
    asking: bool = False
    calls: int = CALLS
    taken_at: float = float("-inf")
    worst: int = 0
    """The largest reservation that was asked for since the last chunk."""
    cap: Cap | None = None


class GrantBook:
    """What this process may spend, by scope. ``now`` is a monotonic clock, in seconds.

    At no moment do the reservations from a grant, settled ones at what they came to, exceed its amount, unless a call cost more than its worst case.
    """

    def __init__(self, desk: Desk, now: Callable[[], float]) -> None:
        self._desk, self._now = desk, now
        self._scopes: dict[str, _Scope] = {}
        self._chunks: dict[str, _Chunk] = {}
        self._held: dict[Key, list[tuple[str, int]]] = {}
        """Open reservations: from which grant, how much."""

    # -- looking -------------------------------------------------------------------------------------------------------

    def chunks(self, scope: str) -> tuple[tuple[str, int], ...]:
        """The grants that can be reserved from, oldest first, with what each has left."""
        held = self._scopes.get(scope)
        return tuple((one.grant.grant_id, one.left) for one in self._spendable(held)) if held else ()

    def available(self, scope: str) -> int:
        """The largest reservation that one grant has room for now."""
        return max((left for _, left in self.chunks(scope)), default=0)

    def holds_any(self) -> bool:
        """Whether there is anything that others could ask for."""
        return bool(self._chunks)

    def _spendable(self, held: _Scope) -> list[_Chunk]:
        until = self._now() - LIFE_S
        return [one for one in held.chunks if not one.ended and one.taken_at > until]

    # -- spending ------------------------------------------------------------------------------------------------------

    def spend(self, reservations: Iterable[Reservation]) -> None:
        """Takes reservations out of their grants: call it when the batch that journals them is handed over. ValueError, and nothing is
        taken, when one does not fit.
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
        """Puts reservations back whose batch was surely not written. Where that is not known, leave them: closing the grant counts what is there."""
        for one in reservations:
            self._settle((one.run_id, one.command_id, one.attempt), 0)

    def settled(self, settlements: Iterable[Settlement]) -> None:
        """Gives back what calls did not use: call it when the batch with these settlements has committed. Others' reservations are passed over."""
        for one in settlements:
            self._settle((one.run_id, one.command_id, one.attempt), one.usd_micros)

    def _settle(self, key: Key, amount: int | None) -> None:
        for grant_id, worst in self._held.pop(key, ()):
            chunk = self._chunks.get(grant_id)
            if chunk is not None:
                chunk.left += worst - (worst if amount is None else amount)
                chunk.open -= 1
                self._close_if_done([chunk])

    def gone(self, grant_ids: Iterable[str]) -> None:
        """Nothing more is spent from these: a batch was refused because one of them is not open (``Written.GRANT_GONE``). Unspend it first."""
        found = [self._chunks[grant_id] for grant_id in grant_ids if grant_id in self._chunks]
        for chunk in found:
            chunk.ended = True
        self._close_if_done(found)

    def lost(self) -> None:
        """The incarnation lost its lease: whatever it held is the reaper's."""
        self._forget(list(self._chunks.values()))
        self._held.clear()

    def _forget(self, chunks: Iterable[_Chunk]) -> None:
        for chunk in chunks:
            chunk.ended = True
            del self._chunks[chunk.grant.grant_id]
            self._scopes[chunk.grant.scope].chunks.remove(chunk)

    # -- asking --------------------------------------------------------------------------------------------------------

    def need(self, scope: str, amount: int, answer: Answer, cap: Cap | None = None) -> None:
        """``answer`` is called, never at once: with None when a reservation of ``amount`` may fit by now, else with where the budget stands.
        ``cap``: what the budget begins with where there is none yet.
        """
        held = self._scopes.setdefault(scope, _Scope())
        held.cap = cap or held.cap
        held.waiting.append((amount, answer))
        held.worst = max(held.worst, amount)
        if not held.asking:
            self._ask(scope, held, needed=True)

    def _ahead(self, scope: str, held: _Scope) -> None:
        """Asks for the next chunk when half of the last one is used; near the cap, where a chunk is one reservation, only when it is needed."""
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
        self._desk.ask(Ask(scope, enough, chunk, rests, needed, held.cap), self._asked)
        self._close_if_done(list(held.chunks))

    def _asked(self, ask: Ask, found: Grant | Budget) -> None:
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
        """Tells as many of those who wait, in their order, as there is room for."""
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

    def wanted(self, grant_ids: Iterable[str]) -> None:
        """Others have asked for these: what is not reserved of those that lie idle goes back."""
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
        """Ends a chunk; what it is to be lowered to."""
        chunk.amount -= max(0, chunk.left)
        chunk.left, chunk.ended = 0, True
        return chunk.amount

    def tick(self) -> None:
        """Ends what is over its time; call it every second or so."""
        until = self._now() - LIFE_S
        for chunk in self._chunks.values():
            if chunk.taken_at <= until:
                chunk.ended = True
        self._close_if_done(list(self._chunks.values()))
        # A batch whose fate was never told leaves its reservations here until their chunk is overdue.
        self._held = {
            key: held for key, held in self._held.items() if any(grant_id in self._chunks for grant_id, _ in held)
        }

    def end(self) -> None:
        """Closes every chunk: the process stops. What is still open is settled by whoever has the run then, or by the reaper."""
        self._close(list(self._chunks.values()))

    def _close_if_done(self, chunks: Sequence[_Chunk]) -> None:
        overdue = self._now() - OVERDUE_S
        self._close([one for one in chunks if one.ended and (not one.open or one.taken_at <= overdue)])

    def _close(self, chunks: Sequence[_Chunk]) -> None:
        if chunks:
            self._forget(chunks)
            self._desk.close([one.grant.grant_id for one in chunks])
