"""Runs steps and nodes once more: for the call that failed in one, or from its beginning.

The wait is a timer of the run under the failed step's id. It outlives the process that set it, and the run's next
worker opens the next activation.
"""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.decision.work import Work
from fabric.core.evolve import calls as kept_steps
from fabric.core.ladders import ladder, waits
from fabric.core.ladders.choice import Choice
from fabric.core.mechanisms import find_state, retry_budget
from fabric.core.stages import judging
from fabric.core.state.failure import Failure
from fabric.core.state.judges import is_judge
from fabric.core.state.run import Step
from fabric.core.values.units import JSON, US


def schedule(work: Work, failure: Failure, choice: Choice) -> None:
    """Schedule the node's next attempt, and abort the calls of the failed one."""
    step = work.run.steps[failure.step_id]
    calls.let_go_all(work, "its node runs once more", step.id)
    policy = work.compiled_fabric.spec.policy
    given = retry_budget.token_given(work.ctx.shares, ladder.next_id(work, step), 1)
    delay = waits.node_delay_s(work, failure, choice.spent)
    work.emit(
        ev.NodeRetryScheduled(
            step_id=step.id,
            attempt=choice.spent + 2,
            attempts=policy.retry_layers.retries_of(step.stage, waits.find_worker(step)).attempts,
            not_before=work.ctx.now + int(delay * US),
            delay_s=delay,
            tokens_left=retry_budget.balance(policy.retry, find_state(work.run.guards, retry_budget))
            - retry_budget.UNITS,
            buckets=given.levels,
            asked_at=given.asked_at,
        )
    )


def due(work: Work) -> Step | None:
    """Return a step whose node is due to run again; None: there is none."""
    if not work.run.timers:
        return None
    steps = work.run.steps
    return next((steps[key] for key, at in work.run.timers.items() if key in steps and at <= work.ctx.now), None)


def begin(work: Work, old: Step) -> None:
    """Begin the node's next attempt without its failure. It takes over the notes of the attempt before, a person's
    words or a transcript.
    """
    work.emit(
        ev.StepOpened(
            step_id=ladder.next_id(work, old),
            stage=old.stage,
            branch=old.branch,
            agent=old.agent,
            round=old.round + 1,
        ),
        judging.reopening_note(work, old, "") if is_judge(old) else _find_note(work, old),
    )


def _find_note(work: Work, step: Step) -> JSON:
    return work.ctx.contents.read(step.note_ref) if step.note_ref else None


def give_up(work: Work, failure: Failure, choice: Choice) -> None:
    """Turn exhausted retries into a partial success: the branch ends with a gap, and its stage goes on."""
    calls.let_go_all(work, "the branch ended", failure.step_id)
    trip = choice.trip
    work.emit(ev.StepFailed(step_id=failure.step_id, cause=trip.cause, message=trip.message, partial=True))


def call_again(work: Work, step_id: str, said: str) -> None:
    """Open a step once more for its failed or blocked call; its earlier work stands. ``said``: a person's words; "":
    none.
    """
    old, passes = work.run.steps[step_id], kept_steps.made_now(work.run, step_id)
    calls.let_go_all(work, "its failed call is made again", step_id)
    key = ladder.next_id(work, old)
    opened = ev.StepOpened(
        step_id=key,
        stage=old.stage,
        branch=old.branch,
        agent=old.agent,
        round=old.round + 1,
        approved=True,
        keeps=True,
        passes=passes,
    )
    work.emit(opened)
    if said:
        work.emit(ev.MessageInjected(step_id=key), {"text": said})


def rerun(
    work: Work, step_ids: list[str], note: str, *, approved: bool = False, agent: str = "", said: str = ""
) -> None:
    """Open those steps once more, each with a note about its failure. ``approved``: a person decided so, and the
    last rung is next. ``agent``: executes them; "": no change. ``said``: a person's words, which also go with
    later attempts.
    """
    for key in step_ids:
        old = work.run.steps[key]
        calls.let_go_all(work, "the step runs once more", key)
        work.emit(
            ev.StepOpened(
                step_id=ladder.next_id(work, old),
                stage=old.stage,
                branch=old.branch,
                agent=agent or old.agent,
                round=old.round + 1,
                approved=approved,
            ),
            judging.reopening_note(work, old, note) if is_judge(old) else _note(work, old, note, said),
        )


def _note(work: Work, old: Step, note: str, said: str) -> JSON:
    """Return the note that opens a step once more. A person's words about an earlier attempt are repeated, until a
    person says something else.
    """
    before = work.ctx.contents.read(old.note_ref).get("said", "") if old.note_ref else ""
    if said or not before:
        return {"text": note} | ({"said": said} if said else {})
    return {"text": f"{note}\n\nA person had said about it: {before}", "said": before}
