"""Drills of a draft, started by its author, in simulated time.

A draft is kept as a revision of a fabric of its own in the workspace of drills, one for each author and name
(``names.draft_name``). So all code of drills also handles drafts. Coverages, schedules and lists of a published
fabric never count them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.texts.text import clean_text
from fabric.models import Fabric, Revision, new_id
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.services.actors import drills_workspace, drills_workspace_ensure
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import drills_abort
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.runs.names import draft_name
from simulator.drills.selectors.draft_fabrics import list_draft_fabrics
from simulator.drills.selectors.drill_views import NOT_FRESH, BatchView, CellView, State, cell_digests
from simulator.drills.selectors.drills import cells_known, coverage
from simulator.drills.services.drill_stop import check_drill_stop
from simulator.drills.services.drills import DrillsAsked, find_seed
from simulator.scenarios.promises.digests import CELLS, Cell, covers, engine_version

Which = Literal["all", "stale", "changed"]
NEWER = "its author has a newer draft of the fabric drilled"


@dataclass(frozen=True, slots=True)
class DraftDrills:
    """Drill results of a draft's cells. They are in no coverage of a published fabric."""

    fabric: str
    author: str
    digest: str
    """Digest of the draft's content."""
    cells: tuple[CellView, ...]
    """All 24 cells, row by row. A verdict about an older draft of the author counts unless something it depends on
    changed.
    """
    batches: tuple[BatchView, ...]
    """Open batches."""
    last: BatchView | None
    """The last ended batch."""

    @property
    def label(self) -> str:
        """Return its name in words."""
        return f"draft of {self.author}"


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell that promises another chain of decisions. Empty chains are unknown; a reason is given."""

    cell: Cell
    before: str
    after: str
    before_why: str = ""
    after_why: str = ""


@dataclass(frozen=True, slots=True)
class MadeStale:
    """Effect of a publication on the coverage of a fabric."""

    cells: tuple[CellView, ...]
    """Cells whose fresh verdict would become stale, without those that the draft's own drills prove: row by row."""
    fresh: int
    """Number of cells with a fresh verdict before the publication."""
    known: tuple[Cell, ...]
    """Cells without a fresh verdict now, for which a drill of the draft or an older one would count."""


def drill_ask_spec(
    *,
    actor: Actor,
    spec: FabricSpec,
    cells: Sequence[Cell] | Which = "all",
    seed: int | None = None,
    reason: str = "",
    wake: Callable[[], None] = lambda: None,
) -> DrillsAsked:
    """Start drills of the actor's draft, in simulated time.

    1. Cells are named, or chosen by a word. ``all``: every cell. ``stale``: those without a fresh verdict about the
       draft. ``changed``: those whose verdict depends on a change of the draft, and all of an unpublished fabric.
    2. Waiting or running cells of this draft are left out; drills of older drafts of the author are stopped.
    3. ``seed``: of each drill; by default drawn. ``wake``: see ``services.drill_ask``.

    Raises Refused: forbidden, invalid (no cell, a wrong seed, a draft that does not compile), conflict (nothing is
    stale or changed, all go on already, the drill stop is pulled, another request at one moment).
    """
    actor = actor.place_at(spec.name)
    right_wanted(actor, Right.RUN, "start drills")
    picked = find_seed(seed)
    compiles(spec)
    wanted = _select_cells(actor, spec, cells)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    try:
        with transaction.atomic():
            check_drill_stop(actor.workspace_id)
            revision = _keep_draft(actor, spec)
            older = Drill.objects.filter(fabric_id=revision.fabric_id).exclude(revision_id=revision.id)
            drills_abort(older, by=actor.name, why=NEWER)
            going = Drill.objects.filter(fabric_id=revision.fabric_id, status__in=OPEN_STATUSES)
            open_now = set(going.values_list("failure", "tier"))
            left = [cell for cell in wanted if (str(cell[0]), str(cell[1])) not in open_now]
            if not left:
                message = f"{_many(wanted)} of this draft wait to be drilled or are drilled right now: wait for the verdicts, or stop them first"
                raise Refused(message, code="conflict", field="cells")
            rows = _rows(actor, revision, spec, left, picked, why)
            for row in rows:  # As in ``services.drill_ask``.
                row.save(force_insert=True)
            told = {"batch": rows[0].batch, "draft": revision.digest, "cells": len(rows), "seed": picked}
            audit_record(actor=actor, act=Act.DRILLS_ASKED, subject=spec.name, **told, reason=why or None)
    except IntegrityError:
        message = "another request for drills of this draft came at the same moment: look at the page again"
        raise Refused(message, code="conflict", field="cells") from None
    wake()
    return DrillsAsked(rows[0].batch, tuple(row.id for row in rows), len(wanted) - len(left))


def compiles(spec: FabricSpec) -> None:
    """Check that a draft's expressions, policies and schemas compile, so that its runs can begin. Raises Refused
    invalid.
    """
    from fabric.composition.engine import (
        compile_revision,  # It loads the ports, which who only looks at drills can do without.
    )

    try:
        compile_revision(spec)
    except (ValueError, KeyError) as error:
        message = f"the draft cannot be compiled, so it cannot be drilled: {error}"
        raise Refused(message, code="invalid", field="draft") from None


