"""Lists batches of drills, and prunes old drills of each cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Max, Min

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.selectors.reach import match_visible
from simulator.drills.models.tables import OPEN_STATUSES, Drill
from simulator.drills.runs.names import split_draft_name
from simulator.drills.selectors.drill_views import name_fabric

LIST_MAX = 50
"""Batches in one list at most."""
KEPT = 200
"""Number of newest drills that stay of each cell, or of a scenario in a tier."""
AT_ONCE = 500
"""Number of older drills of a cell that are deleted at a time."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Drills that were requested together. Instants are microseconds since the epoch, on the database's clock."""

    id: str
    first: str
    """Id of its first drill, by which the list is continued."""
    fabric: str
    number: int
    author: str
    """Author of the drilled draft; empty for a published revision."""
    mode: str
    scenario: str
    asked_by: str
    via: str
    reason: str
    asked_at: int
    count: int
    came: Mapping[str, int]
    """Drills by verdict, or by status without one."""
    took: int | None
    """Microseconds from the first begin to the last end; None while it goes on, or before it begins."""

    @property
    def drilled_fabric(self) -> str:
        """Return the drilled fabric: ``research-desk@r8``, or ``research-desk, draft of ana``."""
        return name_fabric(self.fabric, self.number, self.author)


def batches_recent(actor: Actor, *, before: str = "", limit: int = LIST_MAX) -> tuple[list[BatchLine], bool]:
    """Return the newest batches of the workspace, and True if there are older ones.

    ``before``: ``first`` of the last one that was shown.
    """
    rows = Drill.objects.filter(match_visible(actor, Drill), place=0)
    if before:
        rows = rows.filter(id__lt=clean_text(before)[0])
    firsts = list(rows.select_related("fabric").order_by("-id")[: limit + 1])
    told = _batch_results([row.batch for row in firsts[:limit]])
    return [_line(row, *told[row.batch]) for row in firsts[:limit]], len(firsts) > limit


Came = tuple[dict[str, int], int | None]


def _batch_results(batches: list[str]) -> dict[str, Came]:
    """Return the results and duration of each batch."""
    rows = Drill.objects.filter(batch__in=batches).values_list("batch", "verdict", "status").order_by()
    found: dict[str, dict[str, int]] = {}
    begun: dict[str, list[int]] = {}
    ended: dict[str, list[int]] = {}
    goes_on: set[str] = set()
    for batch, verdict, status, count, first, last in rows.annotate(Count("id"), Min("started_at"), Max("ended_at")):
        came = found.setdefault(batch, {})
        came[verdict or status] = came.get(verdict or status, 0) + count
        begun.setdefault(batch, []).extend([first] if first else [])
        ended.setdefault(batch, []).extend([last] if last else [])
        if status in OPEN_STATUSES:
            goes_on.add(batch)
    done = {batch for batch in found if begun[batch] and ended[batch]} - goes_on
    return {
        batch: (came, max(ended[batch]) - min(begun[batch]) if batch in done else None) for batch, came in found.items()
    }


def _line(row: Drill, came: Mapping[str, int], took: int | None) -> BatchLine:
    fabric, author = split_draft_name(row.fabric.name)
    return BatchLine(
        id=row.batch,
        first=row.id,
        fabric=fabric,
        number=row.number,
        author=author,
        mode=row.mode,
        scenario=row.scenario,
        asked_by=row.asked_by,
        via=row.via,
        reason=row.reason,
        asked_at=row.asked_at,
        count=sum(came.values()),
        came=came,
        took=took,
    )


def drills_prune(batch: str) -> int:
    """Delete drills older than the newest ``KEPT`` of each cell of a batch, at most ``AT_ONCE`` each; return their
    number.
    """
    cell = ("fabric_id", "mode", "scenario", "failure", "tier")
    gone = 0
    for values in set(Drill.objects.filter(batch=batch).values_list(*cell)):
        of_cell = Drill.objects.filter(**dict(zip(cell, values, strict=True))).exclude(status__in=OPEN_STATUSES)
        older = list(of_cell.order_by("-id").values_list("id", flat=True)[KEPT : KEPT + AT_ONCE])
        if older:
            gone += Drill.objects.filter(id__in=older).delete()[0]
    return gone
