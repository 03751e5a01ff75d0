"""The batches that were drilled last, as a part of the drills' pages; and what drills came to, in badges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from console.views.drill_words import CELLS, ENDED, Mark
from fabric.core.actor import Actor
from simulator.drills.models import Status
from simulator.drills.recent import batches_recent
from simulator.drills.selectors import State

SHOWN = 10
"""Batches on a page."""
WORDS: Mapping[str, tuple[str, str, str]] = {
    **{str(state): CELLS[state] for state in State},
    **{str(status): ENDED[status] for status in Status if str(status) not in set(State)},
}
"""Word, tone and icon of what a drill came to: its verdict, or how it ended where it has none."""


def came_marks(came: Mapping[str, int]) -> list[tuple[Mark, int]]:
    """How many drills came to what, in the order in which states are told."""
    return [(Mark(*WORDS[name], "plain"), came[name]) for name in WORDS if came.get(name)]


def last_of(actor: Actor, here: str, before: str) -> dict[str, Any]:
    """What ``drills/last.html`` shows. ``here``: the page's address, with a query. ``before``: where the list is continued."""
    found, more = batches_recent(actor, before=before, limit=SHOWN)
    return {
        "batches": [(one, came_marks(one.came)) for one in found],
        "older": found[-1].first if more else "",
        "newer": bool(before),
        "here": here,
    }
