"""How things stand, in one cheap number each: what every page's frame shows. Each is one query; counts stop where they are capped."""

from __future__ import annotations

import time

from django.db import connection
from django.db.models import BooleanField, Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from fabric.core.actor import Actor
from fabric.core.flow import TERMINAL, RunState
from fabric.models import Escalation, Incarnation, Run, Workspace
from fabric.models.escalations import OPEN

LIVE_SQL = f"""NOT ("fabric_run"."state" IN ({", ".join(f"'{state}'" for state in sorted(TERMINAL))}))"""
"""``models.runs.LIVE`` with its values written out: SQLite answers from a partial index only what it can prove before values are bound."""
HELD = (RunState.WAITING, RunState.PAUSED)
"""Live, and in no need of a worker: a person has to do something first."""


def workspace_name(actor: Actor) -> str:
    """What the actor's workspace is called; empty when it is gone."""
    return Workspace.objects.filter(id=actor.workspace_id).values_list("name", flat=True).first() or ""


def live_runs(actor: Actor) -> QuerySet[Run]:
    """The workspace's runs that have not ended, from the partial index that only they are in."""
    live = RawSQL(LIVE_SQL, (), output_field=BooleanField())  # noqa: S611 - Nothing in it comes from outside.
    return Run.objects.filter(live, workspace_id=actor.workspace_id)


def runs_live_count(actor: Actor, most: int) -> int:
    """Runs that have not ended; at most ``most``. From the partial index of live runs."""
    return live_runs(actor).values("id")[:most].count()


def runs_ready_count(actor: Actor, most: int) -> int:
    """Live runs that only a worker can take further; at most ``most``. From the same index."""
    return live_runs(actor).exclude(state__in=HELD).values("id")[:most].count()


def escalations_open_count(actor: Actor, most: int) -> int:
    """Questions that wait for a person; at most ``most``. From the partial index of open questions."""
    return Escalation.objects.filter(OPEN, workspace_id=actor.workspace_id).values("id")[:most].count()


def workers_alive_count() -> int:
    """Worker processes whose lease is valid on the database's clock. They serve every workspace, so no actor is asked for."""
    alive = Q(retired_at__isnull=True, lease_until__gt=_now())
    return int(Incarnation.objects.aggregate(alive=Count("name", filter=alive))["alive"])


def _now() -> int:
    """Microseconds on the clock that leases are written by: the database's; on SQLite that is this machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])
