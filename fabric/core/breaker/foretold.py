"""Foretells the circuit breakers after the end of a call: which calls they will refuse, and for how long."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from fabric.core.breaker.passing import (
    Gate,
    Looked,
    Met,
    Row,
    Step,
    looked_at,
    opened_by_counts,
    permits_out,
    spares,
)
from fabric.core.breaker.policy import SignalName
from fabric.core.breaker.signals import ENDPOINT, NEUTRAL, RETRY_AT, passage, tallies, told_cooldown_us, too_early
from fabric.core.breaker.table import BreakerState, Happened, after, decoded
from fabric.core.frozen import replace


def opened(met: Iterable[Met], end: str, wait_us: int = 0) -> Generator[Step, Any, tuple[Looked, ...]]:
    """The breakers that are open once a call has ended so. ``end``: the name of its signal; ``wait_us``: the Retry-After that came with it.

    Probes are not among them (``reopened``). Moves nothing.
    """
    found = []
    for one in met:
        if one.probe or not one.gate.counts or not any(end in signal.names for signal in one.gate.breaker.signals):
            continue
        row = yield Step("look", one.gate.key)
        standing = decoded(row.state)
        if standing.state is BreakerState.CLOSED:
            row = _with_end(one, row, end, wait_us)
            opens = opened_by_counts(one.gate, row, standing)
            if opens is None:
                continue
            standing, row = opens, replace(row, changed_at=row.asked_at)
        found.append(looked_at(one.gate, row, standing))
    return tuple(found)


def refusing(gates: Iterable[Gate], met: Iterable[Met], end: str) -> Generator[Step, Any, bool]:
    """Returns True where one of these would refuse the next call, once this one has ended so. ``met``: the breakers that let this one pass; they do not
    know its end yet. Moves nothing and takes no permit, so the next call itself may find it otherwise.
    """
    passed = {one.gate.key: one for one in met}
    for gate in gates:
        row = yield Step("look", gate.key)
        before = passed.get(gate.key)
        if before is not None and before.probe:
            would = any(end in signal.names for signal in gate.breaker.signals)
        else:
            would = _refuses(gate, row if before is None else _with_end(before, row, end))
        if would:
            return True
    return False


def _refuses(gate: Gate, row: Row) -> bool:
    standing = decoded(row.state)
    if standing.state is BreakerState.CLOSED:
        return opened_by_counts(gate, row, standing) is not None
    if spares(gate, standing):
        return False
    if standing.state is BreakerState.HALF_OPEN and len(permits_out(row)) >= gate.breaker.half_open_max:
        return True
    return passage(gate.breaker, standing, row.changed_at, row.asked_at, row.counts.get(RETRY_AT, 0)) == "refuse"


def _with_end(one: Met, row: Row, end: str, wait_us: int = 0) -> Row:
    """The row as it will stand when the end of a call that it let pass is counted."""
    if not one.gate.counts or end == NEUTRAL or row.generation != one.row.generation:
        return row
    counts = dict(row.counts)
    for tally in tallies(one.gate.breaker, ENDPOINT, SignalName(end) if end in list(SignalName) else None, wait_us):
        if tally.until:
            counts[tally.key] = max(counts.get(tally.key, 0), row.asked_at + tally.n) if tally.n else 0
        else:
            counts[tally.key] = tally.n if tally.reset else counts.get(tally.key, 0) + tally.n
    return replace(row, counts=counts)


def reopened(one: Met, end: str, wait_us: int = 0) -> Looked | None:
    """A breaker after a probe that ended so and asked for such a wait; None: the end is none of its signals."""
    breaker, row = one.gate.breaker, one.row
    if not any(end in signal.names for signal in breaker.signals):
        return None
    before = decoded(row.state)
    early = too_early(breaker, before, wait_us)
    standing = after(breaker, before, Happened.PROBE_FAILED, early=early)
    told = row.asked_at + told_cooldown_us(breaker, wait_us, standing.early) if wait_us > 0 else 0
    counts = {**row.counts, RETRY_AT: max(row.counts.get(RETRY_AT, 0), told)}
    return looked_at(one.gate, replace(row, changed_at=row.asked_at, counts=counts), standing)
