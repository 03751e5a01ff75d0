"""Shows a review as a card: its form, its answer that can still be withdrawn, or its outcome.

The form of an edit has an initial value and a JSON schema.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypedDict

from pydantic import BaseModel

from console.forms.common import DecisionForm
from fabric.core.events.inputs import DecisionMade
from fabric.core.people.actor import Actor
from fabric.core.schema.payloads import Aggregate, Brief, Outcome, Plan, Summary
from fabric.core.spec.policies.budgets import RUN, NamedCap, cap_key
from fabric.core.values.frozen import replace
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.selectors.reviews.answers import SentAnswer, answers_to, is_over
from fabric.selectors.reviews.eligibility import may_answer, who_is_asked, why_not
from fabric.selectors.reviews.needed_caps import CapNeed, find_cap_need
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.subjects import AskedAbout, find_review_subject
from fabric.tools.runner import offers

SAID = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "answered",
    "decline": "declined",
    "withdrawn": "withdrawn",
}


class Rights(TypedDict):
    """Rights of a viewer about a review, and the answers that were sent to it, as its card has them."""

    may: bool
    why_not: str
    sent: tuple[SentAnswer, ...]


@dataclass(frozen=True, slots=True)
class ReviewCard:
    """One review as a card, for one viewer."""

    review: ReviewView
    form: DecisionForm
    waiting: SentAnswer | None = None
    """An answer that its run has not received yet."""
    mine: bool = False
    """True if the viewer gave the answer."""
    refusal: str = ""
    """Reason why the last act was refused; empty if it was not."""
    kept: bool = False
    """True if the form still contains the input."""
    edited: bool = False
    """True if the form contains arguments written by a person."""
    may: bool = False
    """True if the viewer may answer, with any verb."""
    why_not: str = ""
    """Sentence that says why the viewer may not approve; empty if they may."""
    sent: tuple[SentAnswer, ...] = ()
    """All answers that were sent to it, in order."""

    @property
    def subject(self) -> AskedAbout:
        """Return the subject of the review."""
        return find_review_subject(self.review)

    @property
    def asked(self) -> str:
        """Return the roles and people who may answer, in words."""
        return who_is_asked(self.review)

    @property
    def over(self) -> bool:
        """Return True if its time is over by this machine's clock; answers are judged by the database's clock."""
        return is_over(self.review, time.time_ns() // 1_000)

    @property
    def late(self) -> bool:
        """Return True if its time is over and no answer is on its way."""
        return self.waiting is None and self.over

    @property
    def effect(self) -> str:
        """Return the effect of the answer as a word."""
        verb = self.waiting_answer.verb if self.waiting_answer else self.review.verb
        return SAID.get(verb, verb)

    @property
    def silence_consequence(self) -> str:
        """Return the consequence if no person answers in time."""
        if self.review.item == "quarantine":
            return "nothing happens automatically: the run stays quarantined and this review open"
        return str(self.review.content.get("expiry") or "rejected by the system")

    @property
    def waiting_answer(self) -> DecisionMade | None:
        """Return the answer that waits for the run, with credentials masked."""
        given = self.waiting.decision if self.waiting else None
        if given is None or self.waiting is None:
            return None
        told = self.waiting.review_answer
        return replace(given, message=told.message or "", edited=told.edited)


def build_form(
    review: ReviewView,
    data: Any = None,
    *,
    message: str = "",
    edited: Any = None,
    cap_usd_micros: int | None = None,
    caps: Sequence[NamedCap] = (),
    model: str = "",
    tool: str = "",
) -> DecisionForm:
    """Return the form of a review, with the sent or the initial values."""
    first = find_initial(review)
    instead = json.dumps(edited, ensure_ascii=False, indent=2) if tool else ""
    edited = None if tool else edited
    text = (
        json.dumps(first if edited is None else edited, ensure_ascii=False, indent=2) if "edit" in review.verbs else ""
    )
    need = find_cap_need(review)
    if need is not None and need.of_money and cap_usd_micros is None:
        cap_usd_micros = _suggest_cap(review, need)
    cap = None if cap_usd_micros is None else _written_amount(cap_usd_micros, "usd_micros")
    initial = {"message": message, "edited": text, "cap_usd": cap, "model": model, "tool": tool, "instead": instead}
    form = DecisionForm(
        data,
        initial=initial,
        shown=first,
        schema=find_schema(review) if "edit" in review.verbs else None,
        written=edited,
        caps=review.content.get("takes_caps", ()),
    )
    named = {one.key: one.cap for one in caps}
    if need is not None and not need.of_money:
        named.setdefault(need.key, _suggest_cap(review, need))
    for name, offered in form.caps.items():
        if (one := named.get(cap_key(offered["scope"], offered["unit"]))) is not None:
            form.initial[name] = _written_amount(one, offered["unit"])
    return form


def _suggest_cap(review: ReviewView, need: CapNeed) -> int:
    """Return a cap that carries the run on, within the caps above it if one within them does."""
    budget = revision_spec(review.revision_id).policy.budget
    run = int(review.content.get("cap_usd_micros") or 0)
    if need.unit == "tokens":
        most = budget.session_tokens if need.scope == RUN else None
    else:
        most = budget.session_usd_micros if need.of_money else run
    return need.suggested if most is None else max(need.least, min(need.suggested, most))


def _written_amount(amount: int, unit: str) -> Decimal | int:
    """Return an amount as the form shows it."""
    return Decimal(amount) / 1_000_000 if unit == "usd_micros" else amount


def cards(actor: Actor, reviews: Sequence[ReviewView]) -> list[ReviewCard]:
    """Return the reviews as cards, in order. A withdrawn answer stands in its author's form again."""
    sent = answers_to([review for review in reviews if review.open])
    return [_card(actor, review, sent.get(review.id, [])) for review in reviews]


