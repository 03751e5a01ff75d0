"""Counts for the frame of every page. Each is one cheap query, and stops at its cap."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import BooleanField, Count, Q, QuerySet
from django.db.models.expressions import RawSQL

from fabric.core.people.actor import Actor
from fabric.core.values.flow import TERMINAL, RunState
from fabric.models import Incarnation, Run, Workspace
from fabric.models.runs.run import ASKED_FOR
from fabric.selectors.database_time import store_now
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.stops import StopView, query_workspace_stop, read_stop

LIVE_SQL = f"""NOT ("fabric_run"."state" IN ({", ".join(f"'{state}'" for state in sorted(TERMINAL))}))"""
"""``models.runs.LIVE`` with its values written out: SQLite uses a partial index only for conditions known before
values are bound.
"""
HELD = (RunState.WAITING, RunState.PAUSED)
"""Live states that need no worker: a person has to act first."""


def frame_workspace(actor: Actor) -> tuple[str, StopView | None]:
    """Return the name of the actor's workspace and the stop of all its new runs, by one statement. The name is empty
    when the workspace is gone.
    """
    found = Workspace.objects.filter(id=actor.workspace_id).values_list("name", query_workspace_stop("id")).first()
    return ("", None) if found is None else (found[0], read_stop(found[1]))


def live_runs(actor: Actor) -> QuerySet[Run]:
    """Return the workspace's live runs except child runs, from the partial index of live runs."""
    live = RawSQL(LIVE_SQL, (), output_field=BooleanField())  # noqa: S611 - Nothing in it comes from outside.
    return Run.objects.filter(match_visible(actor, Run), live, ASKED_FOR)


def runs_live_count(actor: Actor, most: int) -> int:
    """Return the number of live runs, at most ``most``, from the partial index of live runs."""
    return live_runs(actor).values("id")[:most].count()


def runs_ready_count(actor: Actor, most: int) -> int:
    """Return the number of live runs that only a worker can advance, at most ``most``, from that index."""
    return live_runs(actor).exclude(state__in=HELD).values("id")[:most].count()


def workers_alive_count() -> int:
    """Return the number of worker processes with a valid lease on the database's clock. They serve every workspace,
    so there is no actor.
    """
    alive = Q(retired_at__isnull=True, lease_until__gt=store_now())
    return int(Incarnation.objects.aggregate(alive=Count("name", filter=alive))["alive"])


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Place in the queue of a run that no worker has begun."""

    queue: str
    workers: int
    """Workers alive."""
    ahead: int
    """Runs of any caller that the queue gives out earlier; at most one more than requested."""
    taken: bool
    """True if a worker has claimed it and is about to begin."""
    due_at: int
    """Not before this instant, microseconds since the epoch."""


def queue_place(actor: Actor, run_id: str, most: int) -> QueuePlace | None:
    """Return a run's place in its queue, in the workers' order of claims; None for an unknown run."""
    mine = Run.objects.filter(match_visible(actor, Run), id=run_id)
    row = mine.values_list("queue", "priority", "wake_at", "incarnation").first()
    if row is None:
        return None
    queue, priority, wake_at, incarnation = row
    waiting = Run.objects.filter(queue=queue, incarnation__isnull=True, wake_at__isnull=False)
    sooner = Q(priority__lt=priority) | Q(priority=priority, wake_at__lt=wake_at or 0)
    ahead = waiting.filter(sooner).values("id")[: most + 1].count()
    return QueuePlace(queue, workers_alive_count(), ahead, incarnation is not None, wake_at or 0)
