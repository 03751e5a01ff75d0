"""Drills of a draft: a fabric that is not published, asked for by its author, in virtual time.

A draft is kept as a revision of a fabric of its own in the workspace of drills, one for each author and name (``names.draft_name``).
So the code that drives, stops, prunes and shows drills does it for drafts as well. Coverages, schedules and lists of a published fabric never count them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import Max

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.spec import FabricSpec
from fabric.core.text import clean_text
from fabric.models import Fabric, Revision, new_id
from fabric.selectors.fabrics import fabric_get
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX
from fabric.services.workspaces import drills_workspace, drills_workspace_ensure
from simulator.drills.batches import drills_abort
from simulator.drills.covers import CELLS, Cell, covers, engine_version
from simulator.drills.lever import lever_rests
from simulator.drills.models import OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.names import draft_name
from simulator.drills.selectors import (
    BatchView,
    CellView,
    State,
    cell_digests,
    cells_known,
    coverage,
)
from simulator.drills.services import NOT_FRESH, Asked, seed_of

Which = Literal["all", "stale", "changed"]
NEWER = "its author has a newer draft of the fabric drilled"


@dataclass(frozen=True, slots=True)
class DraftDrills:
    """What the cells of a draft have been shown to do. In no coverage of what is published."""

    fabric: str
    author: str
    digest: str
    """Of the draft's content."""
    cells: tuple[CellView, ...]
    """All 24, row by row. A verdict about an older draft of the same author holds where nothing that it depends on is another since; else it is stale."""
    batches: tuple[BatchView, ...]
    """Those that go on."""
    last: BatchView | None
    """The one that ended last."""

    @property
    def label(self) -> str:
        """What it is, in words."""
        return f"draft of {self.author}"


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell that promises another chain of decisions. Empty: the promise is not known, and why."""

    cell: Cell
    before: str
    after: str
    before_why: str = ""
    after_why: str = ""


@dataclass(frozen=True, slots=True)
class MadeStale:
    """What a publication would do to the coverage of a fabric."""

    cells: tuple[CellView, ...]
    """Cells with a verdict about what they are now, which would be about what they were: as they stand, row by row."""
    fresh: int
    """Cells that have such a verdict before."""
    known: tuple[Cell, ...]
    """Cells whose verdict is stale or missing now, and about which an older drill would count again."""


def drill_ask_spec(
    *,
    actor: Actor,
    spec: FabricSpec,
    cells: Sequence[Cell] | Which = "all",
    seed: int | None = None,
    reason: str = "",
    wake: Callable[[], None] = lambda: None,
) -> Asked:
    """Asks for drills of a draft of the actor's, in virtual time. The cells are named, or a word names them.

    ``all``: every cell. ``stale``: those without a fresh verdict about the draft. ``changed``: those whose verdict depends on something that the
    draft changes, and all of a fabric that is not published.
    A cell of the same draft that waits or runs already is left out; what goes on of an older draft of the same author and fabric is stopped. ``seed``: of each
    drill; without it one is drawn. ``wake``: as ``services.drill_ask``. Raises Refused: forbidden, invalid (no cell, no seed, a draft that does not compile),
    conflict (nothing is stale or changed, all go on already, the lever is pulled, somebody asked at the same moment).
    """
    actor = actor.at(spec.name)
    right_wanted(actor, Right.RUN, "ask for drills")
    picked = seed_of(seed)
    compiles(spec)
    wanted = _meant(actor, spec, cells)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    try:
        with transaction.atomic():
            lever_rests(actor.workspace_id)
            revision = _kept(actor, spec)
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
        message = "somebody else asked for drills of this draft at the same moment: look at the page again"
        raise Refused(message, code="conflict", field="cells") from None
    wake()
    return Asked(rows[0].batch, tuple(row.id for row in rows), len(wanted) - len(left))


def compiles(spec: FabricSpec) -> None:
    """Refused invalid for a draft whose expressions, policies or schemas cannot be compiled: no run of it could begin."""
    from fabric.wiring import compile_revision  # It loads the ports, which who only looks at drills can do without.

    try:
        compile_revision(spec)
    except (ValueError, KeyError) as error:
        message = f"the draft cannot be compiled, so it cannot be drilled: {error}"
        raise Refused(message, code="invalid", field="draft") from None


def _meant(actor: Actor, spec: FabricSpec, cells: Sequence[Cell] | Which) -> tuple[Cell, ...]:
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


def _kept(actor: Actor, spec: FabricSpec) -> Revision:
    """The draft as a revision in the workspace of drills."""
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


# -- what is known -----------------------------------------------------------------------------------------------------


def draft_drills(actor: Actor, spec: FabricSpec, author: str = "") -> DraftDrills:
    """What the cells of a draft have been shown to do. ``author``: whose it is; empty: the actor's."""
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
    """Cells whose verdict depends on something that is another in the draft than in what is published under its name; all, where nothing is."""
    try:
        published = cell_digests(fabric_get(actor, spec.name).revision_id)
    except Refused:
        return CELLS
    after = covers(spec, engine_version())
    return tuple(cell for cell in CELLS if published[cell] != after[cell])


def coverage_made_stale(actor: Actor, fabric: str, spec: FabricSpec) -> MadeStale:
    """Which cells of a fabric's coverage would be stale once the draft was published. Refused not_found, and conflict for a revision that cannot be read."""
    now, after = coverage(actor, fabric), covers(spec, engine_version())
    fresh = [one for one in now.cells if now.fresh(one)]
    gone = tuple(one for one in fresh if one.last is not None and one.last.covers != after[one.cell])
    missing = [one.cell for one in now.cells if not now.fresh(one)]
    rows = Drill.objects.filter(fabric_id=now.fabric.id, mode=VIRTUAL, scenario="").exclude(verdict="")
    counted = set(rows.filter(covers__in=[after[cell] for cell in missing]).values_list("covers", flat=True))
    return MadeStale(gone, len(fresh), tuple(cell for cell in missing if after[cell] in counted))


def expectation_changes(before: FabricSpec, after: FabricSpec) -> list[CellChange]:
    """The cells whose promised chains differ, row by row: what the drills would expect of each of two fabrics. No run is made."""
    from simulator.drills.baseline import scripted_models  # They load the engine's world.
    from simulator.drills.cells import promised_by
    from simulator.drills.equipping import equipped

    def promised(spec: FabricSpec, cell: Cell) -> tuple[str, str]:
        met, _ = equipped(scripted_models(spec), cell[0])
        chain, why = promised_by(met, *cell, "reject")
        return ("" if chain is None else str(chain)), why

    found = []
    for cell in CELLS:
        (was, why_was), (will, why_will) = promised(before, cell), promised(after, cell)
        if (was, why_was) != (will, why_will):
            found.append(CellChange(cell, was, will, why_was, why_will))
    return found
