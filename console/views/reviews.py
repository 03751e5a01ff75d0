"""Questions to people: the open ones as a list that stays true, and answering one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import DecisionForm, sentence
from console.templatetags.figures import moment
from console.views import errors
from fabric import wiring
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import (
    EscalationView,
    escalation_get,
    escalations_due,
    escalations_named,
    escalations_new,
    escalations_open,
)
from fabric.services.escalations import escalation_decide

SAID = {
    "approve": "approved",
    "reject": "rejected",
    "edit": "edited",
    "respond": "answered",
    "withdrawn": "withdrawn",
}


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


@require_POST
def decide(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Record an answer. 422: something is missing, and what was written is kept; 409: somebody was faster, and who it was."""
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        return _answer(request, item, form, 422)
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
        )
    except Refused as refusal:
        if refusal.code in ("conflict", "forbidden"):
            item = escalation_get(actor, item.id)  # As it is by now.
            return _answer(request, item, form, errors.STATUS[refusal.code], refusal=sentence(refusal.message))
        form.add_error(refusal.field if refusal.field in form.fields else None, sentence(refusal.message))
        return _answer(request, item, form, errors.STATUS[refusal.code])
    said = SAID.get(taken.verb, taken.verb)
    if request.headers.get("HX-Request"):
        shown = {"question": item, "said": said, "fresh": taken.created}
        return render(request, "reviews/taken.html", shown)
    told = f"Recorded: {said}. The run goes on from there." if taken.created else f"You {said} this before."
    messages.success(request, told)
    return redirect("run", run_id=item.run_id)


def _answer(
    request: HttpRequest, item: EscalationView, form: DecisionForm, status: int, refusal: str = ""
) -> HttpResponse:
    template = "reviews/question.html" if request.headers.get("HX-Request") else "reviews/page.html"
    shown = {"question": item, "form": form, "refusal": refusal}
    return render(request, template, shown, status=status)
