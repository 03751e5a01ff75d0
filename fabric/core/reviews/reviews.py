"""Reviews: opening them, their clocks, the effect of each answer, and the deadlines that stop meanwhile.

Source: docs/specification/reviews.md. A review parks its own branch; due times depend on the tier; expiry rejects and
is marked as the system's decision. In batch and high-stakes the run's clocks stop while nothing else is live, and new
deadlines are issued when they run again. A command that is already out keeps its own deadline.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from fabric.core import events as ev
from fabric.core.calls import issue as calls
from fabric.core.child_runs import children
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.ladders import fallback_model
from fabric.core.ladders.choice import Choice
from fabric.core.ladders.ladder import rerunnable
from fabric.core.mechanisms import budget, deadline, find_state
from fabric.core.people.eligibility import REVIEWER, SYSTEM
from fabric.core.reviews import agreement as agreeing
from fabric.core.reviews import consequences as showing
from fabric.core.state import let_pass as releases
from fabric.core.state.failure import Failure
from fabric.core.state.family import at_work
from fabric.core.state.let_pass import NEXT_RUNG
from fabric.core.state.living import is_live
from fabric.core.state.run import OpenReview, clocks_stopped
from fabric.core.values.fingerprint import content_ref, digest, encode
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import Cause, Evidence, FailureType, Tier, Trip
from fabric.core.values.units import JSON, US

Item = Literal["failure", "post_stage", "pre_action", "compensation", "child", "follow_up"]
OnExpiry = Literal["reject", "error", "next"]
"""The meaning of silence: a rejection, an error of the call whose tool asks, or the ladder's next rung."""
VERBS: Mapping[Item, tuple[str, ...]] = {
    "failure": ("approve", "edit", "respond", "reject"),
    "post_stage": ("approve", "edit", "respond", "reject"),
    "pre_action": ("approve", "edit", "respond", "decline", "reject"),
    "compensation": ("approve", "respond"),
    "child": ("approve", "reject"),
    "follow_up": ("respond",),
}
"""Possible answers to each kind of review. A review offers only the verbs whose effect its content describes. Total
by test.
"""
OF_TIME = frozenset({Cause.RUN_DEADLINE, Cause.STAGE_DEADLINE, Cause.DEADLINE_NEAR})
"""Causes for which a fabric may name another role than for money: they share a row of the table."""
NEVER_LATE = frozenset({"follow_up", "quarantine"})
"""Kinds of review that do not expire, so that an answer counts whenever it comes."""


def find_scope(failure: Failure, work: Work) -> str:
    """Return the scope in which rounds of a review are counted: the stage, and the branch if there is one."""
    step = work.run.steps.get(failure.step_id)
    return f"{failure.stage}.{step.branch}" if step is not None else str(failure.stage)


def is_unsure(failure: Failure, choice: Choice) -> bool:
    """Return True if a stage's own result goes to a review because its critic's score is low. A child that ended so
    has no result to accept.
    """
    return choice.trip.cause is Cause.BELOW_TAU and not failure.step_id


def rounds_spent(work: Work, failure: Failure) -> bool:
    """Return True if a failure was approved as often as allowed (2 rounds, then abort)."""
    return work.run.rounds.get(find_scope(failure, work), 0) >= work.compiled_fabric.spec.policy.humans.failure_rounds


def open_review(work: Work, failure: Failure, choice: Choice) -> None:
    """Open a review of a failure and park its branch, which stays still until the answer."""
    item: Item = "post_stage" if is_unsure(failure, choice) else "failure"
    other = (
        fallback_model.offered_fallback(work, failure, choice.trip) if item == "failure" else fallback_model.NO_MODEL
    )
    takes_model = showing.takes_model(work, failure, other.choice.model) if other.choice.model else {}
    step_id = _park(work, failure) if item == "failure" else ""
    let_pass = releases.failure_key(failure, choice.trip)
    scope = find_scope(failure, work)
    for key, review in list(work.run.reviews.items()):
        # The run's clock may run on during a review of the stage; a review of the run's end then replaces it.
        if (review.fact.step_id or review.fact.scope) == (step_id or scope):
            work.emit(ev.ReviewWithdrawn(review_id=key, reason=f"asked again: {choice.trip.message}"))
    content = showing.review_content(work, failure, choice, item, let_pass) | takes_model
    _open(
        work,
        item=item,
        reason=choice.trip.message,
        failure_type=choice.failure_type,
        stage=failure.stage,
        step_id=step_id,
        scope=scope,
        role=releases.ROLE if let_pass else choose_role(work, choice),
        content=content,
        verbs=tuple(verb for verb in VERBS[item] if verb in content),
        other=other,
        # Only failures count: an unsure result is accepted or not, and never retried.
        round_=work.run.rounds.get(scope, 0) + 1 if item == "failure" else 1,
        let_pass=let_pass,
        trip=choice.trip,
        on_expiry=NEXT_RUNG if choice.rung.poll else "reject",
    )


