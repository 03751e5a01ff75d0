"""Answering several questions that are alike at one go: first what would be answered, then what came of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from console.access import actor_of
from console.forms import sentence
from console.views.questions import SAID
from console.views.review_follows import WORDS
from fabric import wiring
from fabric.core.taxonomy import Tier
from fabric.selectors.answers import answers_waiting
from fabric.selectors.asked_about import AskedAbout, asked_about
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalations_named
from fabric.selectors.review_lateness import takes_none
from fabric.selectors.store_time import store_now
from fabric.services.bulk_decisions import BULK_MAX, VERBS, BulkItem, escalations_decide


@dataclass(frozen=True, slots=True)
class Shown:
    """One of the questions as it is shown now: the answer is bound to that content."""

    question: EscalationView
    about: AskedAbout
    changed: bool
    """True: it asks about something else than when it was picked."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """One of them that takes no answer any more."""

    question: EscalationView
    why: str


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one of them."""

    question: EscalationView
    done: bool
    says: str


CLOSED = "it is answered already"


@require_POST
def together(request: HttpRequest) -> HttpResponse:
    """Shows the whole questions with the consequences of the answer; then, with ``sure``, answers them. Each answer is bound to the content shown."""
    actor = actor_of(request.user)
    picked = _picked(request.POST.getlist("item"))
    digests = {one.escalation_id: one.digest for one in picked}
    items = escalations_named(actor, list(digests))
    left_out = _left_out(items)
    closed = {one.question.id for one in left_out}
    waiting = [item for item in items if item.id not in closed]
    problem = bulk_problem(waiting, left_out)
    known = {
        "items": [Shown(item, asked_about(item), item.digest != digests[item.id]) for item in waiting],
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
            found = escalations_decide(**ports, actor=actor, items=picked, verb=verb, message=message, undo=True)  # type: ignore[arg-type]
        except Refused as refusal:
            wrong = sentence(refusal.message)
        else:
            named = {item.id: item for item in items}
            results = [
                Result(
                    named[one.escalation_id],
                    one.refused is None,
                    sentence(one.refused.message) if one.refused else SAID[verb],
                )
                for one in found
                if one.escalation_id in named
            ]
            return render(request, "reviews/bulk_done.html", {"results": results})
    return render(
        request, "reviews/bulk.html", {**known, "wrong": wrong, "picked": verb, "message": message}, status=422
    )


def _left_out(items: Sequence[EscalationView]) -> list[LeftOut]:
    """Those that are closed, those whose answer is on its way to its run, and those whose time is over, each with its reason."""
    now, waiting = store_now(), answers_waiting(items)
    why = {item.id: takes_none(item, waiting.get(item.id), now) if item.open else CLOSED for item in items}
    return [LeftOut(item, sentence(why[item.id])) for item in items if why[item.id]]


def bulk_problem(items: Sequence[EscalationView], left_out: Sequence[LeftOut] = ()) -> str:
    """Why those questions cannot be answered together, said before anybody writes an answer; empty when they can. The service asks again."""
    if not items and left_out:
        return "none of these takes an answer any more: load the list again"
    if not items:
        return "nothing is picked: tick some questions in the list first"
    if any(item.tier == Tier.HIGH_STAKES for item in items):
        return "one of these is high-stakes: each of those is answered by itself"
    if len({(item.fabric_name, item.item, item.stage) for item in items}) > 1:
        return "these are not alike: pick questions of one fabric, one kind and one stage"
    return ""


def _verbs(items: Sequence[EscalationView]) -> list[tuple[str, str, str, str]]:
    """What all of them take: the verb, its word and icon, and what follows."""
    shared = [verb for verb in WORDS if verb in VERBS and items and all(verb in item.verbs for item in items)]
    return [(verb, *WORDS[verb][:2], str(items[0].content.get(verb) or WORDS[verb][3])) for verb in shared]


def _wrong(items: Sequence[EscalationView], verb: str, message: str) -> str:
    if verb not in {one[0] for one in _verbs(items)}:
        return "Pick an answer."
    if verb in ("respond", "decline", "reject") and not message:
        return "Say why in the message: it is kept with each run."
    return ""


def _picked(given: Sequence[str]) -> list[BulkItem]:
    """``id:digest`` of each; anything else is passed over, and what is picked twice counts once."""
    pairs = dict(one[:200].partition(":")[::2] for one in given[:BULK_MAX])
    return [BulkItem(name, digest) for name, digest in pairs.items() if name and digest]
