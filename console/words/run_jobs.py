"""The words of run jobs: each action, and each state of a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fabric.core.values.words import count
from fabric.models import JobAction, JobState
from fabric.selectors.runs.query.jobs import RunJobView


@dataclass(frozen=True, slots=True)
class ActionWords:
    """Words of one action."""

    word: str
    """The heading, before the runs."""
    follows: str
    """Consequence for each run, in one sentence."""
    done: str
    """Participle of the action, as it follows the number of runs."""
    icon: str
    tone: Literal["primary", "danger"]


ACTION_WORDS: Mapping[JobAction, ActionWords] = {
    JobAction.CANCEL: ActionWords(
        "Cancel",
        "No new call starts, running calls are abandoned and billed at their maximum, and changes are undone where possible.",
        "cancelled",
        "x",
        "primary",
    ),
    JobAction.PAUSE: ActionWords(
        "Pause",
        "No new call starts until a person resumes the run; running calls finish, and their results are kept.",
        "paused",
        "pause",
        "primary",
    ),
    JobAction.RESUME: ActionWords(
        "Resume", "Each paused run continues with its remaining time.", "resumed", "play", "primary"
    ),
    JobAction.RETRY: ActionWords(
        "Try again",
        "For each run that ended without an answer, a new run keeps the settled results, runs the rest again and costs money again.",
        "tried again",
        "replan",
        "primary",
    ),
    JobAction.TERMINATE: ActionWords(
        "Terminate",
        "Each run ends at once as aborted, running calls are billed at their maximum, and nothing is undone.",
        "terminated",
        "stop",
        "danger",
    ),
}
"""Every action, in the order of the buttons; total by test."""

STATE_WORDS: Mapping[JobState, tuple[str, str, str]] = {
    JobState.RUNNING: ("Running", "info", "run"),
    JobState.STOPPING: ("Stopping", "warn", "stop"),
    JobState.STOPPED: ("Stopped", "neutral", "stop"),
    JobState.ENDED: ("Ended", "neutral", "check"),
}
"""Word, tone and icon of each state; total by test."""


def build_title(job: RunJobView) -> str:
    """Return a job in words: ``Cancel 31 runs``."""
    return f"{ACTION_WORDS[job.action].word} {count(job.total, 'run')}"


def describe_progress(job: RunJobView) -> str:
    """Return where a job stands, in one sentence."""
    done = ACTION_WORDS[job.action].done
    said = [f"{job.done:,} of {count(job.total, 'run')} {done}", f"{job.refused:,} refused"]
    if job.left:
        said.append(f"{job.left:,} {'not tried' if job.ended else 'left'}")
    return ", ".join(said)
