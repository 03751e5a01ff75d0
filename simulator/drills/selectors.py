"""Drills as they are looked at: what a fabric's 24 cells have been shown to do, one drill, and those that were done last."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet, Subquery

from fabric.core.actor import Actor
from fabric.core.taxonomy import FailureType, Tier
from fabric.core.text import clean_text
from fabric.models import Fabric
from fabric.selectors.contents import may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import FabricView, RevisionPage, revision_get, revision_spec
from fabric.selectors.reach import seen_by
from simulator.drills.covers import Cell, covers, engine_version
from simulator.drills.models import OPEN_STATUSES, VIRTUAL, Drill, Status
from simulator.drills.names import drafted
from simulator.drills.withheld import mask_drill

JSON = Any
LIST_MAX = 100
"""Drills in one list at most."""


class State(StrEnum):
    """What is known of a cell."""

    PASS = "pass"  # noqa: S105 - A verdict.
    DEVIATED = "deviated"
    ERROR = "error"
    UNKNOWN = "unknown"
    STALE = "stale"
    """It was drilled, and something that its verdict depends on is another by now."""
    NEVER = "never"
    QUEUED = "queued"
    RUNNING = "running"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillView:
    """One drill. Instants are microseconds since the epoch, UTC."""

    id: str
    fabric: str
    """Its fabric's name."""
    number: int
    revision_id: str
    author: str
    """Whose draft of the fabric was drilled; empty: it was a published revision."""
    mode: str
    scenario: str
    """Name of the scenario that is played; empty: the cell itself is drilled."""
    source: str = field(repr=False)
    """The scenario as it was asked for, TOML."""
    parameters: Mapping[str, JSON]
    """What was given in place of the scenario's own."""
    failure: FailureType | None
    """None: a scenario that promises no decision."""
    cap_usd_micros: int | None
    """A live one that has cost so much is ended."""
    cap_s: int | None
    """A live one that has taken so long is ended."""
    tier: Tier
    seed: int
    covers: str
    batch: str
    place: int
    asked_by: str
    reason: str
    asked_at: int
    status: Status
    started_at: int | None
    ended_at: int | None
    verdict: str
    """Empty: it has none."""
    expected: str
    observed: str
    why: str
    stopped_by: str
    run_id: str
    """The run that was disturbed, in the workspace of drills; empty: it was not kept."""
    body: Mapping[str, JSON] = field(repr=False)

    @property
    def of(self) -> str:
        """What was drilled: ``research-desk@r8``, or ``research-desk, draft of ana``."""
        return said_of(self.fabric, self.number, self.author)

    @property
    def cell(self) -> Cell | None:
        """Which it is of, or whose row its scenario enters; None: it promises no decision."""
        return None if self.failure is None else (self.failure, self.tier)

    @property
    def ended(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.status not in OPEN_STATUSES

    @property
    def took(self) -> int | None:
        """How long it took, microseconds; None: it has not ended, or was never begun."""
        return None if self.started_at is None or self.ended_at is None else self.ended_at - self.started_at

    @property
    def equipped(self) -> tuple[str, ...]:
        """What the fabric was given so that the failure could be met."""
        return tuple(self.body.get("equipped", ()))


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell, and what is known of it."""

    failure: FailureType
    tier: Tier
    state: State
    last: DrillView | None
    """The drill that the state is by: the newest about what the cell is now; else the newest of all; None: it was never drilled."""
    now: DrillView | None
    """The drill that waits or runs."""

    @property
    def cell(self) -> Cell:
        """Which it is."""
        return self.failure, self.tier


@dataclass(frozen=True, slots=True)
class BatchView:
    """Drills that were asked for together."""

    id: str
    asked_by: str
    asked_at: int
    drills: tuple[DrillView, ...]

    @property
    def done(self) -> int:
        """Those that have ended."""
        return sum(one.ended for one in self.drills)

    @property
    def running(self) -> DrillView | None:
        """The one that is under way."""
        return next((one for one in self.drills if one.status is Status.RUNNING), None)

    @property
    def took_s(self) -> float | None:
        """From the first one's beginning to the last one's end, seconds; None while it goes on, or where none was begun."""
        begun = [one.started_at for one in self.drills if one.started_at]
        ended = [one.ended_at for one in self.drills if one.ended_at]
        return (max(ended) - min(begun)) / 1e6 if begun and len(ended) == len(self.drills) else None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the cells of a fabric's published revision have been shown to do."""

    page: RevisionPage
    cells: tuple[CellView, ...]
    """All 24, row by row."""
    batches: tuple[BatchView, ...]
    """Those of this fabric that go on, the first in turn first."""
    ahead: int
    """Batches of this installation and mode, whoever asked for them, that are done before the first of them."""
    last: BatchView | None
    """The one that ended last."""
    mode: str = VIRTUAL

    @property
    def fabric(self) -> FabricView:
        """The fabric."""
        return self.page.fabric

    @property
    def counts(self) -> Mapping[State, int]:
        """How many cells are in each state."""
        return Counter(one.state for one in self.cells)

    @property
    def proven(self) -> int:
        """Cells that have been shown to do, as they are now, what the table says. Also those that are drilled again right now."""
        return sum(self.fresh(one) and one.last is not None and one.last.verdict == State.PASS for one in self.cells)

    def fresh(self, one: CellView) -> bool:
        """Whether a cell's last verdict is about what the cell is now."""
        return one.last is not None and one.last.covers == cell_digests(self.fabric.revision_id)[one.cell]


@lru_cache(maxsize=256)
def cell_digests(revision_id: str) -> Mapping[Cell, str]:
    """What the verdict about each cell of a revision depends on. A revision never changes, nor does the engine while a process lives."""
    return covers(revision_spec(revision_id), engine_version())


def coverage(actor: Actor, fabric: str, mode: str = VIRTUAL) -> Coverage:
    """The coverage of a fabric as it is published, by drills of one mode. Refused not_found, and conflict for a revision that cannot be read."""
    page = revision_get(actor, fabric)
    digests = cell_digests(page.fabric.revision_id)
    cells, batches, last = cells_known(page.fabric.id, digests, mode)
    return Coverage(page, cells, batches, _ahead(batches, mode), last, mode)


def cells_known(
    fabric_id: str, digests: Mapping[Cell, str], mode: str = VIRTUAL
) -> tuple[tuple[CellView, ...], tuple[BatchView, ...], BatchView | None]:
    """What is known of each of the 24 cells, row by row, the batches that go on, and the one that ended last. ``fabric_id``: whose drills; ``digests``: what
    a verdict has to be about.
    """
    rows = Drill.objects.filter(fabric_id=fabric_id, mode=mode, scenario="")
    # First what is under way: what ends meanwhile is then shown as it was, and never as nothing at all.
    open_now = {(one.failure, one.tier): one for one in rows.filter(status__in=OPEN_STATUSES).select_related("fabric")}
    newest, fresh = _newest(fabric_id, rows, digests)
    batches = _batches({one.batch for one in open_now.values()})
    last = rows.filter(ended_at__isnull=False).order_by("-id").values_list("batch", flat=True).first()
    known = {
        one.id: view(one) for one in rows.filter(id__in={*newest.values(), *fresh.values()}).select_related("fabric")
    }
    cells = tuple(
        _cell(cell, known.get(fresh[cell] or ""), known.get(newest[cell] or ""), open_now.get((str(cell[0]), str(cell[1]))))
        for cell in digests
    )  # fmt: skip
    ordered = tuple(sorted(cells, key=lambda one: (list(FailureType).index(one.failure), list(Tier).index(one.tier))))
    ended = _batches({last}) if last and last not in {one.id for one in batches} else ()
    return ordered, batches, ended[0] if ended else None


def _newest(
    fabric_id: str, rows: QuerySet[Drill], digests: Mapping[Cell, str]
) -> tuple[dict[Cell, Any], dict[Cell, Any]]:
    """Ids of each cell's newest drill with a verdict, and of the newest about what the cell is now: a look into an index each, in one query."""
    judged = rows.exclude(verdict="").order_by("-id").values("id")
    asked: list[Subquery] = []
    for (failure, tier), digest in digests.items():
        asked.append(Subquery(judged.filter(failure=str(failure), tier=str(tier))[:1]))
        asked.append(Subquery(judged.filter(covers=digest)[:1]))
    named = {f"c{n}": one for n, one in enumerate(asked)}
    found = Fabric.objects.filter(id=fabric_id).annotate(**named).values_list(*named).get()
    return dict(zip(digests, found[::2], strict=True)), dict(zip(digests, found[1::2], strict=True))


def _cell(cell: Cell, fresh: DrillView | None, newest: DrillView | None, open_now: Drill | None) -> CellView:
    if open_now is not None:
        state = State(open_now.status)
    elif fresh is not None:
        state = State(fresh.verdict)
    else:
        state = State.STALE if newest is not None else State.NEVER
    return CellView(*cell, state, fresh or newest, view(open_now) if open_now else None)


def _batches(ids: set[str]) -> tuple[BatchView, ...]:
    """Batches whole, the oldest first."""
    found: dict[str, list[DrillView]] = {one: [] for one in sorted(ids)}
    for row in Drill.objects.filter(batch__in=ids).select_related("fabric").order_by("batch", "place"):
        found[row.batch].append(view(row))
    return tuple(BatchView(one, drills[0].asked_by, drills[0].asked_at, tuple(drills)) for one, drills in found.items())


def _ahead(batches: Sequence[BatchView], mode: str) -> int:
    if not batches:
        return 0
    others = Drill.objects.filter(status__in=OPEN_STATUSES, mode=mode, batch__lt=batches[0].id)
    return others.values("batch").distinct().count()


# -- one, and lists ----------------------------------------------------------------------------------------------------


def drill_get(actor: Actor, drill_id: str) -> DrillView:
    """One drill. Refused not_found."""
    return _shown(actor, view(_row(actor, drill_id)))


def batch_get(actor: Actor, batch: str) -> BatchView:
    """Drills that were asked for together. Refused not_found."""
    known = clean_text(batch)[0]
    if not Drill.objects.filter(seen_by(actor, Drill), batch=known).exists():
        raise Refused(f"there is no batch of drills {batch[:80]!r} in this workspace", code="not_found", field="batch")
    found = _batches({known})[0]
    return replace(found, drills=tuple(_shown(actor, one) for one in found.drills))


def drills_recent(
    actor: Actor,
    *,
    fabric: str = "",
    cell: Cell | None = None,
    scenario: str = "",
    tier: Tier | None = None,
    mode: str = VIRTUAL,
    before: str = "",
    limit: int = LIST_MAX,
) -> tuple[list[DrillView], bool]:
    """The newest drills first, and whether there are older ones. ``cell``: drilled itself, by no scenario, in this ``mode``. ``before``: the id of the last one that was seen."""
    rows = Drill.objects.filter(seen_by(actor, Drill))
    if fabric:
        rows = rows.filter(fabric__name=clean_text(fabric)[0])
    if cell is not None:
        rows = rows.filter(mode=mode, scenario="", failure=str(cell[0]), tier=str(cell[1]))
    if scenario:
        rows = rows.filter(scenario=clean_text(scenario)[0])
    if tier is not None:
        rows = rows.filter(tier=str(tier))
    if before:
        rows = rows.filter(id__lt=clean_text(before)[0])
    found = [_shown(actor, view(row)) for row in rows.select_related("fabric").order_by("-id")[: limit + 1]]
    return found[:limit], len(found) > limit


def _shown(actor: Actor, seen: DrillView) -> DrillView:
    return mask_drill(seen, reads=may_read(actor, seen.fabric))


def drills_open_count(actor: Actor, most: int) -> int:
    """Drills of the workspace that wait or run; at most ``most``."""
    rows = Drill.objects.filter(seen_by(actor, Drill), status__in=OPEN_STATUSES)
    return rows.values("id")[:most].count()


def _row(actor: Actor, drill_id: str) -> Drill:
    rows = Drill.objects.filter(seen_by(actor, Drill)).select_related("fabric")
    found = rows.filter(id=clean_text(str(drill_id))[0]).first()
    if found is None:
        raise Refused(f"there is no drill {str(drill_id)[:80]!r} in this workspace", code="not_found", field="drill")
    return found


def said_of(fabric: str, number: int, author: str) -> str:
    """What a drill is of, in words. ``author``: of a draft; empty: it is the revision of that number."""
    return f"{fabric}, draft of {author}" if author else f"{fabric}@r{number}"


def view(row: Drill) -> DrillView:
    """A row as it is looked at."""
    fabric, author = drafted(row.fabric.name)
    return DrillView(
        id=row.id,
        fabric=fabric,
        number=row.number,
        revision_id=row.revision_id,
        author=author,
        mode=row.mode,
        scenario=row.scenario,
        source=row.source,
        parameters=json.loads(row.parameters or "{}"),
        failure=FailureType(row.failure) if row.failure else None,
        cap_usd_micros=row.cap_usd_micros,
        cap_s=row.cap_s,
        tier=Tier(row.tier),
        seed=row.seed,
        covers=row.covers,
        batch=row.batch,
        place=row.place,
        asked_by=row.asked_by,
        reason=row.reason,
        asked_at=row.asked_at,
        status=Status(row.status),
        started_at=row.started_at,
        ended_at=row.ended_at,
        verdict=row.verdict,
        expected=row.expected,
        observed=row.observed,
        why=row.why,
        stopped_by=row.stopped_by,
        run_id=row.run_id,
        body=json.loads(row.body),
    )
