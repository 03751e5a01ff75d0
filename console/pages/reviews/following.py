"""Tells an open page of a review what became of it: answered, undone, ended, or claimed by another person.

Every second the page asks whether it still shows the review as it is. Only when it does not, it asks for the part that
says what is new.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST, require_safe

from console.site.access.actors import find_actor
from console.words.reviews import SAID
from fabric.core.people.actor import Actor
from fabric.selectors.reviews.answers import ReviewAnswer, SentAnswer, answers_sent, is_over
from fabric.selectors.reviews.assignments import AssignmentView, find_assignment, list_viewers
from fabric.selectors.reviews.eligibility import may_answer
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.queue import ClosureView, find_closure
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.reviews.assignments import review_heartbeat


@dataclass(frozen=True, slots=True)
class FollowedReview:
    """A review with what a page of it follows."""

    item: ReviewView
    assignment: AssignmentView | None
    sent: Sequence[SentAnswer]
    """Answers that were sent to it, in order."""
    closure: ClosureView | None
    late: bool
    """True if it is open and its time is over."""

    @property
    def answer(self) -> ReviewAnswer | None:
        """Return the answer that is on its way to the run."""
        last = self.sent[-1] if self.sent and self.item.open else None
        return last.review_answer if last is not None and last.fate == "waiting" else None

    @property
    def undone(self) -> ReviewAnswer | None:
        """Return the last answer, if its author withdrew it and the review is open."""
        last = self.sent[-1] if self.sent and self.item.open else None
        return last.review_answer if last is not None and last.fate == "taken_back" and last.decision else None

    @property
    def over(self) -> bool:
        """Return True if nothing of it can change."""
        return not self.item.open and (not self.item.follow_up or self.closure is not None)

    @property
    def standing(self) -> str:
        """Return a digest of what a form answers. A page with another one is out of date."""
        item, waits = self.item, self.sent[-1].input_id.rpartition(":")[2] if self.answer else ""
        ends = f"{item.verb or 'open'}{'-closed' if self.closure else ''}{'-late' if self.late else ''}"
        return f"{item.digest[:12]}-{ends}-{len(item.agreed)}-{waits}"

    @property
    def mark(self) -> str:
        """Return a digest of everything that the page follows."""
        hand = f"{self.assignment.lease}{'h' if self.assignment.live else 'f'}" if self.assignment else "0"
        return f"{self.standing}-{len(self.sent)}-{hand}"


def follow_review(
    actor: Actor, item: ReviewView, assignment: AssignmentView | None, sent: Sequence[SentAnswer] | None = None
) -> FollowedReview:
    """Return a review with what a page of it follows. ``sent``: its answers; None: they are read here."""
    return FollowedReview(
        item=item,
        assignment=assignment,
        sent=answers_sent(item) if sent is None else sent,
        closure=find_closure(actor, item.id) if item.follow_up else None,
        late=is_over(item, time.time_ns() // 1_000),
    )


@require_safe
def news(request: HttpRequest, review_id: str) -> HttpResponse:
    """Return 204 while a page shows the review as it is (``seen``), else an empty 200. Writes nothing."""
    actor = find_actor(request.user)
    item = get_review(actor, review_id)
    found = follow_review(actor, item, find_assignment(actor, item.id))
    same = request.GET.get("seen", "") == found.mark
    return HttpResponse(status=204 if same else 200, headers={"Now-Ms": str(time.time_ns() // 1_000_000)})


@require_POST
def beat(request: HttpRequest, review_id: str) -> HttpResponse:
    """Record that a page is open; return the assignee, other viewers, and what became of the review."""
    actor, lease = find_actor(request.user), read_lease(request)
    kept = review_heartbeat(actor=actor, review_id=review_id, lease=lease)
    found = follow_review(actor, get_review(actor, review_id), kept.assignment)
    return render_hand(request, actor, found, kept.viewers, lost=lease if lease and not kept.kept else 0)


def render_hand(
    request: HttpRequest,
    actor: Actor,
    found: FollowedReview,
    viewers: tuple[str, ...] | None = None,
    *,
    lost: int = 0,
    **said: str,
) -> HttpResponse:
    """Return the part of an open page that says who has the review, and what became of it since."""
    seen = list_viewers(actor, found.item.id) if viewers is None else viewers
    standing = request.POST.get("standing", "")[:STANDING_CHARS_MAX]
    known = build_hand(actor, found, seen, standing=standing, lost=lost)
    return render(request, "reviews/hand.html", {**known, **said})


STANDING_CHARS_MAX = 100


def build_hand(
    actor: Actor, found: FollowedReview, viewers: tuple[str, ...], *, standing: str = "", lost: int = 0
) -> dict[str, Any]:
    """Return the context that shows who has claimed a review, and what became of it.

    ``standing``: digest that the page's form was made with; empty: it is made now. ``lost``: number of the lease that
    the page had and lost; 0 for none.
    """
    return {
        "review": found.item,
        "assignment": found.assignment,
        "viewers": viewers,
        "me": actor.name,
        "may": may_answer(found.item, actor),
        "lost": lost,
        "found": found,
        "answer": found.answer,
        "undone": found.undone,
        "effect": SAID.get(found.answer.verb if found.answer else found.item.verb, found.item.verb),
        "standing": standing or found.standing,
        "moved": standing not in ("", found.standing),
        "now_ms": time.time_ns() // 1_000_000,
    }


def read_lease(request: HttpRequest) -> int:
    """Return the number of the lease that the page has; 0 for none."""
    given = request.POST.get("lease", "")
    return int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
