"""Batches of drills as they are listed, and how many drills of each cell are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Count, Max, Min

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.selectors.reach import seen_by
from simulator.drills.models import OPEN_STATUSES, Drill
from simulator.drills.names import drafted
from simulator.drills.selectors import said_of

LIST_MAX = 50
"""Batches in one list at most."""
KEPT = 200
"""Drills of each cell of a fabric, or of a scenario in a tier, that stay: the newest."""
AT_ONCE = 500
"""Older ones of a cell that go at a time."""


@dataclass(frozen=True, slots=True)
class BatchLine:
    """Drills that were asked for together. Instants are microseconds since the epoch, on the database's clock."""

    id: str
    first: str
    """Id of its first drill, by which the list is continued."""
    fabric: str
    number: int
    author: str
    """Whose draft of the fabric was drilled; empty: it was a published revision."""
    mode: str
    scenario: str
    asked_by: str
    via: str
    reason: str
    asked_at: int
    count: int
    came: Mapping[str, int]
    """Drills by verdict, or by status where they have none."""
    took: int | None
    """From the first one's beginning to the last one's end, microseconds; None: it goes on, or none was begun."""

    @property
    def of(self) -> str:
        """What was drilled: ``research-desk@r8``, or ``research-desk, draft of ana``."""
        return said_of(self.fabric, self.number, self.author)


def batches_recent(actor: Actor, *, before: str = "", limit: int = LIST_MAX) -> tuple[list[BatchLine], bool]:
    """The newest batches of the workspace first, and whether there are older ones. ``before``: ``first`` of the last one that was seen."""
    rows = Drill.objects.filter(seen_by(actor, Drill), place=0)
    if before:
        rows = rows.filter(id__lt=clean_text(before)[0])
    firsts = list(rows.select_related("fabric").order_by("-id")[: limit + 1])
    told = _told([row.batch for row in firsts[:limit]])
    return [_line(row, *told[row.batch]) for row in firsts[:limit]], len(firsts) > limit


Came = tuple[dict[str, int], int | None]


def _told(batches: list[str]) -> dict[str, Came]:
    """Of each batch: what it came to, and how long it took."""
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
    fabric, author = drafted(row.fabric.name)
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
    """Deletes what is older than the newest ``KEPT`` drills of each cell that a batch has drilled, ``AT_ONCE`` of each at most. How many."""
    cell = ("fabric_id", "mode", "scenario", "failure", "tier")
    gone = 0
    for values in set(Drill.objects.filter(batch=batch).values_list(*cell)):
        of_cell = Drill.objects.filter(**dict(zip(cell, values, strict=True))).exclude(status__in=OPEN_STATUSES)
        older = list(of_cell.order_by("-id").values_list("id", flat=True)[KEPT : KEPT + AT_ONCE])
        if older:
            gone += Drill.objects.filter(id__in=older).delete()[0]
    return gone
