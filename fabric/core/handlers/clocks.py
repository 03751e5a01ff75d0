"""An instant came: deadlines, questions that nobody answered, reminders. Retries that are due go out by themselves (``engine.advance``)."""

from __future__ import annotations

from fabric.core import questions, reactions
from fabric.core.failure import Failure
from fabric.core.flow import RunState
from fabric.core.handlers import people
from fabric.core.inputs import TimeReached
from fabric.core.run import asked, asked_at_deadline, clocks_stopped
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work


def reached(work: Work, given: TimeReached) -> None:
    """Whatever is due by now: deadlines first, then expired questions, reminders."""
    if work.run.state is RunState.QUEUED:
        return
    late = overdue(work)
    if late is not None:
        reactions.react(work, late)
        return
    for key, question in list(work.run.questions.items()):
        if key in work.ctx.announced or work.ctx.now < question.fact.due_at:
            continue
        if key in work.run.questions:
            people.decided(work, questions.expired(work, question))
    if not work.run.terminal:
        questions.remind(work)


def overdue(work: Work) -> Failure | None:
    """The run's or the stage's deadline as a failure, when it has passed. Undoing has clocks of its own."""
    run = work.run
    if clocks_stopped(run) is not None or run.ending is not None or run.saga.unwinding is not None:
        return None
    if asked_at_deadline(run):
        return None
    if work.ctx.now >= run.deadline_at:
        cause, at, scope = Cause.RUN_DEADLINE, run.deadline_at, "run"
    else:
        reached = run.stages.get(run.stage)
        if reached is None or reached.left or work.ctx.now < reached.deadline_at or asked(run):
            return None
        cause, at, scope = Cause.STAGE_DEADLINE, reached.deadline_at, f"stage:{run.stage}"
    evidence = Evidence(at, work.ctx.now, "us since epoch", scope)
    return Failure((Trip("deadline", cause, evidence, f"the {scope} deadline has passed"),), run.stage)
