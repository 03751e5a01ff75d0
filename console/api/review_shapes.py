"""Questions to people as the API has them: their shapes, and how they are told."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from ninja import Path
from pydantic import ConfigDict, Field

from console.api.problems import RETRY_AFTER, FieldError, Problem
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.actor import Actor
from fabric.core.eligibility import wanted
from fabric.selectors.answers import Answer, escalation_answer
from fabric.selectors.errors import Refused
from fabric.selectors.review_asked import asked_of
from fabric.selectors.review_claims import ClaimView, claim_of
from fabric.selectors.review_queue import QueueFilter, QueueRow
from fabric.selectors.tickets import ClosureView

Item = Annotated[str, Path(description="The question's id.", example="4f1c9a2be07d3358")]
TabName = Literal["mine", "unclaimed", "second", "open", "tickets", "decided"]


class Narrowed(Given):
    """What of the queue is asked for; what is left out narrows nothing."""

    model_config = ConfigDict(extra="ignore")

    fabric: str = Field(default="", max_length=80, description="A fabric's name.", examples=["research-desk"])
    tier: str = Field(default="", max_length=40, description="The run's tier.", examples=["batch"])
    item: str = Field(
        default="", max_length=40, description="What it is about, as a question's item says.", examples=["failure"]
    )
    stage: str = Field(default="", max_length=40, description="The stage it stands in.", examples=["validate"])
    failure_type: str = Field(
        default="", max_length=60, description="A row of the decision table.", examples=["cost_overrun"]
    )
    role: str = Field(default="", max_length=80, description="Who is asked: a role or a user.", examples=["finance"])
    holder: str = Field(
        default="",
        max_length=150,
        description="Who has it in hand; of what was decided, who decided.",
        examples=["ana"],
    )
    text: str = Field(
        default="",
        max_length=200,
        description="Part of the reason or of the run's title, or the beginning of an id.",
        examples=["deadline"],
    )

    def wanted(self, run: str = "") -> QueueFilter:
        """The same for the selectors. ``run``: a run's id."""
        narrowed = self.model_dump()
        return QueueFilter(failure=narrowed.pop("failure_type"), run=run, **narrowed)


class AnswerOut(Told):
    """Who answered what, and when."""

    verb: str = Field(description="The answer; withdrawn when the run took the question back.", examples=["approve"])
    decided_by: str = Field(description="Who gave it.", examples=["owner"])
    decided_at: Instant = Field(description="When.")
    by_system: bool = Field(description="True when nobody answered in time and the declared answer was taken.")
    takes_at: Instant | None = Field(
        description="From when on the run takes it, where it has not: until then whoever gave it may take it back."
    )


class ClaimOut(Told):
    """Who has a question in hand."""

    holder: str = Field(description="Who; nobody else answers it meanwhile.", examples=["ana"])
    lease: int = Field(
        description="The number of this change of hands: a heartbeat and a release name it.", examples=[1]
    )
    claimed_at: Instant = Field(description="Since when.")
    lease_until: Instant = Field(description="Until when, unless a heartbeat renews it.")
    live: bool = Field(description="False: the lease has lapsed, and anybody who is asked may take over.")
    assigned_by: str = Field(description="Who handed it to the holder; empty: they took it.", examples=[""])
    taken_from: str = Field(description="Who had it before and let the lease lapse; empty: nobody.", examples=[""])


class ClosureOut(Told):
    """That a ticket was closed."""

    closed_at: Instant = Field(description="When.")
    closed_by: str = Field(description="By whom.", examples=["owner"])
    note: str = Field(description="What became of it.")
    fork_run_id: str = Field(description="The run that was started from it; empty: none was.")


