"""The state of a run whose outcome passed the gates: completed, or stopped where a protection stopped something on the way."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.flow import RunState
from fabric.core.graph.expectations import TTL, TURN_WITHIN
from fabric.core.run import Run
from fabric.core.stops import said_about
from fabric.core.words import count

OUT_OF_TIME: Mapping[str, str] = {
    TTL: "the conversation reached the end of its time before anybody ended it",
    TURN_WITHIN: "a turn of the conversation took longer than it may",
}
"""Ends of a conversation that stop a run early, and the sentence of each."""


def stop_reason(run: Run) -> str:
    """Returns why a run ends as stopped; empty: nothing stopped it."""
    found = said_about(run, run.steps)
    if run.talk.closed in OUT_OF_TIME:
        found.append(OUT_OF_TIME[run.talk.closed])
    if not found:
        return ""
    others = len(found) - 1
    return found[0] + (f"; {count(others, 'other agent was', 'other agents were')} stopped too" if others else "")


def end_of(run: Run) -> RunState:
    """Returns the state of a run whose outcome passed the gates."""
    return RunState.STOPPED if stop_reason(run) else RunState.COMPLETED
