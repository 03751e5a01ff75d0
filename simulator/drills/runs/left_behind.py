"""Finds ended live drills whose effects may remain. Workers look every few seconds, so this loads no port."""

from __future__ import annotations

from fabric.models import Run, Workspace
from fabric.models.runs.run import LIVE
from simulator.drills.models.tables import LIVE as LIVE_MODE
from simulator.drills.models.tables import OPEN_STATUSES, Drill, Status

REPORT = "rollback"
"""Key of the report in a drill's body."""
UNREPORTED = (Status.ABORTED, Status.INTERRUPTED, Status.FAILED)
"""States in which a live drill may lack its report: a completed one stored it with its verdict."""
_OF = ("id", "workspace_id")


def list_left_behind() -> list[tuple[str, str]]:
    """Return ``(workspace, drill)`` of each ended live drill whose effects may remain: it has a live run, or no report.

    Its process can be killed after its runs have ended, and before it closed its breakers or stored its report.
    """
    spaces = dict(Workspace.objects.filter(drills_of__isnull=False).values_list("drills_of_id", "id"))
    runs = Run.objects.filter(LIVE, workspace_id__in=list(spaces.values())).exclude(start_key="")
    with_runs = {key.partition(":")[0] for key in runs.values_list("start_key", flat=True)}
    drills = Drill.objects.filter(mode=LIVE_MODE, started_at__isnull=False, workspace_id__in=list(spaces))
    ended = drills.exclude(status__in=OPEN_STATUSES)
    unreported = drills.filter(status__in=UNREPORTED).exclude(body__contains=f'"{REPORT}"')
    found = {*ended.filter(id__in=with_runs).values_list(*_OF), *unreported.values_list(*_OF)}
    return [(spaces[workspace], drill) for drill, workspace in sorted(found)]
