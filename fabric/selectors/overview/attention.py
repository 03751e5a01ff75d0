"""Runs and reviews that need attention now, sorted by harm. Like the rest of the overview it is bounded, and counts
show where they were cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any

from django.db.models import F, Model, QuerySet

from fabric.core.breaker.table import BreakerState
from fabric.core.events.decisions import CapRaised
from fabric.core.events.envelope import from_row
from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.models import Event, Notification, Review, Run
from fabric.models.reviews import OPEN
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.fabrics.lookup import run_cap
from fabric.selectors.models.breakers import BreakerView, breakers_open
from fabric.selectors.notifications import notifications_failed
from fabric.selectors.overview.failures import RecentFailures, recent_failures
from fabric.selectors.overview.tiles import COUNTED, DAY, HOUR, SECOND, live_runs, workers_alive
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.stops import StopView, stops_standing
from fabric.selectors.stored_events import read_events

SHOWN = 4
"""Largest number of named items of a kind; the rest is counted."""
NEAR_CEILING = 80
"""Percentage of its ceiling from which on a run is near it."""
NEAR_DEADLINE = 10
"""Percentage of its time below which the rest counts as near the deadline."""
WAITED_LONG = 60 * SECOND
CLAIMS_LONG = 3
SCANNED = 2_000
"""Largest number of live runs that are compared with their limits."""


class AttentionKind(StrEnum):
    """Kind of a cause for attention, the most harmful first: the page's order."""

    STOPPED = "stopped"
    OVERDUE = "overdue"
    NO_WORKER = "no_worker"
    QUARANTINED = "quarantined"
    FAILED = "failed"
    UNTOLD = "untold"
    BREAKER = "breaker"
    NEAR_CEILING = "near_ceiling"
    NEAR_DEADLINE = "near_deadline"
    NO_PROGRESS = "no_progress"
    DUE_SOON = "due_soon"
    WAITS_LONG = "waits_long"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionItem:
    """One item that needs attention. Its kind decides which fields have a value."""

    kind: AttentionKind
    run_id: str = ""
    title: str = ""
    """The run's title."""
    fabric_name: str = ""
    state: str = ""
    at: int | None = None
    """Time at which it is due, ended, was requested or reaches its deadline."""
    reason: str = ""
    observed: int = 0
    limit: int = 0
    review: str = ""
    """The review's id."""
    runs: int = 1
    """Number of runs that it stands for: failures of one fabric and cause are one item."""
    cause: str = ""
    """Cause of these failures (``taxonomy.Cause``)."""
    first_at: int = 0
    """End of the first of them."""


@dataclass(frozen=True, slots=True)
class AttentionGroup:
    """The items of one kind."""

    kind: AttentionKind
    count: int
    capped: bool
    items: tuple[AttentionItem, ...]

    @property
    def more(self) -> int:
        """Return the number of items that are counted but not named."""
        return self.count - sum(item.runs for item in self.items)


@dataclass(frozen=True, slots=True)
class Attention:
    """Items that need attention, by kind, the most harmful first; empty kinds are left out."""

    groups: tuple[AttentionGroup, ...]
    acknowledged: int = 0
    """Number of failures of the last 24 hours that people have acknowledged."""

    def count(self, kind: AttentionKind) -> int:
        """Return the number of items of a kind."""
        return next((group.count for group in self.groups if group.kind is kind), 0)


def attention(actor: Actor, now: int) -> Attention:
    """Return the items that need attention now, the most harmful first."""
    near = _list_near_limits(actor, now)
    failures = recent_failures(actor, now, named=SHOWN)
    found: dict[AttentionKind, Iterable[AttentionItem] | QuerySet[Run] | QuerySet[Review] | QuerySet[Notification]] = {
        AttentionKind.STOPPED: [_stop(one) for one in stops_standing(actor)],
        AttentionKind.OVERDUE: _reviews(actor).filter(due_at__lte=now),
        AttentionKind.NO_WORKER: _list_unserved(actor, now),
        AttentionKind.QUARANTINED: live_runs(actor, RunState.QUARANTINED).order_by("created_at"),
        AttentionKind.FAILED: (),
        AttentionKind.UNTOLD: notifications_failed(actor),
        AttentionKind.BREAKER: [_breaker(one) for one in breakers_open(actor, now=now)],
        AttentionKind.NEAR_CEILING: near[AttentionKind.NEAR_CEILING],
        AttentionKind.NEAR_DEADLINE: near[AttentionKind.NEAR_DEADLINE],
        AttentionKind.NO_PROGRESS: live_runs(actor, *IN_HAND).filter(claims__gte=CLAIMS_LONG).order_by("-claims"),
        AttentionKind.DUE_SOON: _reviews(actor).filter(due_at__gt=now, due_at__lte=now + HOUR),
        AttentionKind.WAITS_LONG: _waiting_long(actor, now),
    }
    groups = [_mask_group(actor, _group(kind, found[kind])) for kind in AttentionKind]
    groups[list(AttentionKind).index(AttentionKind.FAILED)] = _failed_group(failures)
    return Attention(
        tuple(group for group in groups if group.count), acknowledged=sum(one.count for one in failures.acknowledged)
    )


