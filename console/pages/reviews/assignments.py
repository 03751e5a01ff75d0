"""Claims reviews, releases them and hands them on.

The parameters of the review queue, and their words, are here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.pages.lists.grammar import Grammar, ListField
from console.pages.reviews.following import follow_review, read_lease, render_hand
from console.site.access.actors import find_actor
from console.site.sentences import sentence
from console.templatetags.marks import FAILURES, ITEMS, TIERS, spell_name
from fabric.core.people.actor import Actor
from fabric.core.values.flow import Stage
from fabric.selectors.errors import Refused
from fabric.selectors.reviews.assignments import find_assignment
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import QueueFilter, Tab
from fabric.services.reviews.assignments import (
    review_assign_to_role,
    review_claim,
    review_claim_next,
    review_reassign,
    review_release,
)

NAME_CHARS_MAX = 200
ROLE = "role:"
"""Beginning of a choice that is a role. No member's name has a colon."""


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
    """Hand the review to another person, or to a role."""
    actor, to = find_actor(request.user), request.POST.get("to", "")[:NAME_CHARS_MAX]

    def act() -> str:
        if to.startswith(ROLE):
            review_assign_to_role(actor=actor, review_id=review_id, role=to.removeprefix(ROLE))
            return f"It is assigned to the role {to.removeprefix(ROLE)} now."
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
        found = follow_review(actor, item, find_assignment(actor, item.id))
        return render_hand(request, actor, found, said=said, refused=refused)
    if refused:
        messages.warning(request, refused)
    elif said:
        messages.success(request, said)
    return redirect("review", review_id=review_id)


TABS: Mapping[Tab, str] = {
    Tab.YOURS: "For you",
    Tab.MINE: "Claimed by you",
    Tab.UNCLAIMED: "Unclaimed",
    Tab.OPEN: "All open",
    Tab.SECOND: "Waiting for a second person",
    Tab.FOLLOW_UPS: "Follow-ups",
    Tab.DECIDED: "Decided",
}
"""Words of the tabs, in their order; total by test."""
QUEUE = Grammar(
    route="reviews",
    makes=QueueFilter,
    usual=Tab.YOURS.value,
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
