"""What needs attention now, sorted by harm. Like the rest of the overview it is bounded, and counts say where they were cut."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import median
from typing import Any

from django.db.models import F, Model, QuerySet

from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.models import Escalation, Notification, Run
from fabric.models.escalations import OPEN
from fabric.models.runs import ASKED_FOR, BAD
from fabric.selectors.breakers import BreakerView, breakers_open
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.fabrics import run_cap
from fabric.selectors.notifications import notifications_failed
from fabric.selectors.overview import COUNTED, DAY, HOUR, SECOND, live_runs, workers_alive
from fabric.selectors.reach import seen_by

SHOWN = 4
"""Of one kind so many are named; the rest is counted."""
NEAR_CEILING = 80
"""Percent of its ceiling from which on a run is near it."""
NEAR_DEADLINE = 10
"""A tenth of its time is left."""
WAITED_LONG = 60 * SECOND
CLAIMS_LONG = 3
SCANNED = 2_000
"""Runs in progress that are compared with their limits."""


class Kind(StrEnum):
    """What may need attention, the most harmful first: this order is the page's order."""

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
class Item:
    """One thing that needs attention. Which fields say something depends on its kind."""

    kind: Kind
    run_id: str = ""
    title: str = ""
    """The run's title."""
    fabric_name: str = ""
    state: str = ""
    at: int | None = None
    """When it is due, ended, was asked for or reaches its deadline."""
    reason: str = ""
    observed: int = 0
    limit: int = 0
    question: str = ""
    """The review's id."""


@dataclass(frozen=True, slots=True)
class Group:
    """The things of one kind."""

    kind: Kind
    count: int
    capped: bool
    items: tuple[Item, ...]

    @property
    def more(self) -> int:
        """How many are counted and not named."""
        return self.count - len(self.items)


@dataclass(frozen=True, slots=True)
class Attention:
    """What needs attention, by kind, the most harmful first; kinds of which there is nothing are left out."""

    groups: tuple[Group, ...]

    def count(self, kind: Kind) -> int:
        """How many there are of a kind."""
        return next((group.count for group in self.groups if group.kind is kind), 0)


def attention(actor: Actor, now: int) -> Attention:
    """What needs attention now, the most harmful first."""
    near = _near(actor, now)
    found: dict[Kind, Iterable[Item] | QuerySet[Run] | QuerySet[Escalation] | QuerySet[Notification]] = {
        Kind.OVERDUE: _questions(actor).filter(due_at__lte=now),
        Kind.NO_WORKER: _without_worker(actor, now),
        Kind.QUARANTINED: live_runs(actor, RunState.QUARANTINED).order_by("created_at"),
        Kind.FAILED: _failed(actor, now),
        Kind.UNTOLD: notifications_failed(actor),
        Kind.BREAKER: [_breaker(one) for one in breakers_open(actor, now=now)],
        Kind.NEAR_CEILING: near[Kind.NEAR_CEILING],
        Kind.NEAR_DEADLINE: near[Kind.NEAR_DEADLINE],
        Kind.NO_PROGRESS: live_runs(actor, *IN_HAND).filter(claims__gte=CLAIMS_LONG).order_by("-claims"),
        Kind.DUE_SOON: _questions(actor).filter(due_at__gt=now, due_at__lte=now + HOUR),
        Kind.WAITS_LONG: _waiting_long(actor, now),
    }
    groups = (_read(actor, _group(kind, found[kind])) for kind in Kind)
    return Attention(tuple(group for group in groups if group.count))


FAILED = (RunState.FAILED.value, RunState.ABORTED.value)
IN_HAND = (RunState.QUEUED, RunState.RUNNING, RunState.CANCELLING, RunState.UNWINDING)
"""States in which a run needs a worker."""
_RUN = ("id", "title", "fabric__name", "state", "reason", "created_at", "ended_at", "claims")
_QUESTION = ("id", "run_id", "run__title", "run__fabric__name", "reason", "due_at")


