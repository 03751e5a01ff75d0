"""The review queue: how much waits, taking a question in hand, handing it on, answering several at one go, closing tickets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Body, Query, Router
from pydantic import ConfigDict, Field

from console.api.callers import actor_of, scope_wanted
from console.api.escalations import DecisionOut, decision_told
from console.api.review_shapes import (
    ClaimOut,
    ClosureOut,
    EscalationOut,
    Item,
    Narrowed,
    claim_told,
    closure_told,
    contradicted,
    told,
    too_long,
)
from console.api.schemas import Given, Told
from console.views.errors import STATUS
from fabric import wiring
from fabric.core.scopes import Scope
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalation_get
from fabric.selectors.review_queue import COUNT_MAX, Count, queue_counts, queue_rows, reviews_waiting
from fabric.selectors.time_limit import TookTooLong
from fabric.services.bulk_decisions import BULK_MAX, BulkItem, BulkResult, escalations_decide
from fabric.services.claims import review_claim, review_claim_next, review_heartbeat, review_reassign, review_release
from fabric.services.escalations import MESSAGE_CHARS_MAX
from fabric.services.tickets import NOTE_CHARS_MAX, ticket_close, ticket_fork

router = Router(tags=["escalations"])
LEASE_MAX = 2**31 - 1


class CountOut(Told):
    """How many there are."""

    count: int = Field(description=f"So many, counted to {COUNT_MAX}.", examples=[3])
    more: bool = Field(description="Whether there are more than were counted.")


class CountsOut(Told):
    """How much waits."""

    waiting: CountOut = Field(description="What the caller could answer, and nobody else has in hand.")
    mine: CountOut = Field(description="What the caller has in hand.")
    unclaimed: CountOut = Field(description="What the caller may answer and nobody has in hand.")
    second: CountOut = Field(description="What one has agreed to and a second person is asked about.")
    open: CountOut = Field(description="All that wait for a person.")
    tickets: CountOut = Field(description="Tickets that nobody has closed.")


class ClaimedOut(Told):
    """A question that somebody has in hand now."""

    escalation_id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    claim: ClaimOut = Field(description="Who has it, and for how long.")
    fresh: bool = Field(description="False: they had it before, and have it for longer now.")


class NextOut(Told):
    """The next question, in the caller's hand."""

    escalation: EscalationOut | None = Field(
        description="The question; null: there is none that the caller may answer and nobody has."
    )


class NextIn(Narrowed):
    """From what to pick: the fields of the list's query. Nothing needs to be said."""

    model_config = ConfigDict(extra="forbid", strict=True)


class LeaseIn(Given):
    """A claim."""

    lease: int = Field(ge=1, le=LEASE_MAX, description="Its number.", examples=[1])


class BeatIn(Given):
    """A sign of life from an open page."""

    lease: int = Field(
        default=0, ge=0, le=LEASE_MAX, description="The number of the claim to renew; 0: there is none.", examples=[1]
    )


class BeatOut(Told):
    """How the question stands by now."""

    kept: bool = Field(
        description="Whether the claim of that number was renewed; false: there was none, or it is lost."
    )
    open: bool = Field(description="Whether the question waits for an answer.")
    claim: ClaimOut | None = Field(description="Who has it in hand; null: nobody.")
    viewers: list[str] = Field(description="The others who have its page open.", examples=[["ana"]])


class ReleaseOut(Told):
    """What became of a claim."""

    released: bool = Field(description="False: it was not, or no longer, the caller's, and nothing changed.")


class ReassignIn(Given):
    """To whom a question goes."""

    to: str = Field(min_length=1, max_length=150, description="The name of a member who is asked.", examples=["ana"])


class PickedIn(Given):
    """A question, as it was shown."""

    id: str = Field(min_length=1, max_length=64, description="Its id.", examples=["4f1c9a2be07d3358"])
    digest: str = Field(min_length=1, max_length=128, description="Its digest.", examples=["b5bb9d8014a0f9b1"])


