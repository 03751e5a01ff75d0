"""Escalations: the open questions, one of them, and answering it."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from django.http import HttpRequest
from ninja import Body, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.lists import Cursor, Limit
from console.api.review_shapes import (
    AnswerOut,
    EscalationDetailOut,
    EscalationOut,
    EscalationsOut,
    Item,
    Narrowed,
    TabName,
    answered,
    contradicted,
    told,
    too_long,
)
from console.api.schemas import Given, Told
from fabric import wiring
from fabric.core.budget_caps import NamedCap
from fabric.core.raised_cap import CAPS_MAX, MOST_USD_MICROS
from fabric.selectors.answers import escalation_answer
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import escalation_get
from fabric.selectors.review_claims import viewers_of
from fabric.selectors.review_queue import Tab, queue_page, queue_rows
from fabric.selectors.time_limit import TookTooLong
from fabric.services.escalations import (
    MESSAGE_CHARS_MAX,
    DecisionTaken,
    escalation_decide,
    escalation_decide_now,
    escalation_undo,
)
from fabric.services.reveals import question_reveal

router = Router(tags=["escalations"])
Verb = Literal["approve", "reject", "edit", "respond", "decline"]


class CapIn(Given):
    """A cap of the run as it is to be."""

    scope: str = Field(
        min_length=1,
        max_length=80,
        description="Whose, as the question's takes_caps names it.",
        examples=["stage:fan_out"],
    )
    unit: Literal["usd_micros", "tokens"] = Field(description="Of what.", examples=["tokens"])
    cap: int = Field(
        ge=1, le=MOST_USD_MICROS, description="Most it may spend from now on, altogether.", examples=[20_000]
    )


class DecisionIn(Given):
    """An answer."""

    verb: Verb = Field(description="One of the question's verbs.", examples=["approve"])
    digest: str = Field(
        min_length=1,
        max_length=128,
        description="The digest of the question you were shown, or at least its first 8 characters.",
        examples=["b5bb9d8014a0f9b1"],
    )
    message: str = Field(
        default="",
        max_length=MESSAGE_CHARS_MAX,
        description="What to say with it, kept in the journal. Whoever rejects says why; whoever declines a call says why, and the agent reads it as the call's error; "
        "whoever responds says what was done by hand, or what the agent is told. "
        "In high-stakes every answer says why.",
        examples=["The deadline in the summary is wrong."],
    )

    edited: dict[str, Any] | None = Field(
        default=None,
        description="With edit: what is to stand in place of what was shown: the arguments of a call, or what the content's edit_schema describes. It is held "
        "to that schema, and to the gates and protections anew.",
        examples=[None],
    )
    cap_usd_micros: int | None = Field(
        default=None,
        ge=1,
        le=MOST_USD_MICROS,
        description="With approve, where the question's content says takes_cap: most the run may spend from now on, altogether, "
        "in micro-dollars; null: its cap stays.",
        examples=[None],
    )
    caps: list[CapIn] = Field(
        default=[],
        max_length=CAPS_MAX,
        description="With approve, where the question's content has takes_caps: caps of the run's tokens, of its stage or its agent that are raised, "
        "each once; what is not named stays.",
        examples=[[]],
    )
    model: str = Field(
        default="",
        max_length=63,
        description="With approve, where the question's content says takes_model: the model named there, to answer in place of the one that "
        "failed; empty: the agent's own is asked again.",
        examples=[""],
    )
    tool: str = Field(
        default="",
        max_length=63,
        description="With edit, where the question's content has takes_tools: one of those, to be called with edited in place of the call that was shown; "
        "empty: the tool that was shown.",
        examples=[""],
    )
    claim_lease: int = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="The lease under which the answer is given: it is refused once that is over; 0: whichever stands.",
        examples=[0],
    )


class DecisionOut(Told):
    """An answer that was recorded."""

    escalation_id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run, which goes on from there.")
    verb: str = Field(description="The answer.", examples=["approve"])
    recorded: bool = Field(description="False: you had given this answer before.")
    second_wanted: bool = Field(description="Whether a second person has to agree before anything follows from it.")


class RevealedOut(Told):
    """A content byte for byte."""

    content: Any = Field(description="The content with its credentials.", examples=[{"payload": {"text": "..."}}])


class SecondThoughtIn(Given):
    """Nothing needs to be said."""


NOTHING = SecondThoughtIn()


class UndoneOut(Told):
    """An answer that does not count."""

    escalation_id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that waits with it.")
    verb: str = Field(description="The answer that was taken back.", examples=["approve"])
    message: str = Field(description="What had been said with it.")
    recorded: bool = Field(description="False: you had taken it back before.")


@router.get("/escalations", response=EscalationsOut, url_name="api-escalations", operation_id="listEscalations")
def list_escalations(
    request: HttpRequest,
    narrowed: Annotated[Narrowed, Query()],
    tab: Annotated[TabName, Query(description="Which part of the queue.", example="open")] = "open",
    run_id: Annotated[UUID | None, Query(description="Only the questions of this run.", example=EXAMPLE_ID)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> EscalationsOut:
    """List questions. Those that wait, the most urgent first, a page at a time; or another part of the queue."""
    asked_for = narrowed.wanted("" if run_id is None else str(run_id))
    try:
        page = queue_page(actor_of(request), Tab(tab), asked_for, limit=limit, after=cursor or "")
    except TookTooLong:
        raise too_long() from None
    return EscalationsOut(escalations=[EscalationOut(**told(row)) for row in page.rows], next_cursor=page.next or None)


@router.get(
    "/escalations/{escalation_id}",
    response=EscalationDetailOut,
    url_name="api-escalation",
    operation_id="getEscalation",
)
def get_escalation(request: HttpRequest, escalation_id: Item) -> EscalationDetailOut:
    """Get a question. Open or answered, with what the person is shown and the answer it has."""
    actor = actor_of(request)
    view = escalation_get(actor, escalation_id)
    answer = escalation_answer(actor, escalation_id)
    (row,) = queue_rows(actor, [view])
    return EscalationDetailOut(
        **told(row),
        content=view.content,
        withheld=view.withheld,
        answer=None if answer is None else AnswerOut(**answered(answer)),
        viewers=list(viewers_of(actor, view.id)),
    )


@router.post(
    "/escalations/{escalation_id}/reveal",
    response=RevealedOut,
    url_name="api-escalation-reveal",
    operation_id="revealEscalation",
)
def reveal(
    request: HttpRequest,
    escalation_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> RevealedOut:
    """Reveal what is withheld of a question. For the role safety; the audit stream is told. 409 where nothing is withheld."""
    return RevealedOut(content=question_reveal(actor=actor_of(request), escalation_id=escalation_id).content)


@router.post(
    "/escalations/{escalation_id}/decision",
    response=DecisionOut,
    url_name="api-escalation-decision",
    operation_id="decideEscalation",
)
def decide(
    request: HttpRequest,
    escalation_id: Item,
    body: Annotated[DecisionIn, Body()],
) -> DecisionOut:
    """Answer a question. It is done in the caller's name. The same body of the same person again changes nothing and is no error."""
    actor = actor_of(request)
    item = escalation_get(actor, escalation_id)
    try:
        taken = escalation_decide(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            escalation_id=item.id,
            verb=body.verb,
            message=body.message,
            digest=body.digest,
            edited=body.edited,
            cap_usd_micros=body.cap_usd_micros,
            caps=[NamedCap(one.scope, one.unit, one.cap) for one in body.caps],
            model=body.model,
            tool=body.tool,
            claim_lease=body.claim_lease,
        )
    except Refused as refusal:
        raise contradicted(actor, item.id, refusal) from None
    return decision_told(taken)