def card(
    actor: Actor, review: ReviewView, form: DecisionForm | None = None, refusal: str = "", *, kept: bool = False
) -> ReviewCard:
    """Return one review as a card. ``form``: a refused form, with its input."""
    (found,) = cards(actor, [review])
    kept = kept or (form is None and found.kept)
    return ReviewCard(
        review,
        form or found.form,
        found.waiting,
        found.mine,
        refusal,
        kept,
        found.edited,
        may=found.may,
        why_not=found.why_not,
        sent=found.sent,
    )


def _card(actor: Actor, review: ReviewView, sent: list[SentAnswer]) -> ReviewCard:
    may: Rights = {
        "may": may_answer(review, actor),
        "why_not": why_not(review, actor) if review.open else "",
        "sent": tuple(sent),
    }
    last = sent[-1] if sent else None
    mine = last is not None and last.decision is not None and last.decision.actor == actor.name
    if last is not None and last.fate == "waiting":
        return ReviewCard(review, build_form(review), waiting=last, mine=mine, **may)
    if last is None or last.decision is None or not mine or last.fate != "taken_back":
        return ReviewCard(review, build_form(review), **may)
    given = last.decision
    form = build_form(
        review,
        message=given.message,
        edited=given.edited,
        cap_usd_micros=given.cap_usd_micros,
        caps=given.caps,
        model=given.model,
        tool=given.tool,
    )
    return ReviewCard(review, form, kept=True, edited=given.edited is not None, **may)


EDITED_WORDS: Mapping[str, str] = {
    "arguments": "Your arguments",
    "payload": "Your version of the result",
    "brief": "Your version of the brief",
    "answer": "Your answer",
}
"""Label of the edited value, by the review's ``edit_of``."""


def edited_word(review: ReviewView) -> str:
    """Return the label of the edited value."""
    return EDITED_WORDS.get(str(review.content.get("edit_of", "")), "Your version")


def find_initial(review: ReviewView) -> Any:
    """Return the initial value of the form, with which an edit is compared."""
    content = review.content
    return content["edit_initial"] if "edit_initial" in content else content.get("payload")


MODELS: Mapping[str, type[BaseModel]] = {one.__name__: one for one in (Plan, Brief, Summary, Aggregate, Outcome)}
"""Models that stages pass on, by the title of their schema."""


def find_schema(review: ReviewView) -> Mapping[str, Any] | None:
    """Return the schema of the edited value; None if it is unknown.

    Its fields are in the order of their declaration, which a journal does not keep.
    """
    content = review.content
    if content.get("edit_of", "arguments") == "arguments":
        tools = {tool.name: tool for tool in revision_spec(review.revision_id).all_tools}
        asked = tools.get(str(content.get("tool", "")))
        return offers(asked).parameters if asked is not None else content.get("edit_schema")
    schema: Mapping[str, Any] = content.get("edit_schema") or {}
    model = MODELS.get(str(schema.get("title")))
    declared = model.model_json_schema() if model is not None else schema
    return declared if declared == schema else schema
