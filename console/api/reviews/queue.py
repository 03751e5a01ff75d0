"""Operations on the review queue: counts, assignments, handing on, answering several reviews, closing follow-ups."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Query, Router
from pydantic import ConfigDict, Field

from console.api.reviews.decisions import DecisionOut, decision_shape
from console.api.reviews.shapes import (
    AssignmentOut,
    ClosureOut,
    Item,
    Narrowed,
    ReviewOut,
    assignment_fields,
    closure_fields,
    conflict_problem,
    review_fields,
    too_long,
)
from console.api.shapes.common import RequestShape, ResponseShape
from console.site.access.callers import find_actor, scope_wanted
from console.site.errors.pages import STATUS
from fabric.composition import engine as wiring
from fabric.core.people.scopes import Scope
from fabric.selectors.database_time import TookTooLong
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.assignments import find_assignment
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import COUNT_MAX, ReviewCount, queue_counts, queue_rows, reviews_waiting
from fabric.services.reviews.assignments import (
    review_assign_to_role,
    review_claim,
    review_claim_next,
    review_heartbeat,
    review_reassign,
    review_release,
)
from fabric.services.reviews.decisions import BULK_MAX, MESSAGE_CHARS_MAX, BulkItem, BulkResult, decide_reviews
from fabric.services.reviews.follow_ups import NOTE_CHARS_MAX, close_follow_up, fork_follow_up

router = Router(tags=["reviews"])
LEASE_MAX = 2**31 - 1


class CountOut(ResponseShape):
    """A count of reviews."""

    count: int = Field(description=f"So many, counted to {COUNT_MAX}.", examples=[3])
    more: bool = Field(description="True if there are more than were counted.")


class CountsOut(ResponseShape):
    """Counts of the queue."""

    waiting: CountOut = Field(
        description="Reviews that the caller may decide, and follow-ups that ask them, unless another person has claimed them."
    )
    mine: CountOut = Field(description="Reviews that the caller has claimed.")
    yours: CountOut = Field(description="Open reviews that the caller may answer, claimed or not.")
    unclaimed: CountOut = Field(description="Unclaimed reviews that the caller may decide.")
    second: CountOut = Field(description="Reviews that one person agreed to and that need a second one.")
    open: CountOut = Field(description="All that wait for a person.")
    follow_ups: CountOut = Field(description="Open follow-ups.")


class ClaimedOut(ResponseShape):
    """A review that a person has claimed, or that was assigned."""

    review_id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    assignment: AssignmentOut = Field(description="Holder of the assignment and its end.")
    fresh: bool = Field(description="False: they had it before, and have it for longer now.")


class NextOut(ResponseShape):
    """The next review, claimed by the caller."""

    review: ReviewOut | None = Field(description="The review; null: no unclaimed review is open for the caller.")


class NextIn(Narrowed):
    """Filter from which to pick: the fields of the list's query. May be empty."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LeaseIn(RequestShape):
    """An assignment."""

    lease: int = Field(ge=1, le=LEASE_MAX, description="Its number.", examples=[1])


class BeatIn(RequestShape):
    """A sign of life from an open page."""

    lease: int = Field(
        default=0,
        ge=0,
        le=LEASE_MAX,
        description="The number of the assignment to renew; 0: there is none.",
        examples=[1],
    )


class BeatOut(ResponseShape):
    """Present state of the review."""

    kept: bool = Field(
        description="True if the assignment of that number was renewed; false: there is none, or it was lost."
    )
    open: bool = Field(description="True if the review is open.")
    assignment: AssignmentOut | None = Field(description="Holder of the assignment; null: unclaimed.")
    viewers: list[str] = Field(description="The others who have its page open.", examples=[["ana"]])


class ReleaseOut(ResponseShape):
    """Result of releasing an assignment."""

    released: bool = Field(description="False: it was not, or no longer, the caller's, and nothing changed.")


class ReassignIn(RequestShape):
    """New assignee of a review."""

    to: str = Field(
        min_length=1,
        max_length=150,
        description="Name of a member who may decide it, or of a role of such a member.",
        examples=["ana"],
    )
    kind: Literal["person", "role"] = Field(default="person", description="Which of both `to` names.")


