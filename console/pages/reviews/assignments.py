"""Claims reviews, releases them and hands them on; records that a page is open.

The parameters of the review queue, and their words, are here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from console.pages.lists.grammar import Grammar, ListField
from console.site.access.actors import find_actor
from console.site.sentences import sentence
from console.templatetags.marks import FAILURES, ITEMS, TIERS, spell_name
from fabric.core.people.actor import Actor
from fabric.core.values.flow import Stage
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.assignments import AssignmentView, find_assignment, list_viewers
from fabric.selectors.reviews.eligibility import may_answer
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import QueueFilter, Tab
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.reviews.assignments import (
    review_claim,
    review_claim_next,
    review_heartbeat,
    review_reassign,
    review_release,
)

NAME_CHARS_MAX = 200


@require_POST
def claim(request: HttpRequest, review_id: str) -> HttpResponse:
    """Claim the review. An assignment whose lease has lapsed is taken over, and the page says so."""
    actor = find_actor(request.user)

    def act() -> str:
        taken = review_claim(actor=actor, review_id=review_id).assignment
        return f"You took it over from {taken.taken_from}." if taken.taken_from else ""

    return _then(request, actor, review_id, act)


@require_POST
def release(request: HttpRequest, review_id: str) -> HttpResponse:
    """Release the review."""
    actor = find_actor(request.user)

    def act() -> str:
        let_go = review_release(actor=actor, review_id=review_id, lease=read_lease(request))
        return "" if let_go else "It was no longer claimed by you."

    return _then(request, actor, review_id, act)


@require_POST
def reassign(request: HttpRequest, review_id: str) -> HttpResponse:
    """Hand the review to another person."""
    actor, to = find_actor(request.user), request.POST.get("to", "")[:NAME_CHARS_MAX]

    def act() -> str:
        return f"It is assigned to {review_reassign(actor=actor, review_id=review_id, to=to).assignment.holder} now."

    return _then(request, actor, review_id, act)


@require_POST
def claim_next(request: HttpRequest) -> HttpResponse:
    """Claim the next unclaimed review that matches the filter, earliest due time first."""
    actor = find_actor(request.user)
    try:
        taken = review_claim_next(actor=actor, wanted=QUEUE.read(request.POST).read_filter())
    except Refused as refusal:
        if refusal.code == "invalid":
            raise
        messages.warning(request, sentence(refusal.message))
        return redirect("reviews")
    if taken is None:
        messages.info(request, "No review is free for you: others claimed them, or they need other roles.")
        return redirect("reviews")
    return redirect("review", review_id=taken.assignment.review_id)


@require_POST
def beat(request: HttpRequest, review_id: str) -> HttpResponse:
    """Record that a page is open; return the assignee, other viewers, and whether the review still waits unchanged."""
    actor, lease = find_actor(request.user), read_lease(request)
    found = review_heartbeat(actor=actor, review_id=review_id, lease=lease)
    item = get_review(actor, review_id)
    known = build_hand(actor, item, found.assignment, found.viewers, lost=lease if lease and not found.kept else 0)
    return render(request, "reviews/hand.html", {**known, "moved": _has_moved(request, item)})


def build_hand(
    actor: Actor, item: ReviewView, held: AssignmentView | None, viewers: tuple[str, ...], *, lost: int = 0
) -> dict[str, Any]:
    """Return the context that shows who has claimed a review.

    ``lost``: number of the lease that the page had and lost; 0 for none.
    """
    return {
        "review": item,
        "assignment": held,
        "viewers": viewers,
        "me": actor.name,
        "may": may_answer(item, actor),
        "lost": lost,
        "standing": review_state(item),
        "now_ms": time.time_ns() // 1_000_000,
    }


def read_lease(request: HttpRequest) -> int:
    """Return the number of the lease that the page has; 0 for none."""
    given = request.POST.get("lease", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0


def review_state(item: ReviewView) -> str:
    """Return a digest of the review's state. It differs from the page's if the page is out of date."""
    return f"{item.digest[:12]}-{item.verb or 'open'}-{len(item.agreed)}"


def _has_moved(request: HttpRequest, item: ReviewView) -> bool:
    return request.POST.get("standing", "") not in ("", review_state(item))


def _then(request: HttpRequest, actor: Actor, review_id: str, act: Callable[[], str]) -> HttpResponse:
    """Carry out the act. The page's script gets the part that names the assignee, so that no input is lost."""
    refused = ""
    try:
        said = act()
    except Refused as refusal:
        if refusal.code not in ("conflict", "forbidden", "invalid"):
            raise
        said, refused = "", sentence(refusal.message)
    if request.headers.get("HX-Request"):
        item = get_review(actor, review_id)
        known = build_hand(actor, item, find_assignment(actor, item.id), list_viewers(actor, item.id))
        known |= {"said": said, "refused": refused, "moved": _has_moved(request, item)}
        return render(request, "reviews/hand.html", known)
    if refused:
        messages.warning(request, refused)
    elif said:
        messages.success(request, said)
    return redirect("review", review_id=review_id)


TABS: Mapping[Tab, str] = {
    Tab.MINE: "Mine",
    Tab.UNCLAIMED: "Unclaimed",
    Tab.OPEN: "Open",
    Tab.SECOND: "Waiting for a second person",
    Tab.FOLLOW_UPS: "Follow-ups",
    Tab.DECIDED: "Decided",
}
"""Words of the tabs, in their order; total by test."""
QUEUE = Grammar(
    route="reviews",
    makes=QueueFilter,
    usual=Tab.OPEN.value,
    choice=ListField("tab", "tab", tuple((tab.value, word) for tab, word in TABS.items())),
    fields=(
        ListField("text", "text", hint="text of the review or its run", place="search"),
        ListField("fabric", "fabric"),
        ListField("item", "kind", tuple(ITEMS.items())),
        ListField("tier", "tier", tuple(TIERS.items()), place="more"),
        ListField("stage", "stage", tuple((stage.value, spell_name(stage)) for stage in Stage), place="more"),
        ListField("failure", "failure", tuple(FAILURES.items()), place="more"),
        ListField("role", "asks", hint="a role or a name", place="more"),
    ),
)
