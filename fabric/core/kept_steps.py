"""Keeps the work of a step whose failed call a person approves: the call is made again, and not the step (semantics.md 4 "Human waits").

A provider that was away, or money that had run out, says nothing against what the step did before. Its answers and their results stand. They stand too where a
person lets the call go on that was found to be a loop. Any other failure is about what the step did, so the step begins anew with a note about it.
"""

from __future__ import annotations

from fabric.core.judges import is_judge
from fabric.core.let_pass import Call
from fabric.core.mechanisms import loop_detector, progress, state_of
from fabric.core.run import Run, Step
from fabric.core.taxonomy import FailureType

CALLS = frozenset({FailureType.PROVIDER, FailureType.COST_OVERRUN})
"""Rows whose failures are a call's, and not a step's."""


def keeps(run: Run, failure_type: FailureType | None, step_id: str) -> bool:
    """Returns True where an approval keeps the step's work. A graph's turn begins anew, since its writes are taken back."""
    step = run.steps.get(step_id)
    if step is None or not step.history or is_judge(step) or not (failure_type in CALLS or let_go_on(run, step_id)):
        return False
    return step.turn is None or not step.turn.chooses


def let_go_on(run: Run, step_id: str) -> tuple[Call, ...]:
    """Returns the calls that an approval of a step's question lets pass."""
    looped = state_of(run.guards, loop_detector, step_id).passing.asked
    return (*looped, *progress.asked(state_of(run.guards, progress), step_id))


def made_now(run: Run, step_id: str) -> tuple[str, ...]:
    """Returns the ids of the refused calls of a step's last answer that an approval lets pass."""
    passing, step = let_go_on(run, step_id), run.steps[step_id]
    last = step.history[-1].calls
    return tuple(one.call_id for one in last if one.state == "refused" and (one.tool, one.args_hash) in passing)


def answers(step: Step) -> int:
    """The answers that a step's model has given: its turns without the one whose request failed."""
    return len(step.history)
