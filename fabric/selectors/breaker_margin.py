"""The shared circuit breaker that is nearest to opening in front of a run's calls, as a margin of the run's page.

What all workers count together is no run's to know: it is read from the rows, in one statement, and is of the moment and not of the run's last event. So a run
that has ended has none.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import BigIntegerField, CharField, Q, SmallIntegerField, Value

from fabric.core.breaker.gates import row_scope
from fabric.core.breaker.policy import Breaker, BreakerScope
from fabric.core.breaker.table import BreakerState, Standing, decoded
from fabric.core.spec import FabricSpec
from fabric.core.spec_breakers import names_of
from fabric.models import Guard, GuardCount
from fabric.selectors.breakers import SEVERITY, Counted, counted_now
from fabric.selectors.margin import Margin
from fabric.selectors.runs import RunView

SHARED_BREAKER = "shared breaker"
"""What its margin is called."""
WORDS: Mapping[BreakerState, str] = {
    BreakerState.CLOSED: "",
    BreakerState.HALF_OPEN: "half open",
    BreakerState.OPEN: "open",
    BreakerState.STOPPED: "stopped",
}
"""A breaker that is not closed is told by its standing; total over the states, by test."""
BECOMES: Mapping[BreakerState, str] = {
    BreakerState.CLOSED: "",
    BreakerState.HALF_OPEN: "probes alone pass",
    BreakerState.OPEN: "calls are refused",
    BreakerState.STOPPED: "calls are refused until somebody resets it",
}
"""What that means for the run's next call."""
Key = tuple[str, str]


@dataclass(slots=True)
class _Row:
    """A breaker's row and its counts, as they were read."""

    standing: Standing = field(default_factory=lambda: decoded(""))
    generation: int = 0
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def breaker_nearest(run: RunView, spec: FabricSpec, *, now: int | None = None) -> Margin | None:
    """Of the breakers that a call of the run may meet, the one that stops calls, or else is nearest to it. ``now``: microseconds since the epoch.

    None: there is none whose rows count anything, or the run has ended.
    """
    front = [
        (row_scope(one.scope, run.fabric_id, called), called, one)
        for one in spec.policy.breakers
        for called in filter(one.before, names_of(one.scope, spec))
    ]
    if run.terminal or not front:
        return None
    rows = _rows([(scope, one.kind) for scope, _, one in front], time.time_ns() // 1_000 if now is None else now)
    found = [
        margin
        for scope, called, one in front
        if (margin := _margin(scope, called, one, rows[scope, one.kind])) is not None
    ]
    return min(found, key=_order, default=None)


def _order(margin: Margin) -> tuple[int, float, str]:
    standings = [WORDS[state] for state in SEVERITY]
    return (standings.index(margin.standing), -margin.share, margin.where)


def _margin(scope: str, called: str, breaker: Breaker, row: _Row) -> Margin | None:
    state = row.standing.state
    where = f"{breaker.scope} {called.replace('_', ' ') if breaker.scope is BreakerScope.STAGE else called}"
    at = (scope, breaker.kind)
    if state is not BreakerState.CLOSED:
        means = BECOMES[BreakerState.STOPPED if row.standing.held else state]
        return Margin(
            name=SHARED_BREAKER,
            observed=1,
            limit=1,
            unit="share",
            at_limit=means,
            where=where,
            row="circuit_breaker",
            standing=WORDS[state],
            shared=at,
        )
    together = [
        Counted(one, row.counts[one.key], row.counts[f"{one.key}:all"]) for one in breaker.signals if not one.per_step
    ]
    nearest = max(together, key=lambda one: one.share, default=None)
    if nearest is None:
        return None
    rate = nearest.signal.mode == "rate"
    amounts = f"{nearest.count:,} of {nearest.calls:,} calls, " if rate else ""
    return Margin(
        name=SHARED_BREAKER,
        observed=nearest.share / 100 if rate else nearest.count,
        limit=1 if rate else nearest.signal.threshold,
        unit="share" if rate else "count",
        at_limit=f"{nearest.words}, {amounts}{nearest.said}",
        where=where,
        trips_at_limit=True,
        row="circuit_breaker",
        shared=at,
    )


def _rows(keys: list[Key], now: int) -> Mapping[Key, _Row]:
    """The rows and their counts, in one statement: a row that nobody has moved is not there, and may have counts all the same."""
    scopes: dict[str, list[str]] = defaultdict(list)
    for scope, kind in keys:
        scopes[kind].append(scope)
    mine = Q()
    for kind, named in scopes.items():
        mine |= Q(kind=kind, scope__in=sorted(set(named)))
    number, text = Value(0, BigIntegerField()), Value("", CharField())
    standings = Guard.objects.filter(mine).values_list(
        "scope", "kind", "state", "generation", text, Value(0, SmallIntegerField()), number, number
    )
    counts = GuardCount.objects.filter(mine).values_list(
        "scope", "kind", text, "generation", "signal", "ring", "slot_at", "n"
    )
    rows: dict[Key, _Row] = defaultdict(_Row)
    read = sorted(standings.union(counts, all=True), key=lambda one: bool(one[4]))  # The generation before its counts.
    for scope, kind, state, generation, signal, ring, slot_at, n in read:
        row = rows[scope, kind]
        if not signal:
            row.standing, row.generation = decoded(state), generation
        elif counted_now(ring, generation, slot_at, current=row.generation, now=now):
            row.counts[signal] += n
    return rows
