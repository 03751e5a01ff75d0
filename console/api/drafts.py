"""Operations on drafts, and on change requests, which wait for a second person.

A change request is opened, approved, rejected or withdrawn.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Path, Query, Router, Status
from pydantic import Field

from console.api.fabrics.files import EXAMPLE, FabricSourceIn, PlacedOut
from console.api.shapes.common import Instant, Moment, RequestShape, ResponseShape, instant
from console.pages.drafts.views import installation_for
from console.site.access.callers import find_actor
from fabric.composition.models import provider_names
from fabric.core.people.actor import Actor
from fabric.core.values.units import US
from fabric.selectors.drafts.change_requests import (
    REQUESTS_MAX,
    ChangeState,
    ChangeView,
    change_request_get,
    change_requests,
)
from fabric.selectors.drafts.lookup import DraftView, draft_get, drafts_list
from fabric.services.drafts.beginnings import draft_import
from fabric.services.drafts.change_requests import (
    change_approve,
    change_reject,
    change_request_open,
    change_withdraw,
)
from fabric.services.drafts.changes import NAME_CHARS_MAX
from fabric.services.drafts.scheduled import publication_schedule
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import MESSAGE_CHARS_MAX
from fabric.services.fabrics.yaml.tree import BYTES_MAX

router = Router(tags=["fabrics"])
Author = Annotated[str, Field(description="Author of the draft; only the author changes it.", examples=["owner"])]
Changed = Annotated[Instant, Field(description="When it was changed last.")]
FabricName = Annotated[str, Field(description="The fabric's name; it need not be published.", examples=["desk"])]


class DraftIn(FabricSourceIn):
    """Text of a new draft."""

    name: str = Field(
        "",
        max_length=NAME_CHARS_MAX,
        description="The fabric's; empty: the one that the text says, else that of the file.",
        examples=["desk"],
    )
    replace: bool = Field(
        False,
        description="Where the caller has a draft of that name: give it this text, which can be undone; false: 409.",
        examples=[False],
    )


class DraftLineOut(ResponseShape):
    """A draft in the list."""

    name: FabricName
    author: Author
    changed_at: Changed


class DraftsOut(ResponseShape):
    """The drafts of the workspace."""

    drafts: list[DraftLineOut] = Field(description="The caller's own first, then by name.")


class FindingOut(PlacedOut):
    """A finding about a draft."""

    level: Literal["error", "warning", "note"] = Field(description="error: it keeps the draft from being published.")


class DraftOut(DraftLineOut):
    """The caller's own draft."""

    step: int = Field(description="Number of the draft's latest change.", examples=[3])
    base: int | None = Field(
        description="Number of the revision that it changes; null: none was published.", examples=[2]
    )
    publishable: bool = Field(description="True if the draft can be published.")
    findings: list[FindingOut] = Field(description="Everything that is said of its text.")
    source: str = Field(description="Its text.", examples=[EXAMPLE])


class ImportedOut(ResponseShape):
    """A draft that was stored."""

    draft: DraftOut = Field(description="The draft's current text.")
    replaced: bool = Field(description="True: it took the place of the text that the draft had, which can be undone.")


@router.get("/drafts", response=DraftsOut, url_name="api-drafts", operation_id="listDrafts")
def list_drafts(request: HttpRequest) -> DraftsOut:
    """List drafts. Of all members, without their texts."""
    found = drafts_list(find_actor(request))
    return DraftsOut(
        drafts=[DraftLineOut(name=one.name, author=one.author, changed_at=_iso(one.changed_at)) for one in found]
    )


@router.post("/drafts", response={201: ImportedOut}, url_name="api-drafts", operation_id="importDraft")
def import_draft(request: HttpRequest, body: DraftIn) -> Any:
    """Store a draft. Mistakes in the text are reported, not refused. A draft of a published fabric is a change of
    it.
    """
    actor = find_actor(request)
    found = draft_import(actor=actor, text=body.source, name=body.name, origin=body.origin, replace=body.replace)
    return Status(201, ImportedOut(draft=_draft_shape(actor, found.draft), replaced=found.replaced))


