"""Answers several similar reviews together: first shows the effect, then the results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from console.pages.reviews.parts.consequences import WORDS, name_act
from console.site.access.actors import find_actor
from console.site.sentences import sentence
from console.words.reviews import SAID
from fabric.composition import engine as wiring
from fabric.core.values.taxonomy import Tier
from fabric.selectors.database_time import store_now
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.answers import answers_waiting, takes_none
from fabric.selectors.reviews.assignments import opened_by
from fabric.selectors.reviews.lookup import list_named_reviews
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.subjects import AskedAbout, find_review_subject
from fabric.services.reviews.decisions import BULK_MAX, VERBS, BulkItem, decide_reviews


@dataclass(frozen=True, slots=True)
class ShownReview:
    """One of the reviews with its present content, to which the answer is bound."""

    review: ReviewView
    about: AskedAbout
    changed: bool
    """True if the content changed since the review was picked."""
    opened: bool
    """True if this person has opened the review's page."""


@dataclass(frozen=True, slots=True)
class LeftOutReview:
    """One of the reviews that takes no answer any more."""

    review: ReviewView
    why: str


@dataclass(frozen=True, slots=True)
class BulkResult:
    """Result of the answer to one review."""

    review: ReviewView
    done: bool
    says: str


CLOSED = "it is answered already"


@require_POST
def together(request: HttpRequest) -> HttpResponse:
    """Show the whole reviews and the consequences of the answer; with ``sure``, answer them.

    Each answer is bound to the content shown.
    """
    actor = find_actor(request.user)
    picked = _parse_picked(request.POST.getlist("item"))
    digests = {one.review_id: one.digest for one in picked}
    items = list_named_reviews(actor, list(digests))
    left_out = _list_left_out(items)
    closed = {one.review.id for one in left_out}
    waiting = [item for item in items if item.id not in closed]
    problem = bulk_problem(waiting, left_out)
    opened = opened_by(actor, [item.id for item in waiting])
    known = {
        "items": [
            ShownReview(item, find_review_subject(item), item.digest != digests[item.id], item.id in opened)
            for item in waiting
        ],
        "left_out": left_out,
        "first": waiting[0] if waiting else None,
        "problem": sentence(problem) if problem else "",
        "verbs": _verbs(waiting),
    }
    if problem or not request.POST.get("sure"):
        return render(request, "reviews/bulk.html", known, status=422 if problem else 200)
    verb, message = request.POST.get("verb", ""), request.POST.get("message", "").strip()
    wrong = _wrong(waiting, verb, message)
    if not wrong:
        ports = {"store": wiring.store(), "nudge": wiring.nudge()}
        try:
            found = decide_reviews(**ports, actor=actor, items=picked, verb=verb, message=message, undo=True)  # type: ignore[arg-type]
        except Refused as refusal:
            wrong = sentence(refusal.message)
        else:
            named = {item.id: item for item in items}
            results = [
                BulkResult(
                    named[one.review_id],
                    one.refused is None,
                    sentence(one.refused.message) if one.refused else SAID[verb],
                )
                for one in found
                if one.review_id in named
            ]
            return render(request, "reviews/bulk_done.html", {"results": results})
    return render(
        request, "reviews/bulk.html", {**known, "wrong": wrong, "picked": verb, "message": message}, status=422
    )


def _list_left_out(items: Sequence[ReviewView]) -> list[LeftOutReview]:
    """Return the reviews that take no answer, with reasons. They are closed or expired, or an answer is on its way to
    the run.
    """
    now, waiting = store_now(), answers_waiting(items)
    why = {item.id: takes_none(item, waiting.get(item.id), now) if item.open else CLOSED for item in items}
    return [LeftOutReview(item, sentence(why[item.id])) for item in items if why[item.id]]


def bulk_problem(items: Sequence[ReviewView], left_out: Sequence[LeftOutReview] = ()) -> str:
    """Return why these reviews cannot be answered together; empty if they can.

    The page shows it before an answer is written. The service checks again.
    """
    if not items and left_out:
        return "none of these accepts an answer any more: reload the list"
    if not items:
        return "nothing is picked: tick some reviews in the list first"
    if any(item.tier == Tier.HIGH_STAKES for item in items):
        return "one of these is high-stakes: decide it on its own page"
    if len({(item.fabric_name, item.item, item.stage) for item in items}) > 1:
        return "these are not alike: pick reviews of one fabric, one kind and one stage"
    return ""


def _verbs(items: Sequence[ReviewView]) -> list[tuple[str, str, str, str]]:
    """Return the answers that all of the reviews take: verb, word, icon and consequence."""
    shared = [verb for verb in WORDS if verb in VERBS and items and all(verb in item.verbs for item in items)]
    return [(verb, *_describe(items, verb)) for verb in shared]


def _describe(items: Sequence[ReviewView], verb: str) -> tuple[str, str, str]:
    """Return a verb's word, icon and consequence."""
    icon, _, otherwise = WORDS[verb]
    words = {name_act(item, verb) for item in items}
    word = words.pop() if len(words) == 1 else verb.capitalize()
    return word, icon, str(items[0].content.get(verb) or otherwise)


def _wrong(items: Sequence[ReviewView], verb: str, message: str) -> str:
    if verb not in {one[0] for one in _verbs(items)}:
        return "Pick an answer."
    if verb in ("respond", "decline", "reject") and not message:
        return "Say why in the message: it is kept with each run."
    return ""


def _parse_picked(given: Sequence[str]) -> list[BulkItem]:
    """Return the ``id:digest`` pairs of the form. Invalid ones are ignored, and duplicates count once."""
    pairs = dict(one[:200].partition(":")[::2] for one in given[:BULK_MAX])
    return [BulkItem(name, digest) for name, digest in pairs.items() if name and digest]