class PickedIn(RequestShape):
    """A review, as the caller has seen it."""

    id: str = Field(min_length=1, max_length=64, description="Its id.", examples=["4f1c9a2be07d3358"])
    digest: str = Field(min_length=1, max_length=128, description="Its digest.", examples=["b5bb9d8014a0f9b1"])


class BulkIn(RequestShape):
    """One answer to several reviews of one fabric, kind and stage; never in high-stakes."""

    items: list[PickedIn] = Field(min_length=1, max_length=BULK_MAX, description="The reviews.")
    verb: Literal["approve", "reject", "respond", "decline"] = Field(description="The answer.", examples=["reject"])
    message: str = Field(
        default="", max_length=MESSAGE_CHARS_MAX, description="Message for each of them.", examples=["Not this month."]
    )


class BulkOneOut(ResponseShape):
    """Result of one review."""

    review_id: str = Field(description="The review's id.", examples=["4f1c9a2be07d3358"])
    status: int = Field(
        description="200: the answer is recorded; else the status that it would have had alone.", examples=[200]
    )
    detail: str = Field(description="Why it was not recorded; empty: it was.", examples=[""])
    decision: DecisionOut | None = Field(description="The answer; null: it was not recorded.")


class BulkOut(ResponseShape):
    """Result of each review, in the order of the request."""

    results: list[BulkOneOut] = Field(description="One a review.")


class CloseIn(RequestShape):
    """Note about a follow-up."""

    note: str = Field(
        min_length=1,
        max_length=NOTE_CHARS_MAX,
        description="In a sentence or two; kept with the follow-up.",
        examples=["Asked the supplier; nothing to do."],
    )
    fork_seq: int | None = Field(
        default=None,
        ge=1,
        le=LEASE_MAX,
        description="Also start a run that continues from this event of the follow-up's run; null: no run.",
        examples=[None],
    )


class ClosedOut(ResponseShape):
    """A follow-up that is closed."""

    review_id: str = Field(description="The follow-up's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that had ended.")
    closure: ClosureOut = Field(description="By whom, when and how.")
    recorded: bool = Field(description="False: you had closed it with this note before.")


# -- how much waits --------------------------------------------------------------------------------------------------


@router.get("/reviews/counts", response=CountsOut, url_name="api-review-counts", operation_id="countReviews")
def count_reviews(request: HttpRequest, narrowed: Annotated[Narrowed, Query()]) -> CountsOut:
    """Count the reviews. Of each part of the queue, and of those that wait for the caller."""
    actor = find_actor(request)
    try:
        counts = {tab.value: _count(count) for tab, count in queue_counts(actor, narrowed.build_filter()).items()}
    except TookTooLong:
        raise too_long() from None
    return CountsOut(waiting=_count(reviews_waiting(actor)), **counts)


def _count(count: ReviewCount) -> CountOut:
    return CountOut(count=count.n, more=count.more)


# -- in hand ---------------------------------------------------------------------------------------------------------


@router.post("/reviews/next", response=NextOut, url_name="api-review-next", operation_id="claimNextReview")
def claim_next(request: HttpRequest, body: Annotated[NextIn, Body()] = NextIn()) -> NextOut:  # noqa: B008 - It is never changed.
    """Claim the next review. The most urgent unclaimed one that the caller may approve; several callers at once get
    one each.
    """
    actor = find_actor(request)
    taken = review_claim_next(actor=actor, wanted=body.build_filter())
    if taken is None:
        return NextOut(review=None)
    (row,) = queue_rows(actor, [get_review(actor, taken.assignment.review_id)])
    return NextOut(review=ReviewOut(**review_fields(row)))


@router.post(
    "/reviews/{review_id}/claim",
    response=ClaimedOut,
    url_name="api-review-claim",
    operation_id="claimReview",
)
def claim(request: HttpRequest, review_id: Item) -> ClaimedOut:
    """Claim a review. For five minutes; a heartbeat renews it. Once a lease has lapsed, anyone who is asked may take
    over.
    """
    return _answer_assignment(request, review_id, review_claim, {})