@router.post(
    "/escalations/{escalation_id}/undo",
    response=UndoneOut,
    url_name="api-escalation-undo",
    operation_id="undoDecision",
)
def undo(
    request: HttpRequest,
    escalation_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> UndoneOut:
    """Take an answer back. Whoever gave it can, until the run takes it: answers given in a browser wait a few seconds for that."""
    undone = escalation_undo(**_meant(request, escalation_id))
    return UndoneOut(
        escalation_id=undone.escalation_id,
        run_id=undone.run_id,
        verb=undone.verb,
        message=undone.message,
        recorded=undone.recorded,
    )


@router.post(
    "/escalations/{escalation_id}/continue",
    response=DecisionOut,
    url_name="api-escalation-continue",
    operation_id="continueDecision",
)
def go_on(
    request: HttpRequest,
    escalation_id: Item,
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> DecisionOut:
    """Let an answer count at once. It gives up the rest of the time in which it could be taken back."""
    taken = escalation_decide_now(**_meant(request, escalation_id))
    return decision_told(taken)


def _meant(request: HttpRequest, escalation_id: str) -> dict[str, Any]:
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    return {**ports, "actor": actor_of(request), "escalation_id": escalation_id}


def decision_told(taken: DecisionTaken) -> DecisionOut:
    """An answer that was recorded, as it is told."""
    return DecisionOut(
        escalation_id=taken.escalation_id,
        run_id=taken.run_id,
        verb=taken.verb,
        recorded=taken.created,
        second_wanted=taken.second_wanted,
    )
