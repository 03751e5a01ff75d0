"""The page of one question: what it asks, why, what follows from each answer, its time, and what waits beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.views.notification_rows import Row
from console.views.questions import Card
from console.views.review_beside import Beside, beside
from console.views.review_claims import hand_of
from console.views.review_diff import Diff, diff_of
from console.views.review_follows import Consequence, consequences, if_rejected
from console.views.review_marks import Urgency, urgency
from console.views.review_schema import edited_word, initial_of
from console.views.review_ticket_form import Closing, TicketForm, closing_of
from console.views.review_time import DueLine, due_line
from console.views.run_page import RunPage
from fabric.core.actor import Actor, may
from fabric.core.roles import Right
from fabric.core.taxonomy import Tier
from fabric.selectors.answers import Answer, answer_of
from fabric.selectors.escalations import EscalationView
from fabric.selectors.notifications import notifications_of
from fabric.selectors.review_asked import who_is_asked, why_not
from fabric.selectors.review_claimed import Claim, claims_of
from fabric.selectors.review_claims import claim_of, viewers_of
from fabric.selectors.review_evidence import Evidence, evidence_of
from fabric.selectors.review_history import Happened, review_history
from fabric.selectors.review_people import edit_problem, people_asked
from fabric.selectors.tickets import ClosureView, closure_of, for_reader
from fabric.services.notification_sending import may_resend
from fabric.services.rights import is_fresh

ADVANCE = "review_advance"
"""Cookie that says whether the next question comes up after an answer: ``1`` or ``0``."""
US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """Everything that the page shows beside the card."""

    known: Evidence
    run: RunPage
    offered: list[Consequence]
    rejected: list[str]
    line: DueLine
    urgency: Urgency | None
    beside: Beside
    hand: dict[str, Any]
    """Who has the question in hand, and who looks at it."""
    people: tuple[str, ...]
    """Whom it may be handed to by this person; empty: they may not hand it on."""
    second: str
    """Who else has to agree, one sentence; empty: nobody."""
    history: list[Happened]
    picked: str
    """The verb that is picked at first; empty: none."""
    diff: Diff | None
    """What the edit in the form changes; None: there is none to look at."""
    numbers: str
    """The numbers of the trip, where the facts do not have them already."""
    claims: list[Claim]
    """What of the text no source bears out, with the nearest one."""
    answer: Answer | None
    """What was answered, as far as it is known."""
    given_diff: Diff | None
    """What the answer that was given changes."""
    reason: str
    """Who asks for a message, beside its label."""
    high_stakes: bool
    stale: bool
    """Whether this person has to sign in again before they decide."""
    sign_in: str
    waits: bool
    """Whether somebody can still answer it; of a ticket, close it."""
    closure: ClosureView | None
    """Of a ticket, when and by whom it was closed."""
    may: bool
    """Whether this person may answer, whatever the verb."""
    why_not: str
    """Why they may not let it pass, one sentence; empty: they may."""
    asked: str
    """Who may answer, in words."""
    proposed: Diff | None
    """What somebody proposed in place of what was asked about first; None: nobody did."""
    edited: str
    """What is edited, as the form says it."""
    advance: bool
    """Whether the next question comes up after an answer."""
    closing: Closing | None
    """How a ticket that is open may be closed; None: it is none, or closed."""
    may_reveal: bool
    """Whether this person may have shown what is withheld."""
    told: list[Row]
    """Who was told of it outside the console, and what became of each."""
    may_resend: bool
    """Whether this person may have one sent again."""
    looks_ms: int
    """When the page looks whether the run has taken the answer that waits, in milliseconds from now; 0: nothing waits, or not for a clock."""


def page_of(
    request: HttpRequest, actor: Actor, card: Card, *, look: bool = False, closing: TicketForm | None = None
) -> ItemPage:
    """``look``: whether the edit in the form was asked to be looked at. ``closing``: what was sent to close a ticket, and could not be taken."""
    item, now = card.question, time.time_ns() // 1_000
    known = evidence_of(actor, item)
    closure = for_reader(closure_of(actor, item.id), reads=item.reads) if item.ticket else None
    waits = item.open or (item.ticket and closure is None)
    onward_to = item.asked if item.onward else known.spec.policy.humans.onward_to
    second = _second(item, known.run.created_by)
    return ItemPage(
        known=known,
        run=RunPage(known.run, known.cap_usd_micros),
        offered=consequences(
            item, known, second, edit_problem(actor, item) if item.open and "edit" in item.verbs else ""
        ),
        rejected=if_rejected(item, known) if "reject" in item.verbs else [],
        line=due_line(item, known, now, card.unanswered, ", ".join(onward_to)),
        urgency=urgency(item, now),
        beside=beside(actor, item, now),
        second=second,
        history=review_history(actor, item),
        numbers=known.numbers if item.content.get("observed") is None or "cycle" in known.numbers else "",
        claims=claims_of(item),
        waits=waits,
        closure=closure,
        advance=request.COOKIES.get(ADVANCE) == "1",
        closing=closing_of(actor, item, known, closing) if item.ticket and waits else None,
        told=[Row(one) for one in notifications_of(actor, item.run_id, item.id)],
        may_resend=may_resend(actor),
        may_reveal=actor.may(Right.REVEAL),
        looks_ms=_looks_ms(card, now),
        **_written(card, look=look),
        **_allowed(actor, item, now, waits=waits),
    )


LOOKS_MS = 1_000
"""The shortest time between two looks, and how long after its time an answer is looked for."""


def _looks_ms(card: Card, now: int) -> int:
    if card.waiting is None or card.question.held:
        return 0
    return LOOKS_MS + max(0, card.waiting.takes_at - now) // 1_000


def _written(card: Card, *, look: bool) -> dict[str, Any]:
    """What stands in the form, and what was answered."""
    item, form = card.question, card.form
    picked = str(form.data.get("verb", "")) if form.is_bound else "edit" if card.edited else ""
    edited = form.typed.value if form.typed.fields and form.typed.changed else None
    answer = None if item.open or item.ticket else answer_of(item)
    given, shown = card.given or answer, item.content
    return {
        "picked": picked if picked in item.verbs else "",
        "diff": diff_of(initial_of(item), edited) if look or edited is not None else None,
        "answer": answer,
        "given_diff": diff_of(initial_of(item), given.edited) if given and given.edited is not None else None,
        "proposed": diff_of(shown["edited_from"], shown.get("edited")) if "edited_from" in shown else None,
        "edited": edited_word(item),
    }


def _allowed(actor: Actor, item: EscalationView, now: int, *, waits: bool) -> dict[str, Any]:
    """What this person may do with it, and what they have to bring along."""
    held, high_stakes = claim_of(actor, item.id), item.tier == Tier.HIGH_STAKES
    mine = held is not None and held.is_of(actor.name)
    hand = hand_of(actor, item, held, viewers_of(actor, item.id))
    return {
        "hand": hand,
        "people": people_asked(actor, item) if waits and (mine or may(actor, Right.OPERATE, item.fabric_name)) else (),
        "may": hand["may"],
        "why_not": why_not(item, actor) if waits else "",
        "asked": who_is_asked(item),
        "reason": _reason(item, high_stakes=high_stakes),
        "high_stakes": high_stakes,
        "stale": high_stakes and waits and not is_fresh(actor),
        "sign_in": f"{reverse('login')}?next={reverse('review', args=[item.id])}",
    }


def _second(item: EscalationView, started_by: str) -> str:
    """Who else has to agree to exactly the same, where two people are asked for."""
    if item.approvals < 2:
        return ""
    if item.agreed:
        return f"{', '.join(item.agreed)} agreed already: with yours it is decided."
    barred = [name for name in dict.fromkeys((started_by, *item.barred)) if name in item.barred]
    but = f", and not {', '.join(barred)}" if barred else ""
    return f"A second person confirms the same bytes: not you{but}."


def _reason(item: EscalationView, *, high_stakes: bool) -> str:
    """With which answers a message has to be given."""
    needed = [verb for verb in ("respond", "decline", "reject") if verb in item.verbs]
    if high_stakes:
        return "required in high-stakes, kept with the run"
    return f"required to {' or '.join(needed)}, kept with the run" if needed else "kept with the run"


def shown(
    request: HttpRequest,
    actor: Actor,
    card: Card,
    status: int = 200,
    *,
    look: bool = False,
    closing: TicketForm | None = None,
    **more: Any,
) -> HttpResponse:
    """The whole page, or what its script puts in its place."""
    template = "reviews/item_grid.html" if request.headers.get("HX-Request") else "reviews/item.html"
    page = page_of(request, actor, card, look=look, closing=closing)
    return render(
        request, template, {"card": card, "page": page, "now_ms": time.time_ns() // US, **more}, status=status
    )
