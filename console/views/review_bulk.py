"""Answering several questions at once: of one fabric, kind and stage, never in high-stakes, never an edit. Each gets an answer of its own."""

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
from fabric.core.policy import UNDO_S
from fabric.core.taxonomy import Tier
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalations_named
from fabric.services.escalations import MESSAGE_CHARS_MAX, escalation_decide

TOGETHER_MAX = 50
"""Questions that are answered at once."""
VERBS = ("approve", "respond", "reject")
"""What may be answered to several: an edit is of one alone."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one of them."""

    question: EscalationView
    done: bool
    says: str


@require_POST
def together(request: HttpRequest) -> HttpResponse:
    """First what would be answered, with what follows; then, with ``sure``, the answers. Each is bound to what was shown of its question."""
    actor = actor_of(request.user)
    digests = _picked(request.POST.getlist("item"))
    items = escalations_named(actor, list(digests))
    problem = bulk_problem(items) or ("" if len(items) == len(digests) else "some of these are not here any more")
    verbs = _verbs(items)
    known = {"items": items, "digests": digests, "problem": sentence(problem) if problem else "", "verbs": verbs}
    verb, message = request.POST.get("verb", ""), request.POST.get("message", "").strip()
    if problem or not request.POST.get("sure"):
        return render(request, "reviews/bulk.html", known, status=422 if problem else 200)
    wrong = _wrong(verb, message, [one[0] for one in verbs])
    if wrong:
        known |= {"wrong": wrong, "picked": verb, "message": message}
        return render(request, "reviews/bulk.html", known, status=422)
    results = []
    for item in items:
        try:
            escalation_decide(
                store=wiring.store(),
                nudge=wiring.nudge(),
                actor=actor,
                escalation_id=item.id,
                verb=verb,
                message=message,
                digest=digests[item.id],
                undo_s=UNDO_S[Tier(item.tier)],
            )
            results.append(Result(item, done=True, says=SAID[verb]))
        except Refused as refusal:
            results.append(Result(item, done=False, says=sentence(refusal.message)))
    return render(request, "reviews/bulk_done.html", {"results": results, "verb": SAID[verb]})


def bulk_problem(items: Sequence[EscalationView]) -> str:
    """Why those questions cannot be answered together, one sentence; empty when they can."""
    if not items:
        return "nothing is picked: tick some questions in the list first"
    if any(not item.open for item in items):
        return "one of these is answered already: load the list again"
    if any(item.tier == Tier.HIGH_STAKES for item in items):
        return "one of these is high-stakes: each of those is answered by itself"
    if len({(item.fabric_name, item.item, item.stage) for item in items}) > 1:
        return "these are not alike: pick questions of one fabric, one kind and one stage"
    return ""


def _verbs(items: Sequence[EscalationView]) -> list[tuple[str, str, str, str]]:
    """What all of them take: the verb, its word and icon, and what follows."""
    shared = [verb for verb in VERBS if items and all(verb in item.verbs for item in items)]
    return [(verb, *WORDS[verb][:2], str(items[0].content.get(verb) or WORDS[verb][3])) for verb in shared]


def _wrong(verb: str, message: str, offered: Sequence[str]) -> str:
    if verb not in offered:
        return "Pick an answer."
    if verb in ("reject", "respond") and not message:
        return "Say why in the message: it is kept with each run."
    if len(message) > MESSAGE_CHARS_MAX:
        return f"The message has {len(message):,} characters; at most {MESSAGE_CHARS_MAX:,} are taken: make it shorter."
    return ""


def _picked(given: Sequence[str]) -> dict[str, str]:
    """``id:digest`` of each; anything else is passed over."""
    pairs = (one[:200].partition(":") for one in given[:TOGETHER_MAX])
    return {name: digest for name, _, digest in pairs if name and digest}
