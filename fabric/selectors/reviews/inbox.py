"""Reads one person's inbox: what waits for them, comments that mention them, and reviews handed to them."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import StrIndex
from django.db.models.lookups import GreaterThan

from fabric.core.people.actor import Actor
from fabric.core.people.roles import AT
from fabric.models import InboxSeen, Review, ReviewAssignment, ReviewComment
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.reach import match_visible
from fabric.selectors.reviews.comments import CommentView, build_comment_view
from fabric.selectors.reviews.lookup import list_views
from fabric.selectors.reviews.queue import match_waiting_follow_ups, match_waiting_reviews
from fabric.selectors.reviews.review_view import ReviewView

SHOWN_MAX = 50
"""Entries of each kind."""
NEW_MAX = 99
"""Limit of the count of new entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEntry:
    """One review in the inbox, with the reason why it is there."""

    review: ReviewView
    at: int
    """Instant at which it came, microseconds since the epoch, UTC."""
    new: bool
    """True if it came since the person last marked their inbox as seen."""
    by: str = ""
    """Person who commented, or handed it over; empty: the run asks."""
    role: str = ""
    """Role that it was handed to; empty: it was handed to the person."""
    comment: CommentView | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inbox:
    """The inbox of one person; each list at most ``SHOWN_MAX``, the newest first."""

    waiting: tuple[InboxEntry, ...]
    """Reviews and follow-ups that the person may deal with, without those that others have or that are snoozed."""
    mentions: tuple[InboxEntry, ...]
    assigned: tuple[InboxEntry, ...]
    seen_at: int
    """Instant at which it was marked as seen; 0: never."""

    @property
    def empty(self) -> bool:
        """Return True if there is nothing in it."""
        return not (self.waiting or self.mentions or self.assigned)

    @property
    def new(self) -> int:
        """Return the number of reviews with something new. A review counts once."""
        return len({one.review.id for one in (*self.waiting, *self.mentions, *self.assigned) if one.new})


def read_inbox(actor: Actor) -> Inbox:
    """Return the actor's inbox. At most seven statements."""
    seen_at = find_seen_at(actor)
    rows = Review.objects.filter(match_visible(actor, Review))
    waiting = list_views(actor, rows.filter(match_waiting_reviews(actor)).order_by("-opened_at", "id"), SHOWN_MAX)
    waiting += list_views(actor, rows.filter(match_waiting_follow_ups(actor)).order_by("-opened_at", "id"), SHOWN_MAX)
    waiting = sorted(waiting, key=lambda one: one.opened_at, reverse=True)[:SHOWN_MAX]
    comments = list(_query_mentions(actor).order_by("-at")[:SHOWN_MAX])
    handed = list(_query_handed(actor).order_by("-claimed_at")[:SHOWN_MAX])
    named = rows.filter(id__in={one.review for one in comments} | {one.review for one in handed})
    views = {one.id: one for one in list_views(actor, named)}
    return Inbox(
        waiting=tuple(InboxEntry(review=one, at=one.opened_at, new=one.opened_at > seen_at) for one in waiting),
        mentions=tuple(_mention(one, views[one.review], seen_at) for one in comments if one.review in views),
        assigned=tuple(
            _handed(one, views[one.review], seen_at)
            for one in handed
            if one.review in views and (views[one.review].open or views[one.review].follow_up)
        ),
        seen_at=seen_at,
    )


def count_new(actor: Actor) -> int:
    """Return the number of reviews with something new for the actor, at most ``NEW_MAX``. Four statements."""
    seen_at = find_seen_at(actor)
    rows = Review.objects.filter(match_visible(actor, Review))
    fresh = Q(opened_at__gt=seen_at) & (match_waiting_reviews(actor) | match_waiting_follow_ups(actor))
    found = set(rows.filter(fresh).values_list("id", flat=True)[:NEW_MAX])
    found |= set(_query_mentions(actor).filter(at__gt=seen_at).values_list("review", flat=True)[:NEW_MAX])
    found |= set(_query_handed(actor).filter(claimed_at__gt=seen_at).values_list("review", flat=True)[:NEW_MAX])
    return min(len(found), NEW_MAX)


def find_seen_at(actor: Actor) -> int:
    """Return the instant at which the actor last marked their inbox as seen; 0: never."""
    rows = InboxSeen.objects.filter(workspace_id=actor.workspace_id, name=actor.name)
    return rows.values_list("seen_at", flat=True).first() or 0


def _mention(row: ReviewComment, item: ReviewView, seen_at: int) -> InboxEntry:
    comment = build_comment_view(row, reads=item.reads)
    return InboxEntry(review=item, at=row.at, new=row.at > seen_at, by=row.author, comment=comment)


def _handed(row: ReviewAssignment, item: ReviewView, seen_at: int) -> InboxEntry:
    new = row.claimed_at > seen_at
    return InboxEntry(review=item, at=row.claimed_at, new=new, by=row.assigned_by, role="" if row.holder else row.role)


def _visible_ids(actor: Actor) -> Q:
    """Return the condition on rows whose review the actor sees; empty for actors who see every fabric."""
    seen = Review.objects.filter(match_visible(actor, Review)).values("id")
    return Q(review__in=seen) if actor.narrow else Q()


def _query_mentions(actor: Actor) -> QuerySet[ReviewComment]:
    named = GreaterThan(StrIndex(F("mentions"), Value(names_text([actor.name]))), 0)
    rows = ReviewComment.objects.filter(named, _visible_ids(actor), workspace_id=actor.workspace_id)
    return rows.exclude(author=actor.name)


def _query_handed(actor: Actor) -> QuerySet[ReviewAssignment]:
    """Return the assignments by other people: to the actor, or to a role of theirs and unclaimed."""
    mine = Q(holder=actor.name) | Q(
        holder="", role__in=sorted(word.partition(AT)[0] for word in actor.held or actor.roles)
    )
    rows = ReviewAssignment.objects.filter(mine, _visible_ids(actor), workspace_id=actor.workspace_id)
    return rows.exclude(assigned_by__in=("", actor.name))
