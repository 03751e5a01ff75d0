"""The circuit breakers of a workspace: their state, their distance from opening, and their last changes.

The published revisions declare them; a row that an earlier revision's policy left is among them. A provider's row is
shared by all fabrics that use that provider: each of their workspaces shows it.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from django.db.models import Q
from pydantic import ValidationError

from fabric.core.breaker.gates import row_scope
from fabric.core.breaker.signals import RETRY_AT, cools_at
from fabric.core.breaker.table import FORCED, BreakerState, Standing, decode_standing
from fabric.core.people.actor import Actor
from fabric.core.spec.endpoints import list_names
from fabric.core.spec.policies.breakers import KIND, Breaker, BreakerScope, Signal
from fabric.core.values.units import US
from fabric.models import Fabric, Guard, GuardChange, GuardCount, Revision
from fabric.runtime.spending.rules import UNTIL_RING, counts_still
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reach import match_visible

DAY_US = 86_400 * US
CHANGES_SHOWN = 5
LOG_MAX = 2_000
"""Largest number of the log's newest lines that are read."""
REVISIONS_MAX = 20
"""Number of earlier revisions of a fabric in which a row's breaker is looked for."""
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class SignalCount:
    """One signal of a breaker with its count."""

    signal: Signal
    count: int
    calls: int
    """Number of all calls in the window of a rate."""

    @property
    def words(self) -> str:
        """Return the counted events in words."""
        return " or ".join(name.replace("_", " ") for name in self.signal.names)

    @property
    def threshold_words(self) -> str:
        """Return the threshold at which it opens, in words."""
        one = self.signal
        if one.mode == "rate":
            return f"opens above {one.threshold:.0%} of at least {one.min_calls} call{'s' if one.min_calls != 1 else ''} in {one.window_s:g} s"
        how = {"consecutive": "in a row", "window": f"in {one.window_s:g} s", "cumulative": "since it closed last"}
        return f"opens at {one.threshold:g} {how[one.mode]}{', within one step' if one.per_step else ''}"

    @property
    def share(self) -> int:
        """Return the whole percent of the way to its threshold, 100 at most. A rate with too few calls counts the
        calls.
        """
        one = self.signal
        if one.mode != "rate":
            return min(100, int(100 * self.count / one.threshold))
        if self.calls < one.min_calls:
            return min(99, 100 * self.count // one.min_calls)
        return min(100, int(100 * self.count / self.calls / one.threshold))


@dataclass(frozen=True, slots=True)
class BreakerChange:
    """One line of a breaker's log."""

    generation: int
    standing: Standing
    at: int

    @property
    def trip(self) -> bool:
        """Return True if it opened automatically."""
        return self.standing.state in (BreakerState.OPEN, BreakerState.STOPPED) and self.standing.signal != FORCED


@dataclass(frozen=True, slots=True)
class BreakerProbe:
    """A call under way as a probe."""

    holder: str
    """``run/command#attempt``."""
    until: int
    """Latest end of its permit."""

    @property
    def run(self) -> str:
        """Return the run of the call."""
        return self.holder.partition("/")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerView:
    """One breaker. Instants are microseconds since the epoch."""

    scope: str
    kind: str
    over: BreakerScope
    name: str
    """Name of the provider, agent, tool, stage or fabric."""
    fabrics: tuple[str, ...]
    """Names of the fabrics whose calls it guards; a provider's are all fabrics of this workspace with this policy."""
    breaker: Breaker
    published: bool
    """False: only runs of an earlier revision still use it."""
    standing: Standing
    generation: int
    changed_at: int
    signals: tuple[SignalCount, ...]
    retry_at: int
    """Latest Retry-After of its endpoint; 0: none."""
    probes: tuple[BreakerProbe, ...]
    """Probes under way."""
    now: int
    changes: tuple[BreakerChange, ...]
    """The last ones, the newest first."""
    trips: int
    """Number of automatic openings in the last 24 hours."""

    @property
    def cools_at(self) -> int | None:
        """Return the time at which a probe may go out; None where no cooldown runs.

        A half-open breaker waits only for its endpoint's Retry-After.
        """
        if self.standing.state is BreakerState.HALF_OPEN:
            return self.retry_at if self.retry_at > self.now else None
        if self.standing.state is not BreakerState.OPEN or self.standing.held:
            return None
        return cools_at(self.breaker, self.changed_at, self.retry_at)

    @property
    def ready(self) -> bool:
        """Return True if it is open and its cooldown is over: the next call is a probe."""
        return self.standing.state is BreakerState.OPEN and self.cooldown_left_us == 0

    @property
    def as_asked(self) -> bool:
        """Return True if it waits for its endpoint's Retry-After in place of its own cooldown."""
        return self.cools_at is not None and self.cools_at == self.retry_at

    @property
    def asked_longer(self) -> bool:
        """Returns True where its endpoint asked for a longer wait than its own cooldown."""
        own = cools_at(self.breaker, self.changed_at, 0)
        return self.as_asked and (self.standing.state is BreakerState.HALF_OPEN or self.retry_at > own)

    @property
    def cooldown_left_us(self) -> int | None:
        """Return the rest of the cooldown in microseconds; None where none runs."""
        return None if self.cools_at is None else max(0, self.cools_at - self.now)

    @property
    def nearest(self) -> SignalCount | None:
        """Return the signal that is nearest to opening it, of those that all workers count together."""
        return max((one for one in self.signals if not one.signal.per_step), key=lambda one: one.share, default=None)

    @property
    def words(self) -> str:
        """Return the name of the guarded target."""
        of = f" of {self.fabrics[0]}" if self.over not in (BreakerScope.PROVIDER, BreakerScope.FABRIC) else ""
        return f"{self.over} {self.name.replace('_', ' ') if self.over is BreakerScope.STAGE else self.name}{of}"


@dataclass(frozen=True, slots=True)
class _DeclaredBreaker:
    """A breaker that a revision declares."""

    breaker: Breaker
    over: BreakerScope
    name: str
    published: bool
    fabrics: list[str] = field(default_factory=list)


def list_breaker_views(actor: Actor, *, now: int | None = None) -> list[BreakerView]:
    """Return all breakers of the actor's workspace, those that stop calls first, then those nearest to it. ``now``:
    microseconds since the epoch.
    """
    at = time.time_ns() // 1_000 if now is None else now
    rows = {(row.scope, row.kind): row for row in _rows(actor)}
    found = _known_breakers(actor, rows)
    return sorted(_views(found, rows, at), key=_order)


def breakers_open(actor: Actor, *, now: int) -> list[BreakerView]:
    """Return the breakers that are not closed, in the list's order."""
    rows = {
        (row.scope, row.kind): row
        for row in _rows(actor)
        if decode_standing(row.state).state is not BreakerState.CLOSED
    }
    if not rows:
        return []
    known = _known_breakers(actor, rows)
    return sorted(_views({key: one for key, one in known.items() if key in rows}, rows, now), key=_order)


def breakers_open_count(actor: Actor, most: int) -> int:
    """Return the number of breakers that are not closed, ``most`` at most."""
    return min(most, len(breakers_open(actor, now=0)))


def breaker_find(actor: Actor, scope: str, kind: str, *, now: int | None = None) -> BreakerView | None:
    """Return one breaker of the workspace."""
    return next((one for one in list_breaker_views(actor, now=now) if (one.scope, one.kind) == (scope, kind)), None)


SEVERITY = (BreakerState.STOPPED, BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)
"""Order of states: those that stop calls come first."""


def _order(one: BreakerView) -> tuple[object, ...]:
    nearest = one.nearest.share if one.nearest else 0
    return (SEVERITY.index(one.standing.state), -nearest, -one.trips, one.over, one.name, one.scope, one.kind)


# -- which there are ---------------------------------------------------------------------------------------------------


def _rows(actor: Actor) -> Iterator[Guard]:
    """Yield the rows of breakers that may be this workspace's."""
    mine = set(Fabric.objects.filter(match_visible(actor, Fabric)).values_list("id", flat=True))
    for row in Guard.objects.filter(kind__startswith=f"{KIND}:"):
        over, _, rest = row.scope.partition(":")
        if over == BreakerScope.PROVIDER or rest.partition(":")[0] in mine:
            yield row


def _known_breakers(actor: Actor, rows: Iterable[Key]) -> dict[Key, _DeclaredBreaker]:
    """Return breakers by scope and kind: the published revisions', and those of earlier ones that have left a row."""
    found: dict[Key, _DeclaredBreaker] = {}
    fabrics = Fabric.objects.filter(match_visible(actor, Fabric), published__isnull=False).order_by("name")
    for fabric_id, name, revision_id in fabrics.values_list("id", "name", "published_id"):
        _add(found, _list_declared(fabric_id, name, revision_id, published=True), name)
    left = set(rows) - set(found)
    if left:
        earlier: dict[Key, _DeclaredBreaker] = {}
        for fabric_id, name, revision_id in fabrics.values_list("id", "name", "published_id"):
            past = Revision.objects.filter(fabric_id=fabric_id).exclude(id=revision_id).order_by("-number")
            for one in past.values_list("id", flat=True)[:REVISIONS_MAX]:
                _add(earlier, _list_declared(fabric_id, name, one, published=False), name)
        found |= {key: one for key, one in earlier.items() if key in left}
    return found


def _add(found: dict[Key, _DeclaredBreaker], more: Iterable[tuple[Key, _DeclaredBreaker]], name: str) -> None:
    for key, one in more:
        fabrics = found.setdefault(key, one).fabrics
        if name not in fabrics:
            fabrics.append(name)


def _list_declared(
    fabric_id: str, name: str, revision_id: str, *, published: bool
) -> Iterator[tuple[Key, _DeclaredBreaker]]:
    try:
        spec = revision_spec(revision_id)
    except ValidationError:  # A version that cannot be read any more: no run of it can begin.
        return
    for breaker in spec.policy.breakers:
        over = breaker.scope
        for called in filter(breaker.stands_before, list_names(over, spec)):
            yield (row_scope(over, fabric_id, called), breaker.kind), _DeclaredBreaker(breaker, over, called, published)


# -- states ------------------------------------------------------------------------------------------------------------


def _views(found: Mapping[Key, _DeclaredBreaker], rows: Mapping[Key, Guard], now: int) -> Iterator[BreakerView]:
    counts, log = _counts(found, rows, now), _log(found)
    for (scope, kind), one in found.items():
        row = rows.get((scope, kind))
        changes = log.get((scope, kind), [])
        permits = json.loads(row.permits) if row else {}
        counted = counts.get((scope, kind), {})
        yield BreakerView(
            scope=scope,
            kind=kind,
            over=one.over,
            name=one.name,
            fabrics=tuple(one.fabrics),
            breaker=one.breaker,
            published=one.published,
            standing=decode_standing(row.state if row else ""),
            generation=row.generation if row else 0,
            changed_at=row.changed_at if row else 0,
            signals=tuple(
                SignalCount(signal, counted.get(signal.key, 0), counted.get(f"{signal.key}:all", 0))
                for signal in one.breaker.signals
            ),
            retry_at=counted.get(RETRY_AT, 0),
            probes=tuple(BreakerProbe(holder, until) for holder, until in sorted(permits.items()) if until > now),
            now=now,
            changes=tuple(changes[:CHANGES_SHOWN]),
            trips=sum(change.trip for change in changes if change.at > now - DAY_US),
        )


def _scopes_condition(keys: Iterable[Key]) -> Q:
    """Return a condition on rows of these scopes, of any kind; the caller checks their kinds."""
    return Q(scope__in=sorted({scope for scope, _ in keys}), kind__startswith=f"{KIND}:")


def _counts(keys: Iterable[Key], rows: Mapping[Key, Guard], now: int) -> Mapping[Key, Mapping[str, int]]:
    """Return the counts of each row's generation by signal, as ``GuardStore.guards`` counts."""
    counts: dict[Key, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for one in GuardCount.objects.filter(_scopes_condition(keys)):
        row = rows.get((one.scope, one.kind))
        if counted_now(one.ring, one.generation, one.slot_at, current=row.generation if row else 0, now=now):
            counts[one.scope, one.kind][one.signal] += one.n
    return counts


def counted_now(ring: int, generation: int, slot_at: int, *, current: int, now: int) -> bool:
    """Return True if a row of counts still counts. It is of the ``current`` generation or beyond it, and of the last
    minute where windowed.
    """
    return (ring == UNTIL_RING or generation == current) and (ring < 0 or counts_still(slot_at, now))


def _log(keys: Iterable[Key]) -> Mapping[Key, Sequence[BreakerChange]]:
    """Return the log's newest lines, the newest first."""
    log: dict[Key, list[BreakerChange]] = defaultdict(list)
    for one in GuardChange.objects.filter(_scopes_condition(keys)).order_by("-at", "-generation")[:LOG_MAX]:
        log[one.scope, one.kind].append(BreakerChange(one.generation, decode_standing(one.state), one.at))
    return log
