"""Foretells the circuit breakers after the end of a call: which calls they will refuse, and for how long."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from fabric.core.breaker.passing import (
    BreakerRefusal,
    BreakerRow,
    Gate,
    PassedBreaker,
    RowStep,
    judge_gate,
    open_by_counts,
    permits_out,
    spares,
)
from fabric.core.breaker.signals import ENDPOINT, NEUTRAL, RETRY_AT, passage, tallies, told_cooldown_us, too_early
from fabric.core.breaker.table import BreakerHappening, BreakerState, apply_happening, decode_standing
from fabric.core.spec.policies.breakers import SignalName
from fabric.core.values.frozen import replace


def open_breakers(
    met: Iterable[PassedBreaker], end: str, wait_us: int = 0
) -> Generator[RowStep, Any, tuple[BreakerRefusal, ...]]:
    """Return the breakers that are open once a call has ended so. ``end``: the name of its signal; ``wait_us``: the
    Retry-After that came with it.

    Probes are not among them (``reopen_breaker``). Moves nothing.
    """
    found = []
    for one in met:
        if one.probe or not one.gate.counts or not any(end in signal.names for signal in one.gate.breaker.signals):
            continue
        row = yield RowStep("look", one.gate.key)
        standing = decode_standing(row.state)
        if standing.state is BreakerState.CLOSED:
            row = _add_end(one, row, end, wait_us)
            opens = open_by_counts(one.gate, row, standing)
            if opens is None:
                continue
            standing, row = opens, replace(row, changed_at=row.asked_at)
        found.append(judge_gate(one.gate, row, standing))
    return tuple(found)


def foretell_refusal(gates: Iterable[Gate], met: Iterable[PassedBreaker], end: str) -> Generator[RowStep, Any, bool]:
    """Return True if one of these would refuse the next call, once this one has ended so. ``met``: the breakers
    that let this one pass; they do not know its end yet. Moves nothing and takes no permit, so the next call
    itself may find it otherwise.
    """
    passed = {one.gate.key: one for one in met}
    for gate in gates:
        row = yield RowStep("look", gate.key)
        before = passed.get(gate.key)
        if before is not None and before.probe:
            would = any(end in signal.names for signal in gate.breaker.signals)
        else:
            would = _refuses(gate, row if before is None else _add_end(before, row, end))
        if would:
            return True
    return False


def _refuses(gate: Gate, row: BreakerRow) -> bool:
    standing = decode_standing(row.state)
    if standing.state is BreakerState.CLOSED:
        return open_by_counts(gate, row, standing) is not None
    if spares(gate, standing):
        return False
    if standing.state is BreakerState.HALF_OPEN and len(permits_out(row)) >= gate.breaker.half_open_max:
        return True
    return passage(gate.breaker, standing, row.changed_at, row.asked_at, row.counts.get(RETRY_AT, 0)) == "refuse"


def _add_end(one: PassedBreaker, row: BreakerRow, end: str, wait_us: int = 0) -> BreakerRow:
    """Return the row once the end of a call that it let pass is counted."""
    if not one.gate.counts or end == NEUTRAL or row.generation != one.row.generation:
        return row
    counts = dict(row.counts)
    for tally in tallies(one.gate.breaker, ENDPOINT, SignalName(end) if end in list(SignalName) else None, wait_us):
        if tally.until:
            counts[tally.key] = max(counts.get(tally.key, 0), row.asked_at + tally.n) if tally.n else 0
        else:
            counts[tally.key] = tally.n if tally.reset else counts.get(tally.key, 0) + tally.n
    return replace(row, counts=counts)


def reopen_breaker(one: PassedBreaker, end: str, wait_us: int = 0) -> BreakerRefusal | None:
    """Return a breaker after a probe with that end and Retry-After; None: the end is none of its signals."""
    breaker, row = one.gate.breaker, one.row
    if not any(end in signal.names for signal in breaker.signals):
        return None
    before = decode_standing(row.state)
    early = too_early(breaker, before, wait_us)
    standing = apply_happening(breaker, before, BreakerHappening.PROBE_FAILED, early=early)
    told = row.asked_at + told_cooldown_us(breaker, wait_us, standing.early) if wait_us > 0 else 0
    counts = {**row.counts, RETRY_AT: max(row.counts.get(RETRY_AT, 0), told)}
    return judge_gate(one.gate, replace(row, changed_at=row.asked_at, counts=counts), standing)
