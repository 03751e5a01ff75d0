"""Which circuit breakers stand in front of a call, and how a call passes them, as steps without input and output: whoever has the rows carries them out.

``passing``, ``refusing`` and ``settled`` are generators of ``Step``: the host takes each to ``adapters/guards.py`` and sends the answer back in; the simulator asks its
store at once. Changes are the row's, and its log's; a run's journal says what its own call met.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fabric.core.breaker.policy import PER_STEP, Breaker, SignalName
from fabric.core.breaker.signals import (
    ENDPOINT,
    NEUTRAL,
    OUTCOME,
    RETRY_AT,
    US,
    Neutral,
    Tally,
    cools_at,
    passage,
    tallies,
    told_cooldown_us,
    too_early,
    tripped,
)
from fabric.core.breaker.table import BreakerState, Happened, Standing, after, decoded, encoded
from fabric.core.frozen import value

LOOKS = 4
"""How often a row that somebody else changes at the same time is looked at before the call is refused."""
BUSY_US = 100_000
"""What a call waits at least that met such a row."""


class Row(Protocol):
    """A breaker's row that all workers share (``grant_ports.GuardRow``)."""

    @property
    def state(self) -> str:
        """Its standing as text."""
        ...

    @property
    def generation(self) -> int:
        """Grows with each change."""
        ...

    @property
    def changed_at(self) -> int:
        """Microseconds since the epoch."""
        ...

    @property
    def permits(self) -> Mapping[str, int]:
        """Who may probe, and until when, by holder."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """By signal, and ``RETRY_AT``."""
        ...

    @property
    def asked_at(self) -> int:
        """The store's instant of this."""
        ...


@value()
class Key:
    """Which row."""

    scope: str
    kind: str


@value()
class Gate:
    """One breaker in front of one call."""

    breaker: Breaker
    key: Key
    counts: bool
    """Whether the end of the call says something about what it stands in front of."""
    streaks: Mapping[SignalName, int]
    """What the call's own step has counted."""
    dear_passes: bool = False
    """True: a breaker that opened because money went out too fast does not refuse the call. A cheaper model makes it, it is a tool's, or a person let its run go on."""
    why: str = ""
    """Of a streak that is decided about now: the sentence of its trip."""
    last_word: bool = False
    """The call is an agent's last one and has no tools, so that it repeats no call: what repeated calls opened does not refuse it."""


@dataclass(frozen=True, slots=True)
class Met:
    """A breaker that let a call pass, as it stood."""

    gate: Gate
    row: Row
    probe: bool = False


@value(kw_only=True)
class Looked:
    """A breaker as a call met it: what the mechanism judges."""

    breaker: Breaker
    scope: str
    standing: Standing
    generation: int
    changed_at: int
    asked_at: int
    until: int = 0
    """When to ask again: its cooldown is over; while it is half open, the first permit that is out runs out; and not before its endpoint's Retry-After."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do with a row. ``look`` is answered with the Row; ``left`` with what is left of the budget of that scope, micro-dollars, None where there is none;
    ``change`` and ``permit`` with whether it was done; the others with nothing.

    Of a change: only for whoever has a permit (``held``), the others' permits going on (``keeps``). Of a permit: one of ``most``.
    """

    do: Literal["look", "left", "change", "permit", "give_up", "count"]
    key: Key
    row: Row | None = None
    state: str = ""
    tally: Tally | None = None
    held: bool = False
    keeps: bool = False
    most: int = 1


Settling = Generator[Step, Any, None]
Steps = Generator[Step, Any, "tuple[Met, ...] | Looked"]


def passing(gates: Iterable[Gate]) -> Steps:
    """Takes a call past its breakers: all of them, as they stood; or the first that refuses it. What was permitted before is given back then."""
    met: list[Met] = []
    for gate in gates:
        one = yield from _pass(gate)
        if one is None:
            continue
        if isinstance(one, Looked):
            for earlier in met:
                if earlier.probe:
                    yield Step("give_up", earlier.gate.key, earlier.row)
            return one
        met.append(one)
    return tuple(met)


