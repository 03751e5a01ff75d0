"""Reads the review queue by tabs: waiting reviews, due first; decided ones and closed follow-ups, the newest first."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.models import FollowUpClosure, Review, ReviewAssignment
from fabric.models.reviews import FOLLOW_UP, OPEN
from fabric.selectors.contents import line_for
from fabric.selectors.database_time import StoreNow, time_limit
from fabric.selectors.list_file import build_cursor_condition
from fabric.selectors.reach import match_visible, read_by
from fabric.selectors.reviews.answers import ReviewAnswer, answers_waiting, match_in_time, takes_none
from fabric.selectors.reviews.assignments import AssignmentView, map_assignments
from fabric.selectors.reviews.eligibility import asks, lets_pass, may_answer, why_not
from fabric.selectors.reviews.lookup import list_views
from fabric.selectors.reviews.review_view import ReviewView
from fabric.selectors.reviews.snoozes import match_snoozed


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureView:
    """Closing of a follow-up. Instants are microseconds since the epoch, UTC."""

    review_id: str
    closed_at: int
    closed_by: str
    note: str
    fork_run_id: str
    """Run that was started from it; empty: none."""


def map_closures(actor: Actor, review_ids: Collection[str]) -> Mapping[str, ClosureView]:
    """Return the closings of these follow-ups, by id; open ones are left out."""
    if not review_ids:
        return {}
    rows = FollowUpClosure.objects.filter(workspace_id=actor.workspace_id, review__in=list(review_ids))
    columns = ("review", "closed_at", "closed_by", "note", "fork_run_id")
    return {row[0]: ClosureView(**dict(zip(_FIELDS, row, strict=True))) for row in rows.values_list(*columns)}


_FIELDS = ("review_id", "closed_at", "closed_by", "note", "fork_run_id")


def mask_closure(closure: ClosureView | None, *, reads: bool) -> ClosureView | None:
    """Return the closing as a reader may see it: its note may quote the follow-up's content."""
    return None if closure is None else replace(closure, note=line_for(closure.note, reads=reads))


def find_closure(actor: Actor, review_id: str) -> ClosureView | None:
    """Return the closing of one follow-up; None: it is open."""
    return map_closures(actor, [review_id]).get(review_id)


PAGE_MAX = 200
COUNT_MAX = 999
"""Limit of the counts."""
LIMIT_S = 2.0
TEXT_CHARS_MAX = 200


class Tab(StrEnum):
    """Parts of the queue, in the order of their display."""

    YOURS = "yours"
    """The actor may answer them, and has not snoozed them."""
    MINE = "mine"
    """Assigned to the actor."""
    UNCLAIMED = "unclaimed"
    """Unassigned, and the actor may answer."""
    SECOND = "second"
    """One person has agreed, a second one is awaited."""
    OPEN = "open"
    """All reviews that wait for a person."""
    FOLLOW_UPS = "follow_ups"
    """Open follow-ups, which park nothing."""
    DECIDED = "decided"
    """Decided reviews, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFilter:
    """Filter of a tab; an empty field narrows nothing."""

    fabric: str = ""
    """A fabric's name."""
    tier: str = ""
    item: str = ""
    """Kind, such as ``failure`` or ``post_stage``."""
    stage: str = ""
    failure: str = ""
    """A failure type, a row of the decision table."""
    role: str = ""
    """Role or user's name that is asked."""
    holder: str = ""
    """Holder of the review; of decided ones, the author of the decision."""
    text: str = ""
    """Part of the reason or of the run's title, or the beginning of an id."""
    run: str = ""
    """A run's id."""

    @property
    def empty(self) -> bool:
        """Return True if the filter narrows nothing."""
        return self == QueueFilter()


