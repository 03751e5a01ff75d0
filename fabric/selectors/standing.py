"""How things stand, in one cheap number each: what every page's frame shows. Each is one query; counts stop where they are capped."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db import connection
from django.db.models import BooleanField, Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from fabric.core.actor import Actor
from fabric.core.flow import TERMINAL, RunState
from fabric.models import Incarnation, Run, Workspace
from fabric.models.runs import ASKED_FOR
from fabric.selectors.reach import seen_by

LIVE_SQL = f"""NOT ("fabric_run"."state" IN ({", ".join(f"'{state}'" for state in sorted(TERMINAL))}))"""
"""``models.runs.LIVE`` with its values written out: SQLite answers from a partial index only what it can prove before values are bound."""
HELD = (RunState.WAITING, RunState.PAUSED)
"""Live, and in no need of a worker: a person has to do something first."""


def workspace_name(actor: Actor) -> str:
    """What the actor's workspace is called; empty when it is gone."""
    return Workspace.objects.filter(id=actor.workspace_id).values_list("name", flat=True).first() or ""


def live_runs(actor: Actor) -> QuerySet[Run]:
    """The workspace's runs that have not ended, without those that other runs spawned, from the partial index that only live ones are in."""
    live = RawSQL(LIVE_SQL, (), output_field=BooleanField())  # noqa: S611 - Nothing in it comes from outside.
    return Run.objects.filter(seen_by(actor, Run), live, ASKED_FOR)


def runs_live_count(actor: Actor, most: int) -> int:
    """Runs that have not ended; at most ``most``. From the partial index of live runs."""
    return live_runs(actor).values("id")[:most].count()


def runs_ready_count(actor: Actor, most: int) -> int:
    """Live runs that only a worker can take further; at most ``most``. From the same index."""
    return live_runs(actor).exclude(state__in=HELD).values("id")[:most].count()


def workers_alive_count() -> int:
    """Worker processes whose lease is valid on the database's clock. They serve every workspace, so no actor is asked for."""
    alive = Q(retired_at__isnull=True, lease_until__gt=_now())
    return int(Incarnation.objects.aggregate(alive=Count("name", filter=alive))["alive"])


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Where a run stands that no worker has begun."""

    queue: str
    workers: int
    """Workers alive."""
    ahead: int
    """Runs that the same queue gives out before it, whoever asked for them; at most one more than was asked for."""
    taken: bool
    """Whether a worker has it already and is about to begin."""
    due_at: int
    """Not before this instant, microseconds since the epoch."""


def queue_place(actor: Actor, run_id: str, most: int) -> QueuePlace | None:
    """A run's place in its queue, in the order in which workers claim; None when there is no such run in the workspace."""
    mine = Run.objects.filter(seen_by(actor, Run), id=run_id)
    row = mine.values_list("queue", "priority", "wake_at", "incarnation").first()
    if row is None:
        return None
    queue, priority, wake_at, incarnation = row
    waiting = Run.objects.filter(queue=queue, incarnation__isnull=True, wake_at__isnull=False)
    sooner = Q(priority__lt=priority) | Q(priority=priority, wake_at__lt=wake_at or 0)
    ahead = waiting.filter(sooner).values("id")[: most + 1].count()
    return QueuePlace(queue, workers_alive_count(), ahead, incarnation is not None, wake_at or 0)


def _now() -> int:
    """Microseconds on the clock that leases are written by: the database's; on SQLite that is this machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])
