"""Operations on schedules of drills: list, make, change, pause, resume, run and delete them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Router, Status
from pydantic import Field

from console.api.drills.operations import FABRIC, AskedOut
from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.services.runs.start import REASON_CHARS_MAX
from simulator.drills import tasks
from simulator.drills.schedules.crontab import CRON_CHARS_MAX
from simulator.drills.schedules.services import (
    SCHEDULES_MAX,
    ScheduleView,
    schedule_change,
    schedule_create,
    schedule_delete,
    schedule_pause,
    schedule_resume,
    schedule_run,
    schedules_list,
)

router = Router(tags=["drills"])
NAME_MAX = 200
VERSION_MAX = 2**31 - 1
EXAMPLE_ID = "01a20c1a-59b1-77f1-bef2-cf6045060838"
ID = Annotated[str, Path(description="Id of the schedule.", example=EXAMPLE_ID)]
CRON = "When, in the five fields of crontab(5), UTC; one minute, so at most once an hour."


class ScheduleIn(RequestShape):
    """Drills to start, and their schedule."""

    fabric: str = Field(min_length=1, max_length=NAME_MAX, description=FABRIC, examples=["research-desk"])
    cron: str = Field(min_length=1, max_length=CRON_CHARS_MAX, description=CRON, examples=["0 3 * * *"])
    cells: Literal["all", "stale"] = Field(
        default="all", description="Which cells are drilled; of a scenario: all of its tiers.", examples=["stale"]
    )
    scenario: str = Field(
        default="", max_length=NAME_MAX, description="Played in place of the cells; empty: none.", examples=[""]
    )
    reason: str = Field(
        default="", max_length=REASON_CHARS_MAX, description="Kept with its drills.", examples=["Each night."]
    )


class SeenIn(RequestShape):
    """Version of the schedule that the caller has seen."""

    version: int = Field(
        ge=1, le=VERSION_MAX, description="As it was listed: one that changed meanwhile is left alone.", examples=[1]
    )


class ScheduleChangeIn(ScheduleIn, SeenIn):
    """New drills and schedule, with the version that the caller has seen."""


class ScheduleOut(ResponseShape):
    """A schedule."""

    id: str = Field(description="Its id.", examples=[EXAMPLE_ID])
    fabric: str = Field(description=FABRIC, examples=["research-desk"])
    cron: str = Field(description=CRON, examples=["0 3 * * *"])
    when: str = Field(description="The same in words.", examples=["every day at 03:00 UTC"])
    cells: Literal["all", "stale"] = Field(description="Which cells are drilled.")
    scenario: str = Field(description="Played in place of the cells; empty: none.", examples=[""])
    reason: str = Field(description="Why, where it was said.", examples=["Each night."])
    made_by: str = Field(description="In whose name it asks.", examples=["owner"])
    made_at: Instant = Field(description="When it was made.")
    paused_by: str = Field(description="Member who paused it; empty: not paused.", examples=[""])
    next_at: Instant = Field(description="When it asks next, unless it is paused.")
    last_at: Instant | None = Field(description="When it asked last; null: never.")
    last_batch: str = Field(description="Batch that it asked for last; empty: none.", examples=[""])
    last_said: str = Field(description="Why it asked for nothing the last time; empty: it did.", examples=[""])
    version: int = Field(description="Grows with each change; changes name it.", examples=[1])


class SchedulesOut(ResponseShape):
    """The schedules of the workspace."""

    schedules: list[ScheduleOut] = Field(description=f"All of them, {SCHEDULES_MAX} at most, the newest first.")


class ScheduleGone(ResponseShape):
    """A deleted schedule."""

    deleted: str = Field(description="Its id.", examples=[EXAMPLE_ID])


@router.get(
    "/drills/schedules", response=SchedulesOut, url_name="api-drills-schedules", operation_id="listDrillSchedules"
)
def list_schedules(request: HttpRequest) -> SchedulesOut:
    """List schedules of drills. With their next instant, and the reason if the last one started nothing."""
    return SchedulesOut(schedules=[_schedule_shape(one) for one in schedules_list(find_actor(request))])


@router.post(
    "/drills/schedules",
    response={201: ScheduleOut},
    url_name="api-drills-schedules",
    operation_id="createDrillSchedule",
)
def create_schedule(request: HttpRequest, body: Annotated[ScheduleIn, Body()]) -> Any:
    """Make a schedule of drills. They start at its instants, in simulated time and in the caller's name."""
    return Status(201, _schedule_shape(schedule_create(actor=find_actor(request), **body.model_dump())))


@router.post(
    "/drills/schedules/{schedule_id}",
    response=ScheduleOut,
    url_name="api-drills-schedule",
    operation_id="changeDrillSchedule",
)
def change_schedule(request: HttpRequest, schedule_id: ID, body: Annotated[ScheduleChangeIn, Body()]) -> ScheduleOut:
    """Change a schedule of drills. For its author, the owner and operators."""
    return _schedule_shape(schedule_change(actor=find_actor(request), schedule=schedule_id, **body.model_dump()))


@router.post(
    "/drills/schedules/{schedule_id}/pause",
    response=ScheduleOut,
    url_name="api-drills-schedule-pause",
    operation_id="pauseDrillSchedule",
)
def pause_schedule(request: HttpRequest, schedule_id: ID, body: Annotated[SeenIn, Body()]) -> ScheduleOut:
    """Pause a schedule of drills. It starts nothing until it is resumed."""
    return _schedule_shape(schedule_pause(actor=find_actor(request), schedule=schedule_id, version=body.version))


@router.post(
    "/drills/schedules/{schedule_id}/resume",
    response=ScheduleOut,
    url_name="api-drills-schedule-resume",
    operation_id="resumeDrillSchedule",
)
def resume_schedule(request: HttpRequest, schedule_id: ID, body: Annotated[SeenIn, Body()]) -> ScheduleOut:
    """Resume a schedule of drills. It starts drills at its next instant; missed instants are dropped."""
    return _schedule_shape(schedule_resume(actor=find_actor(request), schedule=schedule_id, version=body.version))


@router.post(
    "/drills/schedules/{schedule_id}/delete",
    response=ScheduleGone,
    url_name="api-drills-schedule-delete",
    operation_id="deleteDrillSchedule",
)
def delete_schedule(request: HttpRequest, schedule_id: ID, body: Annotated[SeenIn, Body()]) -> ScheduleGone:
    """Delete a schedule of drills. Drills that it started stay."""
    schedule_delete(actor=find_actor(request), schedule=schedule_id, version=body.version)
    return ScheduleGone(deleted=schedule_id)


@router.post(
    "/drills/schedules/{schedule_id}/run",
    response={202: AskedOut},
    url_name="api-drills-schedule-run",
    operation_id="runDrillSchedule",
)
def run_schedule(request: HttpRequest, schedule_id: ID) -> Any:
    """Run a schedule of drills now. Its drills start at once, in the caller's name; its next instant stays."""
    asked = schedule_run(actor=find_actor(request), schedule=schedule_id, wake=tasks.wake)
    return Status(202, AskedOut(batch=asked.batch, drills=list(asked.drills), left_out=asked.left_out))


def _schedule_shape(one: ScheduleView) -> ScheduleOut:
    same: Any = {
        name: getattr(one, name)
        for name in (
            *("id", "fabric", "cron", "when", "cells", "scenario", "reason", "made_by", "paused_by"),
            *("last_batch", "last_said", "version"),
        )
    }
    return ScheduleOut(**same, made_at=instant(one.made_at), next_at=instant(one.next_at), last_at=instant(one.last_at))
