"""Tells whether reviews were answered in time: one condition for each outcome. They exclude each other, and together
are all reviews but withdrawn ones and follow-ups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Case, F, Q, QuerySet, Value, When

from fabric.models import Review
from fabric.models.reviews import FOLLOW_UP, WITHDRAWN
from fabric.selectors.database_time import StoreNow

PUNCTUALITY: Mapping[str, Q] = {
    "in_time": Q(by_system=False, decided_at__lte=F("due_at")),
    "late": Q(by_system=False, decided_at__gt=F("due_at")),
    "expired": Q(by_system=True, decided_at__isnull=False),
    "overdue": Q(decided_at__isnull=True, due_at__lt=StoreNow()),
    "waiting": Q(decided_at__isnull=True, due_at__gte=StoreNow()),
}
"""Condition of each outcome."""


def find_timed_reviews() -> QuerySet[Review, Any]:
    """Return the reviews that people have to answer in time."""
    return Review.objects.exclude(item=FOLLOW_UP).exclude(verb=WITHDRAWN).order_by()


def name_punctuality() -> Case:
    """Return the column with the outcome of a review."""
    return Case(*(When(asked, then=Value(name)) for name, asked in PUNCTUALITY.items()))
