"""Reads drills: a fabric's coverage, one drill, and the newest ones.

A reader without the right to contents gets a masked drill: decisions and times stay, sentences that may quote a content
go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import JSON
from fabric.models import Fabric
from fabric.selectors.contents import UNREAD_LINE, line_for, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import revision_get
from fabric.selectors.reach import match_visible
from simulator.drills.models.tables import OPEN_STATUSES, VIRTUAL, Drill, Status
from simulator.drills.runs.names import split_draft_name
from simulator.drills.selectors.draft_fabrics import convert_instant, list_draft_fabrics
from simulator.drills.selectors.drill_views import BatchView, CellView, Coverage, DrillView, State, cell_digests
from simulator.scenarios.play.verdicts import deviate, split_reason
from simulator.scenarios.promises.digests import Cell

LIST_MAX = 100
"""Drills in one list at most."""


def coverage(actor: Actor, fabric: str, mode: str = VIRTUAL) -> Coverage:
    """Return the coverage of a published fabric, by drills of one mode.

    Raises Refused not_found, and conflict for an unreadable revision.
    """
    page = revision_get(actor, fabric)
    digests = cell_digests(page.fabric.revision_id)
    drafts = tuple(list_draft_fabrics(actor.workspace_id, page.fabric.name)) if mode == VIRTUAL else ()
    cells, batches, last = cells_known(page.fabric.id, digests, mode, drafts, convert_instant(page.fabric.published_at))
    return Coverage(page, cells, batches, _ahead(batches, mode), last, mode)


def cells_known(
    fabric_id: str, digests: Mapping[Cell, str], mode: str = VIRTUAL, drafts: Sequence[str] = (), published_at: int = 0
) -> tuple[tuple[CellView, ...], tuple[BatchView, ...], BatchView | None]:
    """Return the 24 cells row by row, the open batches, and the last ended one.

    ``fabric_id``: whose drills. ``digests``: digests of fresh verdicts. ``drafts``: fabrics of its drilled drafts, and
    ``published_at``: instant of its published revision, microseconds. A verdict about a draft counts for an equal cell.
    An unequal one is stale only if it was asked for before that: a newer draft says nothing about what is published.
    """
    drills = Drill.objects.filter(mode=mode, scenario="")
    rows = drills.filter(fabric_id=fabric_id)
    # Open ones first: a drill that ends meanwhile is then shown as open, and never as missing.
    open_now = {(one.failure, one.tier): one for one in rows.filter(status__in=OPEN_STATUSES).select_related("fabric")}
    newest, fresh = _newest(drills, fabric_id, digests, drafts, published_at)
    batches = _batches({one.batch for one in open_now.values()})
    last = rows.filter(ended_at__isnull=False).order_by("-id").values_list("batch", flat=True).first()
    known = {
        one.id: view(one) for one in drills.filter(id__in={*newest.values(), *fresh.values()}).select_related("fabric")
    }
    cells = tuple(
        _cell(cell, known.get(fresh[cell] or ""), known.get(newest[cell] or ""), open_now.get((str(cell[0]), str(cell[1]))))
        for cell in digests
    )  # fmt: skip
    ordered = tuple(sorted(cells, key=lambda one: (list(FailureType).index(one.failure), list(Tier).index(one.tier))))
    ended = _batches({last}) if last and last not in {one.id for one in batches} else ()
    return ordered, batches, ended[0] if ended else None


def _newest(
    drills: QuerySet[Drill], fabric_id: str, digests: Mapping[Cell, str], drafts: Sequence[str], published_at: int
) -> tuple[dict[Cell, Any], dict[Cell, Any]]:
    """Return ids of each cell's newest judged drill, and of the newest about the present cell.

    It is one query of an index look-up each, for each of the fabrics.
    """
    judged = drills.filter(fabric_id=OuterRef("pk")).exclude(verdict="").order_by("-id").values("id")
    counted = judged.filter(Q(fabric_id=fabric_id) | Q(asked_at__lt=published_at)) if drafts else judged
    asked: list[Subquery] = []
    for (failure, tier), digest in digests.items():
        asked.append(Subquery(counted.filter(failure=str(failure), tier=str(tier))[:1]))
        asked.append(Subquery(judged.filter(covers=digest)[:1]))
    named = {f"c{n}": one for n, one in enumerate(asked)}
    rows = Fabric.objects.filter(id__in=(fabric_id, *drafts)).annotate(**named).values_list(*named)
    found = [max(filter(None, column), default=None) for column in zip(*rows, strict=True)]
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
    """Return complete batches, the oldest first."""
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
    """Return one drill. Raises Refused not_found."""
    return _masked_view(actor, view(_row(actor, drill_id)))


def batch_get(actor: Actor, batch: str) -> BatchView:
    """Return a batch of drills. Raises Refused not_found."""
    known = clean_text(batch)[0]
    if not Drill.objects.filter(match_visible(actor, Drill), batch=known).exists():
        raise Refused(f"there is no batch of drills {batch[:80]!r} in this workspace", code="not_found", field="batch")
    found = _batches({known})[0]
    return replace(found, drills=tuple(_masked_view(actor, one) for one in found.drills))


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
    """Return the newest drills, and True if there are older ones.

    ``cell``: drilled itself, by no scenario, in this ``mode``. ``before``: the id of the last one that was shown.
    """
    rows = Drill.objects.filter(match_visible(actor, Drill))
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
    found = [_masked_view(actor, view(row)) for row in rows.select_related("fabric").order_by("-id")[: limit + 1]]
    return found[:limit], len(found) > limit


def _masked_view(actor: Actor, seen: DrillView) -> DrillView:
    return mask_drill(seen, reads=may_read(actor, seen.fabric))


def drills_open_count(actor: Actor, most: int) -> int:
    """Return the number of waiting or running drills of the workspace, counted to ``most``."""
    rows = Drill.objects.filter(match_visible(actor, Drill), status__in=OPEN_STATUSES)
    return rows.values("id")[:most].count()


def _row(actor: Actor, drill_id: str) -> Drill:
    rows = Drill.objects.filter(match_visible(actor, Drill)).select_related("fabric")
    found = rows.filter(id=clean_text(str(drill_id))[0]).first()
    if found is None:
        raise Refused(f"there is no drill {str(drill_id)[:80]!r} in this workspace", code="not_found", field="drill")
    return found


def view(row: Drill) -> DrillView:
    """Return a row as a view."""
    fabric, author = split_draft_name(row.fabric.name)
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


SENTENCES = {"moments": "said", "decisions": "evidence"}
"""Lists of a story with sentences of a journal, and their field; ``unread`` beside it has the sentence without
quotes.
"""
PROBED = ("output", "said", "why_not")
"""Fields of a scenario's probe that may quote a run's contents."""


def mask_drill(seen: DrillView, *, reads: bool) -> DrillView:
    """Return the drill as its reader sees it. ``reads``: the reader has the right to contents at its fabric."""
    if reads:
        return seen
    body = dict(seen.body)
    if isinstance(story := body.get("story"), dict):
        body["story"] = {part: _mask_story(run) for part, run in story.items()}
    if "lines" in body:
        body["lines"] = [{**line, "evidence": ""} for line in body["lines"]]
    if not seen.scenario:
        return replace(seen, body=body)
    # A promise of a scenario is about contents too: its probes, and why they fail.
    if isinstance(steady := body.get("steady"), dict):
        body["steady"] = {part: _mask_probes(probes) for part, probes in steady.items()}
    if body.get("aborted"):
        body["aborted"] = UNREAD_LINE
    kind, detail = split_reason(seen.why)
    why = line_for(detail, reads=False)
    return replace(seen, body=body, why=deviate(kind, why)[1] if kind else why, parameters={})


def _mask_story(run: JSON) -> JSON:
    if not isinstance(run, dict):
        return run
    return {part: _mask_lines(given, SENTENCES[part]) if part in SENTENCES else given for part, given in run.items()}


def _mask_lines(given: list[Mapping[str, JSON]], field: str) -> list[dict[str, JSON]]:
    return [{**one, field: one.get("unread", UNREAD_LINE)} for one in given]


def _mask_probes(probes: JSON) -> JSON:
    if not isinstance(probes, list):
        return probes
    return [{**one, **{field: UNREAD_LINE for field in PROBED if one.get(field)}} for one in probes]
