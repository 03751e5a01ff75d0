"""Drills that are asked for again and again: what people do about schedules. What asks when one is due: ``schedules_due``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Count, F

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.selectors.fabrics import fabric_get
from fabric.selectors.reach import seen_by
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills.lever import asking_held
from simulator.drills.models import Drill, Schedule
from simulator.drills.schedules_when import when

SCHEDULES_MAX = 50
"""In a workspace."""
CELLS = ("all", "stale")


DOING = "make and change schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule. Instants are microseconds since the epoch, on the database's clock."""

    id: str
    fabric: str
    """Its fabric's name."""
    cells: str
    """``all`` or ``stale``."""
    scenario: str
    """Played in all of its tiers; empty: cells are drilled."""
    cron: str
    when: str
    """The same in words."""
    reason: str
    made_by: str
    made_at: int
    paused_by: str
    """Empty: it is not paused."""
    next_at: int
    last_at: int | None
    last_batch: str
    last_said: str
    """Why nothing was asked for the last time; empty: something was, or it was never due."""
    version: int
    came: Mapping[str, int]
    """Of the last batch: drills by verdict, or by status where they have none."""


def schedules_list(actor: Actor) -> list[ScheduleView]:
    """The workspace's schedules, the newest first: ``SCHEDULES_MAX`` at most."""
    rows = list(Schedule.objects.filter(seen_by(actor, Schedule)).select_related("fabric").order_by("-id"))
    came = _came(row.last_batch for row in rows)
    return [_view(row, came.get(row.last_batch, {})) for row in rows]


def schedule_get(actor: Actor, schedule_id: str) -> ScheduleView:
    """One of them. Refused not_found."""
    row = _row(actor, schedule_id)
    return _view(row, _came([row.last_batch]).get(row.last_batch, {}))


def schedule_create(
    *, actor: Actor, fabric: str, cron: str, cells: str = "all", scenario: str = "", reason: str = ""
) -> ScheduleView:
    """From now on drills of a fabric are asked for at these instants, in virtual time and in the name of who made the schedule.

    ``scenario``: played in all of its tiers, in place of the cells. Raises Refused: not_found (the fabric, the scenario), invalid (``cron``, ``cells``),
    conflict (``SCHEDULES_MAX`` are there already), forbidden.
    """
    right_wanted(actor.at(fabric), Right.OPERATE, DOING)
    given = _given(actor, fabric, cron, cells, scenario, reason)
    now = database_us()
    with transaction.atomic():
        asking_held(actor.workspace_id)
        if Schedule.objects.filter(seen_by(actor, Schedule)).count() >= SCHEDULES_MAX:
            message = f"there are {SCHEDULES_MAX} schedules already: delete one first"
            raise Refused(message, code="conflict", field="schedule")
        row = Schedule.objects.create(
            workspace_id=actor.workspace_id,
            made_by=actor.name,
            made_at=now,
            next_at=when(given["cron"]).after(now),
            **given,
        )
        _tell(actor, Act.SCHEDULE_CREATED, row.id, given)
    return schedule_get(actor, row.id)


def schedule_change(
    *,
    actor: Actor,
    schedule: str,
    version: int,
    fabric: str,
    cron: str,
    cells: str = "all",
    scenario: str = "",
    reason: str = "",
) -> ScheduleView:
    """The same for one that is there, as it was seen (``version``). Raises Refused: as ``schedule_create``, and forbidden, conflict (it changed meanwhile)."""
    row = schedule_mine(actor, schedule)
    given = _given(actor, fabric, cron, cells, scenario, reason)
    with transaction.atomic():
        _moved(row, version, next_at=when(given["cron"]).after(database_us()), **given)
        _tell(actor, Act.SCHEDULE_CHANGED, row.id, given)
    return schedule_get(actor, row.id)


def schedule_pause(*, actor: Actor, schedule: str, version: int) -> ScheduleView:
    """It asks for nothing until it is resumed. Raises Refused: not_found, forbidden, conflict (paused already, or changed meanwhile)."""
    row = schedule_mine(actor, schedule)
    if row.paused_by:
        raise Refused(f"{row.paused_by} paused it already", code="conflict", field="schedule")
    with transaction.atomic():
        _moved(row, version, paused_by=actor.name)
        audit_record(actor=actor, act=Act.SCHEDULE_PAUSED, subject=row.id)
    return schedule_get(actor, row.id)


