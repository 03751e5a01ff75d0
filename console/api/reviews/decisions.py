"""Operations on single reviews, and on past decisions: a page at a time, or as a file.

Past decisions come with authors and durations.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Body, Query, Router
from pydantic import Field

from console.api.reviews.shapes import (
    AnswerOut,
    Item,
    Narrowed,
    ReviewDetailOut,
    ReviewOut,
    ReviewsOut,
    TabName,
    answer_fields,
    conflict_problem,
    review_fields,
    too_long,
)
from console.api.shapes.common import (
    EXAMPLE_ID,
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
from fabric.composition import engine as wiring
from fabric.core.reviews.raised_cap import CAPS_MAX, MOST_USD_MICROS
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.answers import get_answer
from fabric.selectors.reviews.assignments import list_viewers
from fabric.selectors.reviews.decisions.history import DecidedReview, HistoryFilter, Who, decided_page
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import Tab, queue_page, queue_rows
from fabric.services.reviews.decisions import (
    MESSAGE_CHARS_MAX,
    DecisionTaken,
    decide_review,
    decisions_export,
    hasten_decision,
    undo_decision,
)
from fabric.services.reviews.reveals import reveal_review

router = Router(tags=["reviews"])
Verb = Literal["approve", "reject", "edit", "respond", "decline"]


class CapIn(RequestShape):
    """A new cap of the run."""

    scope: str = Field(
        min_length=1,
        max_length=80,
        description="Whose, as the review's takes_caps names it.",
        examples=["stage:fan_out"],
    )
    unit: Literal["usd_micros", "tokens"] = Field(description="Of what.", examples=["tokens"])
    cap: int = Field(
        ge=1, le=MOST_USD_MICROS, description="Most it may spend from now on, altogether.", examples=[20_000]
    )


class DecisionIn(RequestShape):
    """An answer."""

    verb: Verb = Field(description="One of the review's verbs.", examples=["approve"])
    digest: str = Field(
        min_length=1,
        max_length=128,
        description="The digest of the review you were shown, or at least its first 8 characters.",
        examples=["b5bb9d8014a0f9b1"],
    )
    message: str = Field(
        default="",
        max_length=MESSAGE_CHARS_MAX,
        description="Message, kept in the journal. Required to reject (the reason), to decline (the agent reads it as the call's error) and to respond (what a person did by hand, or the agent's result). In high-stakes every answer needs one.",
        examples=["The deadline in the summary is wrong."],
    )

    edited: dict[str, Any] | None = Field(
        default=None,
        description="With edit: the replacement of the content: the arguments of a call, or a value that fits edit_schema. The schema, the gates and the protections check it again.",
        examples=[None],
    )
    cap_usd_micros: int | None = Field(
        default=None,
        ge=1,
        le=MOST_USD_MICROS,
        description="With approve, where the review's content says takes_cap: most the run may spend from now on, altogether, "
        "in micro-dollars; null: its cap stays.",
        examples=[None],
    )
    caps: list[CapIn] = Field(
        default=[],
        max_length=CAPS_MAX,
        description="With approve, where the review's content has takes_caps: caps of the run's tokens, of its stage or its agent that are raised, "
        "each once; what is not named stays.",
        examples=[[]],
    )
    model: str = Field(
        default="",
        max_length=63,
        description="With approve, where the content has takes_model: the model named there, which then answers instead of the failed one; empty: the agent's own model is called again.",
        examples=[""],
    )
    tool: str = Field(
        default="",
        max_length=63,
        description="With edit, where the review's content has takes_tools: one of those, to be called with edited in place of the call that was shown; "
        "empty: the tool that was shown.",
        examples=[""],
    )
    assignment_lease: int = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="The lease under which the answer is given: it is refused once that is over; 0: whichever stands.",
        examples=[0],
    )


class DecisionOut(ResponseShape):
    """An answer that was recorded."""

    review_id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run, which continues with the answer.")
    verb: str = Field(description="The answer.", examples=["approve"])
    recorded: bool = Field(description="False: you had given this answer before.")
    second_wanted: bool = Field(description="True if a second person must agree first.")


class RevealedOut(ResponseShape):
    """Revealed content, byte for byte."""

    content: Any = Field(description="The content with its credentials.", examples=[{"payload": {"text": "..."}}])


class SecondThoughtIn(RequestShape):
    """An empty body."""


NOTHING = SecondThoughtIn()


class UndoneOut(ResponseShape):
    """A withdrawn answer."""

    review_id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that waits with it.")
    verb: str = Field(description="The withdrawn answer.", examples=["approve"])
    message: str = Field(description="The message of that answer.")
    recorded: bool = Field(description="False: you had taken it back before.")


@router.get("/reviews", response=ReviewsOut, url_name="api-reviews", operation_id="listReviews")
def list_reviews(
    request: HttpRequest,
    narrowed: Annotated[Narrowed, Query()],
    tab: Annotated[TabName, Query(description="Which part of the queue.", example="open")] = "open",
    run_id: Annotated[UUID | None, Query(description="Only the reviews of this run.", example=EXAMPLE_ID)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> ReviewsOut:
    """List reviews. Open ones, the most urgent first, a page at a time; or another part of the queue."""
    asked_for = narrowed.build_filter("" if run_id is None else str(run_id))
    try:
        page = queue_page(find_actor(request), Tab(tab), asked_for, limit=limit, after=cursor or "")
    except TookTooLong:
        raise too_long() from None
    return ReviewsOut(reviews=[ReviewOut(**review_fields(row)) for row in page.rows], next_cursor=page.next or None)


@router.get(
    "/reviews/{review_id}",
    response=ReviewDetailOut,
    url_name="api-review",
    operation_id="getReview",
)
def read_review(request: HttpRequest, review_id: Item) -> ReviewDetailOut:
    """Get a review. Open or answered, with the content that the person sees and the answer."""
    actor = find_actor(request)
    view = get_review(actor, review_id)
    answer = get_answer(actor, review_id)
    (row,) = queue_rows(actor, [view])
    return ReviewDetailOut(
        **review_fields(row),
        content=view.content,
        withheld=view.withheld,
        answer=None if answer is None else AnswerOut(**answer_fields(answer)),
        viewers=list(list_viewers(actor, view.id)),
    )


@router.post(
    "/reviews/{review_id}/reveal",
    response=RevealedOut,
    url_name="api-review-reveal",
    operation_id="revealReview",
)
def reveal(
    request: HttpRequest,
    review_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> RevealedOut:
    """Reveal the withheld content of a review. For the role safety; the audit stream records it. 409 if nothing is
    withheld.
    """
    return RevealedOut(content=reveal_review(actor=find_actor(request), review_id=review_id).content)


@router.post(
    "/reviews/{review_id}/decision",
    response=DecisionOut,
    url_name="api-review-decision",
    operation_id="decideReview",
)
def decide(
    request: HttpRequest,
    review_id: Item,
    body: Annotated[DecisionIn, Body()],
) -> DecisionOut:
    """Answer a review. In the caller's name. An equal body of the caller again changes nothing and is no error."""
    actor = find_actor(request)
    item = get_review(actor, review_id)
    try:
        taken = decide_review(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            review_id=item.id,
            verb=body.verb,
            message=body.message,
            digest=body.digest,
            edited=body.edited,
            cap_usd_micros=body.cap_usd_micros,
            caps=[NamedCap(one.scope, one.unit, one.cap) for one in body.caps],
            model=body.model,
            tool=body.tool,
            assignment_lease=body.assignment_lease,
        )
    except Refused as refusal:
        raise conflict_problem(actor, item.id, refusal) from None
    return decision_shape(taken)


