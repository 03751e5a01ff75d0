"""A person's word before a call: it is made as shown, made with other arguments or replaced by another call, answered in its stead, declined, or rejected with
its run (S2 "Human-in-the-Loop"; semantics.md 6).

What a person wrote is held to the schema of its tool here, then judged by every protection as a model's call is, and keyed by the bytes that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import asking_before, mutations, requested_input, wave
from fabric.core import events as ev
from fabric.core.fingerprint import encode, fingerprint
from fabric.core.inputs import DecisionMade
from fabric.core.mechanisms import escalation
from fabric.core.proposed import Proposed, of_last_answer
from fabric.core.run import OpenQuestion
from fabric.core.taxonomy import Cause
from fabric.core.work import Work

JSON = Any
PROBLEMS_MAX = 5


def problem(work: Work, question: OpenQuestion, given: DecisionMade) -> str:
    """Why an answer cannot be followed as it stands; empty when it can."""
    if given.tool and given.verb != "edit":
        return "another tool goes with an edit, and with no other answer"
    if requested_input.is_about(shown := _shown(work, question)) and given.verb in ("approve", "edit"):
        return requested_input.problem(shown, given)
    if given.verb == "respond":
        return (
            ""
            if given.message.strip()
            else "a response is what the agent is told instead of a result, and this one is empty"
        )
    if given.verb == "decline" and not given.message.strip():
        return "whoever declines a call says why: the agent goes on with these words, and they are empty"
    if given.verb != "edit":
        return ""
    if not isinstance(given.edited, dict):
        return "the edited arguments are not a JSON object"
    tool, one = _tool(work, question, given), _asked(work, question.fact)
    others = asking_before.others(work, work.run.steps[question.fact.step_id], one)
    if tool not in (one.tool, *others):
        there = ", ".join(others) or "none"
        return f"{tool[:63]!r} is no tool that may be called in place of this one; there are: {there}"
    validate = work.compiled.validators.get(tool)
    wrong = validate(given.edited) if validate else []
    return f"the edited arguments do not fit the tool: {'; '.join(wrong[:PROBLEMS_MAX])}" if wrong else ""


def in_place(work: Work, question: OpenQuestion, given: DecisionMade) -> dict[str, JSON]:
    """What a person is shown of a call that somebody proposes to make in place of what was shown, beside its arguments."""
    shown, tool = _shown(work, question), _tool(work, question, given)
    if requested_input.is_about(shown):
        return {}
    first = shown.get("tool_from", shown["tool"])
    one, step = _asked(work, question.fact), work.run.steps[question.fact.step_id]
    return {**asking_before.offered(work, step, one, tool), **({"tool_from": first} if tool != first else {})}


def decided(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    """Does what the answer says of the call. ``why``: who said so."""
    if given.verb in ("approve", "edit") and requested_input.is_about(_shown(work, question)):
        requested_input.give(work, question, _asked(work, question.fact), given)
        return
    ANSWERS[given.verb](work, question, given, why)


def _approved(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    """It is made as it was shown: the state says so, and the wave goes on."""


def _edited(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    fact = question.fact
    one, tool, args_hash = _asked(work, fact), _tool(work, question, given), fingerprint(given.edited)
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


def _responded(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    fact = question.fact
    one = _asked(work, fact)
    work.emit(
        ev.CallResponded(
            step_id=fact.step_id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash, actor=given.actor
        ),
        {"result": given.message},
    )


def _declined(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    """The call alone is not made: the agent reads why, and whatever refers to its result is not made either."""
    fact, said = question.fact, f"{given.actor} declined this call: {given.message}"
    wave.refuse(work, fact.step_id, _asked(work, fact), Cause.USER_CANCEL, escalation.NAME, said, correction=False)


def _rejected(work: Work, question: OpenQuestion, given: DecisionMade, why: str) -> None:
    fact = question.fact
    wave.refuse(work, fact.step_id, _asked(work, fact), Cause.POLICY_DENIED, mutations.NAME, why, correction=False)


ANSWERS: Mapping[str, Callable[[Work, OpenQuestion, DecisionMade, str], None]] = {
    "approve": _approved,
    "edit": _edited,
    "respond": _responded,
    "decline": _declined,
    "reject": _rejected,
}
"""One function a verb of ``questions.VERBS["pre_action"]``; total by test."""


def _asked(work: Work, fact: ev.EscalationOpened) -> Proposed:
    """The call that the question is about, as its model proposed it."""
    step = work.run.steps[fact.step_id]
    return of_last_answer(work, step)[step.index_of(fact.scope)]


def _shown(work: Work, question: OpenQuestion) -> dict[str, JSON]:
    shown: dict[str, JSON] = work.ctx.contents.read(question.shown_ref)
    return shown


def _tool(work: Work, question: OpenQuestion, given: DecisionMade) -> str:
    """The tool that is called by an edit: the one that it names, or the one that is shown, which somebody may have put in place of the model's."""
    named: str = given.tool or _shown(work, question)["tool"]
    return named
