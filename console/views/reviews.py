"""Questions to people: the open ones as a list that stays true, and answering one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import sentence
from console.templatetags.figures import moment
from console.views import errors
from console.views.questions import SAID, Card, card, form_of
from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.policy import UNDO_S
from fabric.core.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import (
    EscalationView,
    escalation_get,
    escalations_due,
    escalations_named,
    escalations_new,
    escalations_open,
)
from fabric.services.escalations import escalation_decide, escalation_decide_now, escalation_undo


class Urgency(NamedTuple):
    """How a question that is due soon stands out."""

    word: str
    tone: str


ROWS = 100
"""Questions on one page of the list."""
URGENT: tuple[tuple[int, Urgency], ...] = (
    (0, Urgency("Overdue", "danger")),
    (3_600_000_000, Urgency("Due soon", "warn")),
)
"""Microseconds that are left at most, and what is said then; the first that fits counts."""
NEWS_MAX = 100
"""New questions are counted so far."""
ID_CHARS_MAX = 64
ANSWERED = "answered"
FIELDS = {"cap_usd_micros": "cap_usd"}
"""Fields of the form that are named otherwise than what they stand for."""
ANSWER_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class Row:
    """A question as a row of the list."""

    question: EscalationView
    standing: str
    """How it stands; the row is drawn again when this is another word."""

    @property
    def urgency(self) -> Urgency | None:
        """How it stands out; None: it does not."""
        return next((urgency for _, urgency in URGENT if _slug(urgency) == self.standing), None)

    @property
    def said(self) -> str:
        """How it was answered, and by whom."""
        said = SAID.get(self.question.verb, self.question.verb)
        if self.question.verb == "withdrawn":
            return said
        return f"{said} by {'the system: nobody answered in time' if self.question.by_system else self.question.decided_by}"


@require_safe
def reviews(request: HttpRequest) -> HttpResponse:
    """What waits for a person, the most urgent first, a page at a time. ``?after=`` goes on after the last one of a page."""
    after = request.GET.get("after", "")
    now = time.time_ns() // 1_000
    found = escalations_open(actor_of(request.user), limit=ROWS + 1, after=after or None)
    more = found[ROWS - 1].cursor if len(found) > ROWS else ""
    shown = {
        "rows": [Row(one, _standing(one.due_at - now, one.open)) for one in found[:ROWS]],
        "more": more,
        "after": after,
        "now_ms": now // 1_000,
        "as_of": f"{moment(now):%H:%M:%S} UTC, reload",
        "refresh": reverse("reviews") + (f"?{urlencode({'after': after})}" if after else ""),
    }
    return render(request, "reviews/list.html", shown)


@require_safe
def news(request: HttpRequest) -> HttpResponse:
    """What an open list asks every two seconds: how many questions it lacks, and its own rows that stand otherwise by now.

    ``seen``: its rows, each with how it stood; ``after`` and ``down``: the cursors between which its page lies.
    """
    actor, now = actor_of(request.user), time.time_ns() // 1_000
    seen = _seen(request.GET.get("seen", ""))
    after, down = request.GET.get("after", ""), request.GET.get("down", "")
    count = escalations_new(actor, seen, after=after or None, down_to=down or None, most=NEWS_MAX)
    standing = {name: _standing(due_at - now, waits) for name, (due_at, waits) in escalations_due(actor, seen).items()}
    changed = [name for name, word in standing.items() if word != seen[name]]
    shown = {
        "count": count,
        "more": count >= NEWS_MAX,
        "rows": [Row(one, standing[one.id]) for one in escalations_named(actor, changed)] if changed else [],
        "now_ms": now // 1_000,
    }
    return render(request, "reviews/news.html", shown)


def _standing(left: int, waits: bool) -> str:
    """How a question stands with so many microseconds left, in a word that fits in an address."""
    if not waits:
        return ANSWERED
    return next((_slug(urgency) for most, urgency in URGENT if left <= most), "later")


def _slug(urgency: Urgency) -> str:
    return urgency.word.lower().replace(" ", "-")


def _seen(text: str) -> dict[str, str]:
    """``id.standing,id.standing`` of a page's rows; what is anything else is passed over."""
    pairs = (part.partition(".") for part in text.split(",", ROWS)[:ROWS])
    return {name: word for name, _, word in pairs if name.isascii() and name.isalnum() and len(name) <= ID_CHARS_MAX}


@require_safe
def review(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """One question, open or answered, by itself. 404: there is none in this workspace."""
    actor = actor_of(request.user)
    return _shown(request, card(actor, escalation_get(actor, escalation_id)), 200)


@require_POST
def decide(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Record an answer, which its run takes when the time in which it can be taken back is over.

    422: something is missing, and what was written is kept; 409: somebody was faster, and who it was.
    """
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    form = form_of(item, request.POST)
    if not form.is_valid():
        return _shown(request, card(actor, item, form), 422)
    given = form.cleaned_data
    try:
        taken = escalation_decide(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            escalation_id=item.id,
            verb=given["verb"],
            message=given["message"],
            digest=given["digest"],
            edited=given["value"],
            cap_usd_micros=given["cap_usd_micros"],
            caps=given["caps"],
            model=given["model"],
            undo_s=UNDO_S[Tier(item.tier)],
        )
    except Refused as refusal:
        status, said = errors.STATUS[refusal.code], sentence(refusal.message)
        if refusal.code in ("conflict", "forbidden"):
            item = escalation_get(actor, item.id)  # As it is by now.
            return _shown(request, card(actor, item, form, said, kept=True), status)
        field = FIELDS.get(refusal.field, refusal.field)
        form.add_error(field if field in form.fields else None, said)
        return _shown(request, card(actor, item, form), status)
    said = "" if taken.created else f"You {SAID.get(taken.verb, taken.verb)} this before."
    return _done(request, actor, item.id, said, again=not taken.created)


@require_POST
def undo(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Take an answer back; what was written stands in the form again. 409: the run was faster."""
    return _second_thought(request, escalation_id, escalation_undo, "Taken back: nothing was decided.")


@require_POST
def go_on(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Let an answer count at once. 409: it was taken back meanwhile."""
    return _second_thought(request, escalation_id, escalation_decide_now, "The run goes on with your answer now.")


def _second_thought(
    request: HttpRequest, escalation_id: str, service: Callable[..., object], done: str
) -> HttpResponse:
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    answer = request.POST.get("answer", "")[:ANSWER_CHARS_MAX]
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    try:
        service(**ports, actor=actor, escalation_id=item.id, answer_id=answer)
    except Refused as refusal:
        if refusal.code not in ("conflict", "forbidden"):
            raise
        found = card(actor, escalation_get(actor, item.id), refusal=sentence(refusal.message))
        return _shown(request, found, errors.STATUS[refusal.code])
    return _done(request, actor, item.id, done)


def _done(request: HttpRequest, actor: Actor, escalation_id: str, said: str, *, again: bool = False) -> HttpResponse:
    """The card as it is by now, or the run's page, which has it."""
    item = escalation_get(actor, escalation_id)
    if request.headers.get("HX-Request"):
        return _shown(request, replace(card(actor, item), again=again), 200)
    if said:
        messages.success(request, said)
    return redirect("run", run_id=item.run_id)


def _shown(request: HttpRequest, found: Card, status: int) -> HttpResponse:
    template = "reviews/question.html" if request.headers.get("HX-Request") else "reviews/page.html"
    return render(request, template, {"card": found}, status=status)
