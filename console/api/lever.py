"""The lever of drills: how it stands, pulling it and releasing it."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.actor import Actor
from fabric.services.runs import REASON_CHARS_MAX
from simulator.drills.lever import lever_of, lever_pull, lever_release

router = Router(tags=["drills"])


class LeverIn(Given):
    """Why the lever is moved."""

    reason: str = Field(
        min_length=1,
        max_length=REASON_CHARS_MAX,
        description="Kept with the drills that it ends and in the audit stream.",
        examples=["The provider asked for quiet."],
    )


class LeverOut(Told):
    """How the lever stands."""

    pulled: bool = Field(description="Whether every drill has ended and none is begun.")
    by: str = Field(description="Who pulled it; empty: it rests.", examples=["owner"])
    at: Instant | None = Field(description="When; null: it rests.")
    reason: str = Field(description="Why; empty: it rests.", examples=["The provider asked for quiet."])
    stopped: int = Field(description="Drills that this call ended.", examples=[7])


@router.get("/drills/lever", response=LeverOut, url_name="api-drills-lever", operation_id="getDrillLever")
def get_lever(request: HttpRequest) -> LeverOut:
    """Get the lever of drills. While it is pulled, no drill of the workspace is begun, virtual or live."""
    return _told(actor_of(request))


@router.post("/drills/lever/pull", response=LeverOut, url_name="api-drills-lever-pull", operation_id="pullDrillLever")
def pull_lever(request: HttpRequest, body: Annotated[LeverIn, Body()]) -> LeverOut:
    """Pull the lever of drills. Every drill that waits or runs ends within a second, and none is begun until it is released. For the owner and operators."""
    ended = lever_pull(actor=actor_of(request), reason=body.reason)
    return _told(actor_of(request), ended)


@router.post(
    "/drills/lever/release", response=LeverOut, url_name="api-drills-lever-release", operation_id="releaseDrillLever"
)
def release_lever(request: HttpRequest, body: Annotated[LeverIn, Body()]) -> LeverOut:
    """Release the lever of drills. They may be asked for again; what was ended stays so. For the owner and operators."""
    lever_release(actor=actor_of(request), reason=body.reason)
    return _told(actor_of(request))


def _told(actor: Actor, stopped: int = 0) -> LeverOut:
    seen = lever_of(actor)
    if seen is None:
        return LeverOut(pulled=False, by="", at=None, reason="", stopped=stopped)
    return LeverOut(pulled=True, by=seen.pulled_by, at=instant(seen.pulled_at), reason=seen.reason, stopped=stopped)
