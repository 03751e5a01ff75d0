"""Opens a review for the question of a tool's server in the middle of a call.

The review shows the question, and the call goes out once more with the answer under its old key. Sampling, roots and
the URL mode are refused. Source: Model Context Protocol 2025-11-25, "Elicitation"; 2026-07-28, "Multi round-trip
requests".
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core import events as ev
from fabric.core.calls.proposed import Proposed
from fabric.core.decision.work import Work
from fabric.core.events.inputs import DecisionMade, ToolFinished
from fabric.core.reviews import consequences
from fabric.core.sagas import mutations
from fabric.core.state.run import OpenReview, Pending, Step
from fabric.core.texts import forms
from fabric.core.texts.forms import FormRequested, InputRequest
from fabric.core.values.fingerprint import digest, fingerprint
from fabric.core.values.units import JSON

QUESTIONS_MAX = 3
"""Questions that one call may ask; a call that asks more often fails."""
MESSAGE_SHOWN = 200
"""Characters of the server's message that the reason quotes; the review shows the whole message too."""
EXPIRES_AS_ERROR = "no one answered: the call gets an error, and the run continues"
EDIT_OF = "answer"
"""Name, in the review's content, of the part that a person edits."""


def question_digest(message: str, schema: Mapping[str, JSON]) -> str:
    """Return the identity of a server's question: an equal message and form get an equal answer."""
    return digest("elicitation", message, fingerprint(schema))


def note(work: Work, pending: Pending, given: ToolFinished) -> bool:
    """Journal that the server of a call asks a person. Return False if no review opens: then the result's
    error stands.
    """
    issued, asked = pending.issued, given.requested
    step = work.run.steps.get(issued.step_id)
    if asked is None or step is None or not step.agent or work.run.ending is not None:
        return False
    before = step.requested_of(issued.command_id)
    number = 1 if before is None else before.number + 1
    if number > QUESTIONS_MAX or forms.schema_problem(asked.schema):
        return False
    work.emit(
        ev.InputRequested(
            command_id=issued.command_id,
            attempt=issued.attempt,
            step_id=issued.step_id,
            call_id=issued.call_id,
            tool=issued.target,
            args_hash=issued.args_hash,
            asked=question_digest(asked.message, asked.schema),
            number=number,
            cost_usd_micros=issued.reserved_usd_micros,
        ),
        _content(asked),
    )
    mutations.settle(
        work, issued.command_id, mutations.read_outcome(given), reason="its server asks a person in the middle of it"
    )
    return True


def _content(asked: InputRequest) -> dict[str, JSON]:
    return {"server": asked.server, "message": asked.message, "schema": asked.schema, "said": asked.said}


def open_request(step: Step, command_id: str) -> FormRequested | None:
    """Return the server's question of a call that waits for its answer; None: there is none."""
    found = step.requested_of(command_id)
    return found if found is not None and found.is_open else None


def reason(work: Work, requested: FormRequested, tool: str) -> str:
    """Return the reason of the review, as one sentence."""
    asked = work.ctx.contents.read(requested.question_ref)
    message = asked["message"]
    short = message if len(message) <= MESSAGE_SHOWN else f"{message[:MESSAGE_SHOWN]}..."
    return f"MCP server {asked['server']} asks in the middle of {tool}: {short}" if asked["server"] else short


def offered_form(work: Work, requested: FormRequested, one: Proposed) -> dict[str, JSON]:
    """Return the review's content about the question, and the effect of each answer."""
    asked = work.ctx.contents.read(requested.question_ref)
    given = forms.initial(asked["schema"])
    tool, server = one.tool, asked["server"] or "the agent"
    return {
        "tool": tool,
        "description": work.compiled_fabric.spec.tool(tool).description,
        "args": one.args,
        "asks": asked,
        "payload": given,
        "edit_of": EDIT_OF,
        "edit_schema": asked["schema"],
        "edit_initial": given,
        "approve": f"{tool} is called again, and {server} gets exactly this answer",
        "edit": f"{tool} is called once more, and {server} gets your answer",
        "respond": "it is not called again; the agent continues with your message as its result",
        "decline": "it is not called again; the agent continues with your message as the call's error",
        "reject": f"it is not called again, and {consequences.rejection_sentence(work)}",
        "expiry": EXPIRES_AS_ERROR if not asked["server"] else "rejected by the system: it is not called again",
    }


def asks_itself(shown: Mapping[str, JSON]) -> bool:
    """Return True for a tool that asks a person: silence is an error of its call and rejects nothing."""
    return is_about(shown) and not shown["asks"]["server"]


def is_about(shown: Mapping[str, JSON]) -> bool:
    """Return True if a review is about the question of a server or a tool."""
    return "asks" in shown


def problem(shown: Mapping[str, JSON], given: DecisionMade) -> str:
    """Return why an answer cannot be sent to the server; "" if it can."""
    if given.verb not in ("approve", "edit"):
        return ""
    wrong = forms.misfits(shown["edit_schema"], given.edited if given.verb == "edit" else shown["payload"])
    said = "the answer does not fit the form" if given.verb == "edit" else "the form is not filled in yet; edit it"
    return f"{said}: {'; '.join(wrong[:5])}" if wrong else ""


def give(work: Work, review: OpenReview, one: Proposed, given: DecisionMade) -> None:
    """Store the answer for the call's next attempt."""
    shown, fact = work.ctx.contents.read(review.shown_ref), review.fact
    requested = work.run.steps[fact.step_id].requested_of(fact.scope)
    assert requested is not None
    work.emit(
        ev.InputGiven(
            command_id=fact.scope,
            step_id=fact.step_id,
            call_id=one.call_id,
            tool=one.tool,
            args_hash=one.args_hash,
            actor=given.actor,
        ),
        {"asked": requested.asked, "answer": given.edited if given.verb == "edit" else shown["payload"]},
    )