def _failed_group(failures: RecentFailures) -> AttentionGroup:
    """Return the failures without an acknowledgement, one item for each fabric and cause."""
    items = tuple(
        AttentionItem(
            kind=AttentionKind.FAILED,
            run_id=one.run_id,
            title=one.title,
            fabric_name=one.fabric_name,
            state=one.state,
            reason=one.reason,
            at=one.newest_at,
            runs=one.count,
            cause=one.cause,
            first_at=one.first_at,
        )
        for one in failures.groups[:SHOWN]
    )
    return AttentionGroup(AttentionKind.FAILED, failures.count, failures.capped, items)


IN_HAND = (RunState.QUEUED, RunState.RUNNING, RunState.CANCELLING, RunState.UNWINDING)
"""States in which a run needs a worker."""
_RUN = ("id", "title", "fabric__name", "state", "reason", "created_at", "ended_at", "claims")
_REVIEW = ("id", "run_id", "run__title", "run__fabric__name", "reason", "due_at")


def _group(kind: AttentionKind, found: Iterable[AttentionItem] | QuerySet[Any]) -> AttentionGroup:
    if not isinstance(found, QuerySet):
        items = tuple(found)
        return AttentionGroup(
            kind, len(items) if kind is not AttentionKind.NO_WORKER else bool(items), False, items[:SHOWN]
        )
    named, columns = _NAMED[found.model]
    items = tuple(named(kind, row) for row in found.values(*columns)[:SHOWN])
    count = found.values("id")[: COUNTED + 1].count() if len(items) == SHOWN else len(items)
    return AttentionGroup(kind, min(count, COUNTED), count > COUNTED, items)


def _mask_group(actor: Actor, group: AttentionGroup) -> AttentionGroup:
    """Return the group with contents only where the actor may read them."""
    return replace(group, items=tuple(_mask_for_reader(actor, one) for one in group.items))


def _mask_for_reader(actor: Actor, item: AttentionItem) -> AttentionItem:
    """Return a run's item with its title and reason for actors who may read contents. A failed notification has
    neither.
    """
    if not item.run_id or item.kind is AttentionKind.UNTOLD:
        return item
    reads = may_read(actor, item.fabric_name)
    return replace(item, title=title_for(item.title, reads=reads), reason=line_for(item.reason, reads=reads))


def _run(kind: AttentionKind, row: dict[str, object]) -> AttentionItem:
    return AttentionItem(
        kind=kind,
        run_id=str(row["id"]),
        title=str(row["title"]),
        fabric_name=str(row["fabric__name"]),
        state=str(row["state"]),
        reason=str(row["reason"]),
        at=row["ended_at"] or row["created_at"],  # type: ignore[arg-type]
        observed=row["claims"],  # type: ignore[arg-type]
    )


def _review(kind: AttentionKind, row: dict[str, object]) -> AttentionItem:
    return AttentionItem(
        kind=kind,
        run_id=str(row["run_id"]),
        title=str(row["run__title"]),
        fabric_name=str(row["run__fabric__name"]),
        reason=str(row["reason"]),
        at=row["due_at"],  # type: ignore[arg-type]
        review=str(row["id"]),
    )


def _untold(kind: AttentionKind, row: dict[str, object]) -> AttentionItem:
    return AttentionItem(
        kind=kind,
        run_id=str(row["run_id"] or ""),
        title=str(row["shown"]),
        fabric_name=str(json.loads(bytes(row["content"])).get("fabric", "")),  # type: ignore[call-overload]
        at=row["made_at"],  # type: ignore[arg-type]
        reason=str(row["error"]),
    )


_NAMED: dict[type[Model], tuple[Callable[..., AttentionItem], tuple[str, ...]]] = {
    Run: (_run, _RUN),
    Review: (_review, _REVIEW),
    Notification: (_untold, ("run_id", "content", "shown", "made_at", "error")),
}
"""For each table, the function that makes an item of a row, and the columns that it needs."""


def _reviews(actor: Actor) -> QuerySet[Review]:
    return Review.objects.filter(match_visible(actor, Review), OPEN).order_by("due_at", "id")


def _list_unserved(actor: Actor, now: int) -> list[AttentionItem]:
    """Return one item with the number of waiting runs where no worker is alive."""
    if workers_alive(now):
        return []
    waiting = live_runs(actor, *IN_HAND).order_by("created_at")
    count = waiting.values("id")[: COUNTED + 1].count()
    oldest = waiting.values_list("created_at", flat=True).first()
    return [AttentionItem(kind=AttentionKind.NO_WORKER, observed=count, limit=COUNTED, at=oldest)]


def _breaker(one: BreakerView) -> AttentionItem:
    state = (BreakerState.HALF_OPEN if one.ready else one.standing.state).value
    opened = one.standing.reason or one.standing.signal_words or one.standing.signal.replace("_", " ")
    return AttentionItem(kind=AttentionKind.BREAKER, title=one.words, state=state, at=one.changed_at, reason=opened)