class EscalationOut(Told):
    """A question to a person."""

    id: str = Field(description="Its id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that waits with it.")
    run_title: str = Field(description="The first line of that run's request.")
    fabric: str = Field(description="Name of the run's fabric.", examples=["research-desk"])
    item: str = Field(
        description="What it is about: failure, post_stage, pre_action, compensation, child, quarantine or ticket. A pre_action is a call that a "
        "person is asked about first, a compensation an undo that is stuck. A quarantined run is driven by no worker. A ticket's run has ended.",
        examples=["failure"],
    )
    stage: str = Field(description="The stage it stands in; may be empty.", examples=["validate"])
    reason: str = Field(description="Why a person is asked.")
    failure_type: str = Field(description="The row of the decision table, where a failure is asked about; else empty.")
    required_role: str = Field(description="Who is asked.", examples=["owner"])
    verbs: list[str] = Field(description="What may be answered.", examples=[["approve", "reject"]])
    digest: str = Field(
        description="Over what the answer releases: a decision names it, so that nothing is approved unseen."
    )
    opened_at: Instant = Field(description="When it was asked.")
    due_at: Instant = Field(description="When the declared answer is taken in nobody's name.")
    open: bool = Field(description="Whether it waits for an answer.")
    approvals: int = Field(description="How many people have to agree.", examples=[1])
    agreed: list[str] = Field(description="Who has agreed to exactly this, of two who have to.", examples=[[]])
    asked: list[str] = Field(
        description="Roles and users who may answer by now: those asked at first, and those it was passed on to.",
        examples=[["reviewer"]],
    )
    onward: bool = Field(
        description="Whether it was passed on, since nobody had answered for three quarters of the time."
    )
    may_answer: bool = Field(description="Whether the caller is among those who may answer, if only by a rejection.")
    why_not: str = Field(
        description="Why the caller may not approve it, who answered it already, or that an answer comes too late; "
        "empty: they may.",
        examples=[""],
    )
    claim: ClaimOut | None = Field(description="Who has it in hand; null: nobody.")
    closure: ClosureOut | None = Field(description="Of a ticket that was closed, by whom and how; else null.")


class EscalationsOut(Told):
    """A page of questions."""

    escalations: list[EscalationOut] = Field(
        description="The most urgent first; what was decided and tickets the newest first."
    )
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class EscalationDetailOut(EscalationOut):
    """A question with what the person is shown, and the answer it has."""

    content: dict[str, Any] = Field(
        description="What the person is shown: the facts, the money, the payload in question. Credentials in it are masked. "
        "Who is not asked and lacks the right to contents: names, numbers, and withheld, why it is no more."
    )
    withheld: bool = Field(description="Whether something in it is masked. The role safety may have it revealed.")
    answer: AnswerOut | None = Field(
        description="The answer it has, also one that is still on its way; null while nobody has given one."
    )
    viewers: list[str] = Field(description="The others who have its page open.", examples=[[]])


# -- what is told ------------------------------------------------------------------------------------------------------


def contradicted(actor: Actor, escalation_id: str, refusal: Refused) -> Exception:
    """What becomes of a refusal: where somebody was faster, who answered what, or who has the question in hand."""
    if refusal.code != "conflict":
        return refusal
    errors = [FieldError(refusal.field, refusal.message)]
    if refusal.field == "claim":
        claim = claim_of(actor, escalation_id)
        held = claim is not None and claim.hinders(actor.name)
        return Problem(409, refusal.message, errors, extra={"claim": claim_told(claim)} if held else {})
    answer = escalation_answer(actor, escalation_id)
    return Problem(409, refusal.message, [] if answer else errors, extra={"answer": answered(answer)} if answer else {})


def too_long() -> Problem:
    """The answer to a question that the database had no time for."""
    return Problem(503, "this takes the database too long: narrow it down", headers={"Retry-After": RETRY_AFTER})


def answered(answer: Answer) -> dict[str, Any]:
    """An answer as it is told."""
    return {
        "verb": answer.verb,
        "decided_by": answer.decided_by,
        "decided_at": instant(answer.decided_at),
        "by_system": answer.by_system,
        "takes_at": instant(answer.takes_at),
    }


def claim_told(claim: ClaimView | None) -> dict[str, Any] | None:
    """A claim as it is told; None: nobody has the question in hand, or had it last."""
    if claim is None or not claim.holder:
        return None
    same = ("holder", "lease", "live", "assigned_by", "taken_from")
    when = {"claimed_at": instant(claim.claimed_at), "lease_until": instant(claim.lease_until)}
    return {name: getattr(claim, name) for name in same} | when


def closure_told(closure: ClosureView | None) -> dict[str, Any] | None:
    """What became of a ticket, as it is told; None: it is open, or none."""
    if closure is None:
        return None
    same = ("closed_by", "note", "fork_run_id")
    return {"closed_at": instant(closure.closed_at), **{name: getattr(closure, name) for name in same}}


def told(row: QueueRow) -> dict[str, Any]:
    """A question as it is told to whoever asked."""
    view = row.question
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
        "asked": list(wanted(asked_of(view))),
        "may_answer": row.may,
        "why_not": row.why_not,
        "claim": claim_told(row.claim),
        "closure": closure_told(row.closure),
    }
