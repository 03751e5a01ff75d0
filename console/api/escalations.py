"""Escalations: the open questions, one of them, and answering it."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast
from uuid import UUID

from django.http import HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.families import EXAMPLE_ID
from console.api.problems import FieldError, Problem
from console.api.schemas import Given, Instant, Told, instant
from fabric import wiring
from fabric.core.budget_caps import NamedCap
from fabric.core.raised_cap import CAPS_MAX, MOST_USD_MICROS
from fabric.selectors.answers import Answer, escalation_answer
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalation_get, escalations_open
from fabric.services.escalations import (
    MESSAGE_CHARS_MAX,
    escalation_decide,
    escalation_decide_now,
    escalation_undo,
)

router = Router(tags=["escalations"])
LIMIT_MAX = 200
Verb = Literal["approve", "reject", "edit", "respond"]


class AnswerOut(Told):
    """Who answered what, and when."""

    verb: str = Field(description="The answer; withdrawn when the run took the question back.", examples=["approve"])
    decided_by: str = Field(description="Who gave it.", examples=["owner"])
    decided_at: Instant = Field(description="When.")
    by_system: bool = Field(description="True when nobody answered in time and the declared answer was taken.")
    takes_at: Instant | None = Field(
        description="From when on the run takes it, where it has not: until then whoever gave it may take it back."
    )


class EscalationOut(Told):
    """A question to a person."""

    id: str = Field(description="Its id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run that waits with it.")
    run_title: str = Field(description="The first line of that run's request.")
    fabric: str = Field(description="Name of the run's fabric.", examples=["research-desk"])
    item: str = Field(
        description="What it is about: failure, post_stage, pre_action (a call that cannot be undone), compensation (an undo that is stuck) "
        "or quarantine (a run that nobody may drive).",
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


class EscalationsOut(Told):
    """A page of open questions."""

    escalations: list[EscalationOut] = Field(description="The most urgent first.")
    next_cursor: str | None = Field(description="Send it as cursor for the next page; null at the end.")


class EscalationDetailOut(EscalationOut):
    """A question with what the person is shown, and the answer it has."""

    content: dict[str, Any] = Field(
        description="What the person is shown: the facts, the money, the payload in question."
    )
    answer: AnswerOut | None = Field(
        description="The answer it has, also one that is still on its way; null while nobody has given one."
    )


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
        description="The digest of the question you were shown.",
        examples=["b5bb9d8014a0f9b1"],
    )
    message: str = Field(
        default="",
        max_length=MESSAGE_CHARS_MAX,
        description="What to say with it, kept in the journal. Whoever rejects says why; whoever responds says what was done by hand, or what the agent is told in place of a result.",
        examples=["The deadline in the summary is wrong."],
    )

    edited: dict[str, Any] | None = Field(
        default=None,
        description="With edit: the arguments that the call is to be made with, held to the tool's schema and to the protections anew.",
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


class DecisionOut(Told):
    """An answer that was recorded."""

    escalation_id: str = Field(description="The question's id.", examples=["4f1c9a2be07d3358"])
    run_id: str = Field(description="The run, which goes on from there.")
    verb: str = Field(description="The answer.", examples=["approve"])
    recorded: bool = Field(description="False: you had given this answer before.")


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
    run_id: Annotated[UUID | None, Query(description="Only the questions of this run.", example=EXAMPLE_ID)] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="At most so many.")] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=200,
            description="The next_cursor of the page before.",
            example="1772361000123456.4f1c9a2be07d3358",
        ),
    ] = None,
) -> EscalationsOut:
    """List open questions. The most urgent first, a page at a time."""
    run = None if run_id is None else str(run_id)
    found = escalations_open(actor_of(request), run, limit=limit + 1, after=cursor)
    more = found[limit - 1].cursor if len(found) > limit else None
    return EscalationsOut(escalations=[EscalationOut(**_told(view)) for view in found[:limit]], next_cursor=more)


@router.get(
    "/escalations/{escalation_id}",
    response=EscalationDetailOut,
    url_name="api-escalation",
    operation_id="getEscalation",
)
def get_escalation(
    request: HttpRequest, escalation_id: str = Path(..., description="The question's id.", example="4f1c9a2be07d3358")
) -> EscalationDetailOut:
    """Get a question. Open or answered, with what the person is shown and the answer it has."""
    actor = actor_of(request)
    view = escalation_get(actor, escalation_id)
    answer = escalation_answer(actor, escalation_id)
    return EscalationDetailOut(
        **_told(view), content=view.content, answer=None if answer is None else AnswerOut(**_answered(answer))
    )


@router.post(
    "/escalations/{escalation_id}/decision",
    response=DecisionOut,
    url_name="api-escalation-decision",
    operation_id="decideEscalation",
)
def decide(
    request: HttpRequest,
    escalation_id: Annotated[str, Path(description="The question's id.", example="4f1c9a2be07d3358")],
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
        )
    except Refused as refusal:
        if refusal.code != "conflict":
            raise
        answer = escalation_answer(actor, item.id)
        errors = [] if answer else [FieldError(refusal.field, refusal.message)]
        extra = {"answer": _answered(answer)} if answer else {}
        raise Problem(409, refusal.message, errors, extra=extra) from None
    return DecisionOut(escalation_id=item.id, run_id=item.run_id, verb=taken.verb, recorded=taken.created)


@router.post(
    "/escalations/{escalation_id}/undo",
    response=UndoneOut,
    url_name="api-escalation-undo",
    operation_id="undoDecision",
)
def undo(
    request: HttpRequest,
    escalation_id: Annotated[str, Path(description="The question's id.", example="4f1c9a2be07d3358")],
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
    escalation_id: Annotated[str, Path(description="The question's id.", example="4f1c9a2be07d3358")],
    body: Annotated[SecondThoughtIn, Body()] = NOTHING,
) -> DecisionOut:
    """Let an answer count at once. It gives up the rest of the time in which it could be taken back."""
    taken = escalation_decide_now(**_meant(request, escalation_id))
    return DecisionOut(escalation_id=taken.escalation_id, run_id=taken.run_id, verb=taken.verb, recorded=taken.created)


def _meant(request: HttpRequest, escalation_id: str) -> dict[str, Any]:
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    return {**ports, "actor": actor_of(request), "escalation_id": escalation_id}


def _answered(answer: Answer) -> dict[str, Any]:
    return {
        "verb": answer.verb,
        "decided_by": answer.decided_by,
        "decided_at": instant(answer.decided_at),
        "by_system": answer.by_system,
        "takes_at": instant(answer.takes_at),
    }


def _told(view: EscalationView) -> dict[str, Any]:
    same = ("id", "run_id", "run_title", "item", "stage", "reason", "failure_type", "required_role", "digest", "open")
    return {
        **{name: getattr(view, name) for name in same},
        "fabric": view.fabric_name,
        "verbs": cast("list[str]", list(view.verbs)),
        "opened_at": instant(view.opened_at),
        "due_at": instant(view.due_at),
    }
