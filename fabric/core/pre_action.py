"""What a person says about a call that asks first (semantics.md 10 "A word before a call"): made as it is, made otherwise, answered in its stead, or not made.

Arguments that a person writes are proposed like the model's own: they take their place in the step, with a hash of their own, so that the wave
checks and judges them again and the key is that of the bytes that run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import events as ev
from fabric.core import mutations, wave
from fabric.core.fingerprint import encode, fingerprint
from fabric.core.inputs import DecisionMade
from fabric.core.proposed import Proposed, of_last_answer
from fabric.core.taxonomy import Cause
from fabric.core.work import Work

PROBLEMS_MAX = 5


def problem(work: Work, fact: ev.EscalationOpened, given: DecisionMade) -> str:
    """Why an answer cannot be followed as it stands; empty when it can."""
    if given.verb == "respond":
        return (
            ""
            if given.message.strip()
            else "a response is what the agent is told instead of a result, and this one is empty"
        )
    if given.verb != "edit":
        return ""
    if not isinstance(given.edited, dict):
        return "the edited arguments are not a JSON object"
    validate = work.compiled.validators.get(_asked(work, fact).tool)
    wrong = validate(given.edited) if validate else []
    return f"the edited arguments do not fit the tool: {'; '.join(wrong[:PROBLEMS_MAX])}" if wrong else ""


def decided(work: Work, fact: ev.EscalationOpened, given: DecisionMade, why: str) -> None:
    """Does what the answer says of the call. ``why``: who said so."""
    ANSWERS[given.verb](work, fact, given, why)


def _approved(work: Work, fact: ev.EscalationOpened, given: DecisionMade, why: str) -> None:
    """It is made as it was shown: the state says so, and the wave goes on."""


def _edited(work: Work, fact: ev.EscalationOpened, given: DecisionMade, why: str) -> None:
    one = _asked(work, fact)
    args_hash = fingerprint(given.edited)
    if args_hash == one.args_hash:
        return
    work.emit(
        ev.CallEdited(
            step_id=fact.step_id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=args_hash,
            proposed_hash=one.args_hash,
            actor=given.actor,
        ),
        {"calls": [{"call_id": one.call_id, "tool": one.tool, "args": given.edited}]},
    )
    said = f" and says: {given.message}" if given.message else ""
    written = encode(given.edited).decode()
    told = (
        f"A person changed the arguments of your call {one.call_id} of {one.tool}{said}. It was called with: {written}"
    )
    work.emit(ev.MessageInjected(step_id=fact.step_id), {"text": told})


def _responded(work: Work, fact: ev.EscalationOpened, given: DecisionMade, why: str) -> None:
    one = _asked(work, fact)
    work.emit(
        ev.CallResponded(
            step_id=fact.step_id, call_id=one.call_id, tool=one.tool, args_hash=one.args_hash, actor=given.actor
        ),
        {"result": given.message},
    )


def _rejected(work: Work, fact: ev.EscalationOpened, given: DecisionMade, why: str) -> None:
    wave.refuse(work, fact.step_id, _asked(work, fact), Cause.POLICY_DENIED, mutations.NAME, why, correction=False)


ANSWERS: Mapping[str, Callable[[Work, ev.EscalationOpened, DecisionMade, str], None]] = {
    "approve": _approved,
    "edit": _edited,
    "respond": _responded,
    "reject": _rejected,
}
"""One function a verb of ``questions.VERBS["pre_action"]``; total by test."""


def _asked(work: Work, fact: ev.EscalationOpened) -> Proposed:
    """The call that the question is about."""
    return of_last_answer(work, work.run.steps[fact.step_id])[int(fact.scope.rpartition(".c")[2])]