def _stop(one: StopView) -> AttentionItem:
    by = f"{one.stopped_by}: {one.reason}"
    return AttentionItem(kind=AttentionKind.STOPPED, fabric_name=one.fabric, at=one.stopped_at, reason=by)


def _waiting_long(actor: Actor, now: int) -> Iterable[AttentionItem] | QuerySet[Run]:
    """Return queued runs that wait long although there are workers."""
    if not workers_alive(now):
        return []
    return live_runs(actor, RunState.QUEUED).filter(created_at__lte=now - WAITED_LONG).order_by("created_at")


def _list_near_limits(actor: Actor, now: int) -> dict[AttentionKind, list[AttentionItem]]:
    """Return live runs near one of their limits, the nearest first. A run that waits for a person has time."""
    ceiling: list[tuple[int, AttentionItem]] = []
    deadline: list[tuple[int, AttentionItem]] = []
    rows = live_runs(actor, RunState.RUNNING).order_by("created_at").annotate(fabric_name=F("fabric__name"))
    columns = ("id", "title", "fabric_name", "revision_id", "cost_usd_micros", "created_at", "deadline_at")
    for run_id, title, fabric_name, revision_id, cost, created_at, deadline_at in rows.values_list(*columns)[:SCANNED]:
        named = {"run_id": run_id, "title": title, "fabric_name": fabric_name, "state": RunState.RUNNING.value}
        cap = run_cap(revision_id)
        if cap and 100 * cost >= NEAR_CEILING * cap:
            cap = _find_raised_cap(run_id) or cap
        if cap and 100 * cost >= NEAR_CEILING * cap:
            item = AttentionItem(kind=AttentionKind.NEAR_CEILING, **named, observed=cost, limit=cap)
            ceiling.append((-cost * 1_000 // cap, item))
        left = deadline_at - now
        if 100 * left <= NEAR_DEADLINE * (deadline_at - created_at):
            deadline.append((left, AttentionItem(kind=AttentionKind.NEAR_DEADLINE, **named, at=deadline_at)))
    nearest = {AttentionKind.NEAR_CEILING: ceiling, AttentionKind.NEAR_DEADLINE: deadline}
    return {kind: [item for _, item in sorted(found, key=lambda pair: pair[0])] for kind, found in nearest.items()}


def _find_raised_cap(run_id: str) -> int:
    """Return the cap that a person gave a run last; 0: its fabric's is in force."""
    events = read_events(Event.objects.filter(run_id=run_id), kinds=(CapRaised.kind,), newest=True, page=1)
    found = next(events, None)
    if found is None:
        return 0
    fact = from_row(found.seq, found.kind, found.version, found.header).fact
    assert isinstance(fact, CapRaised)
    return fact.cap_usd_micros


# -- reviews ---------------------------------------------------------------------------------------------------------

QUEUE_SHOWN = 5
DECIDED_DAYS = 7
DECIDED_MAX = 1_000
"""Largest number of newest decisions within ``DECIDED_DAYS`` for the median."""


@dataclass(frozen=True, slots=True)
class QueueSummary:
    """The open reviews: their numbers by due time, the next ones, and people's speed."""

    overdue: int
    within_hour: int
    later: int
    capped: bool
    """True: there are more than were counted."""
    following: tuple[AttentionItem, ...]
    """The next ones, the most urgent first."""
    decided: int = 0
    """Number of people's recent decisions, at most ``DECIDED_MAX``, without those of the system for want of an
    answer.
    """
    median_us: int | None = None
    """Median time from a review's opening to its decision, in microseconds; None where there is none."""

    @property
    def open(self) -> int:
        """Return the number of all of them."""
        return self.overdue + self.within_hour + self.later

    @property
    def more(self) -> int:
        """Return the number of reviews that are counted but not named."""
        return self.open - len(self.following)


def review_queue(actor: Actor, now: int) -> QueueSummary:
    """Return the open reviews by due time, and the median time of people's recent decisions."""
    rows = _reviews(actor)
    due = list(rows.values_list("due_at", flat=True)[: COUNTED + 1])
    overdue = sum(at <= now for at in due[:COUNTED])
    soon = sum(now < at <= now + HOUR for at in due[:COUNTED])
    items = tuple(
        _mask_for_reader(actor, _review(AttentionKind.OVERDUE if row["due_at"] <= now else AttentionKind.DUE_SOON, row))
        for row in rows.values(*_REVIEW)[:QUEUE_SHOWN]
    )
    counted = min(len(due), COUNTED)
    took = _decision_times(actor, now)
    return QueueSummary(
        overdue,
        soon,
        counted - overdue - soon,
        len(due) > COUNTED,
        items,
        decided=len(took),
        median_us=int(median(took)) if took else None,
    )


def _decision_times(actor: Actor, now: int) -> list[int]:
    """Return people's times to a decision, in microseconds, the newest first."""
    rows = Review.objects.filter(
        match_visible(actor, Review), decided_at__gte=now - DECIDED_DAYS * DAY, by_system=False
    )
    times = rows.order_by("-decided_at", "id").values_list("opened_at", "decided_at")[:DECIDED_MAX]
    return [max(0, decided - opened) for opened, decided in times if decided is not None]