def _pass(gate: Gate) -> Generator[Step, Any, Met | Looked | None]:
    breaker, row = gate.breaker, None
    for _ in range(LOOKS):
        row = yield Step("look", gate.key)
        standing = decoded(row.state)
        if standing.state is BreakerState.CLOSED:
            opened = opened_by_counts(gate, row, standing)
            if opened is None:
                return Met(gate, row)
            yield Step("change", gate.key, row, encoded(opened))
            continue
        if gate.last_word and standing.signal == SignalName.IDENTICAL_CALL:
            return None
        if spares(gate, standing):
            return Met(gate, row)
        may = passage(breaker, standing, row.changed_at, row.asked_at, row.counts.get(RETRY_AT, 0))
        if may == "refuse":
            return looked_at(gate, row, standing)
        if standing.state is BreakerState.OPEN:
            yield Step("change", gate.key, row, encoded(after(breaker, standing, Happened.COOLED)), keeps=True)
        elif (yield Step("permit", gate.key, row, most=breaker.half_open_max)):
            return Met(gate, row, probe=True)
        else:
            row = yield Step("look", gate.key)
            standing = decoded(row.state)
            if standing.state is BreakerState.HALF_OPEN and len(permits_out(row)) >= breaker.half_open_max:
                return looked_at(gate, row, standing)
    assert row is not None
    return looked_at(gate, row, decoded(row.state))


def spares(gate: Gate, standing: Standing) -> bool:
    """Returns True where the call may pass although the breaker is open: it opened over money, and the call is cheaper or allowed."""
    return gate.dear_passes and standing.signal == SignalName.COST_RATE


def permits_out(row: Row) -> list[int]:
    """When the permits that are out run out."""
    return sorted(until for until in row.permits.values() if until > row.asked_at)


def opened_by_counts(gate: Gate, row: Row, standing: Standing) -> Standing | None:
    """Where it stands when a signal has reached its threshold; None: none has."""
    counts = {
        **row.counts,
        **{one.key: gate.streaks.get(one.names[0], 0) for one in gate.breaker.signals if one.per_step},
    }
    found = tripped(gate.breaker, counts)
    if found is None:
        return None
    return after(
        gate.breaker,
        standing,
        Happened.TRIPPED,
        signal=found.parts[0][0],
        failures=found.failures,
        threshold=found.signal.threshold,
        reason=gate.why,
        parts=found.parts if len(found.parts) > 1 else (),
    )


def looked_at(gate: Gate, row: Row, standing: Standing) -> Looked:
    """The breaker that refuses a call, with the instant at which to ask again."""
    retry_at = row.counts.get(RETRY_AT, 0)
    until = cools_at(gate.breaker, row.changed_at, retry_at) if standing.state is BreakerState.OPEN else 0
    if standing.state in (BreakerState.HALF_OPEN, BreakerState.CLOSED):
        # A probe may have its permit for as long as a call may take; most are over long before.
        cooldown_us, live = round(gate.breaker.cooldown_s * US), permits_out(row)
        first_free = live[0] if len(live) >= gate.breaker.half_open_max else row.asked_at
        until = max(row.asked_at + max(BUSY_US, min(first_free - row.asked_at, cooldown_us)), retry_at)
    return Looked(
        breaker=gate.breaker,
        scope=gate.key.scope,
        standing=standing,
        generation=row.generation,
        changed_at=row.changed_at,
        asked_at=row.asked_at,
        until=until,
    )