class BulkIn(Given):
    """One answer to several questions of the same fabric, kind and stage; never in high-stakes."""

    items: list[PickedIn] = Field(min_length=1, max_length=BULK_MAX, description="The questions.")
    verb: Literal["approve", "reject", "respond", "decline"] = Field(description="The answer.", examples=["reject"])
    message: str = Field(
        default="", max_length=MESSAGE_CHARS_MAX, description="What to say with each.", examples=["Not this month."]
    )


class BulkOneOut(Told):
    """What came of one question."""

    escalation_id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    status: int = Field(
        description="200: the answer is recorded; else the status that it would have had alone.", examples=[200]
    )
    detail: str = Field(description="Why it was not recorded; empty: it was.", examples=[""])
    decision: DecisionOut | None = Field(description="The answer; null: it was not recorded.")


class BulkOut(Told):
    """What came of each, in the order in which they were sent."""

    results: list[BulkOneOut] = Field(description="One a question.")


class CloseIn(Given):
    """What became of a ticket."""

    note: str = Field(
        min_length=1,
        max_length=NOTE_CHARS_MAX,
        description="In a sentence or two; kept with the ticket.",
        examples=["Asked the supplier; nothing to do."],
    )
    fork_seq: int | None = Field(
        default=None,
        ge=1,
        le=LEASE_MAX,
        description="Also start a run that goes on from this event of the ticket's run; null: do not.",
        examples=[None],
    )


class ClosedOut(Told):
    """A ticket that is closed."""

    escalation_id: str = Field(description="The ticket's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that had ended.")
    closure: ClosureOut = Field(description="By whom, when and how.")
    recorded: bool = Field(description="False: you had closed it with this note before.")


# -- how much waits ----------------------------------------------------------------------------------------------------


@router.get(
    "/escalations/counts", response=CountsOut, url_name="api-escalation-counts", operation_id="countEscalations"
)
def count_escalations(request: HttpRequest, narrowed: Annotated[Narrowed, Query()]) -> CountsOut:
    """Count the questions. Of each part of the queue, and of those that wait for the caller."""
    actor = actor_of(request)
    try:
        counts = {tab.value: _count(count) for tab, count in queue_counts(actor, narrowed.wanted()).items()}
    except TookTooLong:
        raise too_long() from None
    return CountsOut(waiting=_count(reviews_waiting(actor)), **counts)


def _count(count: Count) -> CountOut:
    return CountOut(count=count.n, more=count.more)


# -- in hand -----------------------------------------------------------------------------------------------------------


@router.post("/escalations/next", response=NextOut, url_name="api-escalation-next", operation_id="claimNextEscalation")
def claim_next(request: HttpRequest, body: Annotated[NextIn, Body()] = NextIn()) -> NextOut:  # noqa: B008 - It is never changed.
    """Take the next question in hand. The most urgent one that the caller may approve and nobody has; several callers at once get one each."""
    actor = actor_of(request)
    taken = review_claim_next(actor=actor, wanted=body.wanted())
    if taken is None:
        return NextOut(escalation=None)
    (row,) = queue_rows(actor, [escalation_get(actor, taken.claim.escalation_id)])
    return NextOut(escalation=EscalationOut(**told(row)))


@router.post(
    "/escalations/{escalation_id}/claim",
    response=ClaimedOut,
    url_name="api-escalation-claim",
    operation_id="claimEscalation",
)
def claim(request: HttpRequest, escalation_id: Item) -> ClaimedOut:
    """Take a question in hand. For five minutes; a heartbeat renews it. Once a lease has lapsed anybody who is asked may take over."""
    return _claimed(request, escalation_id, review_claim, {})


@router.post(
    "/escalations/{escalation_id}/reassign",
    response=ClaimedOut,
    url_name="api-escalation-reassign",
    operation_id="reassignEscalation",
)
def reassign(request: HttpRequest, escalation_id: Item, body: Annotated[ReassignIn, Body()]) -> ClaimedOut:
    """Hand a question to somebody else. Whoever has it in hand can, and owners and operators."""
    return _claimed(request, escalation_id, review_reassign, {"to": body.to})


