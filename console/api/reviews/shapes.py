"""Shapes of reviews in the API, and functions that fill them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from ninja import Path
from pydantic import ConfigDict, Field

from console.api.shapes.common import Instant, RequestShape, ResponseShape, instant
from console.site.errors.problems import RETRY_AFTER, FieldError, Problem
from fabric.core.people.actor import Actor
from fabric.core.people.eligibility import list_reviewers
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.answers import ReviewAnswer, get_answer
from fabric.selectors.reviews.assignments import AssignmentView, find_assignment
from fabric.selectors.reviews.eligibility import build_review_rules
from fabric.selectors.reviews.queue import ClosureView, QueueFilter, QueueRow

Item = Annotated[str, Path(description="The review's id.", example="4f1c9a2be07d3358")]
TabName = Literal["yours", "mine", "unclaimed", "second", "open", "follow_ups", "decided"]


class Narrowed(RequestShape):
    """Filter of the queue; omitted fields filter nothing."""

    model_config = ConfigDict(extra="ignore")

    fabric: str = Field(default="", max_length=80, description="A fabric's name.", examples=["research-desk"])
    tier: str = Field(default="", max_length=40, description="The run's tier.", examples=["batch"])
    item: str = Field(default="", max_length=40, description="Object of the review, as its kind.", examples=["failure"])
    stage: str = Field(default="", max_length=40, description="Stage of the review.", examples=["validate"])
    failure_type: str = Field(
        default="", max_length=60, description="A row of the decision table.", examples=["cost_overrun"]
    )
    role: str = Field(default="", max_length=80, description="Required role or user.", examples=["finance"])
    holder: str = Field(
        default="",
        max_length=150,
        description="Holder of the assignment; of a decided review, the person who decided.",
        examples=["ana"],
    )
    text: str = Field(
        default="",
        max_length=200,
        description="Part of the reason or of the run's title, or the beginning of an id.",
        examples=["deadline"],
    )

    def build_filter(self, run: str = "") -> QueueFilter:
        """Return the filter for the selectors. ``run``: a run's id."""
        narrowed = self.model_dump()
        return QueueFilter(failure=narrowed.pop("failure_type"), run=run, **narrowed)


class AnswerOut(ResponseShape):
    """An answer, its author and instant."""

    verb: str = Field(description="The answer; withdrawn when the run took the review back.", examples=["approve"])
    decided_by: str = Field(description="Person who gave the answer.", examples=["owner"])
    decided_at: Instant = Field(description="When.")
    by_system: bool = Field(description="True if no one answered in time and the declared answer was used.")
    takes_at: Instant | None = Field(
        description="Time when the run uses the answer, if it has not: until then its author can undo it."
    )


class AssignmentOut(ResponseShape):
    """Assignee of a review."""

    holder: str = Field(
        description="Holder; no other person answers it meanwhile. Empty: it is assigned to a role.", examples=["ana"]
    )
    lease: int = Field(
        description="The number of this change of hands: a heartbeat and a release name it.", examples=[1]
    )
    claimed_at: Instant = Field(description="Since when.")
    lease_until: Instant = Field(description="Until when, unless a heartbeat renews it.")
    live: bool = Field(description="False: the assignment has expired, and any eligible person may take over.")
    role: str = Field(description="Role that it was assigned to; empty: none.", examples=[""])
    assigned_by: str = Field(description="Person who assigned it; empty: the holder claimed it.", examples=[""])
    taken_from: str = Field(
        description="Earlier holder whose assignment expired, or whose answer released it; empty: none.", examples=[""]
    )


class ClosureOut(ResponseShape):
    """Closure of a follow-up."""

    closed_at: Instant = Field(description="When.")
    closed_by: str = Field(description="By whom.", examples=["owner"])
    note: str = Field(description="Description of the work done.")
    fork_run_id: str = Field(description="The run that was started from it; empty: none was.")