ANY = QueueFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """A review as a row of the actor's queue."""

    review: ReviewView
    assignment: AssignmentView | None = None
    """Live, lapsed or released assignment; None: the review was never assigned."""
    may: bool = False
    """True if the actor may answer, with any verb."""
    why_not: str = ""
    """Reason why the actor may not approve it: their eligibility, an earlier answer, or the end of its time. Empty:
    they may.
    """
    answer: ReviewAnswer | None = None
    """Answer that is on its way to its run; None: there is none."""
    closure: ClosureView | None = None
    """Closing of a follow-up, with time and author."""

    @property
    def holder(self) -> str:
        """Return the present holder; empty: there is none."""
        return self.assignment.holder if self.assignment is not None and self.assignment.live else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Some rows of a tab, with the beginning of the next page."""

    rows: tuple[QueueRow, ...]
    next: str
    """Cursor of the next page; empty: this is the last."""


@dataclass(frozen=True, slots=True)
class ReviewCount:
    """Number of reviews, counted to ``COUNT_MAX``."""

    n: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.n}+" if self.more else str(self.n)


# -- pages -----------------------------------------------------------------------------------------------------------


def queue_page(actor: Actor, tab: Tab, wanted: QueueFilter = ANY, *, limit: int = 50, after: str = "") -> QueuePage:
    """Return a page of a tab: due first, decided reviews and follow-ups newest first. ``after``: the cursor of the page
    before.

    At most six statements. Raises Refused invalid for a bad cursor; TookTooLong.
    """
    limit = max(1, min(limit, PAGE_MAX))
    rows = _query_reviews(actor, tab, wanted)
    by = _ORDER[tab]
    if after:
        rows = rows.filter(build_cursor_condition(after, by))
    with time_limit(LIMIT_S):
        found = list_views(actor, rows.order_by(by, "id"), limit + 1)
    more, found = len(found) > limit, found[:limit]
    return QueuePage(rows=_rows(actor, found), next=_cursor(found[-1], by) if more else "")


def queue_rows(actor: Actor, reviews: Sequence[ReviewView]) -> tuple[QueueRow, ...]:
    """Return reviews that were read already as rows of the actor's queue, in their order."""
    return _rows(actor, reviews)


def _rows(actor: Actor, reviews: Sequence[ReviewView]) -> tuple[QueueRow, ...]:
    assignments = map_assignments(actor, [one.id for one in reviews if one.open or one.follow_up])
    closed = map_closures(actor, [one.id for one in reviews if one.follow_up])
    waiting = answers_waiting(reviews)
    now = time.time_ns() // 1_000  # As pages do: an answer is judged by the database's clock.
    return tuple(
        QueueRow(
            review=one,
            assignment=assignments.get(one.id),
            may=may_answer(one, actor),
            why_not=(takes_none(one, waiting.get(one.id), now) or why_not(one, actor)) if one.open else "",
            answer=waiting.get(one.id),
            closure=mask_closure(closed.get(one.id), reads=one.reads),
        )
        for one in reviews
    )


# -- counts ----------------------------------------------------------------------------------------------------------

COUNTED = (Tab.YOURS, Tab.MINE, Tab.UNCLAIMED, Tab.SECOND, Tab.OPEN, Tab.FOLLOW_UPS)
"""Counted tabs. Decided reviews are not counted: their number grows without end."""


def queue_counts(actor: Actor, wanted: QueueFilter = ANY) -> Mapping[Tab, ReviewCount]:
    """Return the count of each tab except the decided ones: one statement, besides those for the people asked.
    Raises TookTooLong.
    """
    with time_limit(LIMIT_S):
        found = _count_each([_query_reviews(actor, tab, wanted) for tab in COUNTED], COUNT_MAX + 1)
    return {tab: ReviewCount(min(n, COUNT_MAX), n > COUNT_MAX) for tab, n in zip(COUNTED, found, strict=True)}


def _count_each(several: Sequence[QuerySet[Review]], most: int) -> Sequence[int]:
    """Return the number of rows of each query, at most ``most``: one statement."""
    parts: list[str] = []
    params: list[Any] = []
    for rows in several:
        part, more = rows.order_by().values("id")[:most].query.sql_with_params()
        parts.append(f"(SELECT count(*) FROM ({part}) AS counted)")  # noqa: S608 - Django wrote the part.
        params += more
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", params)
        found: Sequence[int] = cursor.fetchone()
    return found


def reviews_waiting(actor: Actor) -> ReviewCount:
    """Return the number of reviews and follow-ups that wait for the actor (``reviews_waiting_count``)."""
    return _cap(reviews_waiting_count(actor, COUNT_MAX + 1))


def waiting_by_kind(actor: Actor) -> tuple[ReviewCount, ReviewCount]:
    """Return the number of reviews, and that of follow-ups, that wait for the actor. One statement."""
    reviews, follow_ups = _count_waiting(actor, COUNT_MAX + 1)
    return _cap(reviews), _cap(follow_ups)


def _cap(n: int) -> ReviewCount:
    return ReviewCount(min(n, COUNT_MAX), n > COUNT_MAX)


def _count_waiting(actor: Actor, most: int) -> Sequence[int]:
    rows = Review.objects.filter(match_visible(actor, Review))
    return _count_each([rows.filter(match_waiting_reviews(actor)), rows.filter(match_waiting_follow_ups(actor))], most)


def reviews_waiting_count(actor: Actor, most: int) -> int:
    """Return the number of open reviews and follow-ups that wait for the actor, at most ``most``. One statement.

    Those that another person has claimed, or that the actor has snoozed, are left out.
    """
    return min(sum(_count_waiting(actor, most)), most)