def _group(kind: Kind, found: Iterable[Item] | QuerySet[Any]) -> Group:
    if not isinstance(found, QuerySet):
        items = tuple(found)
        return Group(kind, len(items) if kind is not Kind.NO_WORKER else bool(items), False, items[:SHOWN])
    named, columns = _NAMED[found.model]
    items = tuple(named(kind, row) for row in found.values(*columns)[:SHOWN])
    count = found.values("id")[: COUNTED + 1].count() if len(items) == SHOWN else len(items)
    return Group(kind, min(count, COUNTED), count > COUNTED, items)


def _read(actor: Actor, group: Group) -> Group:
    """The same, as somebody may read it."""
    return replace(group, items=tuple(_for_reader(actor, one) for one in group.items))


def _for_reader(actor: Actor, item: Item) -> Item:
    """The item of a run, with its title and its reason for who may read contents there. What could not be told outside has neither."""
    if not item.run_id or item.kind is Kind.UNTOLD:
        return item
    reads = may_read(actor, item.fabric_name)
    return replace(item, title=title_for(item.title, reads=reads), reason=line_for(item.reason, reads=reads))


def _run(kind: Kind, row: dict[str, object]) -> Item:
    return Item(
        kind=kind,
        run_id=str(row["id"]),
        title=str(row["title"]),
        fabric_name=str(row["fabric__name"]),
        state=str(row["state"]),
        reason=str(row["reason"]),
        at=row["ended_at"] or row["created_at"],  # type: ignore[arg-type]
        observed=row["claims"],  # type: ignore[arg-type]
    )


def _question(kind: Kind, row: dict[str, object]) -> Item:
    return Item(
        kind=kind,
        run_id=str(row["run_id"]),
        title=str(row["run__title"]),
        fabric_name=str(row["run__fabric__name"]),
        reason=str(row["reason"]),
        at=row["due_at"],  # type: ignore[arg-type]
        question=str(row["id"]),
    )


def _untold(kind: Kind, row: dict[str, object]) -> Item:
    return Item(
        kind=kind,
        run_id=str(row["run_id"] or ""),
        title=str(row["shown"]),
        fabric_name=str(json.loads(bytes(row["content"])).get("fabric", "")),  # type: ignore[call-overload]
        at=row["made_at"],  # type: ignore[arg-type]
        reason=str(row["error"]),
    )


_NAMED: dict[type[Model], tuple[Callable[..., Item], tuple[str, ...]]] = {
    Run: (_run, _RUN),
    Escalation: (_question, _QUESTION),
    Notification: (_untold, ("run_id", "content", "shown", "made_at", "error")),
}
"""How a row of each table is named, and what of it is asked for."""


def _questions(actor: Actor) -> QuerySet[Escalation]:
    return Escalation.objects.filter(seen_by(actor, Escalation), OPEN).order_by("due_at", "id")


def _failed(actor: Actor, now: int) -> QuerySet[Run]:
    """Runs that ended within the last 24 hours and were not meant to end so."""
    rows = Run.objects.filter(seen_by(actor, Run), BAD, ASKED_FOR, state__in=FAILED)
    return rows.filter(ended_at__gt=now - DAY).order_by("-ended_at")


def _without_worker(actor: Actor, now: int) -> list[Item]:
    """One item where no worker is alive: how many runs wait for one."""
    if workers_alive(now):
        return []
    waiting = live_runs(actor, *IN_HAND).order_by("created_at")
    count = waiting.values("id")[: COUNTED + 1].count()
    oldest = waiting.values_list("created_at", flat=True).first()
    return [Item(kind=Kind.NO_WORKER, observed=count, limit=COUNTED, at=oldest)]


def _breaker(one: BreakerView) -> Item:
    state = one.standing.state.value
    opened = one.standing.reason or one.standing.counted or one.standing.signal.replace("_", " ")
    return Item(kind=Kind.BREAKER, title=one.words, state=state, at=one.changed_at, reason=opened)