def _claimed(request: HttpRequest, escalation_id: str, service: Any, more: dict[str, str]) -> ClaimedOut:
    actor = actor_of(request)
    try:
        taken = service(actor=actor, escalation_id=escalation_id, **more)
    except Refused as refusal:
        raise contradicted(actor, escalation_id, refusal) from None
    return ClaimedOut(escalation_id=taken.claim.escalation_id, claim=_held(taken.claim), fresh=taken.fresh)


def _held(claim: Any) -> ClaimOut:
    made = claim_told(claim)
    assert made is not None
    return ClaimOut(**made)


@router.post(
    "/escalations/{escalation_id}/heartbeat",
    response=BeatOut,
    url_name="api-escalation-heartbeat",
    operation_id="beatEscalation",
)
def heartbeat(request: HttpRequest, escalation_id: Item, body: Annotated[BeatIn, Body()] = BeatIn()) -> BeatOut:  # noqa: B008 - The same.
    """Say that a question's page is open. Once a minute; it renews the claim that it names, and tells who else looks."""
    beat = review_heartbeat(actor=actor_of(request), escalation_id=escalation_id, lease=body.lease)
    made = claim_told(beat.claim)
    return BeatOut(
        kept=beat.kept, open=beat.open, claim=None if made is None else ClaimOut(**made), viewers=list(beat.viewers)
    )


@router.post(
    "/escalations/{escalation_id}/release",
    response=ReleaseOut,
    url_name="api-escalation-release",
    operation_id="releaseEscalation",
)
def release(request: HttpRequest, escalation_id: Item, body: Annotated[LeaseIn, Body()]) -> ReleaseOut:
    """Let a question go. The claim of that number, where it is still the caller's."""
    return ReleaseOut(released=review_release(actor=actor_of(request), escalation_id=escalation_id, lease=body.lease))


# -- several, and tickets ----------------------------------------------------------------------------------------------


@router.post(
    "/escalations/decisions", response=BulkOut, url_name="api-escalations-decide", operation_id="decideEscalations"
)
def decide_several(request: HttpRequest, body: Annotated[BulkIn, Body()]) -> BulkOut:
    """Answer several questions at one go. Those of the same fabric, kind and stage, none in high-stakes; each is bound to its own digest and has its own result."""
    results = escalations_decide(
        store=wiring.store(),
        nudge=wiring.nudge(),
        actor=actor_of(request),
        items=[BulkItem(one.id, one.digest) for one in body.items],
        verb=body.verb,
        message=body.message,
    )
    return BulkOut(results=[_result(one) for one in results])


def _result(one: BulkResult) -> BulkOneOut:
    if one.taken is not None:
        return BulkOneOut(escalation_id=one.escalation_id, status=200, detail="", decision=decision_told(one.taken))
    assert one.refused is not None
    status = STATUS[one.refused.code]
    return BulkOneOut(escalation_id=one.escalation_id, status=status, detail=one.refused.message, decision=None)


@router.post(
    "/escalations/{escalation_id}/close",
    response=ClosedOut,
    url_name="api-escalation-close",
    operation_id="closeTicket",
)
def close(request: HttpRequest, escalation_id: Item, body: Annotated[CloseIn, Body()]) -> ClosedOut:
    """Close a ticket. With a note of what became of it; its run has ended and does not change. With fork_seq also start a run that goes on from there."""
    actor = actor_of(request)
    given: dict[str, Any] = {"actor": actor, "escalation_id": escalation_id, "note": body.note}
    if body.fork_seq is None:
        closed = ticket_close(**given)
    else:
        scope_wanted(request, Scope.START, "start a run", "fork_seq")
        closed = ticket_fork(store=wiring.store(), nudge=wiring.nudge(), seq=body.fork_seq, **given)
    made = closure_told(closed.closure)
    assert made is not None
    item = escalation_get(actor, escalation_id)
    return ClosedOut(escalation_id=item.id, run_id=item.run_id, closure=ClosureOut(**made), recorded=closed.created)
