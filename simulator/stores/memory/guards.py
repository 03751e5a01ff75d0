"""Retry tokens and guard rows in memory: the contract of the real stores, on a given clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import RLock

from fabric.core.values.units import US
from fabric.runtime.ports.journal import Clock
from fabric.runtime.ports.spending import GuardChanged, GuardRow, RunLine, SignalCount, TokenAsk, TokensLeft
from fabric.runtime.spending import rules


@dataclass(slots=True)
class _Guard:
    state: str = ""
    generation: int = 0
    changed_at: int = 0
    permits: dict[str, int] = field(default_factory=dict)
    counts: dict[tuple[str, int], int] = field(default_factory=dict)
    """Counts by signal and slot; slot -1 for signals without a window."""
    instants: dict[str, int] = field(default_factory=dict)
    """Instants by signal, of any generation."""


class MemoryGuards:
    """``ports.spending.BucketStore`` and ``GuardStore`` in dicts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[str, tuple[int, int]] = {}
        self._guards: dict[tuple[str, str], _Guard] = {}
        self._changes: list[tuple[tuple[str, str], GuardChanged]] = []
        self._lock = RLock()

    # -- retry tokens --------------------------------------------------------------------------------------------------

    def retry(self, asks: Sequence[TokenAsk], *, first_in_stage: bool) -> TokensLeft:
        """See ``ports.spending.BucketStore``."""
        with self._lock:
            now = self._clock.now()
            judged = [(ask, *self._judge_token(ask, first_in_stage, now)) for ask in asks]
            given = all(gives is not False for _, _, gives in judged)
            for ask, balance, gives in judged:
                credited = now if given and gives is None else self._bucket(ask)[1]
                self._buckets[ask.scope] = (balance - rules.TOKEN * given, credited)
            return TokensLeft(given, {ask.scope: self._buckets[ask.scope][0] for ask in asks})

    def _bucket(self, ask: TokenAsk) -> tuple[int, int]:
        return self._buckets.get(ask.scope, (ask.size, 0))

    def _judge_token(self, ask: TokenAsk, first_in_stage: bool, now: int) -> tuple[int, bool | None]:
        level, credited_at = self._bucket(ask)
        return rules.token(level, credited_at, size=ask.size, earned=ask.earned, first_in_stage=first_in_stage, now=now)

    def earn(self, asks: Sequence[TokenAsk]) -> None:
        """See ``ports.spending.BucketStore``."""
        with self._lock:
            for ask in asks:
                level, credited_at = self._bucket(ask)
                self._buckets[ask.scope] = (min(ask.size, level + ask.earned), credited_at)

    # -- guard rows ----------------------------------------------------------------------------------------------------

    def guards(self, keys: Sequence[tuple[str, str]]) -> list[GuardRow]:
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            now = self._clock.now()
            return [self._row(scope, kind, now) for scope, kind in keys]

    def _row(self, scope: str, kind: str, now: int) -> GuardRow:
        held = self._guards.get((scope, kind)) or _Guard()
        counts: dict[str, int] = {}
        for (signal, slot_at), n in held.counts.items():
            if slot_at < 0 or rules.counts_still(slot_at, now):
                counts[signal] = counts.get(signal, 0) + n
        counts |= held.instants
        return GuardRow(
            scope=scope,
            kind=kind,
            state=held.state,
            generation=held.generation,
            changed_at=held.changed_at,
            permits=dict(held.permits),
            counts=counts,
            asked_at=now,
        )

    def tell(self, counts: Sequence[SignalCount]) -> None:
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            now = self._clock.now()
            slot = rules.find_slot(now)
            for one in counts:
                held = self._guards.setdefault((one.scope, one.kind), _Guard())
                if one.until:
                    before = 0 if one.reset and held.generation == one.generation else held.instants.get(one.signal, 0)
                    held.instants[one.signal] = max(before, now + one.n if one.n else 0)
                    continue
                if held.generation != one.generation:
                    continue
                key = (one.signal, slot if one.windowed else -1)
                held.counts[key] = one.n if one.reset else held.counts.get(key, 0) + one.n

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
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            held = self._guards.setdefault((scope, kind), _Guard())
            if held.generation != generation or (holder and holder not in held.permits):
                return False
            now = self._clock.now()
            kept = {one: until for one, until in held.permits.items() if keeps and one != holder}
            self._guards[scope, kind] = _Guard(state, generation + 1, now, kept, instants=held.instants)
            self._changes.append(((scope, kind), GuardChanged(generation + 1, state, now)))
            return True

    def changes(self, scope: str, kind: str) -> list[GuardChanged]:
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            return [change for key, change in self._changes if key == (scope, kind)]

    def permit(self, scope: str, kind: str, *, generation: int, holder: str, for_s: float, most: int = 1) -> bool:
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            now, held = self._clock.now(), self._guards.get((scope, kind))
            if held is None or not held.generation or held.generation != generation:
                return False
            live = {one: until for one, until in held.permits.items() if until > now}
            if holder in live or len(live) >= most or any(until > now for until in held.instants.values()):
                return False
            held.permits = live | {holder: now + round(for_s * US)}
            return True

    def give_up(self, scope: str, kind: str, *, holder: str) -> bool:
        """See ``ports.spending.GuardStore``."""
        with self._lock:
            held = self._guards.get((scope, kind))
            return held is not None and held.permits.pop(holder, None) is not None
