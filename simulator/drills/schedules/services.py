"""Manages schedules of drills for people, and requests the drills of due ones (``schedules_ask``).

Drills of a due schedule are requested once for each instant, even if many processes look at one moment. Missed instants
are requested once together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import Count, F

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.reach import match_visible
from fabric.services.actors import actor_named
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.worker.process.duties import DutySpec, database_us
from simulator.drills.models.tables import Drill, Schedule
from simulator.drills.schedules.crontab import when
from simulator.drills.services.drill_stop import serialise_requests
from simulator.drills.services.drills import DrillsAsked, Which, drill_ask

SCHEDULES_MAX = 50
"""Largest number of schedules in a workspace."""
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
    """Scenario, played in all of its tiers; empty if cells are drilled."""
    cron: str
    when: str
    """Times in words."""
    reason: str
    made_by: str
    made_at: int
    paused_by: str
    """Person who paused it; empty if it is not paused."""
    next_at: int
    last_at: int | None
    last_batch: str
    last_said: str
    """Why the last time requested nothing; empty if it did, or was never due."""
    version: int
    came: Mapping[str, int]
    """Drills of the last batch by verdict, or by status without one."""


def schedules_list(actor: Actor) -> list[ScheduleView]:
    """Return the workspace's schedules, the newest first: ``SCHEDULES_MAX`` at most."""
    rows = list(Schedule.objects.filter(match_visible(actor, Schedule)).select_related("fabric").order_by("-id"))
    came = _came(row.last_batch for row in rows)
    return [_view(row, came.get(row.last_batch, {})) for row in rows]


def schedule_get(actor: Actor, schedule_id: str) -> ScheduleView:
    """Return one schedule. Raises Refused not_found."""
    row = _row(actor, schedule_id)
    return _view(row, _came([row.last_batch]).get(row.last_batch, {}))


