"""Operations on stops of new runs."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from django.http import HttpRequest
from ninja import Body, Path, Router, Status
from pydantic import Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.selectors.runs.stops import RunningRuns, StopView, stops_list
from fabric.services.runs.stops import (
    STOP_REASON_CHARS_MAX,
    STOP_S_MAX,
    STOP_S_MIN,
    allow_new_runs,
    stop_new_runs,
)

router = Router(tags=["runs"])
EXAMPLE_ID = "019a8b5e-4a53-7c1e-9a64-3f7d2b1c0e55"


class StartStopIn(RequestShape):
    """Request to stop new runs."""

    fabric: str = Field(
        "", max_length=63, description="Name of the fabric; empty: the whole workspace.", examples=["research-desk"]
    )
    reason: str = Field(
        min_length=1,
        max_length=STOP_REASON_CHARS_MAX,
        description="Shown to each member whose start is refused, and kept in the audit stream.",
        examples=["The provider bills twice."],
    )
    running: RunningRuns = Field(
        RunningRuns.FINISH,
        strict=False,
        description="What workers do with the runs that were started before.",
        examples=["pause"],
    )
    for_s: int | None = Field(
        None,
        ge=STOP_S_MIN,
        le=STOP_S_MAX,
        description="Seconds after which new runs are allowed by themselves; null: a person has to.",
        examples=[7200],
    )


class AllowIn(RequestShape):
    """Request to allow new runs again."""

    resume: bool = Field(
        False, description="Also resume the runs that the stop paused, and only those.", examples=[True]
    )


class StartStopOut(ResponseShape):
    """A stop of new runs."""

    id: str = Field(description="The stop's id.", examples=[EXAMPLE_ID])
    fabric: str = Field(description="Name of the fabric; empty: the whole workspace.", examples=["research-desk"])
    stopped_by: str = Field(description="Member who stopped them.", examples=["owner"])
    stopped_at: Instant = Field(description="When.")
    reason: str = Field(description="Why.", examples=["The provider bills twice."])
    until: Instant | None = Field(description="Its given end; null: it stands until a person lifts it.")
    running: RunningRuns = Field(description="What becomes of the runs that were started before.")
    left: str = Field(
        description="What workers have yet to do with these: pause, cancel or resume; empty: nothing.", examples=[""]
    )
    paused: int = Field(description="Runs that it paused.", examples=[12])
    cancelled: int = Field(description="Runs that it cancelled.", examples=[0])
    resumed: int = Field(description="Runs that it paused and that were resumed with it.", examples=[0])
    ended_at: Instant | None = Field(description="When it ended; null: it stands, or its given end has just come.")
    ended_by: str = Field(
        description="Member who lifted it; system: its given end came; empty: neither.", examples=[""]
    )


class StopsOut(ResponseShape):
    """Stops of new runs."""

    stops: list[StartStopOut] = Field(
        description="Those that stand, then those that ended, the latest first; at most 100."
    )


@router.get("/stops", response=StopsOut, url_name="api-stops", operation_id="listStops")
def list_stops(request: HttpRequest) -> StopsOut:
    """List stops of new runs, standing or ended. Fabrics that you do not see are left out."""
    return StopsOut(stops=[_shape(one) for one in stops_list(find_actor(request))])


@router.post("/stops", response={201: StartStopOut}, url_name="api-stops", operation_id="stopNewRuns")
def stop(request: HttpRequest, body: Annotated[StartStopIn, Body()]) -> Status[StartStopOut]:
    """Stop new runs. No run of the fabric, or of the workspace, starts until they are allowed again. For owners and
    operators.
    """
    given = {"fabric": body.fabric, "reason": body.reason, "running": body.running, "for_s": body.for_s}
    return Status(201, _shape(stop_new_runs(actor=find_actor(request), **given)))  # type: ignore[arg-type]


@router.post(
    "/stops/{uuid:stop_id}/allow", response=StartStopOut, url_name="api-stop-allow", operation_id="allowNewRuns"
)
def allow(
    request: HttpRequest,
    stop_id: Annotated[UUID, Path(description="The stop's id.", example=EXAMPLE_ID)],
    body: Annotated[AllowIn, Body()],
) -> StartStopOut:
    """Allow new runs again. Runs that the stop paused can be resumed with it, also after its end. For owners and
    operators.
    """
    return _shape(allow_new_runs(actor=find_actor(request), stop_id=str(stop_id), resume=body.resume))


def _shape(one: StopView) -> StartStopOut:
    own = ("id", "fabric", "stopped_by", "reason", "running", "left", "paused", "cancelled", "resumed", "ended_by")
    return StartStopOut(
        **{name: getattr(one, name) for name in own},
        stopped_at=instant(one.stopped_at),
        until=instant(one.until_at),
        ended_at=instant(one.ended_at),
    )
