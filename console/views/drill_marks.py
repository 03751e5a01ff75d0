"""What drills came to, in badges."""

from __future__ import annotations

from collections.abc import Mapping

from console.views.drill_words import CELLS, ENDED, Mark
from simulator.drills.models import Status
from simulator.drills.selectors import State

WORDS: Mapping[str, tuple[str, str, str]] = {
    **{str(state): CELLS[state] for state in State},
    **{str(status): ENDED[status] for status in Status if str(status) not in set(State)},
}
"""Word, tone and icon of what a drill came to: its verdict, or how it ended where it has none."""


def came_marks(came: Mapping[str, int]) -> list[tuple[Mark, int]]:
    """How many drills came to what, in the order in which states are told."""
    return [(Mark(*WORDS[name], "plain"), came[name]) for name in WORDS if came.get(name)]
