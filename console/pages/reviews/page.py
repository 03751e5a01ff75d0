"""Shows one review: its reason, consequences of each answer, due time, and the queue beside it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.forms.values.diff import Diff, diff_of
from console.pages.reviews.following import build_hand, follow_review
from console.pages.reviews.parts.consequences import Consequence, consequences, if_rejected
from console.pages.reviews.parts.due_line import DueLine, due_line
from console.pages.reviews.parts.follow_up import Closing, FollowUpForm, build_closing
from console.pages.reviews.parts.queue import QueueBeside, Urgency, build_side_queue, urgency
from console.pages.reviews.parts.talk import Talk, TalkForm, build_talk
from console.pages.runs.page import RunPage
from console.templatetags.titles import review_title
from console.words.notifications import NotificationRow
from console.words.reviews import ReviewCard, edited_word, find_initial
from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.selectors.notifications import list_notifications
from fabric.selectors.reviews.answers import ReviewAnswer, find_answer
from fabric.selectors.reviews.assignments import find_assignment, list_viewers
from fabric.selectors.reviews.evidence.review_evidence import (
    ReviewEvidence,
    UnsourcedClaim,
    build_evidence,
    list_claims,
)
from fabric.selectors.reviews.history import ReviewEvent, review_history
from fabric.selectors.reviews.lookup import edit_problem, list_receivers
from fabric.selectors.reviews.needed_caps import CapNeed, find_cap_need
from fabric.selectors.reviews.queue import ClosureView, find_closure, mask_closure
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.notifications.delivery import may_resend
from fabric.services.rights import is_fresh

ADVANCE = "review_advance"
"""Cookie that makes the next review open after an answer, for one person: their choice, and whose it is."""


def advance_choice(actor: Actor, *, advance: bool) -> str:
    """Return a person's choice as the cookie has it. The name is digested: a cookie takes few characters."""
    return f"{int(advance)}.{sha256(actor.name.encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPage:
    """Data of the page besides the card."""

    known: ReviewEvidence
    run: RunPage
    offered: list[Consequence]
    rejected: list[str]
    line: DueLine
    urgency: Urgency | None
    beside: QueueBeside
    hand: dict[str, Any]
    """Person who has claimed the review, and its viewers."""
    people: tuple[str, ...]
    """People to whom the viewer may hand the review; empty if they may not hand it on."""
    roles: tuple[str, ...]
    """Roles to which the viewer may hand it."""
    second: str
    """Sentence that names the second person; ``""`` if none is needed."""
    history: list[ReviewEvent]
    picked: str
    """Verb that is picked at first; empty for none."""
    diff: Diff | None
    """Changes made by the edit in the form; None if there is no edit."""
    numbers: str
    """Numbers of the trip that the facts do not show."""
    claims: list[UnsourcedClaim]
    """Claims of the text that no source supports, with the nearest source."""
    answer: ReviewAnswer | None
    """Answer to the review, as far as it is known."""
    given_diff: Diff | None
    """Changes made by the answer."""
    reason: str
    """Label that says which answers need a message."""
    high_stakes: bool
    stale: bool
    """True if this person has to sign in again before deciding."""
    sign_in: str
    waits: bool
    """True if the review can still be answered, or the follow-up closed."""
    closure: ClosureView | None
    """Closure of a follow-up: instant and person."""
    proposed: Diff | None
    """Change proposed by a person in place of the original; None if there is none."""
    edited: str
    """Label of the edited value."""
    advance: bool
    """True if the next review opens after an answer."""
    closing: Closing | None
    """Ways to close an open follow-up; None for a review or a closed follow-up."""
    need: CapNeed | None
    """Spent cap that an approval has to raise; None: it has to raise none."""
    titled: bool
    """True if the title says something else than the engine's reason."""
    may_reveal: bool
    """True if this person may see withheld content."""
    told: list[NotificationRow]
    """Notifications about the review outside the console, and their results."""
    may_resend: bool
    """True if this person may send a notification again."""
    talk: Talk


