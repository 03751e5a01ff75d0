"""Schedules that are due are asked for, once for each instant, however many look at the same moment; instants that nobody was there for, once together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from django.db import transaction
from django.db.models import F

from fabric.adapters.duties import DutySpec, database_us
from fabric.core.actor import Actor
from fabric.services.errors import Refused
from fabric.services.workspaces import actor_named
from simulator.drills.models import Schedule
from simulator.drills.schedules import schedule_mine
from simulator.drills.schedules_when import when
from simulator.drills.services import Asked, Which, drill_ask

log = logging.getLogger(__name__)
DUTY = "drill schedules"
AT_ONCE = 20
"""So many are asked for in one look; the rest in the next."""
LEASE_S = 60.0


def schedules_duty(look_s: float, wake: Callable[[], None]) -> DutySpec:
    """Looking for them, as a duty of each worker. ``wake``: called where something was asked for."""
    return DutySpec(
        name=DUTY, look_s=look_s, every_s=0.0, lease_s=LEASE_S, wanted=schedules_wait, act=lambda: schedules_ask(wake)
    )


def schedules_wait() -> bool:
    """Whether one is due: a look into an index."""
    return Schedule.objects.filter(paused_by="", next_at__lte=database_us()).exists()


def schedules_ask(wake: Callable[[], None] = lambda: None, *, now: int | None = None) -> int:
    """Asks for what is due, ``AT_ONCE`` at most; how many were. ``now``: microseconds since the epoch; without it the database's clock."""
    at = database_us() if now is None else now
    due = Schedule.objects.filter(paused_by="", next_at__lte=at).select_related("fabric").order_by("next_at", "id")
    asked = sum(_asked(row, at) for row in due[:AT_ONCE])
    if asked:
        wake()
    return asked


def schedule_run(*, actor: Actor, schedule: str, wake: Callable[[], None] = lambda: None) -> Asked:
    """Asks for what a schedule asks for now, in one's own name; its next instant stays. Raises Refused: not_found, forbidden, and as ``drill_ask``."""
    row = schedule_mine(actor, schedule)
    asked = _ask(row, actor)
    Schedule.objects.filter(id=row.id).update(last_at=database_us(), last_batch=asked.batch, last_said="")
    wake()
    return asked


def _asked(row: Schedule, now: int) -> bool:
    """Asks for one, unless another has meanwhile. Its instant and its drills are committed together: neither is there alone."""
    try:
        with transaction.atomic():
            if not _taken(row, now):
                return False
            try:
                batch, said = _ask(row, _asker(row)).batch, ""
            except Refused as refusal:
                batch, said = "", refusal.message
            _say(row, batch, said)
    except Exception as error:
        # Whatever it is: the next one is asked for all the same, and this one at its next instant.
        log.exception("schedule %s could not be asked for", row.id)
        with transaction.atomic():
            if _taken(row, now):
                _say(row, "", f"it could not be asked for: {type(error).__name__}; the worker's log says why")
        return False
    return bool(batch)


def _taken(row: Schedule, now: int) -> bool:
    """The update decides between those who look at the same moment. It is the instant that is taken, so who looks on sees no other version."""
    mine = Schedule.objects.filter(id=row.id, paused_by="", version=row.version, next_at=row.next_at)
    return bool(mine.update(next_at=when(row.cron).after(now), last_at=now))


def _say(row: Schedule, batch: str, said: str) -> None:
    # What a refusal leaves standing is the batch before: its verdicts are still the last ones.
    Schedule.objects.filter(id=row.id).update(last_said=said, last_batch=batch or F("last_batch"))


def _asker(row: Schedule) -> Actor:
    """Who made it, by way of the schedule, with what they may do by now. Refused forbidden: they are no member any more."""
    return replace(actor_named(row.workspace_id, row.made_by), via=f"schedule:{row.id}")


def _ask(row: Schedule, actor: Actor) -> Asked:
    if row.scenario:
        from simulator.library.asking import scenario_ask  # It loads the scenarios.

        return scenario_ask(actor=actor, fabric=row.fabric.name, scenario=row.scenario, reason=row.reason)
    which: Which = "stale" if row.cells == "stale" else "all"
    return drill_ask(actor=actor, fabric=row.fabric.name, cells=which, reason=row.reason)