def match_waiting_reviews(actor: Actor) -> Q:
    """Return the condition on open reviews that wait for this person: in time, not snoozed, and not with another."""
    free = ~Q(_match_assigned(but=actor.name)) & ~Q(match_snoozed(actor))
    return OPEN & asks(actor) & lets_pass(actor) & match_in_time() & free


def match_waiting_follow_ups(actor: Actor) -> Q:
    """Return the condition on open follow-ups that ask this person, and that no other person has claimed."""
    return _follow_ups(actor) & asks(actor) & ~Q(_match_assigned(but=actor.name))


def next_for(actor: Actor, wanted: QueueFilter = ANY) -> QuerySet[Review]:
    """Return the open, unassigned reviews that a person may still answer in time, due first: ``review_claim_next``
    picks from them.
    """
    rows = _query_reviews(actor, Tab.UNCLAIMED, wanted)
    return rows.filter(lets_pass(actor), match_in_time(), ~Q(match_snoozed(actor))).order_by("due_at", "id")


def can_claim_next(actor: Actor, wanted: QueueFilter = ANY) -> bool:
    """Return True if ``review_claim_next`` has a review for this person."""
    return next_for(actor, wanted).exists()


# -- conditions ------------------------------------------------------------------------------------------------------


def _match_assigned(*, of: str = "", but: str = "") -> Exists:
    assignments = ReviewAssignment.objects.filter(review=OuterRef("id"), lease_until__gt=StoreNow()).exclude(holder="")
    assignments = assignments.filter(holder=of) if of else assignments.exclude(holder=but) if but else assignments
    return Exists(assignments)


def _mine(actor: Actor) -> Q:
    dealt_with = Exists(FollowUpClosure.objects.filter(review=OuterRef("id")))
    return Q(_match_assigned(of=actor.name)) & (OPEN | (Q(item=FOLLOW_UP) & ~Q(dealt_with)))


def _yours(actor: Actor) -> Q:
    return OPEN & asks(actor) & ~Q(match_snoozed(actor))


def _match_unclaimed(actor: Actor) -> Q:
    return OPEN & asks(actor) & ~Q(_match_assigned())


def _second(actor: Actor) -> Q:
    return OPEN & ~Q(agreed="")


def _open(actor: Actor) -> Q:
    return OPEN


def _follow_ups(actor: Actor) -> Q:
    return Q(item=FOLLOW_UP) & ~Q(Exists(FollowUpClosure.objects.filter(review=OuterRef("id"))))


def _decided_condition(actor: Actor) -> Q:
    return Q(decided_at__isnull=False) & ~Q(item=FOLLOW_UP)


_TABS: Mapping[Tab, Callable[[Actor], Q]] = {
    Tab.YOURS: _yours,
    Tab.MINE: _mine,
    Tab.UNCLAIMED: _match_unclaimed,
    Tab.SECOND: _second,
    Tab.OPEN: _open,
    Tab.FOLLOW_UPS: _follow_ups,
    Tab.DECIDED: _decided_condition,
}
"""Condition of each tab; a test shows that it is total."""
_ORDER: Mapping[Tab, str] = dict.fromkeys(Tab, "due_at") | {Tab.FOLLOW_UPS: "-opened_at", Tab.DECIDED: "-decided_at"}


def _query_reviews(actor: Actor, tab: Tab, wanted: QueueFilter) -> QuerySet[Review]:
    rows = Review.objects.filter(match_visible(actor, Review), _TABS[tab](actor))
    exact = {
        "run__fabric__name": wanted.fabric,
        "run__tier": wanted.tier,
        "item": wanted.item,
        "stage": wanted.stage,
        "failure_type": wanted.failure,
        "required_role": wanted.role,
        "run_id": wanted.run,
    }
    rows = rows.filter(**{name: clean_text(given)[0] for name, given in exact.items() if given})
    if wanted.holder:
        holder = clean_text(wanted.holder)[0]
        rows = rows.filter(decided_by=holder) if tab is Tab.DECIDED else rows.filter(_match_assigned(of=holder))
    if text := clean_text(wanted.text)[0].strip()[:TEXT_CHARS_MAX]:
        about = (read_by(actor, Review) | asks(actor)) & (Q(reason__icontains=text) | Q(run__title__icontains=text))
        rows = rows.filter(about | Q(id__startswith=text) | Q(run__id__startswith=text))
    return rows


def _cursor(last: ReviewView, by: str) -> str:
    return f"{getattr(last, by.lstrip('-'))}.{last.id}"
