"""A person answered a question, or nobody did in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import (
    agreeing,
    children,
    edits,
    kept_steps,
    ladder,
    pre_action,
    questions,
    raised_cap,
    reactions,
    rerunning,
    swap,
    unwinding,
)
from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.failure import Failure
from fabric.core.flow import RunState
from fabric.core.inputs import DecisionMade
from fabric.core.let_pass import NEXT_RUNG
from fabric.core.run import OpenQuestion
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work


def decided(work: Work, given: DecisionMade) -> None:
    """Does what the answer says, records that one of two has agreed or that somebody proposes something else, or says why it changes nothing."""
    reason = questions.refused(work, given)
    question = work.run.questions.get(given.escalation_id)
    if question is not None:
        person = work.ctx.person
        reason = reason or agreeing.not_theirs(question, given, person, work) or _unfit(work, question, given)
        if not reason:
            assert person is not None
            amounts_to = agreeing.enough(work, question, given)
            if amounts_to == "agrees":
                agreeing.agree(work, question, given, person)
            elif amounts_to == "proposes":
                more = pre_action.in_place(work, question, given) if question.fact.item == "pre_action" else {}
                agreeing.propose(work, question, given, person, more)
            else:
                questions.decided(work, given, person.roles)
                _follow(work, question, agreeing.followed(work, question, given))
            return
    work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))


def expired(work: Work, question: OpenQuestion) -> None:
    """Nobody answered in time: the declared answer is the system's, and asks nobody. Where a tool is there to ask, silence is an error of its call.
    Where it was asked whether a call may go on, it may not, and the ladder's next rung is taken.
    """
    given = questions.expired(work, question)
    questions.decided(work, given)
    if question.fact.on_expiry == "error":
        questions.resume_clocks(work)
        pre_action.decided(work, question, given, "nobody answered in time")
    elif question.fact.on_expiry == NEXT_RUNG:
        questions.resume_clocks(work)
        reactions.react(work, questions.unanswered(work, question))
    else:
        _follow(work, question, given)


def _unfit(work: Work, question: OpenQuestion, given: DecisionMade) -> str:
    """Why an answer that may be given cannot be followed as it stands."""
    fact = question.fact
    if fact.item == "pre_action":
        return pre_action.problem(work, question, given)
    if given.tool:
        return "another tool goes with an edit of a call, and this is another question"
    if question.edited and (given.cap_usd_micros is not None or given.caps or given.model):
        return "somebody wrote something else in place of what is asked about: a new cap, or another model, goes with what was asked first"
    named = raised_cap.problem(work, fact, given) or swap.problem(work, fact, given)
    return named or edits.problem(work, question, given) or _unanswerable(work, question, given)


def _unanswerable(work: Work, question: OpenQuestion, given: DecisionMade) -> str:
    if given.verb != "respond" or question.fact.item not in ("failure", "post_stage"):
        return ""
    if not given.message.strip():
        return "a response is what is to be done otherwise, and this one is empty"
    spent = ladder.replans_spent(work, question.fact.stage)
    return f"a response costs one replan, and {spent}" if spent else ""


def _follow(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    ANSWERS[question.fact.item, given.verb](work, question, given)


# -- one function an answer --------------------------------------------------------------------------------------------


def _compensation(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    unwinding.decided(work, question, given)
    if work.run.ending is None:
        questions.resume_clocks(work)


def _child(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    children.answer(work, question.fact.scope, given)


def _rejected(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    fact = question.fact
    who = "nobody answered in time" if given.actor == questions.SYSTEM else f"{given.actor} rejected it"
    said = f": {given.message}" if given.message and given.actor != questions.SYSTEM else ""
    if fact.item == "pre_action":
        pre_action.decided(work, question, given, f"{who}{said}")
    reactions.end(work, RunState.ABORTED, "reject", f"{who}{said} ({fact.reason})")


def _pre_action(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    questions.resume_clocks(work)
    pre_action.decided(work, question, given, "")


def _passes(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    """It goes on as it was shown: the state says so."""
    questions.resume_clocks(work)


def _failure_approved(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    questions.resume_clocks(work)
    raised_cap.raise_to(work, question.fact, given)
    if question.fact.releases:
        return
    again = questions.steps_to_rerun(work, question)
    told = given.message or f"Approved for one more try. What went wrong: {question.fact.reason}"
    if again:
        _run_again(work, question.fact, again, told, given)
    else:
        _plan_again(work, question.fact, question.fact.reason)


def _edited(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    questions.resume_clocks(work)
    again = edits.put(work, question, given)
    if again:
        told = given.message or "A person changed your brief: go by what it says now."
        _run_again(work, question.fact, again, told, given)


def _answered(work: Work, question: OpenQuestion, given: DecisionMade) -> None:
    """What failed runs once more with a person's words; where nothing of it can, or it is a whole result that is not good enough, it is planned anew."""
    questions.resume_clocks(work)
    fact = question.fact
    again = questions.steps_to_rerun(work, question) if fact.item == "failure" else []
    if not again:
        _plan_again(work, fact, f"{given.actor} says: {given.message}")
        return
    guided = ev.GuidanceGiven(
        escalation_id=fact.escalation_id, stage=fact.stage, step_ids=tuple(again), actor=given.actor
    )
    work.emit(guided, {"text": given.message})
    _run_again(work, fact, again, given.message, given)


def _run_again(work: Work, fact: ev.EscalationOpened, step_ids: list[str], told: str, given: DecisionMade) -> None:
    trips = ladder.respawned(work, fact.stage, step_ids)
    if trips:
        reactions.react(work, Failure(tuple(trips), fact.stage, fact.step_id))
    elif given.verb == "approve" and kept_steps.keeps(work.run, fact.failure_type, fact.step_id):
        rerunning.call_again(work, fact.step_id, given.message)
        swap.approve(work, fact, given)
    else:
        rerunning.rerun(work, step_ids, told, approved=given.verb == "approve", said=given.message)
        swap.approve(work, fact, given)


def _plan_again(work: Work, fact: ev.EscalationOpened, told: str) -> None:
    """No step failed, the stage did: an answer starts over from the plan, as often as any replan may."""
    spent = ladder.replans_spent(work, fact.stage)
    if spent:
        reactions.end(work, RunState.ABORTED, Reaction.ABORT, f"approved once more, but {spent} ({fact.reason})")
        return
    trip = Trip("escalation", Cause.UNKNOWN, Evidence(scope=f"stage:{fact.stage}"), told)
    reactions.replan(work, fact.stage, trip, reason="a_person_asked")


ANSWERS: Mapping[tuple[str, str], Callable[[Work, OpenQuestion, DecisionMade], None]] = {
    ("failure", "approve"): _failure_approved,
    ("failure", "edit"): _edited,
    ("failure", "respond"): _answered,
    ("failure", "reject"): _rejected,
    ("post_stage", "approve"): _passes,
    ("post_stage", "edit"): _edited,
    ("post_stage", "respond"): _answered,
    ("post_stage", "reject"): _rejected,
    ("pre_action", "approve"): _pre_action,
    ("pre_action", "edit"): _pre_action,
    ("pre_action", "respond"): _pre_action,
    ("pre_action", "decline"): _pre_action,
    ("pre_action", "reject"): _rejected,
    ("compensation", "approve"): _compensation,
    ("compensation", "respond"): _compensation,
    ("compensation", "reject"): _compensation,
    ("child", "approve"): _child,
    ("child", "reject"): _child,
}
"""What each answer to each kind of item does; total by test. Nobody rejects a compensation: that is how it expires. A ticket moves no run."""
