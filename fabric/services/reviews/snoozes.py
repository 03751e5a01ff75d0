"""Snoozes: a person hides a review from their own list until a time, or until something about it changes.

A snooze moves no due time, and hides the review from no other person.
"""

from __future__ import annotations

import time

from django.db import transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.values.words import instant
from fabric.models import Review, ReviewSnooze
from fabric.selectors.reviews.eligibility import may_answer, who_is_asked
from fabric.selectors.reviews.lookup import get_review
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.acts import audit_record
from fabric.services.errors import Refused


def review_snooze(*, actor: Actor, review_id: str, until: int) -> None:
    """Hide a review from the actor's own list. ``until``: microseconds since the epoch, UTC.

    Raises Refused: not_found, forbidden (no person, or not asked), conflict (it waits no more), invalid (the time is
    past, or the review is due before it).
    """
    item = get_review(actor, review_id)
    _asked(actor, item)
    if not item.open:
        raise Refused(f"review {item.id} waits no more, so it cannot be snoozed", code="conflict", field="review")
    if until <= time.time_ns() // 1_000:
        message = f"{instant(until)} is past: choose a later time"
        raise Refused(message, code="invalid", field="until")
    if until >= item.due_at:
        message = f"review {item.id} is due at {instant(item.due_at)}: choose an earlier time than that"
        raise Refused(message, code="invalid", field="until")
    with transaction.atomic():
        now = Review.objects.filter(id=item.id).values("digest", "agreed", "reminded", "onward").get()
        same = {"workspace_id": actor.workspace_id, "until_at": until, **now}
        ReviewSnooze.objects.update_or_create(review=item.id, name=actor.name, defaults=same)
        more = {"item": item.id, "until": instant(until)}
        audit_record(actor=actor, act=Act.REVIEW_SNOOZED, subject=item.run_id, **more)


def snooze_end(*, actor: Actor, review_id: str) -> bool:
    """Put a review back into the actor's list. Returns False if it was there. Raises Refused not_found."""
    item = get_review(actor, review_id)
    with transaction.atomic():
        ended = ReviewSnooze.objects.filter(review=item.id, name=actor.name).delete()[0]
        if ended:
            audit_record(actor=actor, act=Act.REVIEW_SNOOZE_ENDED, subject=item.run_id, item=item.id)
    return bool(ended)


def _asked(actor: Actor, item: ReviewView) -> None:
    if actor.kind != "person":
        message = f"{actor.name} is a {actor.kind} account, and only people snooze reviews: sign in as a person"
        raise Refused(message, code="forbidden", field="actor")
    if not may_answer(item, actor):
        message = f"{actor.name} is not asked about review {item.id}: it is for {who_is_asked(item)}"
        raise Refused(message, code="forbidden", field="actor")
