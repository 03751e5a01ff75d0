"""Questions to people: opening them, their clocks, what each answer does, and the deadlines that stop meanwhile.

semantics.md 4 "Human waits": a question parks its own branch; due times by tier; expiry rejects and is marked as the system's decision. In batch and
high-stakes the run's clocks stop while nothing else is live, and new instants are issued when they run again; a command already out keeps its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from fabric.core import agreeing, calls, children, releases, showing, swap
from fabric.core import events as ev
from fabric.core.eligibility import REVIEWER
from fabric.core.failure import Failure
from fabric.core.family import at_work
from fabric.core.fingerprint import content_ref, digest, encode
from fabric.core.flow import Stage
from fabric.core.inputs import DecisionMade
from fabric.core.ladder import Choice, rerunnable
from fabric.core.let_pass import NEXT_RUNG
from fabric.core.living import live
from fabric.core.mechanisms import budget, deadline, state_of
from fabric.core.run import OpenQuestion, clocks_stopped
from fabric.core.taxonomy import Cause, FailureType, Tier
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import US, Work

JSON = Any
Item = Literal["failure", "post_stage", "pre_action", "compensation", "child", "ticket"]
OnExpiry = Literal["reject", "error", "next"]
"""The meaning of silence: a rejection, an error of the call whose tool asks the person, or the ladder's next rung."""
VERBS: Mapping[Item, tuple[str, ...]] = {
    "failure": ("approve", "edit", "respond", "reject"),
    "post_stage": ("approve", "edit", "respond", "reject"),
    "pre_action": ("approve", "edit", "respond", "decline", "reject"),
    "compensation": ("approve", "respond"),
    "child": ("approve", "reject"),
    "ticket": ("respond",),
}
"""What may be answered to each kind of item, where it is to be had: what each answer does stands in what the person is shown, and what does not stand there
is not offered. Total by test."""
NEVER_LATE = frozenset({"ticket", "quarantine"})
"""Kinds of item that do not expire, so that an answer counts whenever it comes."""
SYSTEM = "system"


def scope_of(failure: Failure, work: Work) -> str:
    """What the rounds of a question are counted against: the stage and, where there is one, the branch."""
    step = work.run.steps.get(failure.step_id)
    return f"{failure.stage}.{step.branch}" if step is not None else str(failure.stage)


def unsure(failure: Failure, choice: Choice) -> bool:
    """Whether a stage's own result is put to a person because its critic is not sure; of a child that ended so there is no result to let pass."""
    return choice.trip.cause is Cause.BELOW_TAU and not failure.step_id


def rounds_spent(work: Work, failure: Failure) -> bool:
    """Whether a failure was approved as often as it may be (2 rounds, then abort)."""
    return work.run.rounds.get(scope_of(failure, work), 0) >= work.compiled.spec.policy.humans.failure_rounds


def open_question(work: Work, failure: Failure, choice: Choice) -> None:
    """Opens an escalation about a failure and parks what it is about. Nothing of that branch moves until it is answered."""
    item: Item = "post_stage" if unsure(failure, choice) else "failure"
    other = swap.offered(work, failure, choice.trip) if item == "failure" else swap.NOBODY
    takes_model = showing.takes_model(work, failure, other.choice.model) if other.choice.model else {}
    step_id = _parked(work, failure) if item == "failure" else ""
    let_pass = releases.of_failure(failure, choice.trip)
    scope = scope_of(failure, work)
    for key, question in list(work.run.questions.items()):
        # The run's clock may run on while a person is asked about the stage: its end is asked about in that question's place.
        if (question.fact.step_id or question.fact.scope) == (step_id or scope):
            work.emit(ev.EscalationWithdrawn(escalation_id=key, reason=f"asked anew: {choice.trip.message}"))
    content = showing.shown(work, failure, choice, item, let_pass) | takes_model
    _open(
        work,
        item=item,
        reason=choice.trip.message,
        failure_type=choice.failure_type,
        stage=failure.stage,
        step_id=step_id,
        scope=scope,
        role=releases.ROLE if let_pass else choice.rung.role,
        content=content,
        verbs=tuple(verb for verb in VERBS[item] if verb in content),
        other=other,
        # Only failures are counted: a result that a critic is not sure of is let pass or not, and not tried once more.
        round_=work.run.rounds.get(scope, 0) + 1 if item == "failure" else 1,
        let_pass=let_pass,
        trip=choice.trip,
        on_expiry=NEXT_RUNG if choice.rung.poll else "reject",
    )


def open_ticket(work: Work, failure: Failure, choice: Choice) -> None:
    """Leaves a question that nobody waits for: the run ends, and what is to be seen to stays. It is closed with a note, or a fork goes on from it."""
    content = showing.facts(work, failure, choice.trip, choice.failure_type) | {
        "item": "ticket",
        "reaction": choice.rung.reaction,
        "respond": "the ticket is closed with your words; the run has ended, and nothing of it moves",
        "expiry": "nothing happens by itself",
    }
    _open(
        work,
        item="ticket",
        reason=choice.trip.message,
        failure_type=choice.failure_type,
        stage=failure.stage,
        step_id=failure.step_id,
        scope=scope_of(failure, work),
        role=choice.rung.role,
        content=content,
        trip=choice.trip,
    )


