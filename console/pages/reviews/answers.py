"""Answers a review: records, withdraws or releases the answer, and previews an edit.

A follow-up is closed on its page: with a note, or with a run that goes on from an event of the follow-up's run.
"""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from console.forms.common import DecisionForm
from console.forms.values.diff import diff_of
from console.forms.values.form import PRESS
from console.pages.reviews.following import read_lease
from console.pages.reviews.page import ADVANCE, advance_choice, show_review
from console.pages.reviews.parts.follow_up import FORK, FollowUpForm
from console.pages.reviews.parts.queue import build_side_queue
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.reviews import SAID, ReviewCard, build_form, card, edited_word, find_initial
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.core.spec.policies.people import UNDO_S
from fabric.core.values.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.reviews.decisions import decide_review, hasten_decision, undo_decision
from fabric.services.reviews.follow_ups import FollowUpClosed, close_follow_up, fork_follow_up
from fabric.services.reviews.reveals import reveal_review

FIELDS = {"cap_usd_micros": "cap_usd"}
"""Form fields whose names differ from those of the service."""
ANSWER_CHARS_MAX = 200


@require_safe
def review(request: HttpRequest, review_id: str) -> HttpResponse:
    """Show one review, open or answered. ``?decided=``: a review that was just answered. 404: unknown in this
    workspace.
    """
    actor = find_actor(request.user)
    item = get_review(actor, review_id)
    return show_review(request, actor, card(actor, item), toast=toast(actor, request, but=item.id))


@require_POST
def reveal(request: HttpRequest, review_id: str) -> HttpResponse:
    """Show the withheld content of a review, and record it in the audit stream. 403: lacking right. 409: nothing is
    withheld.
    """
    actor = find_actor(request.user)
    item = reveal_review(actor=actor, review_id=review_id)
    return show_review(request, actor, card(actor, item))


def toast(actor: Actor, request: HttpRequest, but: str = "") -> ReviewCard | None:
    """Return the review answered just before, while its answer can still be withdrawn."""
    named = request.GET.get("decided", "")
    if not named or named == but:
        return None
    try:
        found = card(actor, get_review(actor, named))
    except Refused:
        return None
    return found if found.mine else None


@require_POST
def changes(request: HttpRequest, review_id: str) -> HttpResponse:
    """Show the changes of an edit before it is sent. Nothing is recorded.

    The page's script gets a part, other requests the page. ``do``: an item of a list was added, moved or removed; the
    part is the whole edit then. ``draft``: the script puts a form back after a new sign-in; the part is the review.
    """
    actor = find_actor(request.user)
    item = get_review(actor, review_id)
    form = build_form(item, request.POST)
    form.is_valid()
    found = card(actor, item, form)
    if "draft" in request.POST:
        form.errors.clear()
        return show_review(request, actor, found)
    if request.headers.get("HX-Request"):
        value = form.typed.value if form.by_field else form.cleaned_data.get("value")
        diff = diff_of(find_initial(item), value) if value is not None else None
        if PRESS in request.POST and form.fits:
            page = {"edited": edited_word(item), "diff": diff}
            return render(request, "reviews/review/edit.html", {"review": item, "form": form, "page": page})
        return render(request, "reviews/parts/changes.html", {"card": found, "diff": diff, "form": form})
    return show_review(request, actor, found, look=True)


@require_POST
def decide(request: HttpRequest, review_id: str) -> HttpResponse:
    """Record an answer. The run receives it when the time to withdraw it is over.

    409: another person was faster, and the page names them. 422: something is missing, and the page keeps the input.
    """
    actor = find_actor(request.user)
    item = get_review(actor, review_id)
    form = build_form(item, request.POST)
    if not form.is_valid():
        return _again(request, actor, card(actor, item, form), 422)
    given = form.cleaned_data
    try:
        taken = decide_review(
            store=wiring.store(),
            nudge=wiring.nudge(),
            actor=actor,
            review_id=item.id,
            verb=given["verb"],
            message=given["message"],
            digest=given["digest"],
            edited=given["value"],
            cap_usd_micros=given["cap_usd_micros"],
            caps=given["caps"],
            model=given["model"],
            tool=given["tool"],
            undo_s=UNDO_S[Tier(item.tier)],
            assignment_lease=read_lease(request),
        )
    except Refused as refusal:
        return _render_refusal(request, actor, item, form, refusal)
    said = "" if taken.created else f"You {SAID.get(taken.verb, taken.verb)} this before."
    if taken.created and taken.second_wanted:
        said = "Recorded. A second person has to agree before anything follows from it."
    return onward(request, actor, item, said, decided=True)


def _render_refusal(
    request: HttpRequest, actor: Actor, item: ReviewView, form: DecisionForm, refusal: Refused
) -> HttpResponse:
    """Return the form again with its input and the error in place, or with the name of the faster person."""
    status, said = errors.STATUS[refusal.code], sentence(refusal.message)
    if refusal.code in ("conflict", "forbidden"):
        item = get_review(actor, item.id)  # As it is by now.
        return _again(request, actor, card(actor, item, form, said, kept=True), status)
    field = FIELDS.get(refusal.field, refusal.field)
    if field == "edited" and form.cleaned_data.get("tool"):
        field = "instead"
    if field == "edited" and form.by_field and ": " in refusal.message:
        # With a schema of its own a review's refusal names its problems one by one; else they stand in its sentence.
        own = refusal.problems != (refusal.message,)
        form.typed.blame(list(refusal.problems) if own else refusal.message.partition(": ")[2].split("; "))
    form.add_error(field if field in form.fields else None, said)
    return _again(request, actor, card(actor, item, form), status)