def schedule_create(
    *, actor: Actor, fabric: str, cron: str, cells: str = "all", scenario: str = "", reason: str = ""
) -> ScheduleView:
    """Make a schedule: drills of a fabric at its instants, in simulated time and in the author's name.

    ``scenario``: played in all of its tiers, in place of the cells. Raises Refused: not_found (the fabric, the
    scenario), invalid (``cron``, ``cells``), conflict (``SCHEDULES_MAX`` exist), forbidden.
    """
    right_wanted(actor.place_at(fabric), Right.OPERATE, DOING)
    given = _request_columns(actor, fabric, cron, cells, scenario, reason)
    now = database_us()
    with transaction.atomic():
        serialise_requests(actor.workspace_id)
        if Schedule.objects.filter(match_visible(actor, Schedule)).count() >= SCHEDULES_MAX:
            message = f"there are {SCHEDULES_MAX} schedules already: delete one first"
            raise Refused(message, code="conflict", field="schedule")
        row = Schedule.objects.create(
            workspace_id=actor.workspace_id,
            made_by=actor.name,
            made_at=now,
            next_at=when(given["cron"]).find_next(now),
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
    """Change a schedule of a known version. Raises Refused as ``schedule_create``, and conflict (it changed
    meanwhile).
    """
    row = schedule_mine(actor, schedule)
    given = _request_columns(actor, fabric, cron, cells, scenario, reason)
    with transaction.atomic():
        _update_version(row, version, next_at=when(given["cron"]).find_next(database_us()), **given)
        _tell(actor, Act.SCHEDULE_CHANGED, row.id, given)
    return schedule_get(actor, row.id)


def schedule_pause(*, actor: Actor, schedule: str, version: int) -> ScheduleView:
    """Pause a schedule until it is resumed. Raises Refused: not_found, forbidden, conflict (paused, or changed
    meanwhile).
    """
    row = schedule_mine(actor, schedule)
    if row.paused_by:
        raise Refused(f"{row.paused_by} paused it already", code="conflict", field="schedule")
    with transaction.atomic():
        _update_version(row, version, paused_by=actor.name)
        audit_record(actor=actor, act=Act.SCHEDULE_PAUSED, subject=row.id)
    return schedule_get(actor, row.id)


def schedule_resume(*, actor: Actor, schedule: str, version: int) -> ScheduleView:
    """Resume a schedule at its next instant; missed ones are dropped.

    Raises Refused: not_found, forbidden, conflict (not paused, or changed meanwhile).
    """
    row = schedule_mine(actor, schedule)
    if not row.paused_by:
        raise Refused("it is not paused: there is nothing to resume", code="conflict", field="schedule")
    with transaction.atomic():
        _update_version(row, version, paused_by="", next_at=when(row.cron).find_next(database_us()))
        audit_record(actor=actor, act=Act.SCHEDULE_RESUMED, subject=row.id)
    return schedule_get(actor, row.id)


def schedule_delete(*, actor: Actor, schedule: str, version: int) -> None:
    """Delete a schedule; its drills stay. Raises Refused: not_found, forbidden, conflict (it changed meanwhile)."""
    row = schedule_mine(actor, schedule)
    with transaction.atomic():
        if not Schedule.objects.filter(id=row.id, version=version).delete()[0]:
            raise _meanwhile()
        told = {"fabric": row.fabric.name, "cron": row.cron, "cells": row.cells, "scenario": row.scenario or None}
        audit_record(actor=actor, act=Act.SCHEDULE_DELETED, subject=row.id, **told)


def may_change(actor: Actor) -> bool:
    """Return True if an actor may make, change, pause and delete schedules."""
    return actor.may(Right.OPERATE)


def _request_columns(actor: Actor, fabric: str, cron: str, cells: str, scenario: str, reason: str) -> dict[str, Any]:
    """Return the columns of a request. Raises Refused."""
    found = fabric_get(actor, fabric)
    if cells not in CELLS:
        message = f"{cells[:40]!r} is no choice of cells: name {' or '.join(CELLS)}"
        raise Refused(message, code="invalid", field="cells")
    name = clean_text(scenario)[0].strip()
    if name:
        from simulator.drills.library.selectors import scenario_get  # It loads every scenario.

        name = scenario_get(actor, name).name
        if cells != "all":
            message = "a scenario is played in all of its tiers: leave out the choice of cells"
            raise Refused(message, code="invalid", field="cells")
    text = clean_text(cron)[0].strip()
    when(text)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    return {"fabric_id": found.id, "cells": cells, "scenario": name, "cron": " ".join(text.split()), "reason": why}


def _update_version(row: Schedule, version: int, **columns: Any) -> None:
    seen = Schedule.objects.filter(id=row.id, version=version)
    if not seen.update(version=F("version") + 1, **columns):
        raise _meanwhile()


def _meanwhile() -> Refused:
    return Refused("the schedule changed meanwhile: look at it again", code="conflict", field="version")


def _tell(actor: Actor, act: Act, schedule_id: str, given: Mapping[str, Any]) -> None:
    told = {name: value or None for name, value in given.items()}
    audit_record(actor=actor, act=act, subject=schedule_id, **told)


def schedule_mine(actor: Actor, schedule_id: str) -> Schedule:
    """Return the row of a schedule that the actor may change. Raises Refused not_found, forbidden."""
    right_wanted(actor, Right.OPERATE, DOING, anywhere=True)
    row = _row(actor, schedule_id)
    right_wanted(actor.place_at(row.fabric.name), Right.OPERATE, DOING)
    return row


def _row(actor: Actor, schedule_id: str) -> Schedule:
    rows = Schedule.objects.filter(match_visible(actor, Schedule)).select_related("fabric")
    found = rows.filter(id=clean_text(str(schedule_id))[0]).first()
    if found is None:
        message = f"there is no schedule {str(schedule_id)[:80]!r} in this workspace"
        raise Refused(message, code="not_found", field="schedule")
    return found


def _came(batches: Iterable[str]) -> Mapping[str, Mapping[str, int]]:
    """Return the number of drills by verdict, or by status, of each batch."""
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


log = logging.getLogger(__name__)
DUTY = "drill schedules"
AT_ONCE = 20
"""Number of schedules of one look; the next look has the rest."""
LEASE_S = 60.0


def schedules_duty(look_s: float, wake: Callable[[], None]) -> DutySpec:
    """Return the duty of workers that looks for due schedules. ``wake``: called after a request."""
    return DutySpec(
        name=DUTY, look_s=look_s, every_s=0.0, lease_s=LEASE_S, wanted=schedules_wait, act=lambda: schedules_ask(wake)
    )


def schedules_wait() -> bool:
    """Return True if a schedule is due. It costs an index look-up."""
    return Schedule.objects.filter(paused_by="", next_at__lte=database_us()).exists()


def schedules_ask(wake: Callable[[], None] = lambda: None, *, now: int | None = None) -> int:
    """Request the drills of due schedules, at most ``AT_ONCE``; return their number.

    ``now``: microseconds since the epoch; default: the database's clock.
    """
    at = database_us() if now is None else now
    due = Schedule.objects.filter(paused_by="", next_at__lte=at).select_related("fabric").order_by("next_at", "id")
    asked = sum(_request_one(row, at) for row in due[:AT_ONCE])
    if asked:
        wake()
    return asked


def schedule_run(*, actor: Actor, schedule: str, wake: Callable[[], None] = lambda: None) -> DrillsAsked:
    """Request the drills of a schedule now, in the actor's own name; its next instant stays.

    Raises Refused not_found, forbidden, and those of ``drill_ask``.
    """
    row = schedule_mine(actor, schedule)
    asked = _ask(row, actor)
    Schedule.objects.filter(id=row.id).update(last_at=database_us(), last_batch=asked.batch, last_said="")
    wake()
    return asked


def _request_one(row: Schedule, now: int) -> bool:
    """Request one, unless another process has meanwhile. Its instant and its drills are committed together."""
    try:
        with transaction.atomic():
            if not _take_instant(row, now):
                return False
            try:
                batch, said = _ask(row, _asker(row)).batch, ""
            except Refused as refusal:
                batch, said = "", refusal.message
            _say(row, batch, said)
    except Exception as error:
        # After any error the next schedule is still requested, and this one at its next instant.
        log.exception("schedule %s could not be asked for", row.id)
        with transaction.atomic():
            if _take_instant(row, now):
                _say(row, "", f"it could not be asked for: {type(error).__name__}; the worker's log says why")
        return False
    return bool(batch)


def _take_instant(row: Schedule, now: int) -> bool:
    """Take the instant by a conditional update, which decides between processes. Readers see no other version."""
    mine = Schedule.objects.filter(id=row.id, paused_by="", version=row.version, next_at=row.next_at)
    return bool(mine.update(next_at=when(row.cron).find_next(now), last_at=now))


def _say(row: Schedule, batch: str, said: str) -> None:
    # After a refusal the batch before stays: its verdicts are still the last ones.
    Schedule.objects.filter(id=row.id).update(last_said=said, last_batch=batch or F("last_batch"))


def _asker(row: Schedule) -> Actor:
    """Return its author as actor, by way of the schedule, with present rights. Raises Refused forbidden for
    ex-members.
    """
    return replace(actor_named(row.workspace_id, row.made_by), via=f"schedule:{row.id}")


def _ask(row: Schedule, actor: Actor) -> DrillsAsked:
    if row.scenario:
        from simulator.drills.library.requests import scenario_ask  # It loads the scenarios.

        return scenario_ask(actor=actor, fabric=row.fabric.name, scenario=row.scenario, reason=row.reason)
    which: Which = "stale" if row.cells == "stale" else "all"
    return drill_ask(actor=actor, fabric=row.fabric.name, cells=which, reason=row.reason)
