"""Questions to people: opening them, their clocks, what each answer does, and the deadlines that stop meanwhile.

semantics.md 4 "Human waits": a question parks its own branch; due times by tier; expiry rejects and is marked as the system's decision. In batch and
high-stakes the run's clocks stop while nothing else is live, and new instants are issued when they run again; a command already out keeps its own.
"""

from __future__ import annotations

from typing import Any, Literal

from fabric.core import calls
from fabric.core import events as ev
from fabric.core.failure import Failure, record
from fabric.core.fingerprint import content_ref, digest, encode
from fabric.core.flow import Stage
from fabric.core.inputs import DecisionMade
from fabric.core.ladder import Choice, rerunnable
from fabric.core.mechanisms import budget, deadline, state_of
from fabric.core.run import OpenQuestion, live
from fabric.core.taxonomy import Cause, Tier
from fabric.core.work import US, Work

JSON = Any
VERBS = ("approve", "reject")
SYSTEM = "system"


def scope_of(failure: Failure, work: Work) -> str:
    """What the rounds of a question are counted against: the stage and, where there is one, the branch."""
    step = work.run.steps.get(failure.step_id)
    return f"{failure.stage}.{step.branch}" if step is not None else str(failure.stage)


def rounds_spent(work: Work, failure: Failure) -> bool:
    """Whether a failure was approved as often as it may be (2 rounds, then abort)."""
    return work.run.rounds.get(scope_of(failure, work), 0) >= work.compiled.spec.policy.humans.failure_rounds


def open_question(work: Work, failure: Failure, choice: Choice) -> None:
    """Opens an escalation and parks what it is about. Nothing of that branch moves until it is answered."""
    item: Literal["failure", "post_stage"] = "post_stage" if choice.trip.cause is Cause.BELOW_TAU else "failure"
    step_id = _parked(work, failure) if item == "failure" else ""
    due = int(work.compiled.spec.policy.due_s(work.run.tier) * US)
    humans = work.compiled.spec.policy.humans
    content = _shown(work, failure, choice, item)
    number = work.run.seq + 1
    work.emit(
        ev.EscalationOpened(
            escalation_id=digest(work.run.id, "escalation", number)[:16],
            item=item,
            reason=choice.trip.message,
            failure_type=choice.failure_type,
            stage=failure.stage,
            step_id=step_id,
            scope=scope_of(failure, work),
            required_role=choice.rung.role,
            verbs=VERBS,
            digest=digest(work.compiled.revision, content_ref(encode(content)), work.run.id, number),
            remind_at=work.ctx.now + int(due * humans.reminder_at),
            onward_at=work.ctx.now + int(due * humans.onward_at),
            due_at=work.ctx.now + due,
            round=work.run.rounds.get(scope_of(failure, work), 0) + 1,
        ),
        content,
    )


def _parked(work: Work, failure: Failure) -> str:
    """Stops what the question is about: its step, or every live step of its stage."""
    if failure.step_id:
        calls.let_go_all(work, "parked for a person", failure.step_id)
        return failure.step_id
    for step in list(work.run.steps.values()):
        if step.stage == failure.stage and step.status == "active":
            calls.let_go_all(work, "parked for a person", step.id)
            trip = failure.trips[0]
            work.emit(ev.StepFailed(step_id=step.id, cause=trip.cause, message=trip.message))
    return ""


def _shown(work: Work, failure: Failure, choice: Choice, item: str) -> JSON:
    """What the person sees: the facts of the decision, the money, the payload in question, what each verb does."""
    ledger = state_of(work.run.guards, budget)
    trip = record(choice.trip)
    reached = work.run.stages.get(Stage.FAN_IN)
    payload = work.ctx.output(reached.output_ref) if item == "post_stage" and reached and reached.output_ref else None
    again = "the failed step runs once more" if item == "failure" else "the run goes on with this result"
    return {
        "item": item,
        "stage": failure.stage,
        "agent": work.run.steps[failure.step_id].agent if failure.step_id else "",
        "failure_type": choice.failure_type,
        "mechanism": trip.mechanism,
        "cause": trip.cause,
        "message": trip.message,
        "limit": trip.evidence.limit,
        "observed": trip.evidence.observed,
        "unit": trip.evidence.unit,
        "problems": _problems(trip),
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": work.compiled.spec.policy.budget.run_usd_micros,
        "payload": payload,
        "approve": again,
        "reject": "the run is aborted",
        "expiry": "rejected by the system",
    }