@router.get("/drafts/{name}", response=DraftOut, url_name="api-draft", operation_id="getDraft")
def get_draft(
    request: HttpRequest, name: Annotated[str, Path(description="The fabric's name.", example="desk")]
) -> DraftOut:
    """Get a draft. The caller's own of that fabric, with its text and all findings."""
    actor = find_actor(request)
    return _draft_shape(actor, draft_get(actor, name))


def _draft_shape(actor: Actor, view: DraftView) -> DraftOut:
    found = check_text(view.text, installation_for(actor, view.name), name=view.name)
    return DraftOut(
        name=view.name,
        author=view.author,
        changed_at=_iso(view.changed_at),
        step=view.step,
        base=view.base,
        publishable=not found.errors,
        findings=[
            FindingOut(level=one.level, path=one.path, line=one.line, column=one.column, sentence=one.sentence)
            for one in found.findings
        ],
        source=view.text,
    )


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


change_request_router = Router(tags=["fabrics"])
REQUEST = "The change request's id."
EXAMPLE_ID = "01a1b2c3-d4e5-7f60-8a9b-0c1d2e3f4a5b"


class ChangeRequestIn(RequestShape):
    """A fabric whose publication needs a second person's approval, or has a time."""

    source: str = Field(description=f"YAML; at most {BYTES_MAX:,} bytes are read.", examples=[EXAMPLE])
    message: str = Field(
        default="",
        max_length=MESSAGE_CHARS_MAX,
        description="Message for the second person.",
        examples=["Twice the budget."],
    )
    expect_revision: int | None = Field(
        default=None,
        ge=0,
        le=2**31 - 1,
        description="Revision that must still be the published one, 0: none published; null: any.",
        examples=[3],
    )
    publish_at: Moment | None = Field(
        default=None,
        description="Time at which it is published, where no second person has to agree; null: a second person decides.",
        examples=["2026-12-01T18:00:00Z"],
    )


class AgreeIn(RequestShape):
    """The content that is approved."""

    digest: str = Field(
        min_length=1,
        max_length=128,
        description="Content hash of the change, as it was looked at: nothing else is agreed to.",
        examples=["9c11d2e3f4a5b6c7d8e9f0a1b2c3d4e5"],
    )


class RejectIn(RequestShape):
    """The reason of a rejection."""

    reason: str = Field(
        min_length=1, max_length=MESSAGE_CHARS_MAX, description="Its author reads it.", examples=["Keep the cap."]
    )


class ChangeRequestOut(ResponseShape):
    """A change of a fabric that waits, or waited, for a second person."""

    id: str = Field(description=REQUEST, examples=[EXAMPLE_ID])
    fabric: str = Field(description="The fabric's name.", examples=["research-desk"])
    author: str = Field(description="Author of the request, who cannot approve it.", examples=["ana"])
    base: int | None = Field(description="The revision that it changes; null: none was published.", examples=[3])
    digest: str = Field(description="Content hash of what would be published: the agreement is bound to it.")
    message: str = Field(description="Message of the author; may be empty.")
    state: ChangeState = Field(
        description="open: a second person may approve; stale: another revision was published since; voided: the draft was changed; failed: it could not be published at its time."
    )
    publish_at: Instant | None = Field(description="When it is published; null: a second person decides.")
    opened_at: Instant = Field(description="When it was asked for.")
    decided_at: Instant | None = Field(description="When it was decided; null: it is not.")
    decided_by: str = Field(description="By whom; empty: it is not.", examples=["ben"])
    reason: str = Field(description="Why it was rejected or voided; may be empty.")
    number: int | None = Field(description="The revision that came of it; null: none.", examples=[4])


