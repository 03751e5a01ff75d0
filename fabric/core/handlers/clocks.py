"""An instant came: deadlines, questions that nobody answered, reminders. Retries that are due go out by themselves (``engine.advance``)."""

from __future__ import annotations

from fabric.core import guard, paces, questions, reactions
from fabric.core.failure import Failure
from fabric.core.flow import RunState
from fabric.core.handlers import people
from fabric.core.inputs import TimeReached
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.deadline import deadline_passed
from fabric.core.run import asked, asked_at_deadline, clocks_stopped
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work


def reached(work: Work, given: TimeReached) -> None:
    """Whatever is due by now: questions that expired no later than a deadline, the deadline, silences, other questions, reminders."""
    if work.run.state is RunState.QUEUED:
        return
    late = overdue(work)
    if late is not None:
        _expire(work, int(late.trips[0].evidence.limit or 0))
        late = overdue(work)
    if late is not None:
        reactions.react(work, late)
        return
    if _stalled(work):
        return
    paces.fire(work)
    _expire(work, work.ctx.now)
    if not work.run.terminal:
        questions.remind(work)


def _expire(work: Work, until: int) -> None:
    """Takes the declared answer of each question that was due by then, in microseconds, and that nobody has answered."""
    for key, question in list(work.run.questions.items()):
        if key not in work.ctx.announced and question.fact.due_at <= until and key in work.run.questions:
            people.expired(work, question)


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
    return Failure((Trip("deadline", cause, evidence, deadline_passed(scope, at)),), run.stage)


def _stalled(work: Work) -> bool:
    """Reacts to a silence that is too long, once for each step that is at work: it is theirs, and each has its own ladder."""
    run = work.run
    at_work = [step.id for step in run.steps.values() if step.stage == run.stage and step.status == "active"]
    failures = [failure for step_id in at_work or [""] if (failure := _silent(work, step_id)) is not None]
    for failure in failures:
        step = work.run.steps.get(failure.step_id)
        if work.run.ending is None and (step is None or step.status == "active") and work.run.epoch == run.epoch:
            reactions.react(work, failure)
    return bool(failures)


def _silent(work: Work, step_id: str) -> Failure | None:
    out = [p.issued.target for p in work.run.pending.values() if p.issued.step_id == step_id and not p.failed]
    proposal = Proposal(kind="wait", stage=work.run.stage, step_id=step_id, target=", ".join(out))
    trips = guard.judge(proposal, work.view, work.compiled.spec.policy)
    return Failure(tuple(trips), work.run.stage, step_id) if trips else None
