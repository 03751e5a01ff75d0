"""Acts that wait for one person: reviews to answer and changes to approve."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.selectors.drafts.change_requests import ChangeToApprove, changes_to_approve, changes_to_approve_count
from fabric.selectors.reviews.queue import ReviewCount, reviews_waiting_count, waiting_by_kind

NONE = ReviewCount(0)


@dataclass(frozen=True, slots=True)
class WaitingForPerson:
    """Acts that wait for one person."""

    reviews: ReviewCount
    changes: tuple[ChangeToApprove, ...] = ()
    follow_ups: ReviewCount = NONE

    @property
    def any(self) -> bool:
        """Return True if something waits."""
        return bool(self.reviews.n or self.follow_ups.n or self.changes)


def waiting_for(actor: Actor) -> WaitingForPerson:
    """Return the reviews, follow-ups and changes that wait for this person. Two statements."""
    reviews, follow_ups = waiting_by_kind(actor)
    return WaitingForPerson(reviews, tuple(changes_to_approve(actor)), follow_ups)


def waiting_count(actor: Actor, most: int) -> int:
    """Return the number of reviews, follow-ups and changes that wait for this person, at most ``most``. Two
    statements.
    """
    return min(most, reviews_waiting_count(actor, most) + changes_to_approve_count(actor, most))
