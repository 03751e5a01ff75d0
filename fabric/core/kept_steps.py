"""Keeps the work of a step whose failed call a person approves: the call is made again, and not the step (semantics.md 4 "Human waits").

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
    """Returns True where an approval keeps the step's work. A graph's turn begins anew, since its writes are taken back."""
    step = run.steps.get(step_id)
    if failure_type not in CALLS or step is None or not step.history or is_judge(step):
        return False
    return step.turn is None or not step.turn.chooses


def answers(step: Step) -> int:
    """The answers that a step's model has given: its turns without the one whose request failed."""
    return len(step.history)