def choose_role(work: Work, choice: Choice) -> str:
    """Return the role that is asked: the cell's, or the fabric's own for a deadline that has passed."""
    late = work.compiled_fabric.spec.policy.humans.time_role
    return late if late and choice.trip.cause in OF_TIME else choice.rung.role


def open_follow_up(work: Work, failure: Failure, choice: Choice) -> None:
    """Leave a follow-up: the run ends and does not wait for it. A person closes it with a note, or a fork goes on from
    it.
    """
    content = showing.facts(work, failure, choice.trip, choice.failure_type) | {
        "item": "follow_up",
        "reaction": choice.rung.reaction,
        "respond": "the follow-up is closed with your words; the run has ended, and nothing of it moves",
        "expiry": "nothing happens automatically",
    }
    _open(
        work,
        item="follow_up",
        reason=choice.trip.message,
        failure_type=choice.failure_type,
        stage=failure.stage,
        step_id=failure.step_id,
        scope=find_scope(failure, work),
        role=choose_role(work, choice),
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
    """Open a review of something that is no failure of a step. ``bound``: a digest of further content that an
    approval covers.
    """
    ledger = find_state(work.run.guards, budget)
    content = {
        "item": item,
        "stage": work.run.stage,
        "message": reason,
        "spent_usd_micros": ledger.spent_usd_micros,
        "cap_usd_micros": budget.cap(work.compiled_fabric.spec.policy.budget, ledger),
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
    other: fallback_model.FallbackFound = fallback_model.NO_MODEL,
    let_pass: str = "",
    verbs: tuple[str, ...] = (),
    trip: Trip | None = None,
    on_expiry: OnExpiry = "reject",
) -> None:
    due = _due_at(work, item, step_id, on_expiry) - work.ctx.now
    humans = work.compiled_fabric.spec.policy.humans
    unsure_by = trip.evidence if trip is not None and trip.cause is Cause.BELOW_TAU else Evidence()
    number = work.run.seq + 1
    about = (work.compiled_fabric.revision, content_ref(encode(content)), work.run.id, number)
    work.emit(
        ev.ReviewOpened(
            review_id=digest(work.run.id, "review", number)[:16],
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
            on_expiry="nothing" if item == "follow_up" else on_expiry,
            round=round_,
            model=other.choice.model,
            weighed=other.weighed,
            releases=let_pass,
            score=unsure_by.observed,
            tau=unsure_by.limit,
            **_reviewers(work, role, follow_up=item == "follow_up"),
        ),
        content,
    )


def _due_at(work: Work, item: Item, step_id: str, on_expiry: OnExpiry) -> int:
    """Return the instant until which an answer counts: never after the end of a run whose clock runs on meanwhile.
    The consequence of silence has its time before that.
    """
    run, now = work.run, work.ctx.now
    due = now + int(work.compiled_fabric.spec.policy.due_s(run.tier) * US)
    if run.tier is not Tier.INTERACTIVE or item in ("follow_up", "compensation") or now >= run.deadline_at:
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


def _reviewers(work: Work, role: str, *, follow_up: bool) -> dict[str, Any]:
    """Return the people who may answer, as the fabric lists them now. Closing a follow-up approves nothing, so any of
    them may close it.
    """
    spec = work.compiled_fabric.spec
    return {
        "reviewers": spec.reviewers if role in ("", REVIEWER) else (),
        "onward_to": spec.policy.humans.onward_to,
        **({} if follow_up else {"approvals": agreeing.approvals(work), "barred": agreeing.barred_people(work)}),
    }


def _park(work: Work, failure: Failure) -> str:
    """Stop the subject of the review: its step, or every live step of its stage. Returns the step's id."""
    if failure.step_id:
        calls.let_go_all(work, "a person decides first", failure.step_id)
        return failure.step_id
    for step in list(work.run.steps.values()):
        if step.stage == failure.stage and step.status in ("active", "delegated"):
            calls.let_go_all(work, "a person decides first", step.id)
            trip = failure.trips[0]
            work.emit(ev.StepFailed(step_id=step.id, cause=trip.cause, message=trip.message))
    return ""


def withdraw_all(work: Work, reason: str) -> None:
    """Close every open review that no longer matters. Reviews of compensations under way stay open."""
    for key, review in list(work.run.reviews.items()):
        if review.fact.item == "compensation":
            continue
        work.emit(ev.ReviewWithdrawn(review_id=key, reason=reason))


# -- answers ---------------------------------------------------------------------------------------------------------


def refuse_decision(work: Work, decision: DecisionMade) -> str:
    """Return why a decision changes nothing, regardless of its author; "" if it counts."""
    review = work.run.reviews.get(decision.review_id)
    if review is None:
        return "the review was answered before, withdrawn, or never asked"
    if decision.digest != review.fact.digest:
        return "the decision was about other content (its digest differs)"
    if decision.verb not in review.fact.verbs:
        return f"{decision.verb} is not possible here; possible are: {', '.join(review.fact.verbs)}"
    sent_at = work.ctx.now if work.ctx.sent_at is None else work.ctx.sent_at
    if is_late(review.fact.item, review.fact.due_at, sent_at):
        return "the answer came when the time for it was over: the review counts as rejected"
    return ""


def is_late(item: str, due_at: int, sent_at: int) -> bool:
    """Return True if an answer comes too late. An answer sent before the review is due counts, whenever the run
    takes it. ``due_at``, ``sent_at``: microseconds since the epoch, UTC. Nothing happens at the due time of a
    kind in ``NEVER_LATE``.
    """
    return item not in NEVER_LATE and sent_at >= due_at


def record_decision(work: Work, decision: DecisionMade, roles: Collection[str] = ()) -> OpenReview:
    """Record an answer and let the clocks run again; the caller carries the answer out. ``roles``: those of its
    author.
    """
    review = work.run.reviews[decision.review_id]
    work.emit(
        ev.ReviewDecided(
            review_id=decision.review_id,
            verb=decision.verb,
            actor=decision.actor,
            system=decision.actor == SYSTEM,
            roles=tuple(sorted(roles)),
            agreed=review.agreed if decision.verb == "approve" else (),
            proposed_by=review.proposed_by if decision.verb == "approve" else "",
        ),
        {"message": decision.message} if decision.message else None,
    )
    return review


def expired_answer(work: Work, review: OpenReview) -> DecisionMade:
    """Return the declared answer of a review that expired."""
    fact = review.fact
    return DecisionMade(
        input_id=f"expiry:{fact.review_id}",
        review_id=fact.review_id,
        verb="reject",
        actor=SYSTEM,
        digest=fact.digest,
        message="no one answered in time",
    )


def unanswered_loop(work: Work, review: OpenReview) -> Failure:
    """Return the loop failure again, after its review expired."""
    fact = review.fact
    message = f"{fact.reason}, and no one decided in time"
    details = work.ctx.contents.read(review.shown_ref).get("details", {})
    trip = Trip("escalation", Cause.LOOP_DETECTED, Evidence(scope=f"step:{fact.step_id}", details=details), message)
    return Failure((trip,), fact.stage, fact.step_id)


def remind(work: Work) -> None:
    """Emit the reminders that are due: at half of the time, and at three quarters."""
    for key, review in list(work.run.reviews.items()):
        fact = review.fact
        if work.ctx.now >= fact.onward_at and not review.onward:
            work.emit(ev.ReviewReminded(review_id=key, step="onward"))
        elif work.ctx.now >= fact.remind_at and not review.reminded:
            work.emit(ev.ReviewReminded(review_id=key, step="reminder"))


def steps_to_rerun(work: Work, review: OpenReview) -> list[str]:
    """Return the steps that an approval of a failure runs once more."""
    fact = review.fact
    return rerunnable(work, Failure((), fact.stage, fact.step_id))


# -- clocks ----------------------------------------------------------------------------------------------------------


def suspend_clocks(work: Work) -> None:
    """Stop the deadlines when only reviews are live, in the tiers where people may take their time."""
    run = work.run
    if not (run.reviews or run.family.alive) or run.suspended or run.tier is Tier.INTERACTIVE:
        return
    if run.terminal or run.ending or is_live(run) or at_work(run.family):
        return
    run_left, stage_left = time_left(work)
    work.emit(ev.DeadlinesSuspended(run_remaining_us=run_left, stage_remaining_us=stage_left))
    children.tell_waiting(work, waiting=True)


def time_left(work: Work) -> tuple[int, int]:
    """Return the microseconds left of the run's and of the stage's time, whether its clocks run or are stopped."""
    run, stopped = work.run, clocks_stopped(work.run)
    if stopped is not None:
        return stopped
    reached = run.stages.get(run.stage)
    return run.deadline_at - work.ctx.now, reached.deadline_at - work.ctx.now if reached is not None else 0


def resume_clocks(work: Work) -> None:
    """Issue new deadlines after an answer; a paused run gets them when it is resumed."""
    if work.run.control.paused is None:
        _reissue(work, *time_left(work), stopped=work.run.suspended is not None)


def resume_held(work: Work, run_left: int, stage_left: int) -> None:
    """Issue new deadlines after a pause, unless the run waits only for people: then their answer does so."""
    run = work.run
    waited_for = bool(run.reviews or run.family.alive) and not at_work(run.family)
    if run.suspended is None or is_live(run) or not waited_for:
        _reissue(work, run_left, stage_left, stopped=True)


def _reissue(work: Work, run_left: int, stage_left: int, *, stopped: bool) -> None:
    """Issue new deadlines from the time left. Clocks that never stopped keep theirs, unless an attempt would no
    longer fit.

    A stage without the time for one more attempt gets its full time, since a person decided to go on. The run gets at
    least as much, except in the interactive tier, where its clock ran on.
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
