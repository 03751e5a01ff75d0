"""Operations on the audit stream: pages of records, single records, exports, legal holds and retention."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.shapes.common import (
    FILE,
    NAME_CHARS_MAX,
    Cursor,
    FileIn,
    Instant,
    Limit,
    RequestShape,
    ResponseShape,
    Since,
    Until,
    bounds,
    instant,
)
from console.site.access.callers import find_actor
from console.site.downloads import list_response
from fabric.core.audit.acts import Outcome, SubjectKind
from fabric.selectors.audit.holds import HoldView, holds_list
from fabric.selectors.audit.lookup import AuditFilter, AuditRow, audit_page, audit_record_get
from fabric.services.audit.export import audit_export
from fabric.services.audit.holds import hold_lift, hold_place

router = Router(tags=["audit"])


class AuditRecordOut(ResponseShape):
    """A record: an act of an actor, or a refused one."""

    id: str = Field(description="The record's id.", examples=["01a2246679c67b1f9e5b0c7f3f4d2a11"])
    at: Instant = Field(description="When.")
    actor: str = Field(
        description="The actor: a member's name, `system`, or `unknown` for an actor without a name here.",
        examples=["owner"],
    )
    via: str = Field(description="The token that acted in the name; may be empty.", examples=["token:ci"])
    came_by: str = Field(
        description="Origin of the act: session, token, cli, system, or `unknown` for a caller that did not sign in; empty: not recorded.",
        examples=["token"],
    )
    address: str = Field(description="The client's address; empty: none, or not noted.", examples=["192.0.2.7"])
    request_id: str = Field(
        description="The request's id, as in the X-Request-Id header.", examples=["9f86d081884c7d65"]
    )
    act: str = Field(description="Name of the act.", examples=["token_created"])
    outcome: Outcome = Field(description="Outcome of the act.", examples=["done"])
    subject: str = Field(description="Id or name of what it was done to.", examples=["ci"])
    reason: str = Field(description="Why, where it was said.")
    times: int = Field(description="How often, where the same was counted.", examples=[1])
    more: dict[str, Any] = Field(
        description="The rest of what the record says; no contents, no secrets.", examples=[{"scopes": ["read"]}]
    )
    seq: int | None = Field(description="Its place in the chain; null: it waits to be sealed.", examples=[42])
    hash: str = Field(description="Its hash in hex; empty until it is sealed.")


class AuditRecordsOut(ResponseShape):
    """A page of records."""

    records: list[AuditRecordOut] = Field(description="The newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class AuditOneOut(ResponseShape):
    """A record and its place in the chain."""

    record: AuditRecordOut = Field(description="The record's content.")
    prev: str = Field(description="Hash of the record before it, in hex; empty: not sealed, or not here.")
    verified: bool | None = Field(description="True if the hash matches the record's content; null: not sealed yet.")


class AuditExportIn(FileIn):
    """Filter and format of an export of records."""

    actor: str = Field(default="", max_length=NAME_CHARS_MAX, description="Only by this one.", examples=[""])
    act: str = Field(default="", max_length=NAME_CHARS_MAX, description="Only this act.", examples=[""])
    subject: str = Field(
        default="", max_length=NAME_CHARS_MAX, description="Only about this id or name.", examples=[""]
    )


class HoldOut(ResponseShape):
    """A legal hold."""

    id: str = Field(description="The hold's id.")
    about: str = Field(description="run, fabric or person.", examples=["run"])
    name: str = Field(description="The run's id, or the name of the fabric or person.")
    reason: str = Field(description="Why it was placed.")
    placed_by: str = Field(description="By whom.", examples=["owner"])
    placed_at: Instant = Field(description="When.")
    lifted_by: str = Field(description="Member who lifted the hold; empty: still in force.")
    lifted_at: Instant | None = Field(description="Time when the hold was lifted; null: still in force.")
    lifted_because: str = Field(description="Why it was lifted.")


class HoldsOut(ResponseShape):
    """Holds."""

    holds: list[HoldOut] = Field(description="Those that stand, then those that were lifted, the newest first.")


class HoldIn(RequestShape):
    """A new hold."""

    about: Literal["run", "fabric", "person"] = Field(description="Kind of object under the hold.", examples=["fabric"])
    name: str = Field(max_length=NAME_CHARS_MAX, description="The run's id, or the name.", examples=["research-desk"])
    reason: str = Field(max_length=1_000, description="Why; it is kept in the audit stream.", examples=["Case 12."])


class HoldLiftIn(RequestShape):
    """Reason for lifting a hold."""

    reason: str = Field(max_length=1_000, description="Why; it is kept in the audit stream.", examples=["It is over."])


@router.get("/audit", response=AuditRecordsOut, url_name="api-audit", operation_id="listAuditRecords")
def list_records(
    request: HttpRequest,
    actor: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only by this one.")] = "",
    act: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only this act.")] = "",
    subject: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only about this id or name.")] = "",
    about: Annotated[SubjectKind | None, Query(description="Only about this kind of object.")] = None,
    outcome: Annotated[Outcome | None, Query(description="Only with this outcome.")] = None,
    address: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only from this client address.")] = "",
    since: Since = None,
    until: Until = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> AuditRecordsOut:
    """List audit records. Actors, acts, origins and refusals; newest first, a page at a time."""
    wanted = AuditFilter(
        actor=actor, act=act, subject=subject, about=about or "", outcome=outcome or "", address=address,
        **bounds(since, until),
    )  # fmt: skip
    page = audit_page(find_actor(request), wanted, limit=limit, after=cursor or "")
    return AuditRecordsOut(records=[_record_shape(one) for one in page.rows], next_cursor=page.next or None)


@router.post("/audit/export", url_name="api-audit-export", operation_id="exportAuditRecords", openapi_extra=FILE)
def export_records(request: HttpRequest, body: Annotated[AuditExportIn, Body()]) -> StreamingHttpResponse:
    """Export audit records. As a file, streamed, oldest first, with the hashes of the chain; the audit stream
    records it.
    """
    wanted = AuditFilter(actor=body.actor, act=body.act, subject=body.subject, **body.bounds())
    return list_response(audit_export(actor=find_actor(request), wanted=wanted, form=body.form))


@router.get("/audit/holds", response=HoldsOut, url_name="api-audit-holds", operation_id="listHolds")
def list_holds(request: HttpRequest) -> HoldsOut:
    """List legal holds. Data under a hold is not removed until the hold is lifted."""
    return HoldsOut(holds=[_hold(one) for one in holds_list(find_actor(request))])


@router.post("/audit/holds", response=HoldOut, url_name="api-audit-holds", operation_id="placeHold")
def place_hold(request: HttpRequest, body: Annotated[HoldIn, Body()]) -> HoldOut:
    """Place a legal hold. On a run, a fabric or a person: neither retention nor a person can remove its data."""
    return _hold(hold_place(actor=find_actor(request), about=body.about, name=body.name, reason=body.reason))


@router.post("/audit/holds/{hold_id}/lift", response=HoldOut, url_name="api-audit-hold-lift", operation_id="liftHold")
def lift_hold(
    request: HttpRequest,
    hold_id: Annotated[str, Path(description="The hold's id.", example="0a1b2c3d4e5f60718293a4b5c6d7e8f9")],
    body: Annotated[HoldLiftIn, Body()],
) -> HoldOut:
    """Lift a legal hold. Retention then removes the data when it is due."""
    return _hold(hold_lift(actor=find_actor(request), hold_id=hold_id, reason=body.reason))


@router.get("/audit/{record_id}", response=AuditOneOut, url_name="api-audit-record", operation_id="getAuditRecord")
def get_record(
    request: HttpRequest,
    record_id: Annotated[str, Path(description="The record's id.", example="0a1b2c3d4e5f60718293a4b5c6d7e8f9")],
) -> AuditOneOut:
    """Get one audit record. With its place in the chain, and the check of its hash."""
    found = audit_record_get(find_actor(request), record_id)
    return AuditOneOut(record=_record_shape(found.row), prev=found.prev, verified=found.verified)


def _record_shape(row: AuditRow) -> AuditRecordOut:
    same = (
        "id",
        "actor",
        "via",
        "came_by",
        "address",
        "request_id",
        "act",
        "outcome",
        "subject",
        "reason",
        "times",
        "seq",
        "hash",
    )
    return AuditRecordOut(**{name: getattr(row, name) for name in same}, at=instant(row.at), more=dict(row.more))


def _hold(one: HoldView) -> HoldOut:
    same = ("id", "about", "name", "reason", "placed_by", "lifted_by", "lifted_because")
    times = {name: instant(getattr(one, name)) for name in ("placed_at", "lifted_at")}
    return HoldOut(**{name: getattr(one, name) for name in same}, **times)
