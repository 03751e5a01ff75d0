"""Words and tones by which a question stands out: how near it is to its due time, and which group of a list it falls into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fabric.selectors.escalations import EscalationView

HOUR = 3_600_000_000
DAY = 24 * HOUR


class Urgency(NamedTuple):
    """How near a question is to its due time."""

    word: str
    tone: str
    most: int
    """Microseconds that are left at most."""


URGENCIES: Mapping[str, Urgency] = {
    "overdue": Urgency("Overdue", "danger", 0),
    "onward": Urgency("Passed on", "danger", -(2**62)),
    "due-soon": Urgency("Due soon", "warn", HOUR),
    "today": Urgency("Due within a day", "", DAY),
    "later": Urgency("Later", "", 2**62),
}
"""Each group of a list, the first that fits counts; by a word that fits in an address. Whether a question was passed on is said by itself."""


def group_of(due_at: int, now: int) -> str:
    """The group of a question that is due then. Microseconds since the epoch."""
    return next(name for name, one in URGENCIES.items() if due_at - now <= one.most)


def urgency(item: EscalationView, now: int) -> Urgency | None:
    """How a question stands out; None: it does not, or it is answered."""
    group = group_of(item.due_at, now)
    found = URGENCIES["onward" if item.onward and group != "overdue" else group]
    return found if found.tone and item.open else None