def _problems(trip: ev.TripRecord) -> list[str]:
    found = trip.evidence.details.get("problems", [])
    return [str(problem) for problem in found] if isinstance(found, list) else []


def withdraw_all(work: Work, reason: str) -> None:
    """Closes every open question that no longer matters."""
    for key in list(work.run.questions):
        work.emit(ev.EscalationWithdrawn(escalation_id=key, reason=reason))


# -- answers -----------------------------------------------------------------------------------------------------------


def refused(work: Work, decision: DecisionMade) -> str:
    """Why a decision changes nothing; empty when it counts."""
    question = work.run.questions.get(decision.escalation_id)
    if question is None:
        return "the question was answered before, withdrawn, or never asked"
    if decision.digest != question.fact.digest:
        return "the decision was made about something else than what is asked (its digest differs)"
    if decision.verb not in question.fact.verbs:
        return f"{decision.verb} is not possible here; possible are: {', '.join(question.fact.verbs)}"
    return ""


def decided(work: Work, decision: DecisionMade) -> OpenQuestion:
    """Records an answer and lets the clocks run again; what follows from it is the engine's business."""
    question = work.run.questions[decision.escalation_id]
    work.emit(
        ev.EscalationDecided(
            escalation_id=decision.escalation_id,
            verb=decision.verb,
            actor=decision.actor,
            system=decision.actor == SYSTEM,
        ),
        {"message": decision.message} if decision.message else None,
    )
    return question


def expired(work: Work, question: OpenQuestion) -> DecisionMade:
    """The declared answer when nobody gave one in time."""
    fact = question.fact
    return DecisionMade(
        input_id=f"expiry:{fact.escalation_id}",
        escalation_id=fact.escalation_id,
        verb=fact.on_expiry,
        actor=SYSTEM,
        digest=fact.digest,
        message="nobody answered in time",
    )


def remind(work: Work) -> None:
    """Emits the reminders that are due: at half of the time, and at three quarters."""
    for key, question in list(work.run.questions.items()):
        fact = question.fact
        if work.ctx.now >= fact.onward_at and not question.onward:
            work.emit(ev.EscalationReminded(escalation_id=key, step="onward"))
        elif work.ctx.now >= fact.remind_at and not question.reminded:
            work.emit(ev.EscalationReminded(escalation_id=key, step="reminder"))


def steps_to_rerun(work: Work, question: OpenQuestion) -> list[str]:
    """The steps that an approval of a failure runs once more."""
    fact = question.fact
    return rerunnable(work, Failure((), fact.stage, fact.step_id))


# -- clocks ------------------------------------------------------------------------------------------------------------


def suspend_clocks(work: Work) -> None:
    """Stops the deadlines when nothing is live but questions, in the tiers where people may take their time."""
    run = work.run
    if run.suspended or run.terminal or run.ending or not run.questions or run.tier is Tier.INTERACTIVE or live(run):
        return
    reached = run.stages.get(run.stage)
    left = reached.deadline_at - work.ctx.now if reached is not None else 0
    work.emit(ev.DeadlinesSuspended(run_remaining_us=run.deadline_at - work.ctx.now, stage_remaining_us=left))


def resume_clocks(work: Work, question: OpenQuestion) -> None:
    """Issues new instants after a wait.

    A stage without the time for one more attempt gets its full time, since a person said so; the run gets at least as much, but in the
    interactive tier, where its clock ran on.
    """
    run, suspended = work.run, work.run.suspended
    deadlines = work.compiled.spec.policy.deadlines_of(run.tier)
    needed = int(deadline.margin_s(deadlines.call_s) * US)
    reached = run.stages.get(run.stage)
    stage_left = reached.deadline_at - work.ctx.now if reached is not None else 0
    run_left = run.deadline_at - work.ctx.now
    if suspended is not None:
        run_left, stage_left = suspended.run_remaining_us, suspended.stage_remaining_us
    elif stage_left > needed and run_left > needed:
        return
    if stage_left <= needed:
        stage_left = int(deadlines.stage_s * US)
    if run.tier is not Tier.INTERACTIVE:
        run_left = max(run_left, stage_left)
    now = work.ctx.now
    work.emit(ev.DeadlinesReissued(run_deadline_at=now + run_left, stage_deadline_at=now + min(stage_left, run_left)))
