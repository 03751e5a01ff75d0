"""Finds the reviews that a person has snoozed, while they are as they were then."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Subquery

from fabric.core.people.actor import Actor
from fabric.models import Review, ReviewSnooze
from fabric.selectors.database_time import StoreNow
from fabric.selectors.reach import match_visible

COMPARED = ("digest", "agreed", "reminded", "onward")
"""Columns of a review whose change ends a snooze."""


def match_snoozed(actor: Actor) -> Exists:
    """Return the condition on reviews that are hidden from the actor's own list now."""
    rows = ReviewSnooze.objects.filter(review=OuterRef("id"), name=actor.name, until_at__gt=StoreNow())
    return Exists(rows.filter(**{name: OuterRef(name) for name in COMPARED}))


def snoozed_until(actor: Actor, review_id: str) -> int | None:
    """Return the instant until which the actor has snoozed a review, microseconds since the epoch; None: it shows."""
    until = ReviewSnooze.objects.filter(review=OuterRef("id"), name=actor.name).values("until_at")[:1]
    rows = Review.objects.filter(match_visible(actor, Review), match_snoozed(actor), id=review_id)
    return rows.annotate(until=Subquery(until)).values_list("until", flat=True).first()
