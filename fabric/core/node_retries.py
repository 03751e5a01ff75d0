"""Node retries: a node that failed runs once more after a wait of its own, and what becomes of one that has no attempt left (S1 "Node retries", "What gets retried").

The wait is a timer of the run under the failed step's id: it lasts past the process that set it, and whoever owns the run then opens the next activation.
"""

from __future__ import annotations

from typing import Any

from fabric.core import calls, judging, ladder, waits
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.judges import is_judge
from fabric.core.ladder import Choice
from fabric.core.mechanisms import retry_budget, state_of
from fabric.core.run import Step
from fabric.core.work import US, Work

JSON = Any


def schedule(work: Work, failure: Failure, choice: Choice) -> None:
    """The node's next attempt, that much later. What its failed one still has out is let go of."""
    step = work.run.steps[failure.step_id]
    calls.let_go_all(work, "its node runs once more", step.id)
    policy = work.compiled.spec.policy
    given = retry_budget.given(work.ctx.shares, ladder.next_id(work, step), 1)
    delay = waits.node_delay_s(work, failure, choice.spent)
    work.emit(
        ev.NodeRetryScheduled(
            step_id=step.id,
            attempt=choice.spent + 2,
            attempts=policy.retry_layers.retries_of(step.stage).attempts,
            not_before=work.ctx.now + int(delay * US),
            delay_s=delay,
            tokens_left=retry_budget.balance(policy.retry, state_of(work.run.guards, retry_budget))
            - retry_budget.UNITS,
            buckets=given.levels,
            asked_at=given.asked_at,
        )
    )


def due(work: Work) -> Step | None:
    """A step whose node is to run again by now; None: there is none."""
    steps = work.run.steps
    return next((steps[key] for key, at in work.run.timers.items() if key in steps and at <= work.ctx.now), None)


def begin(work: Work, old: Step) -> None:
    """The node's next attempt: it begins as the one before did, with what that was told (a person's words, a transcript), and is told nothing of it."""
    work.emit(
        ev.StepOpened(
            step_id=ladder.next_id(work, old),
            stage=old.stage,
            branch=old.branch,
            agent=old.agent,
            round=old.round + 1,
        ),
        judging.again(work, old, "") if is_judge(old) else _told(work, old),
    )


def _told(work: Work, step: Step) -> JSON:
    return work.ctx.contents.read(step.note_ref) if step.note_ref else None


def give_up(work: Work, failure: Failure, choice: Choice) -> None:
    """Exhausted retries become a partial success: the branch ends with a gap, which its stage goes on with."""
    calls.let_go_all(work, "the branch ended", failure.step_id)
    trip = choice.trip
    work.emit(ev.StepFailed(step_id=failure.step_id, cause=trip.cause, message=trip.message, partial=True))