class ChangeRequestsOut(ResponseShape):
    """Changes that wait."""

    requests: list[ChangeRequestOut] = Field(description=f"The newest first; at most {REQUESTS_MAX}.")


class ChangeRequestDetailOut(ChangeRequestOut):
    """One change, with its text."""

    source: str = Field(description="The exact text to publish.")


@change_request_router.get(
    "/change-requests", response=ChangeRequestsOut, url_name="api-changes", operation_id="listChangeRequests"
)
def list_changes(
    request: HttpRequest,
    fabric: Annotated[str, Query(description="Only of this fabric; empty: of all.", max_length=200)] = "",
    decided: Annotated[bool, Query(description="Those that are decided as well.")] = False,
) -> ChangeRequestsOut:
    """List change requests. The changes of fabrics that wait for a second person."""
    found = change_requests(find_actor(request), fabric, waiting=not decided)
    return ChangeRequestsOut(requests=[ChangeRequestOut(**_change_fields(one)) for one in found])


@change_request_router.post(
    "/change-requests", response={201: ChangeRequestOut}, url_name="api-changes", operation_id="openChangeRequest"
)
def open_change(request: HttpRequest, body: Annotated[ChangeRequestIn, Body()]) -> Status[ChangeRequestOut]:
    """Open a change request. It asks another person to approve a change of a fabric whose runs need two people. For
    editors and owners. With ``publish_at`` it schedules the publication of a change that needs one person.
    """
    given = {"actor": find_actor(request), "source": body.source, "message": body.message}
    same: dict[str, Any] = {**given, "providers": provider_names(), "expect": body.expect_revision}
    if body.publish_at is None:
        found = change_request_open(**same)
    else:
        found = publication_schedule(**same, publish_at=int(body.publish_at.timestamp()) * US)
    return Status(201, ChangeRequestOut(**_change_fields(found)))


@change_request_router.get(
    "/change-requests/{change_id}",
    response=ChangeRequestDetailOut,
    url_name="api-change",
    operation_id="getChangeRequest",
)
def get_change(
    request: HttpRequest, change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)]
) -> ChangeRequestDetailOut:
    """Get a change request. With the text that would be published."""
    found = change_request_get(find_actor(request), change_id)
    return ChangeRequestDetailOut(**_change_fields(found), source=found.text)


@change_request_router.post(
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
    """Approve a change request. Publishes exactly that content. For people who may publish and did not ask for it;
    no service account may.
    """
    actor = find_actor(request)
    change_approve(actor=actor, request_id=change_id, digest=body.digest, providers=provider_names())
    return ChangeRequestOut(**_change_fields(change_request_get(actor, change_id)))


@change_request_router.post(
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
    """Reject a change request. Nothing is published, and its author reads the reason. For people who could approve
    it.
    """
    return ChangeRequestOut(
        **_change_fields(change_reject(actor=find_actor(request), request_id=change_id, reason=body.reason))
    )


@change_request_router.post(
    "/change-requests/{change_id}/withdraw",
    response=ChangeRequestOut,
    url_name="api-change-withdraw",
    operation_id="withdrawChangeRequest",
)
def withdraw_change(
    request: HttpRequest, change_id: Annotated[str, Path(description=REQUEST, example=EXAMPLE_ID)]
) -> ChangeRequestOut:
    """Withdraw a change request. Nothing is published. For its author alone."""
    return ChangeRequestOut(**_change_fields(change_withdraw(actor=find_actor(request), request_id=change_id)))


def _change_fields(view: ChangeView) -> dict[str, object]:
    return {
        "id": view.id,
        "fabric": view.name,
        "author": view.author,
        "base": view.base,
        "digest": view.digest,
        "message": view.message,
        "state": view.state,
        "publish_at": instant(view.publish_at),
        "opened_at": _iso(view.opened_at),
        "decided_at": _iso(view.decided_at) if view.decided_at else None,
        "decided_by": view.decided_by,
        "reason": view.reason,
        "number": view.published,
    }