@require_POST
def undo(request: HttpRequest, review_id: str) -> HttpResponse:
    """Withdraw an answer; its text stands in the form again. 409: the run was faster."""
    return _second_thought(request, review_id, undo_decision)


@require_POST
def go_on(request: HttpRequest, review_id: str) -> HttpResponse:
    """Release an answer at once. 409: it was withdrawn meanwhile."""
    return _second_thought(request, review_id, hasten_decision, "The run continues with your answer now.")


def _second_thought(
    request: HttpRequest, review_id: str, service: Callable[..., object], said: str = ""
) -> HttpResponse:
    actor = find_actor(request.user)
    item = get_review(actor, review_id)
    answer = request.POST.get("answer", "")[:ANSWER_CHARS_MAX]
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    try:
        service(**ports, actor=actor, review_id=item.id, answer_id=answer)
    except Refused as refusal:
        if refusal.code not in ("conflict", "forbidden"):
            raise
        found = card(actor, get_review(actor, item.id), refusal=sentence(refusal.message))
        return _again(request, actor, found, errors.STATUS[refusal.code])
    return onward(request, actor, item, said, decided=False)


def onward(request: HttpRequest, actor: Actor, item: ReviewView, said: str, *, decided: bool) -> HttpResponse:
    """Redirect to the review's page, or to the next review if the form asked for it."""
    advance = decided and request.POST.get("advance") == "1"
    address = reverse("review", args=[item.id])
    if advance:
        near = build_side_queue(actor, item, item.due_at)
        onto = near.next or near.previous
        address = f"{reverse('review', args=[onto]) if onto else reverse('reviews')}?decided={item.id}"
    elif said:
        messages.success(request, said)
    scripted = request.headers.get("HX-Request")
    answer = HttpResponse(headers={"HX-Redirect": address}) if scripted else redirect(address)
    if decided:
        # A cookie and no row: a page that is asked for writes nothing.
        choice = advance_choice(actor, advance=advance)
        answer.set_cookie(ADVANCE, choice, max_age=31_536_000, httponly=True, samesite="Lax")
    return answer


def _again(request: HttpRequest, actor: Actor, found: ReviewCard, status: int) -> HttpResponse:
    """Return the page with the input, because nothing was recorded."""
    # The page's script puts no 403 in the page's place, and the input has to stay.
    scripted = request.headers.get("HX-Request")
    return show_review(request, actor, found, 409 if status == 403 and scripted else status)


FOLLOW_UP_FIELDS = {"note": "message", "start_key": "seq"}
"""Form fields whose names differ from those of the service."""


@require_POST
def close(request: HttpRequest, review_id: str) -> HttpResponse:
    """Close a follow-up; ``how`` = ``fork`` starts a run first.

    403: it is another person's. 409: another person was faster. 422: an invalid field.
    """
    actor = find_actor(request.user)
    item, form = get_review(actor, review_id), FollowUpForm(request.POST)
    if not form.is_valid():
        return show_review(request, actor, card(actor, item), 422, closing=form)
    try:
        done = _close_follow_up(actor, item, form)
    except Refused as refusal:
        return _follow_up_render_refusal(request, actor, item, form, refusal)
    if not done.created:
        said = "You closed this before."
    elif done.closure.fork_run_id:
        said = f"The follow-up is closed, and a new run continues from event {form.cleaned_data['seq']}."
    else:
        said = "The follow-up is closed. No run was changed."
    return onward(request, actor, item, said, decided=False)


def _close_follow_up(actor: Actor, item: ReviewView, form: FollowUpForm) -> FollowUpClosed:
    note = form.cleaned_data["message"]
    if form.cleaned_data["how"] != FORK:
        return close_follow_up(actor=actor, review_id=item.id, note=note)
    ports = {"store": wiring.store(), "nudge": wiring.nudge()}
    return fork_follow_up(**ports, actor=actor, review_id=item.id, note=note, seq=form.cleaned_data["seq"])  # type: ignore[arg-type]


def _follow_up_render_refusal(
    request: HttpRequest, actor: Actor, item: ReviewView, form: FollowUpForm, refusal: Refused
) -> HttpResponse:
    """Return the form again with its input and the error in place, or with the name of the faster person."""
    said, status = sentence(refusal.message), errors.STATUS[refusal.code]
    # The page's script puts no 403 in the page's place, and the input has to stay.
    status = 409 if status == 403 and request.headers.get("HX-Request") else status
    field = FOLLOW_UP_FIELDS.get(refusal.field, refusal.field)
    if field in form.fields:
        form.add_error(field, said)
        return show_review(request, actor, card(actor, item), status, closing=form)
    now = get_review(actor, item.id)  # As it is by now.
    return show_review(request, actor, card(actor, now, build_form(now, request.POST), said), status, closing=form)
