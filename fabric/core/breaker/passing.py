"""Passes a call through its circuit breakers, as steps without input and output. The caller with access to the rows
executes the steps.

``pass_breakers``, ``trip_breakers`` and ``settle_breakers`` are generators of ``RowStep``. The host takes each step to
``worker/spending/guards.py`` and sends the answer back in; the simulator uses its store at once. Changes are recorded
in the row and its log. A run's journal has the findings on its own call.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Any, Literal, Protocol

from fabric.core.breaker.signals import (
    ENDPOINT,
    NEUTRAL,
    OUTCOME,
    RETRY_AT,
    CountChange,
    Neutral,
    cools_at,
    find_tripped,
    passage,
    tallies,
    told_cooldown_us,
    too_early,
)
from fabric.core.breaker.table import (
    BreakerHappening,
    BreakerState,
    Standing,
    apply_happening,
    decode_standing,
    encode_standing,
)
from fabric.core.spec.policies.breakers import PER_STEP, Breaker, SignalName
from fabric.core.values.frozen import value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.units import US

LOOKS = 4
"""Reads of a row that others change at the same time, before the call is refused."""
BUSY_US = 100_000
"""Shortest wait of a call that met such a row, in microseconds."""


class BreakerRow(Protocol):
    """A breaker's row that all workers share (``runtime.ports.spending.GuardRow``)."""

    @property
    def state(self) -> str:
        """Its state as text."""
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
        """Probe permits that are out: expiry by holder."""
        ...

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts by signal, and ``RETRY_AT``."""
        ...

    @property
    def asked_at(self) -> int:
        """The store's instant at which the call asked."""
        ...


@value()
class BreakerKey:
    """Key of a breaker's row."""

    scope: str
    kind: str


@value()
class Gate:
    """One breaker in front of one call."""

    breaker: Breaker
    key: BreakerKey
    counts: bool
    """True if the result of the call counts for the breaker."""
    streaks: Mapping[SignalName, int]
    """Counts of the call's own step, by signal."""
    dear_passes: bool = False
    """True: a breaker that opened over money does not refuse the call. A cheaper model makes it, it is a tool's, or
    a person let its run go on.
    """
    why: str = ""
    """Message of the trip for a streak that is decided about now; "": none."""
    last_word: bool = False
    """True: the call is an agent's last one, without tools. It repeats no call, so a breaker that opened over
    repeated calls does not refuse it.
    """


@value()
class PassedBreaker:
    """A breaker that let a call pass, as it stood."""

    gate: Gate
    row: BreakerRow
    probe: bool = False


@value(kw_only=True)
class BreakerRefusal:
    """An open breaker as a call met it, for the mechanism's verdict."""

    breaker: Breaker
    scope: str
    standing: Standing
    generation: int
    changed_at: int
    asked_at: int
    until: int = 0
    """Instant at which to try again: after the cooldown or, while it is half open, after the first permit expires. It
    is never before the endpoint's Retry-After.
    """


@value()
class RowStep:
    """An operation on a row. ``look`` returns the Row; ``left`` the micro-dollars left in that scope's budget, None
    without one; ``change`` and ``permit`` True if done; the others nothing.

    For ``change``: ``held`` requires that the caller has a permit, ``keeps`` leaves the others' permits valid. For
    ``permit``: ``most`` limits the permits that are out.
    """

    do: Literal["look", "left", "change", "permit", "give_up", "count"]
    key: BreakerKey
    row: BreakerRow | None = None
    state: str = ""
    tally: CountChange | None = None
    held: bool = False
    keeps: bool = False
    most: int = 1


Settling = Generator[RowStep, Any, None]
Steps = Generator[RowStep, Any, "tuple[PassedBreaker, ...] | BreakerRefusal"]


def pass_breakers(gates: Iterable[Gate]) -> Steps:
    """Pass a call through its breakers. Returns all of them, as they stood, or the first that refuses the call;
    permits from earlier ones are given back then.
    """
    met: list[PassedBreaker] = []
    for gate in gates:
        one = yield from _pass(gate)
        if one is None:
            continue
        if isinstance(one, BreakerRefusal):
            for earlier in met:
                if earlier.probe:
                    yield RowStep("give_up", earlier.gate.key, earlier.row)
            return one
        met.append(one)
    return tuple(met)