class ReviewOut(ResponseShape):
    """A review."""

    id: str = Field(description="Its id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that waits with it.")
    run_title: str = Field(description="The first line of that run's request.")
    fabric: str = Field(description="Name of the run's fabric.", examples=["research-desk"])
    item: str = Field(
        description="Kind of the review: failure, post_stage, pre_action, compensation, child, quarantine or follow_up. A pre_action is a call that needs approval first; a compensation is an undo that is stuck. No worker drives a quarantined run. A follow-up's run has ended.",
        examples=["failure"],
    )
    stage: str = Field(description="Stage of the review; may be empty.", examples=["validate"])
    reason: str = Field(description="Reason for the review.")
    failure_type: str = Field(description="Failure type of a failure review; else empty.")
    required_role: str = Field(description="Required role or user.", examples=["owner"])
    verbs: list[str] = Field(description="Possible answers.", examples=[["approve", "reject"]])
    digest: str = Field(
        description="Over what the answer releases: a decision names it, so that nothing is approved unseen."
    )
    opened_at: Instant = Field(description="When it was asked.")
    due_at: Instant = Field(description="Time when the system gives the declared answer.")
    open: bool = Field(description="True if the review is open.")
    approvals: int = Field(description="How many people have to agree.", examples=[1])
    agreed: list[str] = Field(description="Person who agreed to exactly this content, of two who must.", examples=[[]])
    asked: list[str] = Field(
        description="Roles and users who may answer now: those asked first, and those it was passed on to.",
        examples=[["reviewer"]],
    )
    onward: bool = Field(description="True if it was passed on after three quarters of its time without an answer.")
    may_answer: bool = Field(description="True if the caller may answer, at least with a rejection.")
    why_not: str = Field(
        description="Why the caller may not approve it, who answered it already, or that an answer comes too late; "
        "empty: they may.",
        examples=[""],
    )
    assignment: AssignmentOut | None = Field(description="Holder, or role, of the assignment; null: there is none.")
    closure: ClosureOut | None = Field(description="For a closed follow-up: who closed it and how; else null.")


class ReviewsOut(ResponseShape):
    """A page of reviews."""

    reviews: list[ReviewOut] = Field(
        description="The most urgent first; what was decided and follow-ups the newest first."
    )
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class ReviewDetailOut(ReviewOut):
    """A review with its content for the person, and its answer."""

    content: dict[str, Any] = Field(
        description="Content for the reviewer: the facts, the money, the payload. Credentials in it are masked. Without the right to contents and outside the reviewers: only names, numbers, and withheld, the reason."
    )
    withheld: bool = Field(description="True if the content has masked credentials. The role safety may reveal them.")
    answer: AnswerOut | None = Field(description="The answer, also before the run uses it; null: no answer yet.")
    viewers: list[str] = Field(description="The others who have its page open.", examples=[[]])


# -- what is told ----------------------------------------------------------------------------------------------------


def conflict_problem(actor: Actor, review_id: str, refusal: Refused) -> Exception:
    """Return the exception for a refusal. A conflict names the faster person's answer, or the assignee."""
    if refusal.code != "conflict":
        return refusal
    errors = [FieldError(refusal.field, refusal.message)]
    if refusal.field == "assignment":
        assignment = find_assignment(actor, review_id)
        held = assignment is not None and assignment.hinders(actor.name)
        return Problem(
            409, refusal.message, errors, extra={"assignment": assignment_fields(assignment)} if held else {}
        )
    answer = get_answer(actor, review_id)
    return Problem(
        409, refusal.message, [] if answer else errors, extra={"answer": answer_fields(answer)} if answer else {}
    )


def too_long() -> Problem:
    """Return the problem for a request that took the database too long."""
    return Problem(503, "this takes the database too long: narrow it down", headers={"Retry-After": RETRY_AFTER})


def answer_fields(answer: ReviewAnswer) -> dict[str, Any]:
    """Return an answer in the API's shape."""
    return {
        "verb": answer.verb,
        "decided_by": answer.decided_by,
        "decided_at": instant(answer.decided_at),
        "by_system": answer.by_system,
        "takes_at": instant(answer.takes_at),
    }


def assignment_fields(assignment: AssignmentView | None) -> dict[str, Any] | None:
    """Return an assignment in the API's shape; None if no person and no role has the review."""
    if assignment is None or not (assignment.holder or assignment.role):
        return None
    same = ("holder", "lease", "live", "role", "assigned_by", "taken_from")
    when = {"claimed_at": instant(assignment.claimed_at), "lease_until": instant(assignment.lease_until)}
    return {name: getattr(assignment, name) for name in same} | when


def closure_fields(closure: ClosureView | None) -> dict[str, Any] | None:
    """Return the closure of a follow-up in the API's shape; None if it is open, or no follow-up."""
    if closure is None:
        return None
    same = ("closed_by", "note", "fork_run_id")
    return {"closed_at": instant(closure.closed_at), **{name: getattr(closure, name) for name in same}}


def review_fields(row: QueueRow) -> dict[str, Any]:
    """Return a review in the API's shape."""
    view = row.review
    same = (
        "id",
        "run_id",
        "run_title",
        "item",
        "stage",
        "reason",
        "failure_type",
        "required_role",
        "digest",
        "open",
        "approvals",
        "onward",
    )
    return {
        **{name: getattr(view, name) for name in same},
        "fabric": view.fabric_name,
        "verbs": cast("list[str]", list(view.verbs)),
        "opened_at": instant(view.opened_at),
        "due_at": instant(view.due_at),
        "agreed": list(view.agreed),
        "asked": list(list_reviewers(build_review_rules(view))),
        "may_answer": row.may,
        "why_not": row.why_not,
        "assignment": assignment_fields(row.assignment),
        "closure": closure_fields(row.closure),
    }
