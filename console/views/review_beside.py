"""What stands beside a question: the queue that it is in, due first, and the ones before and after it."""

from __future__ import annotations

from dataclasses import dataclass

from console.views.review_marks import URGENCIES, Urgency, group_of
from fabric.core.actor import Actor
from fabric.selectors.escalations import EscalationView, escalations_open

SHOWN = 40
"""Questions that stand beside one."""


@dataclass(frozen=True, slots=True)
class Group:
    """Those that are due alike."""

    title: str
    urgency: Urgency
    items: list[EscalationView]


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
    found = escalations_open(actor, limit=SHOWN + 1)
    more, found = len(found) > SHOWN, found[:SHOWN]
    if item.open and item.id not in {one.id for one in found}:
        found.append(item)
    groups: dict[str, list[EscalationView]] = {}
    for one in found:
        groups.setdefault(group_of(one.due_at, now), []).append(one)
    # Whatever is answered meanwhile was due somewhere: its neighbours are those who are due before and after it.
    key = (item.due_at, item.id)
    before = [one.id for one in found if (one.due_at, one.id) < key]
    after = [one.id for one in found if (one.due_at, one.id) > key]
    return Beside(
        [Group(URGENCIES[name].word, URGENCIES[name], items) for name, items in groups.items()],
        more,
        before[-1] if before else "",
        after[0] if after else "",
    )