def _pass(gate: Gate) -> Generator[RowStep, Any, PassedBreaker | BreakerRefusal | None]:
    breaker, row = gate.breaker, None
    for _ in range(LOOKS):
        row = yield RowStep("look", gate.key)
        standing = decode_standing(row.state)
        if standing.state is BreakerState.CLOSED:
            opened = open_by_counts(gate, row, standing)
            if opened is None:
                return PassedBreaker(gate, row)
            yield RowStep("change", gate.key, row, encode_standing(opened))
            continue
        if gate.last_word and standing.signal == SignalName.IDENTICAL_CALL:
            return None
        if spares(gate, standing):
            return PassedBreaker(gate, row)
        may = passage(breaker, standing, row.changed_at, row.asked_at, row.counts.get(RETRY_AT, 0))
        if may == "refuse":
            return judge_gate(gate, row, standing)
        if standing.state is BreakerState.OPEN:
            yield RowStep(
                "change",
                gate.key,
                row,
                encode_standing(apply_happening(breaker, standing, BreakerHappening.COOLED)),
                keeps=True,
            )
        elif (yield RowStep("permit", gate.key, row, most=breaker.half_open_max)):
            return PassedBreaker(gate, row, probe=True)
        else:
            row = yield RowStep("look", gate.key)
            standing = decode_standing(row.state)
            if standing.state is BreakerState.HALF_OPEN and len(permits_out(row)) >= breaker.half_open_max:
                return judge_gate(gate, row, standing)
    assert row is not None
    return judge_gate(gate, row, decode_standing(row.state))


def spares(gate: Gate, standing: Standing) -> bool:
    """Return True if the call may pass an open breaker. The breaker opened over money, and the call is cheaper or
    allowed.
    """
    return gate.dear_passes and standing.signal == SignalName.COST_RATE


def permits_out(row: BreakerRow) -> list[int]:
    """Return the instants at which the permits that are out expire."""
    return sorted(until for until in row.permits.values() if until > row.asked_at)


def open_by_counts(gate: Gate, row: BreakerRow, standing: Standing) -> Standing | None:
    """Return the breaker's new state if a signal has reached its threshold; None: none has."""
    counts = {
        **row.counts,
        **{one.key: gate.streaks.get(one.names[0], 0) for one in gate.breaker.signals if one.per_step},
    }
    found = find_tripped(gate.breaker, counts)
    if found is None:
        return None
    return apply_happening(
        gate.breaker,
        standing,
        BreakerHappening.TRIPPED,
        signal=found.parts[0][0],
        failures=found.failures,
        threshold=found.signal.threshold,
        reason=gate.why,
        parts=found.parts if len(found.parts) > 1 else (),
    )


def judge_gate(gate: Gate, row: BreakerRow, standing: Standing) -> BreakerRefusal:
    """Return the refusal of a call by this gate's breaker, with the instant at which to ask again."""
    retry_at = row.counts.get(RETRY_AT, 0)
    until = cools_at(gate.breaker, row.changed_at, retry_at) if standing.state is BreakerState.OPEN else 0
    if standing.state in (BreakerState.HALF_OPEN, BreakerState.CLOSED):
        # A probe may own its permit for as long as a call may take; most calls are shorter.
        cooldown_us, live = round(gate.breaker.cooldown_s * US), permits_out(row)
        first_free = live[0] if len(live) >= gate.breaker.half_open_max else row.asked_at
        until = max(row.asked_at + max(BUSY_US, min(first_free - row.asked_at, cooldown_us)), retry_at)
    return BreakerRefusal(
        breaker=gate.breaker,
        scope=gate.key.scope,
        standing=standing,
        generation=row.generation,
        changed_at=row.changed_at,
        asked_at=row.asked_at,
        until=until,
    )


@keep_results
def _list_watched(breaker: Breaker) -> frozenset[SignalName]:
    return frozenset(name for signal in breaker.signals for name in signal.names)