def open_item(
    work: Work,
    *,
    item: Item,
    scope: str,
    step_id: str,
    reason: str,
    shown: Mapping[str, JSON],
    bound: str = "",
    on_expiry: OnExpiry = "reject",
    role: str = REVIEWER,
) -> None:
    """Asks a person about something that is no failure of a step. ``bound``: a digest of what else an approval holds for, beside what is shown."""
    ledger = state_of(work.run.guards, budget)
    content = {
        "item": item,
        "stage": work.run.stage,
        "message": reason,
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": budget.cap(work.compiled.spec.policy.budget, ledger),
        **shown,
    }
    _open(
        work,
        item=item,
        reason=reason,
        failure_type=None,
        stage=work.run.stage,
        step_id=step_id,
        scope=scope,
        role=role,
        content=content,
        bound=bound,
        on_expiry=on_expiry,
    )


def _open(
    work: Work,
    *,
    item: Item,
    reason: str,
    failure_type: FailureType | None,
    stage: Stage,
    step_id: str,
    scope: str,
    role: str,
    content: JSON,
    round_: int = 1,
    bound: str = "",
    other: swap.Found = swap.NOBODY,
    let_pass: str = "",
    verbs: tuple[str, ...] = (),
    trip: Trip | None = None,
    on_expiry: OnExpiry = "reject",
) -> None:
    due = _due_at(work, item, step_id, on_expiry) - work.ctx.now
    humans = work.compiled.spec.policy.humans
    unsure_by = trip.evidence if trip is not None and trip.cause is Cause.BELOW_TAU else Evidence()
    number = work.run.seq + 1
    about = (work.compiled.revision, content_ref(encode(content)), work.run.id, number)
    work.emit(
        ev.EscalationOpened(
            escalation_id=digest(work.run.id, "escalation", number)[:16],
            item=item,
            reason=reason,
            failure_type=failure_type,
            stage=stage,
            step_id=step_id,
            scope=scope,
            required_role=role,
            verbs=verbs or VERBS[item],
            digest=digest(*about, bound) if bound else digest(*about),
            remind_at=work.ctx.now + int(due * humans.reminder_at),
            onward_at=work.ctx.now + int(due * humans.onward_at),
            due_at=work.ctx.now + due,
            on_expiry="nothing" if item == "ticket" else on_expiry,
            round=round_,
            model=other.choice.model,
            weighed=other.weighed,
            releases=let_pass,
            score=unsure_by.observed,
            tau=unsure_by.limit,
            **_asked(work, role, ticket=item == "ticket"),
        ),
        content,
    )


def _due_at(work: Work, item: Item, step_id: str, on_expiry: OnExpiry) -> int:
    """The instant until which an answer counts: never after the end of a run whose clock runs on meanwhile. What silence leads to has its time before that."""
    run, now = work.run, work.ctx.now
    due = now + int(work.compiled.spec.policy.due_s(run.tier) * US)
    if run.tier is not Tier.INTERACTIVE or item in ("ticket", "compensation") or now >= run.deadline_at:
        return due
    stage = run.stages.get(run.stage)
    ends = run.deadline_at
    if step_id and stage is not None and now < stage.deadline_at:
        ends = min(ends, stage.deadline_at)
    if on_expiry == NEXT_RUNG:
        ends = min(
            ends, run.deadline_at - int(deadline.margin_s(work.policy_in(run.stage).deadlines_of(run.tier).call_s) * US)
        )
    return max(now, min(due, ends))


def _asked(work: Work, role: str, *, ticket: bool) -> dict[str, Any]:
    """Who may answer, as the fabric has it now. Nothing passes with the closing of a ticket, so that is anybody's who is asked."""
    spec = work.compiled.spec
    return {
        "reviewers": spec.reviewers if role in ("", REVIEWER) else (),
        "onward_to": spec.policy.humans.onward_to,
        **({} if ticket else {"approvals": agreeing.approvals(work), "barred": agreeing.barred(work)}),
    }


def _parked(work: Work, failure: Failure) -> str:
    """Stops what the question is about: its step, or every live step of its stage."""
    if failure.step_id:
        calls.let_go_all(work, "a person is asked first", failure.step_id)
        return failure.step_id
    for step in list(work.run.steps.values()):
        if step.stage == failure.stage and step.status in ("active", "delegated"):
            calls.let_go_all(work, "a person is asked first", step.id)
            trip = failure.trips[0]
            work.emit(ev.StepFailed(step_id=step.id, cause=trip.cause, message=trip.message))
    return ""


