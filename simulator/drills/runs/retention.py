"""Erases the runs of older drills of each cell, with their events; the drills' rows stay.

A workspace's retention applies to its drills too, by the real time of the drill: a virtual clock says nothing about
age.
"""

from __future__ import annotations

import json

from django.db import transaction
from django.db.models import QuerySet

from fabric.core.audit.lines import Act
from fabric.models import Attachment, Event, Fabric, Family, Inbox, Review, Revision, Run, RunLabel, Snapshot, Workspace
from fabric.models.runs.run import ENDED
from fabric.selectors.audit.holds import runs_held
from fabric.selectors.stored_events import count_events
from fabric.services.actors import drills_workspace, system_actor
from fabric.services.acts import audit_record
from fabric.services.memories.retention import values_erase
from simulator.drills.models.tables import Drill
from simulator.drills.runs.names import QUEUE, start_key

DRILLS_KEPT = 20
"""Number of newest drills of a cell, or of a scenario in a tier, whose runs are kept."""
DRILLS_AT_ONCE = 50
"""Number of drills whose runs are erased at once, each in a transaction of its own."""


def runs_prune(one: Drill) -> int:
    """Erase the runs of some older drills of the cell; return the number of drills. The next drill continues."""
    same = Drill.objects.filter(
        fabric_id=one.fabric_id, mode=one.mode, scenario=one.scenario, failure=one.failure, tier=one.tier
    )
    older = same.exclude(run_id="").order_by("-id")[DRILLS_KEPT : DRILLS_KEPT + DRILLS_AT_ONCE]
    return sum(drill_runs_erase(drill) for drill in older)


def runs_expire(workspace: Workspace, until: int, *, dry_run: bool = False) -> list[tuple[str, int, int]]:
    """Erase the runs of a workspace's drills that ended up to ``until``, microseconds since the epoch.

    Returns ``(run id, end of its drill, events)`` of each drill. ``dry_run``: erase nothing.
    """
    found = []
    for drill in _query_kept_drills(workspace.id).filter(ended_at__lte=until).order_by("id"):
        ids = drill_run_ids(drill)
        events = count_events(Event.objects.filter(run_id__in=ids))
        if not runs_held(ids) if dry_run else drill_runs_erase(drill):
            found.append((drill.run_id, drill.ended_at or 0, events))
    return found


def drill_run_ids(one: Drill) -> list[str]:
    """Return the ids of all runs of a drill, children included."""
    inside = drills_workspace(one.workspace_id)
    rows = Run.objects.filter(workspace_id=inside).exclude(start_key="")
    found = dict.fromkeys(rows.filter(start_key__startswith=start_key(one.id, "")).values_list("id", flat=True))
    last = list(found)
    while last:
        below = Run.objects.filter(parent_run_id__in=last).values_list("id", flat=True)
        last = [run_id for run_id in below if run_id not in found]
        found |= dict.fromkeys(last)
    return list(found)


def drill_runs_erase(one: Drill) -> bool:
    """Erase the runs of one drill; return False if one of them goes on, or is under a legal hold."""
    with transaction.atomic():
        ids = drill_run_ids(one)
        if Run.objects.filter(id__in=ids).exclude(state__in=ENDED).exclude(queue=QUEUE).exists():
            return False
        if runs_held(ids):
            return False
        for rows in (Event, Inbox, Snapshot, Review, Attachment, RunLabel):
            rows.objects.filter(run_id__in=ids).delete()
        Family.objects.filter(root_run_id__in=ids).delete()
        for run in Run.objects.filter(id__in=ids).order_by("id"):
            values_erase(run.id)
            # A person who exported it has a checkpoint that names it: this line says where it went.
            actor = system_actor(run.workspace_id)
            audit_record(actor=actor, act=Act.RUN_ERASED, subject=run.id, drill=one.id, events=run.last_seq, whole=True)
        fabrics = set(Run.objects.filter(id__in=ids).values_list("fabric_id", flat=True))
        Run.objects.filter(id__in=ids).delete()
        _forget(fabrics)
        body = {name: said for name, said in json.loads(one.body).items() if name != "runs"}
        Drill.objects.filter(id=one.id).update(run_id="", body=json.dumps(body))
    return True


def _forget(fabric_ids: set[str]) -> None:
    """Delete the fabrics of drills without runs, with their revisions."""
    for fabric in Fabric.objects.filter(id__in=fabric_ids, published__isnull=True, workspace__drills_of__isnull=False):
        if not Run.objects.filter(workspace_id=fabric.workspace_id, fabric_id=fabric.id).exists():
            Revision.objects.filter(fabric=fabric).delete()
            fabric.delete()


def _query_kept_drills(workspace_id: str) -> QuerySet[Drill]:
    return Drill.objects.filter(workspace_id=workspace_id).exclude(run_id="")
