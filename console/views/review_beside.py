"""What stands beside a question: the queue that it is in, due first, and the ones before and after it."""

from __future__ import annotations

from dataclasses import dataclass

from console.views.review_marks import URGENCIES, Urgency, group_of
from fabric.core.actor import Actor
from fabric.selectors.escalations import EscalationView
from fabric.selectors.review_queue import QueueRow, Tab, queue_page, queue_rows

SHOWN = 40
"""Questions that stand beside one."""


@dataclass(frozen=True, slots=True)
class Group:
    """Those that are due alike."""

    title: str
    urgency: Urgency
    items: list[QueueRow]


@dataclass(frozen=True, slots=True)
class Beside:
    """The queue."""

    groups: list[Group]
    more: bool
    """Whether there are others below."""
    previous: str
    next: str
    """Ids; empty: there is none."""


def beside(actor: Actor, item: EscalationView, now: int) -> Beside:
    """The most urgent open questions, with the one that is looked at."""
    page = queue_page(actor, Tab.OPEN, limit=SHOWN)
    rows = list(page.rows)
    if item.open and item.id not in {row.question.id for row in rows}:
        rows += queue_rows(actor, [item])
    found = [row.question for row in rows]
    groups: dict[str, list[QueueRow]] = {name: [] for name in URGENCIES}
    for row in rows:
        group = group_of(row.question.due_at, now)
        groups["onward" if row.question.onward and group != "overdue" else group].append(row)
    # Whatever is answered meanwhile was due somewhere: its neighbours are those who are due before and after it.
    key = (item.due_at, item.id)
    before = [one.id for one in found if (one.due_at, one.id) < key]
    after = [one.id for one in found if (one.due_at, one.id) > key]
    return Beside(
        [Group(URGENCIES[name].word, URGENCIES[name], items) for name, items in groups.items() if items],
        bool(page.next),
        before[-1] if before else "",
        after[0] if after else "",
    )
