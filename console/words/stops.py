"""Puts stops of new runs in words, for pages."""

from __future__ import annotations

from dataclasses import dataclass

from fabric.core.values.words import count
from fabric.selectors.runs.stops import RESUME, RunningRuns, StopView
from fabric.services.acts import SYSTEM


@dataclass(frozen=True, slots=True)
class Choice:
    """Fate of running runs, as a choice of the form."""

    value: RunningRuns
    label: str
    hint: str


RUNNING = (
    Choice(RunningRuns.FINISH, "Let them finish", "They go on with their child runs, and may still change the world."),
    Choice(RunningRuns.PAUSE, "Pause them", "Calls under way end, and nothing begins. Their deadlines wait."),
    Choice(RunningRuns.CANCEL, "Cancel them", "Calls are abandoned and changes undone where possible. You cannot undo this."),
)  # fmt: skip
"""The choices, the mildest first; total over ``RunningRuns``."""


def describe_moved(one: StopView) -> str:
    """Return what becomes of the runs that were started before the stop, in a sentence."""
    if one.left == RESUME:
        return f"Runs that it paused are being resumed: {one.resumed:,} of {one.paused:,} so far."
    if one.running is RunningRuns.FINISH:
        return "Runs that were started before finish."
    done = one.paused if one.running is RunningRuns.PAUSE else one.cancelled
    word = "paused" if one.running is RunningRuns.PAUSE else "cancelled"
    if one.left:
        return f"Runs that were started before are being {word}: {done:,} so far."
    resumed = f" {one.resumed:,} of them resumed." if one.resumed else ""
    return f"{count(done, 'run')} {word}.{resumed}"


def describe_end(one: StopView) -> str:
    """Return how a stop ended; empty while it stands."""
    if one.ended_at is None and one.until_at is None:
        return ""
    return "by its given end" if one.ended_by in (SYSTEM, "") else f"by {one.ended_by}"


def describe_resumable(one: StopView) -> str:
    """Return the number of runs that the stop paused and that wait for their resumption; empty for none."""
    return "" if not one.resumable or one.left == RESUME else count(one.resumable, "run")
