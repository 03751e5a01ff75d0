"""Takes comments on a review, and snoozes it for one person. Both work without the page's script."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from console.pages.reviews.page import show_review
from console.pages.reviews.parts.talk import UNTIL_CHARS_MAX, TalkForm, read_until, show_talk
from console.site.access.actors import find_actor
from console.site.errors import pages as errors
from console.site.sentences import sentence
from console.words.reviews import card
from fabric.core.people.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.lookup import get_review
from fabric.services.reviews.comments import TEXT_CHARS_MAX, comment_add
from fabric.services.reviews.snoozes import review_snooze, snooze_end

SHOWN_AGAIN = 422
"""Status of a form that is shown again; the page's script swaps it in."""


@require_POST
def comment(request: HttpRequest, review_id: str) -> HttpResponse:
    """Add a comment. 422: it is refused, and the page keeps the text."""
    actor, text = find_actor(request.user), request.POST.get("text", "")
    kept = text[: TEXT_CHARS_MAX * 2]
    return _then(
        request,
        actor,
        review_id,
        lambda: comment_add(actor=actor, review_id=review_id, text=text),
        lambda said: TalkForm(text=kept, text_problem=said),
    )


@require_POST
def snooze(request: HttpRequest, review_id: str) -> HttpResponse:
    """Hide the review from the viewer's own list until a time, or show it again (``end``). 422: the time is refused."""
    actor, typed = find_actor(request.user), request.POST.get("until", "")[:UNTIL_CHARS_MAX]

    def act() -> None:
        if "end" in request.POST:
            snooze_end(actor=actor, review_id=review_id)
            return
        until = read_until(typed)
        if until is None:
            message = f"{typed!r} is no date: write it as 2026-11-30T18:00, in UTC"
            raise Refused(message, code="invalid", field="until")
        review_snooze(actor=actor, review_id=review_id, until=until)

    return _then(request, actor, review_id, act, lambda said: TalkForm(until=typed, until_problem=said))


def _then(
    request: HttpRequest,
    actor: Actor,
    review_id: str,
    act: Callable[[], object],
    form_of: Callable[[str], TalkForm],
) -> HttpResponse:
    scripted, form, status = bool(request.headers.get("HX-Request")), None, 200
    try:
        act()
    except Refused as refusal:
        if refusal.code not in ("invalid", "too_large", "conflict"):
            raise
        status = errors.STATUS[refusal.code] if refusal.code == "conflict" else SHOWN_AGAIN
        form = form_of(sentence(refusal.message))
    if scripted:
        return show_talk(request, actor, get_review(actor, review_id), form, status)
    if form is not None:
        return show_review(request, actor, card(actor, get_review(actor, review_id)), status, talk=form)
    return redirect(f"{reverse('review', args=[review_id])}#talk")
