"""A question as a card: the form that asks, or the answer that is on its way and can still be taken back, or what became of it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from console.forms import DecisionForm
from console.views.review_schema import initial_of, schema_of
from fabric.core.actor import Actor
from fabric.core.budget_caps import NamedCap, cap_key
from fabric.core.frozen import replace
from fabric.core.inputs import DecisionMade
from fabric.selectors.answers import SentAnswer, answers_to
from fabric.selectors.asked_about import AskedAbout, asked_about
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_lateness import is_over

SAID = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "answered",
    "decline": "declined",
    "withdrawn": "withdrawn",
}


@dataclass(frozen=True, slots=True)
class Card:
    """One question for whoever looks."""

    question: EscalationView
    form: DecisionForm
    waiting: SentAnswer | None = None
    """An answer that its run has not taken yet."""
    mine: bool = False
    """Whether the one who looks gave it."""
    refusal: str = ""
    """Why what was asked was not done; empty: it was."""
    kept: bool = False
    """Whether what was written is still in the form."""
    edited: bool = False
    """Whether arguments that somebody wrote stand in it."""
    again: bool = False
    """Whether the one who looks has just given the same answer once more."""

    @property
    def about(self) -> AskedAbout:
        """Returns the subject of the question."""
        return asked_about(self.question)

    @property
    def over(self) -> bool:
        """Returns True where its time is over by this machine's clock; the database's clock judges an answer."""
        return is_over(self.question, time.time_ns() // 1_000)

    @property
    def late(self) -> bool:
        """Returns True where its time is over and no answer is on its way."""
        return self.waiting is None and self.over

    @property
    def said(self) -> str:
        """What the answer did, as a word."""
        verb = self.given.verb if self.given else self.question.verb
        return SAID.get(verb, verb)

    @property
    def unanswered(self) -> str:
        """What becomes of it when nobody answers in time."""
        if self.question.item == "quarantine":
            return "nothing happens by itself: the run stays quarantined and this question open"
        return str(self.question.content.get("expiry") or "rejected by the system")

    @property
    def given(self) -> DecisionMade | None:
        """That answer, with credentials masked."""
        given = self.waiting.decision if self.waiting else None
        if given is None or self.waiting is None:
            return None
        told = self.waiting.told
        return replace(given, message=told.message or "", edited=told.edited)


def form_of(
    question: EscalationView,
    data: Any = None,
    *,
    message: str = "",
    edited: Any = None,
    cap_usd_micros: int | None = None,
    caps: Sequence[NamedCap] = (),
    model: str = "",
    tool: str = "",
) -> DecisionForm:
    """The form of a question: what was sent, or what is to stand in it at first."""
    first = initial_of(question)
    instead = json.dumps(edited, ensure_ascii=False, indent=2) if tool else ""
    edited = None if tool else edited
    text = (
        json.dumps(first if edited is None else edited, ensure_ascii=False, indent=2)
        if "edit" in question.verbs
        else ""
    )
    cap = None if cap_usd_micros is None else _written(cap_usd_micros, "usd_micros")
    initial = {"message": message, "edited": text, "cap_usd": cap, "model": model, "tool": tool, "instead": instead}
    form = DecisionForm(
        data,
        initial=initial,
        shown=first,
        schema=schema_of(question) if "edit" in question.verbs else None,
        written=edited,
        caps=question.content.get("takes_caps", ()),
    )
    named = {one.key: one for one in caps}
    for name, offered in form.caps.items():
        if one := named.get(cap_key(offered["scope"], offered["unit"])):
            form.initial[name] = _written(one.cap, one.unit)
    return form


def _written(amount: int, unit: str) -> Decimal | int:
    """An amount as it stands in the form."""
    return Decimal(amount) / 1_000_000 if unit == "usd_micros" else amount


def cards(actor: Actor, questions: Sequence[EscalationView]) -> list[Card]:
    """Questions as cards, in their order. What somebody took back stands in the form again, for the one who wrote it."""
    sent = answers_to([question for question in questions if question.open])
    return [_card(actor, question, sent.get(question.id, [])) for question in questions]


def card(
    actor: Actor, question: EscalationView, form: DecisionForm | None = None, refusal: str = "", *, kept: bool = False
) -> Card:
    """One of them. ``form``: what was sent and could not be taken."""
    (found,) = cards(actor, [question])
    kept = kept or (form is None and found.kept)
    return Card(question, form or found.form, found.waiting, found.mine, refusal, kept, found.edited)


def _card(actor: Actor, question: EscalationView, sent: list[SentAnswer]) -> Card:
    last = sent[-1] if sent else None
    mine = last is not None and last.decision is not None and last.decision.actor == actor.name
    if last is not None and last.fate == "waiting":
        return Card(question, form_of(question), waiting=last, mine=mine)
    if last is None or last.decision is None or not mine or last.fate != "taken_back":
        return Card(question, form_of(question))
    given = last.decision
    form = form_of(
        question,
        message=given.message,
        edited=given.edited,
        cap_usd_micros=given.cap_usd_micros,
        caps=given.caps,
        model=given.model,
        tool=given.tool,
    )
    return Card(question, form, kept=True, edited=last.decision.edited is not None)
