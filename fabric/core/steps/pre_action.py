"""Carries out a person's answer to a review before a call (S2 "Human-in-the-Loop"; docs/specification/agent-step.md).
The call is made as shown, edited or replaced, answered by the person, declined, or rejected with its run.

A person's arguments are checked against the tool's schema here. Then every protection judges the call like a model's,
and its key is made from the bytes that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import events as ev
from fabric.core.calls.proposed import Proposed, list_last_calls
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade
from fabric.core.mechanisms import escalation
from fabric.core.reviews import asking_before, requested_input
from fabric.core.sagas import mutations
from fabric.core.state.run import OpenReview
from fabric.core.steps import wave
from fabric.core.values.fingerprint import encode, fingerprint
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON

PROBLEMS_MAX = 5


def problem(work: Work, review: OpenReview, given: DecisionMade) -> str:
    """Return why an answer cannot be carried out as it stands; "" if it can."""
    if given.tool and given.verb != "edit":
        return "another tool goes with an edit, and with no other answer"
    if requested_input.is_about(shown := _review_content(work, review)) and given.verb in ("approve", "edit"):
        return requested_input.problem(shown, given)
    if given.verb == "respond":
        return "" if given.message.strip() else "a response replaces the result for the agent, and this one is empty"
    if given.verb == "decline" and not given.message.strip():
        return "declining a call needs a reason, which the agent reads, and this one is empty"
    if given.verb != "edit":
        return ""
    if not isinstance(given.edited, dict):
        return "the edited arguments are not a JSON object"
    tool, one = _tool(work, review, given), _reviewed_call(work, review.fact)
    others = asking_before.others(work, work.run.steps[review.fact.step_id], one)
    if tool not in (one.tool, *others):
        there = ", ".join(others) or "none"
        return f"{tool[:63]!r} is no tool that may be called in place of this one; there are: {there}"
    validate = work.compiled_fabric.validators.get(tool)
    wrong = validate(given.edited) if validate else []
    return f"the edited arguments do not fit the tool: {'; '.join(wrong[:PROBLEMS_MAX])}" if wrong else ""


def add_information(work: Work, review: OpenReview, given: DecisionMade) -> dict[str, JSON]:
    """Return the reviewer's information, besides arguments, on a call that a person proposes in place of the shown
    one.
    """
    shown, tool = _review_content(work, review), _tool(work, review, given)
    if requested_input.is_about(shown):
        return {}
    first = shown.get("tool_from", shown["tool"])
    one, step = _reviewed_call(work, review.fact), work.run.steps[review.fact.step_id]
    return {**asking_before.tool_information(work, step, one, tool), **({"tool_from": first} if tool != first else {})}


def take_decision(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    """Carry out an answer to the review of a call. ``why``: names the person who answered."""
    if given.verb in ("approve", "edit") and requested_input.is_about(_review_content(work, review)):
        requested_input.give(work, review, _reviewed_call(work, review.fact), given)
        return
    ANSWERS[given.verb](work, review, given, why)


def _approve_call(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    """Make the call as it was shown: the state records the approval, and the wave goes on."""


def _edit_call(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    fact = review.fact
    one, tool, args_hash = _reviewed_call(work, fact), _tool(work, review, given), fingerprint(given.edited)
    if (tool, args_hash) == (one.tool, one.args_hash):
        return
    work.emit(
        ev.CallEdited(
            step_id=fact.step_id,
            call_id=one.call_id,
            tool=tool,
            args_hash=args_hash,
            proposed_hash=one.args_hash,
            actor=given.actor,
            proposed_tool="" if tool == one.tool else one.tool,
        ),
        {"calls": [{"call_id": one.call_id, "tool": tool, "args": given.edited}]},
    )
    said = f" and says: {given.message}" if given.message else ""
    did = f"changed the arguments of your call {one.call_id} of {one.tool}{said}. It was called with"
    if tool != one.tool:
        did = f"had {tool} called in place of your call {one.call_id} of {one.tool}{said}. What came back is its result; it was called with"
    work.emit(ev.MessageInjected(step_id=fact.step_id), {"text": f"A person {did}: {encode(given.edited).decode()}"})


def _answer_call(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    fact = review.fact
    one = _reviewed_call(work, fact)
    work.emit(
        ev.CallResponded(
            step_id=fact.step_id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash, actor=given.actor
        ),
        {"result": given.message},
    )


def _decline_call(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    """Refuse the one call: the agent reads the reason, and calls that refer to its result are not made either."""
    fact, said = review.fact, f"{given.actor} declined this call: {given.message}"
    wave.refuse(
        work, fact.step_id, _reviewed_call(work, fact), Cause.USER_CANCEL, escalation.NAME, said, correction=False
    )


def _reject_call(work: Work, review: OpenReview, given: DecisionMade, why: str) -> None:
    fact = review.fact
    wave.refuse(
        work, fact.step_id, _reviewed_call(work, fact), Cause.POLICY_DENIED, mutations.NAME, why, correction=False
    )


ANSWERS: Mapping[str, Callable[[Work, OpenReview, DecisionMade, str], None]] = {
    "approve": _approve_call,
    "edit": _edit_call,
    "respond": _answer_call,
    "decline": _decline_call,
    "reject": _reject_call,
}
"""One function a verb of ``reviews.VERBS["pre_action"]``; total by test."""


def _reviewed_call(work: Work, fact: ev.ReviewOpened) -> Proposed:
    """Return the call under review, as its model proposed it."""
    step = work.run.steps[fact.step_id]
    return list_last_calls(work, step)[step.index_of(fact.scope)]


def _review_content(work: Work, review: OpenReview) -> dict[str, JSON]:
    shown: dict[str, JSON] = work.ctx.contents.read(review.shown_ref)
    return shown


def _tool(work: Work, review: OpenReview, given: DecisionMade) -> str:
    """Return the tool of an edit: the one that it names, or the shown one. An earlier edit may have changed the shown
    one.
    """
    named: str = given.tool or _review_content(work, review)["tool"]
    return named
