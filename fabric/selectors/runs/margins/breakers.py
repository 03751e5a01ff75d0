"""Read the shared circuit breaker that is nearest to opening before a run's calls, as a margin of its page.

All workers count together, so no run's journal has it. One statement reads the rows as they are now. A run that has
ended has none.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db.models import BigIntegerField, CharField, Q, SmallIntegerField, Value

from fabric.core.breaker.gates import row_scope
from fabric.core.breaker.table import BreakerState, Standing, decode_standing
from fabric.core.schema.limits import Unit
from fabric.core.spec.endpoints import list_names
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.breakers import Breaker, BreakerScope
from fabric.models import Guard, GuardChange, GuardCount
from fabric.selectors.models.breakers import SEVERITY, SignalCount, counted_now
from fabric.selectors.runs.lookup import RunView
from fabric.selectors.runs.margins.margin import Margin

SHARED_BREAKER = "Shared breaker"
"""The name of its margin."""
WORDS: Mapping[BreakerState, str] = {
    BreakerState.CLOSED: "",
    BreakerState.HALF_OPEN: "half open",
    BreakerState.OPEN: "open",
    BreakerState.STOPPED: "stopped",
}
"""The word for each standing of a breaker that is not closed; total over the states, by test."""
BECOMES: Mapping[BreakerState, str] = {
    BreakerState.CLOSED: "",
    BreakerState.HALF_OPEN: "probes alone pass",
    BreakerState.OPEN: "calls are refused",
    BreakerState.STOPPED: "calls are refused until a person resets it",
}
"""The consequence for the run's next call."""
Key = tuple[str, str]


