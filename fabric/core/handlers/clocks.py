"""Handles an instant that has come: deadlines, expired reviews, reminders. ``engine.advance`` issues the retries
that are due.
"""

from __future__ import annotations

from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.events.inputs import TimeReached
from fabric.core.handlers import people
from fabric.core.mechanisms.contract import Proposal
from fabric.core.mechanisms.deadline import deadline_passed
from fabric.core.reactions import react as reactions
from fabric.core.reviews import reviews
from fabric.core.state.failure import Failure
from fabric.core.state.run import asked_at_deadline, clocks_stopped, has_stage_review
from fabric.core.topologies import time_limits as paces
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Evidence, Trip


def reach_time(work: Work, given: TimeReached) -> None:
    """Handle all that is due: reviews that expired no later than a deadline, the deadline, stalls, other reviews,
    reminders.
    """
    if work.run.state is RunState.QUEUED:
        return
    late = overdue(work)
    if late is not None:
        _expire(work, int(late.trips[0].evidence.limit or 0))
        late = overdue(work)
    if late is not None:
        reactions.react(work, late)
        return
    if _react_to_stalls(work):
        return
    paces.fire(work)
    _expire(work, work.ctx.now)
    if not work.run.terminal:
        reviews.remind(work)


def _expire(work: Work, until: int) -> None:
    """Take the declared answer of each open review that was due by ``until``, in microseconds."""
    for key, review in list(work.run.reviews.items()):
        if key not in work.ctx.announced and review.fact.due_at <= until and key in work.run.reviews:
            people.expire_review(work, review)


def overdue(work: Work) -> Failure | None:
    """Return the run's or the stage's passed deadline as a failure; None: not passed. Undoing has clocks of its own."""
    run = work.run
    if clocks_stopped(run) is not None or run.ending is not None or run.saga.unwinding is not None:
        return None
    if asked_at_deadline(run):
        return None
    if work.ctx.now >= run.deadline_at:
        cause, at, scope = Cause.RUN_DEADLINE, run.deadline_at, "run"
    else:
        reached = run.stages.get(run.stage)
        if reached is None or reached.left or work.ctx.now < reached.deadline_at or has_stage_review(run):
            return None
        cause, at, scope = Cause.STAGE_DEADLINE, reached.deadline_at, f"stage:{run.stage}"
    evidence = Evidence(at, work.ctx.now, "us since epoch", scope)
    return Failure((Trip("deadline", cause, evidence, deadline_passed(scope, at)),), run.stage)


def _react_to_stalls(work: Work) -> bool:
    """React to a stall, once for each active step, since each has its own ladder."""
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
    trips = guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)
    return Failure(tuple(trips), work.run.stage, step_id) if trips else None