def settle_breakers(
    met: Iterable[PassedBreaker], end: SignalName | Neutral | None, bad: frozenset[SignalName], wait_us: int = 0
) -> Settling:
    """Report the end of a call to the breakers that it passed. ``end``: a signal, None for an endpoint that
    answered, or neutral; ``bad``: signals that its step counted for this answer; ``wait_us``: Retry-After of a
    failure. A probe closes or opens its breaker. A call from an older generation changes only the time for which
    the breaker stays open.
    """
    for one in met:
        breaker, row = one.gate.breaker, one.row
        watched = _list_watched(breaker)
        if one.probe:
            failed = end in watched or bool(bad & watched & PER_STEP)
            if end == NEUTRAL and not failed:
                yield RowStep("give_up", one.gate.key, row)
                continue
            if end in watched and wait_us > 0:
                # Recorded before the breaker opens again, so that it is never open without it.
                before = decode_standing(row.state)
                failures = before.early + too_early(breaker, before, wait_us)
                wait = CountChange(key=RETRY_AT, n=told_cooldown_us(breaker, wait_us, failures), until=True)
                yield RowStep("count", one.gate.key, row, tally=wait)
            yield from _probe_ended(
                one, BreakerHappening.PROBE_FAILED if failed else BreakerHappening.PROBE_PASSED, wait_us
            )
        elif one.gate.counts and end != NEUTRAL:
            for tally in tallies(breaker, ENDPOINT, end if isinstance(end, SignalName) else None, wait_us):
                yield RowStep("count", one.gate.key, row, tally=tally)
            yield from _open_for(one, end)


def _open_for(one: PassedBreaker, end: SignalName | Neutral | None) -> Settling:
    """Open the breaker if this failure reached a threshold. So its cooldown begins now, and not with the next call,
    which may be days away. Counts that other workers have not written yet are missing from the row; then the next
    call opens the breaker.
    """
    if not any(end in signal.names for signal in one.gate.breaker.signals):
        return
    yield from trip_breakers((one.gate,))


@value()
class GateFinding:
    """A stage gate's finding on an agent's output, for one breaker."""

    gate: Gate
    violated: bool
    """True: an invariant does not hold. False: all of them do."""


def count_findings(found: Iterable[GateFinding]) -> Settling:
    """Count the findings of gates, and open the breakers whose counts reach a threshold. An open breaker counts
    nothing.
    """
    for one in found:
        row = yield RowStep("look", one.gate.key)
        if decode_standing(row.state).state is not BreakerState.CLOSED:
            continue
        for tally in tallies(one.gate.breaker, OUTCOME, SignalName.INVARIANT if one.violated else None):
            yield RowStep("count", one.gate.key, row, tally=tally)
        if one.violated:
            yield from trip_breakers((one.gate,))


def trip_breakers(gates: Iterable[Gate]) -> Settling:
    """Open those of the breakers whose counts have reached a threshold, without waiting for a further call."""
    for gate in gates:
        row = yield RowStep("look", gate.key)
        standing = decode_standing(row.state)
        opened = open_by_counts(gate, row, standing) if standing.state is BreakerState.CLOSED else None
        if opened is not None:
            yield RowStep("change", gate.key, row, encode_standing(opened))


def _probe_ended(one: PassedBreaker, happened: BreakerHappening, wait_us: int) -> Settling:
    """Move the breaker by the result of a probe. Another probe that ended meanwhile has made the next generation, in
    which this one's permit stays valid, so that never too many are out. Then the result counts if the other probe
    passed, and the permit is given back if it failed. Without a valid permit (it expired and another call got it,
    or the breaker closed) a probe changes nothing.
    """
    row, key, met = one.row, one.gate.key, decode_standing(one.row.state)
    for _ in range(LOOKS + one.gate.breaker.half_open_max):
        standing = decode_standing(row.state)
        if standing.state is not BreakerState.HALF_OPEN or (standing.trips, standing.early) != (met.trips, met.early):
            break
        early = happened is BreakerHappening.PROBE_FAILED and too_early(one.gate.breaker, standing, wait_us)
        reached = apply_happening(one.gate.breaker, standing, happened, early=early)
        keeps = reached.state is not BreakerState.CLOSED
        if (yield RowStep("change", key, row, encode_standing(reached), held=True, keeps=keeps)):
            return
        row, seen = (yield RowStep("look", key)), row
        if row.generation == seen.generation:  # The row is unchanged, so the permit is gone.
            return
    yield RowStep("give_up", key, row)