def settled(
    met: Iterable[Met], end: SignalName | Neutral | None, bad: frozenset[SignalName], wait_us: int = 0
) -> Settling:
    """What the end of a call says to the breakers that let it pass. ``end``: a signal, None for an endpoint that answered, or neutral; ``bad``: what its
    step counted of this answer; ``wait_us``: of the Retry-After that a failure told. A probe closes or opens its breaker; what was let through in an older
    generation changes nothing but how long it stays open.
    """
    for one in met:
        breaker, row = one.gate.breaker, one.row
        watched = frozenset(name for signal in breaker.signals for name in signal.names)
        if one.probe:
            failed = end in watched or bool(bad & watched & PER_STEP)
            if end == NEUTRAL and not failed:
                yield Step("give_up", one.gate.key, row)
                continue
            if end in watched and wait_us > 0:
                # Told before it opens again, so that it is never open without.
                before = decoded(row.state)
                failures = before.early + too_early(breaker, before, wait_us)
                wait = Tally(key=RETRY_AT, n=told_cooldown_us(breaker, wait_us, failures), until=True)
                yield Step("count", one.gate.key, row, tally=wait)
            yield from _probe_ended(one, Happened.PROBE_FAILED if failed else Happened.PROBE_PASSED, wait_us)
        elif one.gate.counts and end != NEUTRAL:
            for tally in tallies(breaker, ENDPOINT, end if isinstance(end, SignalName) else None, wait_us):
                yield Step("count", one.gate.key, row, tally=tally)
            yield from _opened_by(one, end)


def _opened_by(one: Met, end: SignalName | Neutral | None) -> Settling:
    """Opens the breaker where a failure was the one too many: its cooldown begins now, and not with the next call, which may be days off. What other workers
    have counted and not told yet is not in the row; where that is what was missing, the next call opens it.
    """
    if not any(end in signal.names for signal in one.gate.breaker.signals):
        return
    yield from tripping((one.gate,))


@value()
class Judged:
    """What the gate of a stage found of an agent's output, for one breaker."""

    gate: Gate
    violated: bool
    """True: an invariant does not hold. False: all of them do."""


def judging(found: Iterable[Judged]) -> Settling:
    """Counts what gates found, and opens the breakers whose counts have reached a threshold. One that is open is told nothing."""
    for one in found:
        row = yield Step("look", one.gate.key)
        if decoded(row.state).state is not BreakerState.CLOSED:
            continue
        for tally in tallies(one.gate.breaker, OUTCOME, SignalName.INVARIANT if one.violated else None):
            yield Step("count", one.gate.key, row, tally=tally)
        if one.violated:
            yield from tripping((one.gate,))


def tripping(gates: Iterable[Gate]) -> Settling:
    """Opens those of the breakers whose counts have reached a threshold, without waiting for a further call."""
    for gate in gates:
        row = yield Step("look", gate.key)
        standing = decoded(row.state)
        opened = opened_by_counts(gate, row, standing) if standing.state is BreakerState.CLOSED else None
        if opened is not None:
            yield Step("change", gate.key, row, encoded(opened))


def _probe_ended(one: Met, happened: Happened, wait_us: int) -> Settling:
    """Moves the breaker by what a probe found. Another probe that ended meanwhile has made the next generation, in which this one's permit goes on. So
    never more are out than may be. It counts where the other had passed, and is given back where it had failed. Without a permit, because it ran out and
    went to somebody else or the breaker closed, a probe changes nothing.
    """
    row, key, met = one.row, one.gate.key, decoded(one.row.state)
    for _ in range(LOOKS + one.gate.breaker.half_open_max):
        standing = decoded(row.state)
        if standing.state is not BreakerState.HALF_OPEN or (standing.trips, standing.early) != (met.trips, met.early):
            break
        early = happened is Happened.PROBE_FAILED and too_early(one.gate.breaker, standing, wait_us)
        reached = after(one.gate.breaker, standing, happened, early=early)
        keeps = reached.state is not BreakerState.CLOSED
        if (yield Step("change", key, row, encoded(reached), held=True, keeps=keeps)):
            return
        row, seen = (yield Step("look", key)), row
        if row.generation == seen.generation:  # The row stands as it was: it is the permit that is gone.
            return
    yield Step("give_up", key, row)
