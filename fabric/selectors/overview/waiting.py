"""Acts that wait for one person: reviews to answer and changes to approve."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.people.actor import Actor
from fabric.selectors.drafts.change_requests import ChangeToApprove, changes_to_approve, changes_to_approve_count
from fabric.selectors.reviews.queue import ReviewCount, reviews_waiting, reviews_waiting_count


@dataclass(frozen=True, slots=True)
class WaitingForPerson:
    """Acts that wait for one person."""

    reviews: ReviewCount
    changes: tuple[ChangeToApprove, ...] = ()

    @property
    def any(self) -> bool:
        """Return True if something waits."""
        return bool(self.reviews.n or self.changes)


def waiting_for(actor: Actor) -> WaitingForPerson:
    """Return the reviews and changes that wait for this person. Two statements."""
    return WaitingForPerson(reviews_waiting(actor), tuple(changes_to_approve(actor)))


def waiting_count(actor: Actor, most: int) -> int:
    """Return the number of reviews and changes that wait for this person, at most ``most``. Two statements."""
    return min(most, reviews_waiting_count(actor, most) + changes_to_approve_count(actor, most))
