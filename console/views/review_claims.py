"""Having a question in hand: taking it, letting it go, handing it on; and the sign of life of an open page."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from console.access import actor_of
from console.forms import sentence
from console.views.review_filter import QUEUE
from fabric.core.actor import Actor
from fabric.selectors.errors import Refused
from fabric.selectors.escalations import EscalationView, escalation_get
from fabric.selectors.review_asked import may_answer
from fabric.selectors.review_claims import ClaimView, claim_of, viewers_of
from fabric.services.claims import (
    review_claim,
    review_claim_next,
    review_heartbeat,
    review_reassign,
    review_release,
)

NAME_CHARS_MAX = 200


@require_POST
def claim(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Take the question in hand; from somebody whose lease has lapsed, it is taken over, and that is said."""
    actor = actor_of(request.user)

    def act() -> str:
        taken = review_claim(actor=actor, escalation_id=escalation_id).claim
        return f"You took it over from {taken.taken_from}." if taken.taken_from else ""

    return _then(request, actor, escalation_id, act)


@require_POST
def release(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Let it go."""
    actor = actor_of(request.user)

    def act() -> str:
        let_go = review_release(actor=actor, escalation_id=escalation_id, lease=lease_of(request))
        return "" if let_go else "It was not in your hand any more."

    return _then(request, actor, escalation_id, act)


@require_POST
def reassign(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """Hand it to somebody else."""
    actor, to = actor_of(request.user), request.POST.get("to", "")[:NAME_CHARS_MAX]

    def act() -> str:
        return f"It is in {review_reassign(actor=actor, escalation_id=escalation_id, to=to).claim.holder}'s hand now."

    return _then(request, actor, escalation_id, act)


@require_POST
def claim_next(request: HttpRequest) -> HttpResponse:
    """Take the next question that nobody has, due first, of those that the filter asks for."""
    actor = actor_of(request.user)
    try:
        taken = review_claim_next(actor=actor, wanted=QUEUE.read(request.POST).wanted())
    except Refused as refusal:
        if refusal.code == "invalid":
            raise
        messages.warning(request, sentence(refusal.message))
        return redirect("reviews")
    if taken is None:
        messages.info(request, "Nothing is free for you: what waits is in others' hands, or nobody asks you.")
        return redirect("reviews")
    return redirect("review", escalation_id=taken.claim.escalation_id)


@require_POST
def beat(request: HttpRequest, escalation_id: str) -> HttpResponse:
    """The sign of life of an open page: who has the question by now, who else looks at it, and whether it still waits as it did."""
    actor, lease = actor_of(request.user), lease_of(request)
    found = review_heartbeat(actor=actor, escalation_id=escalation_id, lease=lease)
    item = escalation_get(actor, escalation_id)
    known = hand_of(actor, item, found.claim, found.viewers, lost=lease if lease and not found.kept else 0)
    return render(request, "reviews/hand.html", {**known, "moved": _moved(request, item)})


def hand_of(
    actor: Actor, item: EscalationView, held: ClaimView | None, viewers: tuple[str, ...], *, lost: int = 0
) -> dict[str, Any]:
    """What the page says of who has a question in hand. ``lost``: the number of the lease that the page had, and has no more; 0: none."""
    return {
        "question": item,
        "claim": held,
        "viewers": viewers,
        "me": actor.name,
        "may": may_answer(item, actor),
        "lost": lost,
        "standing": standing(item),
        "now_ms": time.time_ns() // 1_000_000,
    }


def lease_of(request: HttpRequest) -> int:
    """The number of the lease that the page has; 0: none."""
    given = request.POST.get("lease", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0


def standing(item: EscalationView) -> str:
    """How a question stands: all of it is on its page, so that a page with another one is out of date."""
    return f"{item.digest[:12]}-{item.verb or 'open'}-{len(item.agreed)}"


def _moved(request: HttpRequest, item: EscalationView) -> bool:
    return request.POST.get("standing", "") not in ("", standing(item))


def _then(request: HttpRequest, actor: Actor, escalation_id: str, act: Callable[[], str]) -> HttpResponse:
    """Does it. The page's script gets the part that says who has it, so that nothing that was written is lost; without it, the page."""
    refused = ""
    try:
        said = act()
    except Refused as refusal:
        if refusal.code not in ("conflict", "forbidden", "invalid"):
            raise
        said, refused = "", sentence(refusal.message)
    if request.headers.get("HX-Request"):
        item = escalation_get(actor, escalation_id)
        known = hand_of(actor, item, claim_of(actor, item.id), viewers_of(actor, item.id))
        known |= {"said": said, "refused": refused, "moved": _moved(request, item)}
        return render(request, "reviews/hand.html", known)
    if refused:
        messages.warning(request, refused)
    elif said:
        messages.success(request, said)
    return redirect("review", escalation_id=escalation_id)
