"""Services that start and stop drills. ``conductor`` and ``batches`` execute them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.texts.text import clean_text
from fabric.models import Revision, new_id
from fabric.selectors.fabrics.lookup import RevisionPage, revision_get
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import drills_abort
from simulator.drills.live.conditions import DrillMode, how_asked
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill
from simulator.drills.selectors.drill_views import NOT_FRESH
from simulator.drills.selectors.drills import batch_get, coverage
from simulator.drills.services.drill_stop import check_drill_stop
from simulator.scenarios.promises.digests import CELLS, Cell, covers, engine_version

SEED_MAX = 2**31 - 1
Which = Literal["all", "stale"]


@dataclass(frozen=True, slots=True)
class DrillsAsked:
    """Result of a request."""

    batch: str
    drills: tuple[str, ...]
    """Ids of the drills, in the order of execution."""
    left_out: int
    """Requested cells that wait or run already."""


def drill_ask(
    *,
    actor: Actor,
    fabric: str,
    cells: Sequence[Cell] | Which,
    number: int | None = None,
    seed: int | None = None,
    reason: str = "",
    mode: str = VIRTUAL,
    cap_usd_micros: int | None = None,
    cap_s: int | None = None,
    wake: Callable[[], None] = lambda: None,
) -> DrillsAsked:
    """Start drills of cells: named ones, ``all``, or those without a fresh verdict (``stale``).

    Waiting or running cells are left out. ``number``: of the revision; default: the published one. ``seed``: of each
    drill; by default drawn. ``mode``: ``virtual``, or ``live`` with the caps of ``how_asked``. ``wake``: called
    when the rows are written; it may fail: the conductor looks by itself. Raises Refused: forbidden, not_found, invalid
    (cells, seed, mode, cap), conflict (nothing to drill, or the drill stop is pulled), live: unavailable (no worker).
    """
    right_wanted(actor := actor.place_at(fabric), Right.RUN, "start drills")
    page = revision_get(actor, fabric, number)
    how = how_asked(actor, page.spec, mode, cap_usd_micros, cap_s)
    picked = find_seed(seed)
    wanted = cells_meant(actor, page, cells, mode)
    open_now = set(_open(page.fabric.id, mode).values_list("failure", "tier"))
    left = [cell for cell in wanted if cell not in open_now]
    if not left:
        those = "that cell waits" if len(wanted) == 1 else f"all {len(wanted)} cells wait"
        raise Refused(
            f"{those} to be drilled or {'is' if len(wanted) == 1 else 'are'} drilled right now: wait for the verdict, or stop it first",
            code="conflict",
            field="cells",
        )
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    rows = _rows(actor, page, left, picked, why, how)
    try:
        with transaction.atomic():
            check_drill_stop(actor.workspace_id)
            for row in (
                rows
            ):  # In one statement PostgreSQL would unnest arrays of a type with a collation, which there is not.
                row.save(force_insert=True)
            told = {"batch": rows[0].batch, "number": page.number, "cells": len(rows), "seed": picked, **how.facts}
            audit_record(actor=actor, act=Act.DRILLS_ASKED, subject=page.fabric.id, **told, reason=why or None)
    except IntegrityError:
        message = "another request for one of these cells came at the same moment: look at the page again"
        raise Refused(message, code="conflict", field="cells") from None
    wake()
    return DrillsAsked(rows[0].batch, tuple(row.id for row in rows), len(wanted) - len(left))


def stop_drills(*, actor: Actor, batch: str, reason: str = "") -> int:
    """Stop the rest of a batch; return the number of drills.

    Waiting ones never begin, running ones end within a second, and a live one's run within two. Raises Refused:
    not_found, forbidden (another person's, and the actor is no operator), conflict (all have ended).
    """
    seen = batch_get(actor, batch)
    if not may_stop(actor, seen.asked_by):
        message = f"{seen.asked_by} asked for these drills: {actor.name} may look on, and stopping them is for {holders(Right.OPERATE)}"
        raise Refused(message, code="forbidden", field="actor")
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    with transaction.atomic():
        stopped = drills_abort(Drill.objects.filter(batch=seen.id), by=actor.name, why=why)
        if stopped:
            told = {"fabric": seen.drills[0].fabric, "cells": stopped, "reason": why or None}
            audit_record(actor=actor, act=Act.DRILLS_STOPPED, subject=seen.id, **told)
    if not stopped:
        raise Refused("these drills have all ended: there is nothing to stop", code="conflict", field="batch")
    return stopped


def may_stop(actor: Actor, asked_by: str) -> bool:
    """Return True if the actor may stop the drills that ``asked_by`` started."""
    return actor.may(Right.OPERATE) or (actor.name == asked_by and actor.may(Right.RUN))


def _open(fabric_id: str, mode: str) -> QuerySet[Drill]:
    return Drill.objects.filter(fabric_id=fabric_id, mode=mode, scenario="", status__in=OPEN_STATUSES)


def find_seed(seed: int | None) -> int:
    """Return the given seed, or draw one. Raises Refused invalid."""
    if seed is None:
        return secrets.randbelow(SEED_MAX) + 1
    if not 0 <= seed <= SEED_MAX:
        raise Refused(f"{seed} is no seed: give a whole number from 0 to {SEED_MAX}", code="invalid", field="seed")
    return seed


def cells_meant(actor: Actor, page: RevisionPage, cells: Sequence[Cell] | Which, mode: str) -> tuple[Cell, ...]:
    """Return the chosen cells, each once, row by row. Raises Refused: conflict (nothing is stale), invalid (no
    cell).
    """
    if cells == "all":
        return CELLS
    if cells == "stale":
        found = coverage(actor, page.fabric.name, mode).cells
        stale = tuple(one.cell for one in found if one.state in NOT_FRESH)
        if not stale:
            message = "no cell is stale: each has a verdict about what it is now, or is being drilled; run all, or one of them, to have another"
            raise Refused(message, code="conflict", field="cells")
        return stale
    wanted = tuple(cell for cell in CELLS if cell in set(cells))
    if not wanted:
        raise Refused("no cell is named: name at least one failure and tier", code="invalid", field="cells")
    return wanted


def _rows(
    actor: Actor, page: RevisionPage, cells: Sequence[Cell], seed: int, reason: str, how: DrillMode
) -> list[Drill]:
    digests, batch, now = covers(page.spec, engine_version()), new_id(), database_us()
    revision = Revision.objects.get(fabric_id=page.fabric.id, number=page.number)
    return [
        Drill(
            workspace_id=actor.workspace_id,
            fabric_id=page.fabric.id,
            revision_id=revision.id,
            number=page.number,
            mode=how.mode,
            cap_usd_micros=how.cap_of(failure),
            cap_s=how.cap_s,
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