def schedule_resume(*, actor: Actor, schedule: str, version: int) -> ScheduleView:
    """It asks again, at its next instant: those that it missed are over. Raises Refused: not_found, forbidden, conflict (not paused, or changed meanwhile)."""
    row = schedule_mine(actor, schedule)
    if not row.paused_by:
        raise Refused("it is not paused: there is nothing to resume", code="conflict", field="schedule")
    with transaction.atomic():
        _moved(row, version, paused_by="", next_at=when(row.cron).after(database_us()))
        audit_record(actor=actor, act=Act.SCHEDULE_RESUMED, subject=row.id)
    return schedule_get(actor, row.id)


def schedule_delete(*, actor: Actor, schedule: str, version: int) -> None:
    """It is gone; what it asked for stays. Raises Refused: not_found, forbidden, conflict (it changed meanwhile)."""
    row = schedule_mine(actor, schedule)
    with transaction.atomic():
        if not Schedule.objects.filter(id=row.id, version=version).delete()[0]:
            raise _meanwhile()
        told = {"fabric": row.fabric.name, "cron": row.cron, "cells": row.cells, "scenario": row.scenario or None}
        audit_record(actor=actor, act=Act.SCHEDULE_DELETED, subject=row.id, **told)


def may_change(actor: Actor) -> bool:
    """Whether somebody may make, change, pause and delete schedules."""
    return actor.may(Right.OPERATE)


def _given(actor: Actor, fabric: str, cron: str, cells: str, scenario: str, reason: str) -> dict[str, Any]:
    """The columns that say what is asked for when. Refused."""
    found = fabric_get(actor, fabric)
    if cells not in CELLS:
        message = f"{cells[:40]!r} is no choice of cells: name {' or '.join(CELLS)}"
        raise Refused(message, code="invalid", field="cells")
    name = clean_text(scenario)[0].strip()
    if name:
        from simulator.library.selectors import scenario_get  # It loads every scenario.

        name = scenario_get(actor, name).name
        if cells != "all":
            message = "a scenario is played in all of its tiers: leave out the choice of cells"
            raise Refused(message, code="invalid", field="cells")
    text = clean_text(cron)[0].strip()
    when(text)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    return {"fabric_id": found.id, "cells": cells, "scenario": name, "cron": " ".join(text.split()), "reason": why}


def _moved(row: Schedule, version: int, **columns: Any) -> None:
    seen = Schedule.objects.filter(id=row.id, version=version)
    if not seen.update(version=F("version") + 1, **columns):
        raise _meanwhile()


def _meanwhile() -> Refused:
    return Refused("the schedule changed meanwhile: look at it again", code="conflict", field="version")


def _tell(actor: Actor, act: Act, schedule_id: str, given: Mapping[str, Any]) -> None:
    told = {name: value or None for name, value in given.items()}
    audit_record(actor=actor, act=act, subject=schedule_id, **told)


def schedule_mine(actor: Actor, schedule_id: str) -> Schedule:
    """The row of one that somebody may change. Refused not_found, forbidden."""
    right_wanted(actor, Right.OPERATE, DOING, anywhere=True)
    row = _row(actor, schedule_id)
    right_wanted(actor.at(row.fabric.name), Right.OPERATE, DOING)
    return row


def _row(actor: Actor, schedule_id: str) -> Schedule:
    rows = Schedule.objects.filter(seen_by(actor, Schedule)).select_related("fabric")
    found = rows.filter(id=clean_text(str(schedule_id))[0]).first()
    if found is None:
        message = f"there is no schedule {str(schedule_id)[:80]!r} in this workspace"
        raise Refused(message, code="not_found", field="schedule")
    return found


def _came(batches: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    """Of each batch: how many drills came to which verdict, or have which status."""
    found: dict[str, dict[str, int]] = {}
    rows = Drill.objects.filter(batch__in={batch for batch in batches if batch})
    for batch, verdict, status, count in (
        rows.values_list("batch", "verdict", "status").annotate(Count("id")).order_by()
    ):
        told = found.setdefault(batch, {})
        told[verdict or status] = told.get(verdict or status, 0) + count
    return found


def _view(row: Schedule, came: Mapping[str, int]) -> ScheduleView:
    same = ("id", "cells", "scenario", "cron", "reason", "made_by", "made_at", "paused_by", "next_at")
    more = ("last_at", "last_batch", "last_said", "version")
    columns = {name: getattr(row, name) for name in (*same, *more)}
    return ScheduleView(**columns, fabric=row.fabric.name, when=when(row.cron).words, came=came)
