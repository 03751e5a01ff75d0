"""Shows the queue beside a review, earliest due time first, with the previous and the next review.

The urgency of a review has a word and a tone, and chooses its group in a list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fabric.core.people.actor import Actor
from fabric.selectors.reviews.queue import QueueRow, Tab, queue_page, queue_rows
from fabric.selectors.reviews.review_view import ReviewView

HOUR = 3_600_000_000
DAY = 24 * HOUR


class Urgency(NamedTuple):
    """Distance of a review to its due time, as word, tone and limit."""

    word: str
    tone: str
    most: int
    """Largest time to the due time, in microseconds."""


URGENCIES: Mapping[str, Urgency] = {
    "overdue": Urgency("Overdue", "danger", 0),
    "onward": Urgency("Escalated", "danger", -(2**62)),
    "due-soon": Urgency("Due soon", "warn", HOUR),
    "today": Urgency("Due within a day", "", DAY),
    "later": Urgency("Later", "", 2**62),
}
"""Groups of a list by the word used in its address. The first that fits counts.

``onward`` fits no due time: it marks a review that was passed on.
"""


def find_group(due_at: int, now: int) -> str:
    """Return the group of a review by its due time. Microseconds since the epoch."""
    return next(name for name, one in URGENCIES.items() if due_at - now <= one.most)


def urgency(item: ReviewView, now: int) -> Urgency | None:
    """Return the urgency of an open review; None if it is not urgent, or is answered."""
    group = find_group(item.due_at, now)
    found = URGENCIES["onward" if item.onward and group != "overdue" else group]
    return found if found.tone and item.open else None


SHOWN = 40
"""Number of reviews in the queue beside one."""


@dataclass(frozen=True, slots=True)
class QueueGroup:
    """Reviews of one urgency."""

    title: str
    urgency: Urgency
    items: list[QueueRow]


@dataclass(frozen=True, slots=True)
class QueueBeside:
    """The queue."""

    groups: list[QueueGroup]
    more: bool
    """True if there are more below."""
    previous: str
    next: str
    """Ids of the neighbours; empty if there is none."""


def build_side_queue(actor: Actor, item: ReviewView, now: int) -> QueueBeside:
    """Return the most urgent open reviews, with the one on the page."""
    page = queue_page(actor, Tab.OPEN, limit=SHOWN)
    rows = list(page.rows)
    if item.open and item.id not in {row.review.id for row in rows}:
        rows += queue_rows(actor, [item])
    found = [row.review for row in rows]
    groups: dict[str, list[QueueRow]] = {name: [] for name in URGENCIES}
    for row in rows:
        group = find_group(row.review.due_at, now)
        groups["onward" if row.review.onward and group != "overdue" else group].append(row)
    # An answered review keeps its place: its neighbours are those due before and after it.
    key = (item.due_at, item.id)
    before = [one.id for one in found if (one.due_at, one.id) < key]
    after = [one.id for one in found if (one.due_at, one.id) > key]
    return QueueBeside(
        [QueueGroup(URGENCIES[name].word, URGENCIES[name], items) for name, items in groups.items() if items],
        bool(page.next),
        before[-1] if before else "",
        after[0] if after else "",
    )
