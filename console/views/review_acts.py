"""Answering a question: the answer, taking it back, letting it count at once; and looking at an edit before it is sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.access import actor_of
from console.forms import DecisionForm, sentence
from console.typed_rows import ACT
from console.views import errors
from console.views.questions import SAID, Card, card, form_of
from console.views.review_beside import beside
from console.views.review_claims import lease_of
from console.views.review_diff import diff_of
from console.views.review_page import ADVANCE, shown
from console.views.review_schema import edited_word, initial_of
from fabric import wiring
from fabric.core.actor import Actor
from fabric.core.policy import UNDO_S
from fabric.core.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.services.escalations import (
    escalation_decide,
    escalation_decide_now,
    escalation_undo,
)
from fabric.services.reveals import question_reveal

FIELDS = {"cap_usd_micros": "cap_usd"}
"""Fields of the form that are named otherwise than what they stand for."""
ANSWER_CHARS_MAX = 200
TAKEN_BACK = "Taken back: nothing was decided."
PAGE = "review"
"""What the form of a question's own page says of where it stands; a run's page says nothing."""


@require_safe
def review(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """One question, open or answered, by itself. ``?decided=``: another one that was just answered. 404: there is none in this workspace."""
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    return shown(request, actor, card(actor, item), toast=toast(actor, request, but=item.id))


@require_POST
def reveal(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """The question with what is withheld of it, told to the audit stream. 403: that is for others; 409: nothing is withheld."""
    actor = actor_of(request.user)
    item = question_reveal(actor=actor, escalation_id=escalation_id)
    return shown(request, actor, card(actor, item))


def toast(actor: Actor, request: HttpRequest, but: str = "") -> Card | None:
    """The question that was answered right before, while its answer can still be taken back."""
    named = request.GET.get("decided", "")
    if not named or named == but:
        return None
    try:
        found = card(actor, escalation_get(actor, named))
    except Refused:
        return None
    return found if found.mine else None


@require_POST
def changes(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """What an edit would change, before it is sent: a part for the page's script, else the page with it. Nothing is recorded.

    ``row``: a row of a list was added, moved or taken away; the part is the whole edit then.
    """
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    form = form_of(item, request.POST)
    form.is_valid()
    found = card(actor, item, form)
    if request.headers.get("HX-Request"):
        value = form.typed.value if form.by_field else form.cleaned_data.get("value")
        diff = diff_of(initial_of(item), value) if value is not None else None
        if ACT in request.POST and form.fits:
            page = {"edited": edited_word(item), "diff": diff}
            return render(request, "reviews/item_edit.html", {"question": item, "form": form, "page": page})
        return render(request, "reviews/changes.html", {"card": found, "diff": diff, "form": form})
    return shown(request, actor, found, look=True)


@require_POST
def decide(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Record an answer, which its run takes when the time in which it can be taken back is over.

    422: something is missing, and what was written is kept; 409: somebody was faster, and who it was.
    """
    actor = actor_of(request.user)
    item = escalation_get(actor, escalation_id)
    form = form_of(item, request.POST)
    if not form.is_valid():
        return _again(request, actor, card(actor, item, form), 422)
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
            tool=given["tool"],
            undo_s=UNDO_S[Tier(item.tier)],
            claim_lease=lease_of(request),
        )
    except Refused as refusal:
        return _refused(request, actor, item, form, refusal)
    said = "" if taken.created else f"You {SAID.get(taken.verb, taken.verb)} this before."
    if taken.created and taken.second_wanted:
        said = "Recorded. A second person has to agree before anything follows from it."
    return _done(request, actor, item, said, again=not taken.created, decided=True)


def _refused(
    request: HttpRequest, actor: Actor, item: EscalationView, form: DecisionForm, refusal: Refused
) -> HttpResponse:
    """What was written stands in the form, with what is wrong where it is wrong; or who was faster, with what was written kept."""
    status, said = errors.STATUS[refusal.code], sentence(refusal.message)
    if refusal.code in ("conflict", "forbidden"):
        item = escalation_get(actor, item.id)  # As it is by now.
        return _again(request, actor, card(actor, item, form, said, kept=True), status)
    field = FIELDS.get(refusal.field, refusal.field)
    if field == "edited" and form.cleaned_data.get("tool"):
        field = "instead"
    if field == "edited" and form.by_field and ": " in refusal.message:
        # With a schema of its own a question's refusal names its problems one by one; else they stand in its sentence.
        own = refusal.problems != (refusal.message,)
        form.typed.blame(list(refusal.problems) if own else refusal.message.partition(": ")[2].split("; "))
    form.add_error(field if field in form.fields else None, said)
    return _again(request, actor, card(actor, item, form), status)


@require_POST
def undo(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Take an answer back; what was written stands in the form again. 409: the run was faster."""
    return _second_thought(request, escalation_id, escalation_undo, TAKEN_BACK)


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
        return _again(request, actor, found, errors.STATUS[refusal.code])
    return _done(request, actor, item, done)


def _done(
    request: HttpRequest, actor: Actor, item: EscalationView, said: str, *, again: bool = False, decided: bool = False
) -> HttpResponse:
    """The card as it is by now; on the question's own page the page, or the next question; else the run's page, which has it."""
    if request.POST.get("page") == PAGE:
        # The page says by itself that an answer was taken back.
        return onward(request, actor, item, "" if said == TAKEN_BACK else said, decided=decided)
    if request.headers.get("HX-Request"):
        found = replace(card(actor, escalation_get(actor, item.id)), again=again)
        return render(request, "reviews/question.html", {"card": found})
    if said:
        messages.success(request, said)
    return redirect("run", run_id=item.run_id)


def onward(request: HttpRequest, actor: Actor, item: EscalationView, said: str, *, decided: bool) -> HttpResponse:
    """The question's page, or the next question's where that was asked for."""
    advance = decided and request.POST.get("advance") == "1"
    address = reverse("review", args=[item.id])
    if advance:
        near = beside(actor, item, item.due_at)
        onto = near.next or near.previous
        address = f"{reverse('review', args=[onto]) if onto else reverse('reviews')}?decided={item.id}"
    elif said:
        messages.success(request, said)
    scripted = request.headers.get("HX-Request")
    answer = HttpResponse(headers={"HX-Redirect": address}) if scripted else redirect(address)
    if decided:
        # A cookie and no row: a page that is asked for writes nothing.
        answer.set_cookie(ADVANCE, "1" if advance else "0", max_age=31_536_000, httponly=True, samesite="Lax")
    return answer


def _again(request: HttpRequest, actor: Actor, found: Card, status: int) -> HttpResponse:
    """The page once more with what was written: nothing was recorded."""
    if request.POST.get("page") == PAGE:
        # The page's script puts no 403 in the page's place, and what was written has to stay.
        return shown(request, actor, found, 409 if status == 403 and request.headers.get("HX-Request") else status)
    if request.headers.get("HX-Request"):
        return render(request, "reviews/question.html", {"card": found}, status=status)
    return shown(request, actor, found, status)