@router.post(
    "/reviews/{review_id}/reassign",
    response=ClaimedOut,
    url_name="api-review-reassign",
    operation_id="reassignReview",
)
def reassign(request: HttpRequest, review_id: Item, body: Annotated[ReassignIn, Body()]) -> ClaimedOut:
    """Assign a review to another person, or to a role. For its assignee, owners and operators; anyone asked who has the
    role may claim it.
    """
    if body.kind == "person":
        return _answer_assignment(request, review_id, review_reassign, {"to": body.to})
    actor = find_actor(request)
    try:
        review_assign_to_role(actor=actor, review_id=review_id, role=body.to)
    except Refused as refusal:
        raise conflict_problem(actor, review_id, refusal) from None
    item = get_review(actor, review_id)
    return ClaimedOut(review_id=item.id, assignment=_build_assignment(find_assignment(actor, item.id)), fresh=True)


def _answer_assignment(request: HttpRequest, review_id: str, service: Any, more: dict[str, str]) -> ClaimedOut:
    actor = find_actor(request)
    try:
        taken = service(actor=actor, review_id=review_id, **more)
    except Refused as refusal:
        raise conflict_problem(actor, review_id, refusal) from None
    return ClaimedOut(
        review_id=taken.assignment.review_id, assignment=_build_assignment(taken.assignment), fresh=taken.fresh
    )


def _build_assignment(assignment: Any) -> AssignmentOut:
    made = assignment_fields(assignment)
    assert made is not None
    return AssignmentOut(**made)


@router.post(
    "/reviews/{review_id}/heartbeat",
    response=BeatOut,
    url_name="api-review-heartbeat",
    operation_id="beatReview",
)
def heartbeat(request: HttpRequest, review_id: Item, body: Annotated[BeatIn, Body()] = BeatIn()) -> BeatOut:  # noqa: B008 - The same.
    """Report that a review's page is open. Once a minute; it renews the assignment that it names, and returns the other
    viewers.
    """
    beat = review_heartbeat(actor=find_actor(request), review_id=review_id, lease=body.lease)
    made = assignment_fields(beat.assignment)
    return BeatOut(
        kept=beat.kept,
        open=beat.open,
        assignment=None if made is None else AssignmentOut(**made),
        viewers=list(beat.viewers),
    )


@router.post(
    "/reviews/{review_id}/release",
    response=ReleaseOut,
    url_name="api-review-release",
    operation_id="releaseReview",
)
def release(request: HttpRequest, review_id: Item, body: Annotated[LeaseIn, Body()]) -> ReleaseOut:
    """Release a review. Ends the assignment of that number, if it is still the caller's."""
    return ReleaseOut(released=review_release(actor=find_actor(request), review_id=review_id, lease=body.lease))


# -- several, and follow-ups -----------------------------------------------------------------------------------------


@router.post("/reviews/decisions", response=BulkOut, url_name="api-reviews-decide", operation_id="decideReviews")
def decide_several(request: HttpRequest, body: Annotated[BulkIn, Body()]) -> BulkOut:
    """Answer several reviews together. Of one fabric, kind and stage, none in high-stakes; each is bound to its own
    digest and has its own result.
    """
    results = decide_reviews(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=find_actor(request),
        items=[BulkItem(one.id, one.digest) for one in body.items],
        verb=body.verb,
        message=body.message,
    )
    return BulkOut(results=[_result(one) for one in results])


def _result(one: BulkResult) -> BulkOneOut:
    if one.taken is not None:
        return BulkOneOut(review_id=one.review_id, status=200, detail="", decision=decision_shape(one.taken))
    assert one.refused is not None
    status = STATUS[one.refused.code]
    return BulkOneOut(review_id=one.review_id, status=status, detail=one.refused.message, decision=None)


@router.post(
    "/reviews/{review_id}/close",
    response=ClosedOut,
    url_name="api-review-close",
    operation_id="closeFollowUp",
)
def close(request: HttpRequest, review_id: Item, body: Annotated[CloseIn, Body()]) -> ClosedOut:
    """Close a follow-up. With a note about its outcome; its run has ended and does not change. With fork_seq also start
    a run that goes on from there.
    """
    actor = find_actor(request)
    given: dict[str, Any] = {"actor": actor, "review_id": review_id, "note": body.note}
    if body.fork_seq is None:
        closed = close_follow_up(**given)
    else:
        scope_wanted(request, Scope.START, "start a run", "fork_seq")
        closed = fork_follow_up(store=wiring.store(), nudge=wiring.nudge(), seq=body.fork_seq, **given)
    made = closure_fields(closed.closure)
    assert made is not None
    item = get_review(actor, review_id)
    return ClosedOut(review_id=item.id, run_id=item.run_id, closure=ClosureOut(**made), recorded=closed.created)