@router.post(
    "/reviews/{review_id}/undo",
    response=UndoneOut,
    url_name="api-review-undo",
    operation_id="undoDecision",
)
def undo(
    request: HttpRequest,
    review_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> UndoneOut:
    """Withdraw an answer. Its author can, until the run takes it: answers given in a browser wait a few seconds for
    that.
    """
    undone = undo_decision(**_read_decision(request, review_id))
    return UndoneOut(
        review_id=undone.review_id,
        run_id=undone.run_id,
        verb=undone.verb,
        message=undone.message,
        recorded=undone.recorded,
    )


@router.post(
    "/reviews/{review_id}/continue",
    response=DecisionOut,
    url_name="api-review-continue",
    operation_id="continueDecision",
)
def go_on(
    request: HttpRequest,
    review_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> DecisionOut:
    """Release an answer at once. It gives up the rest of its undo window."""
    taken = hasten_decision(**_read_decision(request, review_id))
    return decision_shape(taken)


def _read_decision(request: HttpRequest, review_id: str) -> dict[str, Any]:
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    return {**ports, "actor": find_actor(request), "review_id": review_id}


def decision_shape(taken: DecisionTaken) -> DecisionOut:
    """Return a recorded answer in the API's shape."""
    return DecisionOut(
        review_id=taken.review_id,
        run_id=taken.run_id,
        verb=taken.verb,
        recorded=taken.created,
        second_wanted=taken.second_wanted,
    )


history_router = Router(tags=["reviews"])
Kind = Literal["pre_action", "post_stage", "failure", "compensation", "child", "quarantine"]
Came = Literal["approve", "edit", "reject", "respond", "decline", "withdrawn"]


class DecisionRowOut(ResponseShape):
    """A decided review."""

    id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that asked it.")
    fabric: str = Field(description="Name of the run's fabric.", examples=["research-desk"])
    tier: str = Field(description="The run's tier.", examples=["batch"])
    item: str = Field(description="Kind of the review.", examples=["failure"])
    stage: str = Field(description="The stage it stood in; may be empty.", examples=["validate"])
    reason: str = Field(description="Why a person was asked.")
    failure_type: str = Field(description="The row of the decision table; empty: it was about no failure.")
    verb: str = Field(description="The decision.", examples=["approve"])
    decided_by: str = Field(description="Person who decided; system if no one answered in time.", examples=["owner"])
    by_system: bool = Field(description="True if no one answered in time, or the run withdrew the review.")
    agreed: list[str] = Field(description="Person who agreed first, where two people had to.", examples=[[]])
    opened_at: Instant = Field(description="When it was asked.")
    due_at: Instant = Field(description="When it was due.")
    claimed_at: Instant | None = Field(description="Time when the decider claimed it; null: not claimed, or unknown.")
    decided_at: Instant = Field(description="When it was decided.")
    took_us: int = Field(description="From the review to the decision, microseconds.", examples=[93_000_000])
    late: bool = Field(description="True if a person decided after the due time.", examples=[False])
    score: float | None = Field(description="The critic's, where confidence was why it was asked.", examples=[0.62])
    tau: float | None = Field(description="The least that passes.", examples=[0.7])


class DecisionsOut(ResponseShape):
    """A page of decisions."""

    decisions: list[DecisionRowOut] = Field(description="The newest first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class DecisionsExportIn(FileIn):
    """Filter and format of an export of decisions."""

    by: str = Field(
        default="",
        max_length=NAME_CHARS_MAX,
        description="Member whose decisions are listed; empty: all members, for owners and auditors.",
        examples=["owner"],
    )
    fabric: str = Field(default="", max_length=NAME_CHARS_MAX, description="Only this fabric's.", examples=[""])


@history_router.get("/decisions", response=DecisionsOut, url_name="api-decisions", operation_id="listDecisions")
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
    """List decisions. With authors and durations, newest first, a page at a time."""
    chosen: Who = who or ""
    wanted = HistoryFilter(
        fabric=fabric, tier=tier or "", item=item or "", verb=verb or "", failure=failure_type or "", by=by, who=chosen,
        **bounds(since, until),
    )  # fmt: skip
    page = decided_page(find_actor(request), wanted, limit=limit, after=cursor or "")
    return DecisionsOut(decisions=[_decision_row(one) for one in page.rows], next_cursor=page.next or None)


@history_router.post(
    "/decisions/export", url_name="api-decisions-export", operation_id="exportDecisions", openapi_extra=FILE
)
def export_decisions(request: HttpRequest, body: Annotated[DecisionsExportIn, Body()]) -> StreamingHttpResponse:
    """Export decisions. As a file, streamed, newest first; the audit stream records it. Every member may export
    their own.
    """
    wanted = HistoryFilter(by=body.by, fabric=body.fabric, **body.bounds())
    return list_response(decisions_export(actor=find_actor(request), wanted=wanted, form=body.form))


def _decision_row(one: DecidedReview) -> DecisionRowOut:
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
