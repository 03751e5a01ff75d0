"""Assignments of reviews: their holders, and the people who look at them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from django.db.models import F

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.models import ReviewAssignment, ReviewViewer
from fabric.selectors.database_time import StoreNow

VIEWER_S = 150
"""Seconds after a page's last heartbeat in which it counts as open: two of them may be lost."""
VIEWERS_MAX = 20
OPENED_S = 86_400
"""Seconds for which it is known that a person opened a review's page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentView:
    """An assignment as it was read. Instants are microseconds since the epoch, on the database's clock."""

    review_id: str
    holder: str
    """Present or last holder of the review; empty: it was released."""
    lease: int
    """Number of this change of holder: a heartbeat and a release name it."""
    claimed_at: int
    lease_until: int
    assigned_by: str = ""
    """Person who handed it to the holder; empty: the holder claimed it."""
    taken_from: str = ""
    """Earlier holder whose lease lapsed, or whose answer released it; empty: there was none."""
    role: str = ""
    """Role that it was handed to; empty: none."""
    read_at: int
    """Time of this view."""

    @property
    def live(self) -> bool:
        """Return True while it keeps others from the review."""
        return bool(self.holder) and self.lease_until > self.read_at

    @property
    def lapsed(self) -> bool:
        """Return True if the lease ran out without a release: anyone asked may take over."""
        return bool(self.holder) and not self.live

    @property
    def left_s(self) -> int:
        """Seconds until others may take it over; 0: they may."""
        return max(0, -(-(self.lease_until - self.read_at) // US)) if self.live else 0

    def is_of(self, name: str) -> bool:
        """Return True while that person has the review."""
        return self.live and self.holder == name

    def hinders(self, name: str) -> bool:
        """Return True while another person has the review."""
        return self.live and self.holder != name


_COLUMNS = ("holder", "lease", "claimed_at", "lease_until", "assigned_by", "taken_from", "role")


def map_assignments(actor: Actor, review_ids: Collection[str]) -> Mapping[str, AssignmentView]:
    """Return the assignments of these reviews by review id: live, lapsed and released. A review that was never
    assigned is left out.
    """
    if not review_ids:
        return {}
    rows = ReviewAssignment.objects.filter(workspace_id=actor.workspace_id, review__in=list(review_ids))
    found = rows.annotate(read_at=StoreNow(), review_id=F("review"))
    return {row["review_id"]: AssignmentView(**row) for row in found.values("review_id", "read_at", *_COLUMNS)}


def find_assignment(actor: Actor, review_id: str) -> AssignmentView | None:
    """Return the assignment of one review; None: it was never assigned."""
    named = clean_text(review_id)[0]
    return map_assignments(actor, [named]).get(named)


def list_viewers(actor: Actor, review_id: str) -> tuple[str, ...]:
    """Return the other people with that review's page open, by name; at most 20."""
    rows = ReviewViewer.objects.filter(workspace_id=actor.workspace_id, review=clean_text(review_id)[0])
    seen = rows.filter(seen_at__gt=StoreNow() - VIEWER_S * US).exclude(name=actor.name)
    return tuple(seen.order_by("name").values_list("name", flat=True)[:VIEWERS_MAX])


def opened_by(actor: Actor, review_ids: Collection[str]) -> frozenset[str]:
    """Return those of the reviews whose page the actor opened in the last day, as far as its heartbeat came."""
    rows = ReviewViewer.objects.filter(workspace_id=actor.workspace_id, review__in=list(review_ids), name=actor.name)
    return frozenset(rows.values_list("review", flat=True))