def build_page(
    request: HttpRequest,
    actor: Actor,
    card: ReviewCard,
    *,
    look: bool = False,
    closing: FollowUpForm | None = None,
    talk: TalkForm | None = None,
) -> ItemPage:
    """Return the data of the page.

    ``look``: True if a preview of the edit was requested. ``closing``: the refused form that closes a follow-up.
    ``talk``: the refused comment, or snooze.
    """
    item, now = card.review, time.time_ns() // 1_000
    known = build_evidence(actor, item)
    closure = mask_closure(find_closure(actor, item.id), reads=item.reads) if item.follow_up else None
    waits = item.open or (item.follow_up and closure is None)
    onward_to = item.asked if item.onward else known.spec.policy.humans.onward_to
    second = _second(item, known.run.created_by)
    return ItemPage(
        known=known,
        run=RunPage(known.run, known.cap_usd_micros),
        offered=consequences(
            item, known, second, edit_problem(actor, item) if item.open and "edit" in item.verbs else ""
        ),
        rejected=if_rejected(item, known) if "reject" in item.verbs else [],
        line=due_line(item, known, now, card.silence_consequence, ", ".join(onward_to)),
        urgency=urgency(item, now),
        beside=build_side_queue(actor, item, now),
        second=second,
        history=review_history(actor, item),
        numbers=known.numbers if item.content.get("observed") is None or "cycle" in known.numbers else "",
        claims=list_claims(item),
        waits=waits,
        closure=closure,
        advance=request.COOKIES.get(ADVANCE) == advance_choice(actor, advance=True),
        closing=build_closing(actor, item, known, closing) if item.follow_up and waits else None,
        told=[NotificationRow(one) for one in list_notifications(actor, item.run_id, item.id)],
        may_resend=may_resend(actor),
        need=find_cap_need(item),
        titled=review_title(item).lower() != item.reason.lower(),
        may_reveal=actor.may(Right.REVEAL),
        talk=build_talk(actor, item, talk),
        **_written_context(card, look=look),
        **_allowed_acts(actor, card, waits=waits),
    )


def _written_context(card: ReviewCard, *, look: bool) -> dict[str, Any]:
    """Return the context of the form and of the answer."""
    item, form = card.review, card.form
    picked = str(form.data.get("verb", "")) if form.is_bound else "edit" if card.edited else ""
    edited = form.typed.value if form.typed.parts and form.typed.changed else None
    answer = None if item.open or item.follow_up else find_answer(item)
    given, shown = card.waiting_answer or answer, item.content
    return {
        "picked": picked if picked in item.verbs else "",
        "diff": diff_of(find_initial(item), edited) if look or edited is not None else None,
        "answer": answer,
        "given_diff": diff_of(find_initial(item), given.edited) if given and given.edited is not None else None,
        "proposed": diff_of(shown["edited_from"], shown.get("edited")) if "edited_from" in shown else None,
        "edited": edited_word(item),
    }


def _allowed_acts(actor: Actor, card: ReviewCard, *, waits: bool) -> dict[str, Any]:
    """Return the acts that this person may take, and what each requires."""
    item = card.review
    held, high_stakes = find_assignment(actor, item.id), item.tier == Tier.HIGH_STAKES
    mine = held is not None and held.is_of(actor.name)
    found = follow_review(actor, item, held, card.sent)
    hands_on = waits and (mine or may(actor, Right.OPERATE, item.fabric_name))
    people, roles = list_receivers(actor, item) if hands_on else ((), ())
    return {
        "hand": build_hand(actor, found, list_viewers(actor, item.id)),
        "people": people,
        "roles": roles,
        "reason": _reason(item, high_stakes=high_stakes),
        "high_stakes": high_stakes,
        "stale": high_stakes and waits and not is_fresh(actor),
        "sign_in": f"{reverse('login')}?again=1&next={reverse('review', args=[item.id])}",
    }


def _second(item: ReviewView, started_by: str) -> str:
    """Return who else has to agree to the exact content; empty if one person is enough."""
    if item.approvals < 2:
        return ""
    if item.agreed:
        return f"{', '.join(item.agreed)} agreed already: with yours it is decided."
    barred = [name for name in dict.fromkeys((started_by, *item.barred)) if name in item.barred]
    but = f", and not {', '.join(barred)}" if barred else ""
    return f"A second person must confirm the same content, not you{but}."


def _reason(item: ReviewView, *, high_stakes: bool) -> str:
    """Return which answers need a message."""
    needed = [verb for verb in ("respond", "decline", "reject") if verb in item.verbs]
    if high_stakes:
        return "required in high-stakes, kept with the run"
    return f"required to {' or '.join(needed)}, kept with the run" if needed else "kept with the run"


def show_review(
    request: HttpRequest,
    actor: Actor,
    card: ReviewCard,
    status: int = 200,
    *,
    look: bool = False,
    closing: FollowUpForm | None = None,
    talk: TalkForm | None = None,
    **more: Any,
) -> HttpResponse:
    """Return the whole page, or to its script the part that replaces it."""
    template = "reviews/review/grid.html" if request.headers.get("HX-Request") else "reviews/review/page.html"
    page = build_page(request, actor, card, look=look, closing=closing, talk=talk)
    return render(
        request, template, {"card": card, "page": page, "now_ms": time.time_ns() // US, **more}, status=status
    )
