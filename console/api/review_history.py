"""The history of decisions: who decided what and how long it took, a page at a time or as a file."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Body, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.lists import FILE, NAME_CHARS_MAX, Cursor, FileIn, Limit, Since, Until, bounds
from console.api.schemas import Instant, Told, instant
from console.exporting import list_response
from fabric.core.taxonomy import FailureType, Tier
from fabric.selectors.decision_history import Decided, HistoryFilter, Who, decided_page
from fabric.services.decision_export import decisions_export

router = Router(tags=["escalations"])
Kind = Literal["pre_action", "post_stage", "failure", "compensation", "child", "quarantine"]
Came = Literal["approve", "edit", "reject", "respond", "decline", "withdrawn"]


class DecisionRowOut(Told):
    """A question that was decided."""

    id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that asked it.")
    fabric: str = Field(description="Name of the run's fabric.", examples=["research-desk"])
    tier: str = Field(description="The run's tier.", examples=["batch"])
    item: str = Field(description="What it was about.", examples=["failure"])
    stage: str = Field(description="The stage it stood in; may be empty.", examples=["validate"])
    reason: str = Field(description="Why a person was asked.")
    failure_type: str = Field(description="The row of the decision table; empty: it was about no failure.")
    verb: str = Field(description="What it came to.", examples=["approve"])
    decided_by: str = Field(description="Who decided it; system where nobody answered in time.", examples=["owner"])
    by_system: bool = Field(description="Whether nobody answered in time, or the run took the question back.")
    agreed: list[str] = Field(description="Who had agreed before, where two people had to.", examples=[[]])
    opened_at: Instant = Field(description="When it was asked.")
    due_at: Instant = Field(description="When it was due.")
    claimed_at: Instant | None = Field(
        description="When whoever decided took it in hand; null: they did not, or it is not known."
    )
    decided_at: Instant = Field(description="When it was decided.")
    took_us: int = Field(description="From the question to the decision, microseconds.", examples=[93_000_000])
    late: bool = Field(description="Whether a person decided it after it was due.", examples=[False])
    score: float | None = Field(description="The critic's, where confidence was why it was asked.", examples=[0.62])
    tau: float | None = Field(description="The least that passes.", examples=[0.7])


class DecisionsOut(Told):
    """A page of decisions."""

    decisions: list[DecisionRowOut] = Field(description="The newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class DecisionsExportIn(FileIn):
    """Which decisions to export."""

    by: str = Field(
        default="",
        max_length=NAME_CHARS_MAX,
        description="Whose decisions; empty: everybody's, for owners and auditors.",
        examples=["owner"],
    )
    fabric: str = Field(default="", max_length=NAME_CHARS_MAX, description="Only this fabric's.", examples=[""])


@router.get("/decisions", response=DecisionsOut, url_name="api-decisions", operation_id="listDecisions")
def list_decisions(
    request: HttpRequest,
    since: Since = None,
    until: Until = None,
    fabric: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only this fabric's.")] = "",
    tier: Annotated[Tier | None, Query(description="Only of runs of this tier.")] = None,
    item: Annotated[Kind | None, Query(description="Only of this kind.")] = None,
    verb: Annotated[
        Came | None, Query(description="Only what came to this; what was withdrawn is listed with withdrawn alone.")
    ] = None,
    failure_type: Annotated[FailureType | None, Query(description="Only about this failure.")] = None,
    by: Annotated[str, Query(max_length=NAME_CHARS_MAX, description="Only this person's.")] = "",
    who: Annotated[
        Literal["people", "system"] | None, Query(description="Only people's, or only the system's.")
    ] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> DecisionsOut:
    """List decisions. Who decided what and how long it took, the newest first, a page at a time."""
    chosen: Who = who or ""
    wanted = HistoryFilter(
        fabric=fabric, tier=tier or "", item=item or "", verb=verb or "", failure=failure_type or "", by=by, who=chosen,
        **bounds(since, until),
    )  # fmt: skip
    page = decided_page(actor_of(request), wanted, limit=limit, after=cursor or "")
    return DecisionsOut(decisions=[_told(one) for one in page.rows], next_cursor=page.next or None)


@router.post("/decisions/export", url_name="api-decisions-export", operation_id="exportDecisions", openapi_extra=FILE)
def export_decisions(request: HttpRequest, body: Annotated[DecisionsExportIn, Body()]) -> StreamingHttpResponse:
    """Export decisions. As a file, streamed, the newest first; the audit stream tells of it. Everybody may export their own."""
    wanted = HistoryFilter(by=body.by, fabric=body.fabric, **body.bounds())
    return list_response(decisions_export(actor=actor_of(request), wanted=wanted, form=body.form))


def _told(one: Decided) -> DecisionRowOut:
    same = (
        "id",
        "run_id",
        "fabric",
        "tier",
        "item",
        "stage",
        "reason",
        "failure_type",
        "verb",
        "decided_by",
        "by_system",
    )
    times = {name: instant(getattr(one, name)) for name in ("opened_at", "due_at", "claimed_at", "decided_at")}
    rest = {"agreed": list(one.agreed), "took_us": one.took_us, "late": one.late, "score": one.score, "tau": one.tau}
    return DecisionRowOut(**{name: getattr(one, name) for name in same}, **times, **rest)