@dataclass(slots=True)
class _BreakerRow:
    """A breaker's row and its counts, as they were read."""

    standing: Standing = field(default_factory=lambda: decode_standing(""))
    generation: int = 0
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def breaker_nearest(run: RunView, spec: FabricSpec, *, now: int | None = None) -> Margin | None:
    """Return the breaker in front of the run's calls that stops them, or is nearest to it.

    None where no row counts anything, or the run has ended. ``now``: microseconds since the epoch.
    """
    front = _list_front(run, spec)
    if run.terminal or not front:
        return None
    rows = _rows([(scope, one.kind) for scope, _, one in front], time.time_ns() // 1_000 if now is None else now)
    found = [
        margin
        for scope, called, one in front
        if (margin := _margin(scope, called, one, rows[scope, one.kind])) is not None
    ]
    return min(found, key=_order, default=None)


def _list_front(run: RunView, spec: FabricSpec) -> list[tuple[str, str, Breaker]]:
    """Return ``(scope of its row, called name, breaker)`` of each breaker in front of the run's calls."""
    return [
        (row_scope(one.scope, run.fabric_id, called), called, one)
        for one in spec.policy.breakers
        for called in filter(one.stands_before, list_names(one.scope, spec))
    ]


@dataclass(frozen=True, slots=True)
class BreakerThen:
    """A shared breaker at an instant of the past."""

    where: str
    scope: str
    kind: str
    standing: Standing | None
    """None: it changed since, and its log does not reach back so far."""

    @property
    def word(self) -> str:
        """Return its state in a word."""
        if self.standing is None:
            return "not kept"
        return WORDS[self.standing.state] or "closed"


def list_breakers_then(run: RunView, spec: FabricSpec, at: int) -> list[BreakerThen]:
    """Return the shared breakers in front of the run's calls, as they stood at an instant. No counts are kept of it."""
    front = _list_front(run, spec)
    if not front:
        return []
    mine = _match_keys([(scope, one.kind) for scope, _, one in front])
    now = {(row.scope, row.kind): row for row in Guard.objects.filter(mine)}
    changes = GuardChange.objects.filter(mine)
    before: dict[Key, Standing] = {}
    for one in changes.filter(at__lte=at).order_by("-at", "-generation")[:CHANGES_READ]:
        before.setdefault((one.scope, one.kind), decode_standing(one.state))
    # The log begins with the first change of all: it was closed before.
    for scope, kind in changes.filter(at__gt=at, generation=1).values_list("scope", "kind"):
        before.setdefault((scope, kind), Standing())
    return [
        BreakerThen(_say_where(one, called), *key, _stood(now.get(key), before.get(key), at))
        for scope, called, one in front
        for key in [(scope, one.kind)]
    ]


CHANGES_READ = 2_000
"""Changes that are looked at, over all breakers of one run."""


def _stood(row: Guard | None, before: Standing | None, at: int) -> Standing | None:
    if row is None:
        return Standing()
    return decode_standing(row.state) if row.changed_at <= at else before


def _order(margin: Margin) -> tuple[int, float, str]:
    standings = [WORDS[state] for state in SEVERITY]
    return (standings.index(margin.standing), -margin.share, margin.where)


def _margin(scope: str, called: str, breaker: Breaker, row: _BreakerRow) -> Margin | None:
    state = row.standing.state
    where = _say_where(breaker, called)
    at = (scope, breaker.kind)
    if state is not BreakerState.CLOSED:
        means = BECOMES[BreakerState.STOPPED if row.standing.held else state]
        return Margin(
            key=SHARED_BREAKER,
            name=SHARED_BREAKER,
            observed=1,
            limit=1,
            unit=Unit.COUNT_OR_SHARE,
            at_limit=means,
            where=where,
            row="circuit_breaker",
            standing=WORDS[state],
            shared=at,
        )
    together = [
        SignalCount(one, row.counts[one.key], row.counts[f"{one.key}:all"])
        for one in breaker.signals
        if not one.per_step
    ]
    nearest = max(together, key=lambda one: one.share, default=None)
    if nearest is None:
        return None
    rate = nearest.signal.mode == "rate"
    amounts = f"{nearest.count:,} of {nearest.calls:,} calls, " if rate else ""
    return Margin(
        key=SHARED_BREAKER,
        name=SHARED_BREAKER,
        observed=nearest.share / 100 if rate else nearest.count,
        limit=1 if rate else nearest.signal.threshold,
        unit=Unit.COUNT_OR_SHARE if rate else Unit.TIMES,
        at_limit=f"{nearest.words}, {amounts}{nearest.threshold_words}",
        where=where,
        trips_at_limit=True,
        row="circuit_breaker",
        shared=at,
    )


def _say_where(breaker: Breaker, called: str) -> str:
    return f"{breaker.scope} {called.replace('_', ' ') if breaker.scope is BreakerScope.STAGE else called}"


def _match_keys(keys: list[Key]) -> Q:
    scopes: dict[str, list[str]] = defaultdict(list)
    for scope, kind in keys:
        scopes[kind].append(scope)
    mine = Q()
    for kind, named in scopes.items():
        mine |= Q(kind=kind, scope__in=sorted(set(named)))
    return mine


def _rows(keys: list[Key], now: int) -> Mapping[Key, _BreakerRow]:
    """Return the rows and their counts, in one statement. A breaker that never changed has no row, and may
    have counts.
    """
    mine = _match_keys(keys)
    number, text = Value(0, BigIntegerField()), Value("", CharField())
    standings = Guard.objects.filter(mine).values_list(
        "scope", "kind", "state", "generation", text, Value(0, SmallIntegerField()), number, number
    )
    counts = GuardCount.objects.filter(mine).values_list(
        "scope", "kind", text, "generation", "signal", "ring", "slot_at", "n"
    )
    rows: dict[Key, _BreakerRow] = defaultdict(_BreakerRow)
    read = sorted(standings.union(counts, all=True), key=lambda one: bool(one[4]))  # The generation before its counts.
    for scope, kind, state, generation, signal, ring, slot_at, n in read:
        row = rows[scope, kind]
        if not signal:
            row.standing, row.generation = decode_standing(state), generation
        elif counted_now(ring, generation, slot_at, current=row.generation, now=now):
            row.counts[signal] += n
    return rows
