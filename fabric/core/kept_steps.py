"""What was done stays done: a person who approves a failed call has that call made again, and not its step (semantics.md 4 "Human waits").

A provider that was away, or money that had run out, says nothing against what the step did before. Its answers and their results stand. Any other failure
is about what the step did, so the step begins anew with a note about it.
"""

from __future__ import annotations

from fabric.core.judges import is_judge
from fabric.core.run import Run, Step
from fabric.core.taxonomy import FailureType

CALLS = frozenset({FailureType.PROVIDER, FailureType.COST_OVERRUN})
"""Rows whose failures are a call's, and not a step's."""


def keeps(run: Run, failure_type: FailureType | None, step_id: str) -> bool:
    """Whether an approval of a failure keeps what the step of it did."""
    step = run.steps.get(step_id)
    return failure_type in CALLS and step is not None and bool(step.history) and not is_judge(step)


def answers(step: Step) -> int:
    """The answers that a step's model has given: its turns without the one whose request failed."""
    return len(step.history)
