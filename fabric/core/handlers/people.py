"""A person answered a question, or nobody did in time."""

from __future__ import annotations

from fabric.core import children, ladder, pre_action, questions, raised_cap, reactions, swap, unwinding
from fabric.core import events as ev
from fabric.core.decision_table import Reaction
from fabric.core.failure import Failure
from fabric.core.flow import RunState
from fabric.core.inputs import DecisionMade
from fabric.core.taxonomy import Cause
from fabric.core.verdict import Evidence, Trip
from fabric.core.work import Work


def decided(work: Work, given: DecisionMade) -> None:
    """Does what the answer says, or records why it changes nothing."""
    reason = questions.refused(work, given) or _unfit(work, given)
    if reason:
        work.emit(ev.InputIgnored(input_kind=given.kind, reason=reason))
        return
    question = questions.decided(work, given)
    if question.fact.item == "compensation":
        unwinding.decided(work, question, given)
        if work.run.ending is None:
            questions.resume_clocks(work)
        return
    if question.fact.item == "child":
        children.answer(work, question.fact.scope, given)
        return
    if given.verb == "reject":
        _rejected(work, question.fact, given)
        return
    questions.resume_clocks(work)
    raised_cap.raise_to(work, question.fact, given)
    if question.fact.item == "pre_action":
        pre_action.decided(work, question.fact, given, "")
    if question.fact.item in ("post_stage", "pre_action") or question.fact.releases:
        return
    again = questions.steps_to_rerun(work, question)
    told = given.message or f"Approved for one more try. What went wrong: {question.fact.reason}"
    if again:
        _run_again(work, question.fact, again, told, given)
    else:
        _plan_again(work, question.fact)


def _unfit(work: Work, given: DecisionMade) -> str:
    """Why an answer that may be given cannot be followed as it stands."""
    fact = work.run.questions[given.escalation_id].fact
    if fact.item == "pre_action":
        return pre_action.problem(work, fact, given)
    return raised_cap.problem(work, fact, given) or swap.problem(work, fact, given)


def _rejected(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> None:
    who = "nobody answered in time" if given.actor == questions.SYSTEM else f"{given.actor} rejected it"
    said = f": {given.message}" if given.message and given.actor != questions.SYSTEM else ""
    if fact.item == "pre_action":
        pre_action.decided(work, fact, given, f"{who}{said}")
    reactions.end(work, RunState.ABORTED, "reject", f"{who}{said} ({fact.reason})")


def _run_again(work: Work, fact: ev.EscalationOpened, step_ids: list[str], told: str, given: DecisionMade) -> None:
    trips = ladder.respawned(work, fact.stage, step_ids)
    if trips:
        reactions.react(work, Failure(tuple(trips), fact.stage, fact.step_id))
    else:
        reactions.rerun(work, step_ids, told, approved=True)
        swap.approve(work, fact, given)


def _plan_again(work: Work, fact: ev.EscalationOpened) -> None:
    """No step failed, the stage did: an approval starts over from the plan, as often as any replan may."""
    spent = ladder.replans_spent(work, fact.stage)
    if spent:
        reactions.end(work, RunState.ABORTED, Reaction.ABORT, f"approved once more, but {spent} ({fact.reason})")
        return
    trip = Trip("escalation", Cause.UNKNOWN, Evidence(scope=f"stage:{fact.stage}"), fact.reason)
    reactions.replan(work, fact.stage, trip)
