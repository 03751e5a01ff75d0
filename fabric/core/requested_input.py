"""Puts the question of a tool's server to a person in the middle of a call.

A review shows the question, and the call goes out once more with the answer under its old key.

Source: Model Context Protocol 2025-11-25, "Elicitation"; 2026-07-28, "Multi round-trip requests". Sampling, roots and the URL mode are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabric.core import consequences, forms, mutations, streamed
from fabric.core import events as ev
from fabric.core.fingerprint import digest, fingerprint
from fabric.core.forms import InputRequest, Requested
from fabric.core.inputs import DecisionMade, ToolFinished
from fabric.core.proposed import Proposed
from fabric.core.run import OpenQuestion, Pending, Step
from fabric.core.work import Work

JSON = Any
QUESTIONS_MAX = 3
"""Questions that one call may ask; a call that asks more often fails."""
MESSAGE_SHOWN = 200
"""Characters of the server's message that the reason quotes; the whole message stands beside it."""
EXPIRES_AS_ERROR = "nobody has answered: that is an error of the call, and the run goes on with it"
EDIT_OF = "answer"
"""The name, in the question's content, of the part that a person edits."""


def question_digest(message: str, schema: Mapping[str, JSON]) -> str:
    """The identity of a question: the same message and form get the same answer."""
    return digest("elicitation", message, fingerprint(schema))


def note(work: Work, pending: Pending, given: ToolFinished) -> bool:
    """Journals that the server of a call asks a person; False where no person is asked, and the result's error stands."""
    issued, asked = pending.issued, given.requested
    step = work.run.steps.get(issued.step_id)
    if asked is None or step is None or not step.agent or work.run.ending is not None or streamed.broken(step, pending):
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
        work, issued.command_id, mutations.outcome_of(given), reason="its server asks a person in the middle of it"
    )
    return True


def _content(asked: InputRequest) -> dict[str, JSON]:
    return {"server": asked.server, "message": asked.message, "schema": asked.schema, "said": asked.said}


def open_request(step: Step, command_id: str) -> Requested | None:
    """The question of a call that waits for its answer; None: there is none."""
    found = step.requested_of(command_id)
    return found if found is not None and found.is_open else None


def reason(work: Work, requested: Requested, tool: str) -> str:
    """Returns why a person is asked, as one sentence."""
    asked = work.ctx.contents.read(requested.question_ref)
    message = asked["message"]
    short = message if len(message) <= MESSAGE_SHOWN else f"{message[:MESSAGE_SHOWN]}..."
    return f"MCP server {asked['server']} asks in the middle of {tool}: {short}" if asked["server"] else short


def offered(work: Work, requested: Requested, one: Proposed) -> dict[str, JSON]:
    """Returns what a person is shown of the question, and what each answer does."""
    asked = work.ctx.contents.read(requested.question_ref)
    given = forms.initial(asked["schema"])
    tool, server = one.tool, asked["server"] or "the agent"
    return {
        "tool": tool,
        "description": work.compiled.spec.tool(tool).description,
        "args": one.args,
        "asks": asked,
        "payload": given,
        "edit_of": EDIT_OF,
        "edit_schema": asked["schema"],
        "edit_initial": given,
        "approve": f"{tool} is called once more, and {server} gets this answer as it stands",
        "edit": f"{tool} is called once more, and {server} gets your answer",
        "respond": "it is not called again, and the agent goes on with your words as its result",
        "decline": "it is not called again, and the agent goes on with your words as the call's error",
        "reject": f"it is not called again, and {consequences.rejected(work)}",
        "expiry": EXPIRES_AS_ERROR if not asked["server"] else "rejected by the system: it is not called again",
    }


def asks_itself(shown: Mapping[str, JSON]) -> bool:
    """Returns True for a tool that asks a person: silence is an error of its call and rejects nothing."""
    return is_about(shown) and not shown["asks"]["server"]


def is_about(shown: Mapping[str, JSON]) -> bool:
    """Returns True where a question to a person is about what a server or a tool asks."""
    return "asks" in shown


def problem(shown: Mapping[str, JSON], given: DecisionMade) -> str:
    """Returns why an answer cannot be given to the server; empty when it can."""
    if given.verb not in ("approve", "edit"):
        return ""
    wrong = forms.misfits(shown["edit_schema"], given.edited if given.verb == "edit" else shown["payload"])
    said = "the answer does not fit the form" if given.verb == "edit" else "the form is not filled in yet; edit it"
    return f"{said}: {'; '.join(wrong[:5])}" if wrong else ""


def give(work: Work, question: OpenQuestion, one: Proposed, given: DecisionMade) -> None:
    """Keeps the answer for the call's next attempt."""
    shown, fact = work.ctx.contents.read(question.shown_ref), question.fact
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