def _waiting_long(actor: Actor, now: int) -> Iterable[Item] | QuerySet[Run]:
    """Runs that nobody takes although there are workers."""
    if not workers_alive(now):
        return []
    return live_runs(actor, RunState.QUEUED).filter(created_at__lte=now - WAITED_LONG).order_by("created_at")


def _near(actor: Actor, now: int) -> dict[Kind, list[Item]]:
    """Runs in progress that are near a limit of theirs, the nearest first. A run that waits for a person has time."""
    ceiling: list[tuple[int, Item]] = []
    deadline: list[tuple[int, Item]] = []
    rows = live_runs(actor, RunState.RUNNING).order_by("created_at").annotate(fabric_name=F("fabric__name"))
    columns = ("id", "title", "fabric_name", "revision_id", "cost_usd_micros", "created_at", "deadline_at")
    for run_id, title, fabric_name, revision_id, cost, created_at, deadline_at in rows.values_list(*columns)[:SCANNED]:
        named = {"run_id": run_id, "title": title, "fabric_name": fabric_name, "state": RunState.RUNNING.value}
        cap = run_cap(revision_id)
        if cap and 100 * cost >= NEAR_CEILING * cap:
            item = Item(kind=Kind.NEAR_CEILING, **named, observed=cost, limit=cap)
            ceiling.append((-cost * 1_000 // cap, item))
        left = deadline_at - now
        if 100 * left <= NEAR_DEADLINE * (deadline_at - created_at):
            deadline.append((left, Item(kind=Kind.NEAR_DEADLINE, **named, at=deadline_at)))
    nearest = {Kind.NEAR_CEILING: ceiling, Kind.NEAR_DEADLINE: deadline}
    return {kind: [item for _, item in sorted(found, key=lambda pair: pair[0])] for kind, found in nearest.items()}


# -- reviews -----------------------------------------------------------------------------------------------------------

QUEUE_SHOWN = 5
DECIDED_DAYS = 7
DECIDED_MAX = 1_000
"""Decisions that the median is of: the newest within ``DECIDED_DAYS``."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The open reviews: how many by when they are due, and the next ones; and how fast people have been."""

    overdue: int
    within_hour: int
    later: int
    capped: bool
    """True: there are more than were counted."""
    following: tuple[Item, ...]
    """The next ones, the most urgent first."""
    decided: int = 0
    """Reviews that people decided lately, at most ``DECIDED_MAX``; what the system decided for want of an answer is not among them."""
    median_us: int | None = None
    """From the question to the decision, the middle one of those; None where there is none. Microseconds."""

    @property
    def open(self) -> int:
        """All of them."""
        return self.overdue + self.within_hour + self.later


def review_queue(actor: Actor, now: int) -> Queue:
    """The open reviews by when they are due, and the median time of the decisions that people took lately."""
    rows = _questions(actor)
    due = list(rows.values_list("due_at", flat=True)[: COUNTED + 1])
    overdue = sum(at <= now for at in due[:COUNTED])
    soon = sum(now < at <= now + HOUR for at in due[:COUNTED])
    items = tuple(
        _for_reader(actor, _question(Kind.OVERDUE if row["due_at"] <= now else Kind.DUE_SOON, row))
        for row in rows.values(*_QUESTION)[:QUEUE_SHOWN]
    )
    counted = min(len(due), COUNTED)
    took = _decision_times(actor, now)
    return Queue(
        overdue,
        soon,
        counted - overdue - soon,
        len(due) > COUNTED,
        items,
        decided=len(took),
        median_us=int(median(took)) if took else None,
    )


def _decision_times(actor: Actor, now: int) -> list[int]:
    """How long people took, microseconds each, the newest decisions first."""
    rows = Escalation.objects.filter(
        seen_by(actor, Escalation), decided_at__gte=now - DECIDED_DAYS * DAY, by_system=False
    )
    times = rows.order_by("-decided_at", "id").values_list("opened_at", "decided_at")[:DECIDED_MAX]
    return [max(0, decided - opened) for opened, decided in times if decided is not None]
