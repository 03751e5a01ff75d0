"""Handles answers to reviews, and reviews that expired."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import events as ev
from fabric.core.child_runs import children
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.evolve import calls
from fabric.core.ladders import fallback_model, ladder
from fabric.core.people.eligibility import SYSTEM
from fabric.core.reactions import node_retries as rerunning
from fabric.core.reactions import react as reactions
from fabric.core.reactions import unwinding
from fabric.core.reviews import agreement as agreeing
from fabric.core.reviews import edits, raised_cap, reviews
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.state.failure import Failure
from fabric.core.state.let_pass import NEXT_RUNG
from fabric.core.state.run import OpenReview
from fabric.core.steps import pre_action
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Evidence, Trip


def take_decision(work: Work, given: DecisionMade) -> None:
    """Carry out an answer, record the first of two agreements or a proposal, or journal why the answer changes
    nothing.
    """
    reason = reviews.refuse_decision(work, given)
    review = work.run.reviews.get(given.review_id)
    if review is not None:
        person = work.ctx.person
        reason = reason or agreeing.not_theirs(review, given, person, work) or _unfit(work, review, given)
        if not reason:
            assert person is not None
            amounts_to = agreeing.weigh_answer(work, review, given)
            if amounts_to == "agrees":
                agreeing.agree(work, review, given, person)
            elif amounts_to == "proposes":
                more = pre_action.add_information(work, review, given) if review.fact.item == "pre_action" else {}
                agreeing.propose(work, review, given, person, more)
            else:
                reviews.record_decision(work, given, person.roles)
                _follow(work, review, agreeing.followed_answer(work, review, given))
            return
    work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))


def expire_review(work: Work, review: OpenReview) -> None:
    """Apply the declared answer of an expired review, without a check of rights. For a tool that asks a person,
    silence is an error of its call. For a call that was to be allowed, it is a refusal, and the ladder's next
    rung is taken.
    """
    given = reviews.expired_answer(work, review)
    reviews.record_decision(work, given)
    if review.fact.on_expiry == "error":
        reviews.resume_clocks(work)
        pre_action.take_decision(work, review, given, "no one answered in time")
    elif review.fact.on_expiry == NEXT_RUNG:
        reviews.resume_clocks(work)
        reactions.react(work, reviews.unanswered_loop(work, review))
    else:
        _follow(work, review, given)


def _unfit(work: Work, review: OpenReview, given: DecisionMade) -> str:
    """Return why a permitted answer cannot be carried out; "" if it can."""
    fact = review.fact
    if fact.item == "pre_action":
        return pre_action.problem(work, review, given)
    if given.tool:
        return "another tool goes with an edit of a call, and this is another review"
    if review.edited and (given.cap_usd_micros is not None or given.caps or given.model):
        return "the content was edited: a new cap or another model is possible only for the original content"
    named = raised_cap.problem(work, fact, given) or fallback_model.problem(work, fact, given)
    return named or edits.problem(work, review, given) or _unanswerable(work, review, given)


def _unanswerable(work: Work, review: OpenReview, given: DecisionMade) -> str:
    if given.verb != "respond" or review.fact.item not in ("failure", "post_stage"):
        return ""
    if not given.message.strip():
        return "a response is what is to be done otherwise, and this one is empty"
    spent = ladder.replans_spent(work, review.fact.stage)
    return f"a response costs one replan, and {spent}" if spent else ""


def _follow(work: Work, review: OpenReview, given: DecisionMade) -> None:
    ANSWERS[review.fact.item, given.verb](work, review, given)


# -- one function an answer ------------------------------------------------------------------------------------------


def _compensation(work: Work, review: OpenReview, given: DecisionMade) -> None:
    unwinding.take_decision(work, review, given)
    if work.run.ending is None:
        reviews.resume_clocks(work)


def _child(work: Work, review: OpenReview, given: DecisionMade) -> None:
    children.answer(work, review.fact.scope, given)


def _reject(work: Work, review: OpenReview, given: DecisionMade) -> None:
    fact = review.fact
    who = "no one answered in time" if given.actor == SYSTEM else f"{given.actor} rejected it"
    said = f": {given.message}" if given.message and given.actor != SYSTEM else ""
    if fact.item == "pre_action":
        pre_action.take_decision(work, review, given, f"{who}{said}")
    reactions.end(work, RunState.ABORTED, "reject", f"{who}{said} ({fact.reason})")


def _pre_action(work: Work, review: OpenReview, given: DecisionMade) -> None:
    reviews.resume_clocks(work)
    pre_action.take_decision(work, review, given, "")


def _passes(work: Work, review: OpenReview, given: DecisionMade) -> None:
    """Let the call go on as it was shown; the state records the approval."""
    reviews.resume_clocks(work)


def _failure_approved(work: Work, review: OpenReview, given: DecisionMade) -> None:
    reviews.resume_clocks(work)
    raised_cap.raise_to(work, review.fact, given)
    if review.fact.releases:
        return
    again = reviews.steps_to_rerun(work, review)
    told = given.message or f"Approved for one more try. What went wrong: {review.fact.reason}"
    if again:
        _run_again(work, review.fact, again, told, given)
    else:
        _plan_again(work, review.fact, review.fact.reason)


def _edit(work: Work, review: OpenReview, given: DecisionMade) -> None:
    reviews.resume_clocks(work)
    again = edits.put(work, review, given)
    if again:
        told = given.message or "A person changed your brief: go by what it says now."
        _run_again(work, review.fact, again, told, given)


def _run_with_words(work: Work, review: OpenReview, given: DecisionMade) -> None:
    """Run the failed steps once more with a person's words. Without a step to repeat, or for a rejected result,
    replan.
    """
    reviews.resume_clocks(work)
    fact = review.fact
    again = reviews.steps_to_rerun(work, review) if fact.item == "failure" else []
    if not again:
        _plan_again(work, fact, f"{given.actor} says: {given.message}")
        return
    guided = ev.GuidanceGiven(review_id=fact.review_id, stage=fact.stage, step_ids=tuple(again), actor=given.actor)
    work.emit(guided, {"text": given.message})
    _run_again(work, fact, again, given.message, given)


def _run_again(work: Work, fact: ev.ReviewOpened, step_ids: list[str], told: str, given: DecisionMade) -> None:
    trips = ladder.refuse_respawn(work, fact.stage, step_ids)
    if trips:
        reactions.react(work, Failure(tuple(trips), fact.stage, fact.step_id))
    elif given.verb == "approve" and calls.keeps(work.run, fact.failure_type, fact.step_id):
        rerunning.call_again(work, fact.step_id, given.message)
        fallback_model.approve(work, fact, given)
    else:
        rerunning.rerun(work, step_ids, told, approved=given.verb == "approve", said=given.message)
        fallback_model.approve(work, fact, given)


def _plan_again(work: Work, fact: ev.ReviewOpened, told: str) -> None:
    """Replan with a person's words where the stage failed and no step did, as often as any replan may."""
    spent = ladder.replans_spent(work, fact.stage)
    if spent:
        reactions.end(work, RunState.ABORTED, Reaction.ABORT, f"approved once more, but {spent} ({fact.reason})")
        return
    trip = Trip("escalation", Cause.UNKNOWN, Evidence(scope=f"stage:{fact.stage}"), told)
    reactions.replan(work, fact.stage, trip, reason="a_person_asked")


ANSWERS: Mapping[tuple[str, str], Callable[[Work, OpenReview, DecisionMade], None]] = {
    ("failure", "approve"): _failure_approved,
    ("failure", "edit"): _edit,
    ("failure", "respond"): _run_with_words,
    ("failure", "reject"): _reject,
    ("post_stage", "approve"): _passes,
    ("post_stage", "edit"): _edit,
    ("post_stage", "respond"): _run_with_words,
    ("post_stage", "reject"): _reject,
    ("pre_action", "approve"): _pre_action,
    ("pre_action", "edit"): _pre_action,
    ("pre_action", "respond"): _pre_action,
    ("pre_action", "decline"): _pre_action,
    ("pre_action", "reject"): _reject,
    ("compensation", "approve"): _compensation,
    ("compensation", "respond"): _compensation,
    ("compensation", "reject"): _compensation,
    ("child", "approve"): _child,
    ("child", "reject"): _child,
}
"""Effect of each answer to each kind of review; total by test. A compensation's review has no rejection but its
expiry. A follow-up moves no run.
"""
