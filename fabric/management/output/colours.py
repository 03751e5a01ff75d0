"""Colours of states on a terminal. ``NO_COLOR`` in the environment turns them off."""

from __future__ import annotations

import os
from collections.abc import Mapping

from fabric.core.values.flow import RunState

GREEN, RED, YELLOW, MAGENTA, BLUE, GREY = "32", "31", "33", "35", "34", "2"
TONES: Mapping[RunState, str] = {
    RunState.QUEUED: GREY,
    RunState.RUNNING: BLUE,
    RunState.WAITING: MAGENTA,
    RunState.PAUSED: GREY,
    RunState.CANCELLING: YELLOW,
    RunState.UNWINDING: YELLOW,
    RunState.QUARANTINED: RED,
    RunState.COMPLETED: GREEN,
    RunState.STOPPED: YELLOW,
    RunState.FAILED: RED,
    RunState.ABORTED: RED,
    RunState.CANCELLED: GREY,
}
"""Colour of each state; a test shows that it is total."""


def paint(text: str, state: str, *, terminal: bool) -> str:
    """Return a text in the colour of a run's state, where it goes to a terminal that shows colours."""
    if not terminal or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{TONES[RunState(state)]}m{text}\x1b[0m"