def withdraw_all(work: Work, reason: str) -> None:
    """Closes every open question that no longer matters. What is being undone still does."""
    for key, question in list(work.run.questions.items()):
        if question.fact.item == "compensation":
            continue
        work.emit(ev.EscalationWithdrawn(escalation_id=key, reason=reason))


# -- answers -----------------------------------------------------------------------------------------------------------


def refused(work: Work, decision: DecisionMade) -> str:
    """Why a decision changes nothing, whoever gives it; empty when it counts."""
    question = work.run.questions.get(decision.escalation_id)
    if question is None:
        return "the question was answered before, withdrawn, or never asked"
    if decision.digest != question.fact.digest:
        return "the decision was made about something else than what is asked (its digest differs)"
    if decision.verb not in question.fact.verbs:
        return f"{decision.verb} is not possible here; possible are: {', '.join(question.fact.verbs)}"
    sent_at = work.ctx.now if work.ctx.sent_at is None else work.ctx.sent_at
    if is_late(question.fact.item, question.fact.due_at, sent_at):
        return "the answer came when the time for it was over: the question counts as rejected"
    return ""


def is_late(item: str, due_at: int, sent_at: int) -> bool:
    """Returns True where an answer comes too late. In time is what is sent before the question is due, whenever the run takes it.

    ``due_at``, ``sent_at``: microseconds since the epoch, UTC. Nothing happens at the due time of what is ``NEVER_LATE``.
    """
    return item not in NEVER_LATE and sent_at >= due_at


def decided(work: Work, decision: DecisionMade, roles: Collection[str] = ()) -> OpenQuestion:
    """Records an answer and lets the clocks run again; what follows from it is the engine's business. ``roles``: what its giver holds."""
    question = work.run.questions[decision.escalation_id]
    work.emit(
        ev.EscalationDecided(
            escalation_id=decision.escalation_id,
            verb=decision.verb,
            actor=decision.actor,
            system=decision.actor == SYSTEM,
            roles=tuple(sorted(roles)),
            agreed=question.agreed if decision.verb == "approve" else (),
            proposed_by=question.proposed_by if decision.verb == "approve" else "",
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
        verb="reject",
        actor=SYSTEM,
        digest=fact.digest,
        message="nobody answered in time",
    )


def unanswered(work: Work, question: OpenQuestion) -> Failure:
    """Returns the loop once more that nobody let go on in time."""
    fact = question.fact
    message = f"{fact.reason}, and nobody answered in time whether it may go on"
    details = work.ctx.contents.read(question.shown_ref).get("details", {})
    trip = Trip("escalation", Cause.LOOP_DETECTED, Evidence(scope=f"step:{fact.step_id}", details=details), message)
    return Failure((trip,), fact.stage, fact.step_id)


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
    if run.suspended or run.terminal or run.ending or run.tier is Tier.INTERACTIVE:
        return
    if not (run.questions or run.family.alive) or live(run) or at_work(run.family):
        return
    run_left, stage_left = time_left(work)
    work.emit(ev.DeadlinesSuspended(run_remaining_us=run_left, stage_remaining_us=stage_left))
    children.tell_waiting(work, waiting=True)


def time_left(work: Work) -> tuple[int, int]:
    """Microseconds that are left of the run's and of the stage's time, whether its clocks run or stand still."""
    run, stopped = work.run, clocks_stopped(work.run)
    if stopped is not None:
        return stopped
    reached = run.stages.get(run.stage)
    return run.deadline_at - work.ctx.now, reached.deadline_at - work.ctx.now if reached is not None else 0


def resume_clocks(work: Work) -> None:
    """Issues new instants after an answer; those of a run that is held come when it is resumed."""
    if work.run.control.paused is None:
        _reissue(work, *time_left(work), stopped=work.run.suspended is not None)


def resume_held(work: Work, run_left: int, stage_left: int) -> None:
    """Issues new instants after a pause, unless only people are waited for: then it is their answer that does."""
    run = work.run
    waited_for = bool(run.questions or run.family.alive) and not at_work(run.family)
    if run.suspended is None or live(run) or not waited_for:
        _reissue(work, run_left, stage_left, stopped=True)


def _reissue(work: Work, run_left: int, stage_left: int, *, stopped: bool) -> None:
    """New instants from what was left. Clocks that never stopped keep theirs, unless an attempt would not fit any more.

    A stage without the time for one more attempt gets its full time, since a person said so; the run gets at least as much, but in the
    interactive tier, where its clock ran on.
    """
    run = work.run
    deadlines = work.policy_in(run.stage).deadlines_of(run.tier)
    needed = int(deadline.margin_s(deadlines.call_s) * US)
    if not stopped and stage_left > needed and run_left > needed:
        return
    if stage_left <= needed:
        stage_left = int(deadlines.stage_s * US)
    if run.tier is not Tier.INTERACTIVE:
        run_left = max(run_left, stage_left)
    now = work.ctx.now
    work.emit(ev.DeadlinesReissued(run_deadline_at=now + run_left, stage_deadline_at=now + min(stage_left, run_left)))
    children.tell_waiting(work, waiting=False)