def _select_cells(actor: Actor, spec: FabricSpec, cells: Sequence[Cell] | Which) -> tuple[Cell, ...]:
    if cells == "all":
        return CELLS
    if cells == "stale":
        found = tuple(one.cell for one in draft_drills(actor, spec).cells if one.state in NOT_FRESH)
        if not found:
            message = "no cell of this draft is stale: each has a verdict, or is being drilled; run all, or one of them, to have another"
            raise Refused(message, code="conflict", field="cells")
        return found
    if cells == "changed":
        found = changed_cells(actor, spec)
        if not found:
            message = "the draft changes nothing that a verdict about a cell depends on: there is nothing to drill"
            raise Refused(message, code="conflict", field="cells")
        return found
    wanted = tuple(cell for cell in CELLS if cell in set(cells))
    if not wanted:
        raise Refused("no cell is named: name at least one failure and tier", code="invalid", field="cells")
    return wanted


def _many(cells: Sequence[Cell]) -> str:
    return f"all {len(cells)} cells" if len(cells) > 1 else "that cell"


def _keep_draft(actor: Actor, spec: FabricSpec) -> Revision:
    """Return the draft as a revision in the workspace of drills."""
    inside, name, digest = drills_workspace_ensure(actor.workspace_id), draft_name(spec.name, actor.name), spec.digest()
    fabric, _ = Fabric.objects.get_or_create(workspace_id=inside, name=name, defaults={"title": spec.title})
    if (found := Revision.objects.filter(fabric=fabric, digest=digest).first()) is not None:
        return found
    last = Revision.objects.filter(fabric=fabric).aggregate(last=Max("number"))["last"] or 0
    dumped = spec.model_dump_json(by_alias=True)
    return Revision.objects.create(
        workspace_id=inside, fabric=fabric, number=last + 1, digest=digest, spec=dumped, published_by=actor.name
    )


def _rows(
    actor: Actor, revision: Revision, spec: FabricSpec, cells: Sequence[Cell], seed: int, reason: str
) -> list[Drill]:
    digests, batch, now = covers(spec, engine_version()), new_id(), database_us()
    return [
        Drill(
            workspace_id=actor.workspace_id,
            fabric_id=revision.fabric_id,
            revision_id=revision.id,
            number=revision.number,
            mode=VIRTUAL,
            failure=str(failure),
            tier=str(tier),
            seed=seed,
            covers=digests[failure, tier],
            batch=batch,
            place=place,
            asked_by=actor.name,
            via=actor.via,
            reason=reason,
            asked_at=now,
        )
        for place, (failure, tier) in enumerate(cells)
    ]


# -- what is known ---------------------------------------------------------------------------------------------------


def draft_drills(actor: Actor, spec: FabricSpec, author: str = "") -> DraftDrills:
    """Return the drill results of a draft. ``author``: its author; default: the actor."""
    whose, digests = author or actor.name, covers(spec, engine_version())
    inside = drills_workspace(actor.workspace_id)
    rows = Fabric.objects.filter(workspace_id=inside, name=draft_name(spec.name, whose))
    found = rows.values_list("id", flat=True).first() if inside else None
    if found is None:
        never = tuple(CellView(*cell, State.NEVER, None, None) for cell in CELLS)
        return DraftDrills(spec.name, whose, spec.digest(), never, (), None)
    cells, batches, last = cells_known(found, digests)
    return DraftDrills(spec.name, whose, spec.digest(), cells, batches, last)


def changed_cells(actor: Actor, spec: FabricSpec) -> tuple[Cell, ...]:
    """Return the cells whose verdict depends on a change of the draft; all, if nothing is published under its name."""
    try:
        published = cell_digests(fabric_get(actor, spec.name).revision_id)
    except Refused:
        return CELLS
    after = covers(spec, engine_version())
    return tuple(cell for cell in CELLS if published[cell] != after[cell])


def coverage_made_stale(actor: Actor, fabric: str, spec: FabricSpec) -> MadeStale:
    """Return the cells of a fabric's coverage that the draft's publication would make stale.

    Raises Refused not_found, and conflict for an unreadable revision.
    """
    now, after = coverage(actor, fabric), covers(spec, engine_version())
    fresh = [one for one in now.cells if now.fresh(one)]
    missing = [one.cell for one in now.cells if not now.fresh(one)]
    whose = (now.fabric.id, *list_draft_fabrics(actor.workspace_id, fabric))
    rows = Drill.objects.filter(fabric_id__in=whose, mode=VIRTUAL, scenario="").exclude(verdict="")
    counted = set(rows.filter(covers__in=list(after.values())).values_list("covers", flat=True))
    gone = tuple(one for one in fresh if after[one.cell] not in counted)
    return MadeStale(gone, len(fresh), tuple(cell for cell in missing if after[cell] in counted))


def expectation_changes(before: FabricSpec, after: FabricSpec) -> list[CellChange]:
    """Return the cells whose promised chains differ between two fabrics, row by row. No run is made."""
    from simulator.scenarios.baseline.equipment import equip_fabric
    from simulator.scenarios.baseline.work import scripted_models  # They load the engine's world.
    from simulator.scenarios.play.cells import promised_by

    def promise_cell(spec: FabricSpec, cell: Cell) -> tuple[str, str]:
        met, _ = equip_fabric(scripted_models(spec), cell[0])
        chain, why = promised_by(met, *cell, "reject")
        return ("" if chain is None else str(chain)), why

    found = []
    for cell in CELLS:
        (was, why_was), (will, why_will) = promise_cell(before, cell), promise_cell(after, cell)
        if (was, why_was) != (will, why_will):
            found.append(CellChange(cell, was, will, why_was, why_will))
    return found
