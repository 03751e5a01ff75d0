"""Changes of fabrics that wait for a second person: asked for, agreed to, rejected and withdrawn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from django.http import HttpRequest
from ninja import Body, Path, Query, Router, Status
from pydantic import Field

from console.api.callers import actor_of
from console.api.fabric_files import EXAMPLE
from console.api.schemas import Given, Instant, Told
from fabric.model_ports import provider_names
from fabric.selectors.change_requests import REQUESTS_MAX, ChangeState, ChangeView, change_request_get, change_requests
from fabric.services.change_requests import (
    MESSAGE_CHARS_MAX,
    change_approve,
    change_reject,
    change_request_open,
    change_withdraw,
)
from fabric.services.yaml_tree import BYTES_MAX

router = Router(tags=["fabrics"])
REQUEST = "The change request's id."
EXAMPLE_ID = "01a1b2c3-d4e5-7f60-8a9b-0c1d2e3f4a5b"


class ChangeRequestIn(Given):
    """A fabric whose publication a second person has to agree to."""

    source: str = Field(description=f"YAML; at most {BYTES_MAX:,} bytes are read.", examples=[EXAMPLE])
    message: str = Field(
        default="",
        max_length=MESSAGE_CHARS_MAX,
        description="What the second person reads with it.",
        examples=["Twice the budget."],
    )
    expect_revision: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="Number of the revision that has to be the published one, 0: none; null: whatever it is.",
        examples=[3],
    )


class AgreeIn(Given):
    """To what somebody agrees."""

    digest: str = Field(
        min_length=1,
        max_length=128,
        description="Content hash of the change, as it was looked at: nothing else is agreed to.",
        examples=["9c11d2e3f4a5b6c7d8e9f0a1b2c3d4e5"],
    )


class RejectIn(Given):
    """Why somebody says no."""

    reason: str = Field(
        min_length=1, max_length=MESSAGE_CHARS_MAX, description="Its author reads it.", examples=["Keep the cap."]
    )


class ChangeRequestOut(Told):
    """A change of a fabric that waits, or waited, for a second person."""

    id: str = Field(description=REQUEST, examples=[EXAMPLE_ID])
    fabric: str = Field(description="The fabric's name.", examples=["research-desk"])
    author: str = Field(description="Who asked for it, and cannot agree to it.", examples=["ana"])
    base: int | None = Field(description="The revision that it changes; null: none was published.", examples=[3])
    digest: str = Field(description="Content hash of what would be published: the agreement is bound to it.")
    message: str = Field(description="What its author says of it; may be empty.")
    state: ChangeState = Field(
        description="open: somebody else may agree; stale: another revision was published since; voided: its draft was changed."
    )
    opened_at: Instant = Field(description="When it was asked for.")
    decided_at: Instant | None = Field(description="When it was decided; null: it is not.")
    decided_by: str = Field(description="By whom; empty: it is not.", examples=["ben"])
    reason: str = Field(description="Why it was rejected or voided; may be empty.")
    number: int | None = Field(description="The revision that came of it; null: none.", examples=[4])


class ChangeRequestsOut(Told):
    """Changes that wait."""

    requests: list[ChangeRequestOut] = Field(description=f"The newest first; at most {REQUESTS_MAX}.")


class ChangeRequestDetailOut(ChangeRequestOut):
    """One change, with its text."""

    source: str = Field(description="What would be published, byte for byte.")


@router.get("/change-requests", response=ChangeRequestsOut, url_name="api-changes", operation_id="listChangeRequests")
def list_changes(
    request: HttpRequest,
    fabric: Annotated[str, Query(description="Only of this fabric; empty: of all.", max_length=200)] = "",
    decided: Annotated[bool, Query(description="Those that are decided as well.")] = False,
) -> ChangeRequestsOut:
    """List change requests. The changes of fabrics that wait for a second person."""
    found = change_requests(actor_of(request), fabric, waiting=not decided)
    return ChangeRequestsOut(requests=[ChangeRequestOut(**_told(one)) for one in found])


@router.post(
    "/change-requests", response={201: ChangeRequestOut}, url_name="api-changes", operation_id="openChangeRequest"
)
def open_change(request: HttpRequest, body: Annotated[ChangeRequestIn, Body()]) -> Status[ChangeRequestOut]:
    """Open a change request. Where a fabric's runs have four eyes, somebody else agrees to each change of it; this asks for that. For editors and owners."""
    found = change_request_open(
        actor=actor_of(request),
        source=body.source,
        message=body.message,
        providers=provider_names(),
        expect=body.expect_revision,
    )
    return Status(201, ChangeRequestOut(**_told(found)))


@router.get(
    "/change-requests/{change_id}",
    response=ChangeRequestDetailOut,
    url_name="api-change",
    operation_id="getChangeRequest",
)
def get_change(
    request: HttpRequest, change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)]
) -> ChangeRequestDetailOut:
    """Get a change request. With the text that would be published."""
    found = change_request_get(actor_of(request), change_id)
    return ChangeRequestDetailOut(**_told(found), source=found.text)


@router.post(
    "/change-requests/{change_id}/approve",
    response=ChangeRequestOut,
    url_name="api-change-approve",
    operation_id="approveChangeRequest",
)
def approve_change(
    request: HttpRequest,
    change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)],
    body: Annotated[AgreeIn, Body()],
) -> ChangeRequestOut:
    """Approve a change request. Publishes exactly that content. For people who may publish and did not ask for it; no service account may."""
    actor = actor_of(request)
    change_approve(actor=actor, request_id=change_id, digest=body.digest, providers=provider_names())
    return ChangeRequestOut(**_told(change_request_get(actor, change_id)))


@router.post(
    "/change-requests/{change_id}/reject",
    response=ChangeRequestOut,
    url_name="api-change-reject",
    operation_id="rejectChangeRequest",
)
def reject_change(
    request: HttpRequest,
    change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)],
    body: Annotated[RejectIn, Body()],
) -> ChangeRequestOut:
    """Reject a change request. Nothing is published, and its author reads why. For whoever could approve it."""
    return ChangeRequestOut(**_told(change_reject(actor=actor_of(request), request_id=change_id, reason=body.reason)))


@router.post(
    "/change-requests/{change_id}/withdraw",
    response=ChangeRequestOut,
    url_name="api-change-withdraw",
    operation_id="withdrawChangeRequest",
)
def withdraw_change(
    request: HttpRequest, change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)]
) -> ChangeRequestOut:
    """Withdraw a change request. Nothing is published. For its author alone."""
    return ChangeRequestOut(**_told(change_withdraw(actor=actor_of(request), request_id=change_id)))


def _told(view: ChangeView) -> dict[str, object]:
    return {
        "id": view.id,
        "fabric": view.name,
        "author": view.author,
        "base": view.base,
        "digest": view.digest,
        "message": view.message,
        "state": view.state,
        "opened_at": _iso(view.opened_at),
        "decided_at": _iso(view.decided_at) if view.decided_at else None,
        "decided_by": view.decided_by,
        "reason": view.reason,
        "number": view.published,
    }


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"
