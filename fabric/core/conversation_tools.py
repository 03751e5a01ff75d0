"""Calls of the tools that a conversation has: answered in the very decision that issues them, since all that they do is what the journal says (semantics.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core import conversations, guard
from fabric.core import events as ev
from fabric.core.failure import Failure
from fabric.core.fingerprint import encode
from fabric.core.graph import writes
from fabric.core.graph.conversation import fold
from fabric.core.graph.state import ContextWritten, Finish, Handoff
from fabric.core.inputs import ToolFinished
from fabric.core.mechanisms.contract import Proposal
from fabric.core.proposed import Proposed
from fabric.core.run import CallRecord, Pending, Step
from fabric.core.spec_conversation import FINISH, READ, TRANSFER, WRITE
from fabric.core.spec_handoff import HandoffTopology
from fabric.core.tool_answers import tool_answered
from fabric.core.verdict import Trip
from fabric.core.work import Work

JSON = Any


def answered(work: Work, pending: Pending) -> Failure | None:
    """Answers a call that was just issued; gives back what its error stopped, as of any tool's."""
    issued, step = pending.issued, work.run.steps[pending.issued.step_id]
    last = step.history[-1]
    call = next(one for one in last.calls if one.call_id == issued.call_id)
    if step.turn is None:
        said = f"{step.agent} takes no part in the conversation; only those who take part may call {issued.target}"
        told: tuple[JSON, Handoff | Finish | None, str] = (None, None, said)
    else:
        told = ANSWERS[issued.target](work, step, conversations.args_of(work, call, last.answer_ref))
    result, returned, error = told
    finished = ToolFinished(
        command_id=issued.command_id, attempt=issued.attempt, result=result, error=error, returned=returned
    )
    return tool_answered(work, pending, finished)


_Told = tuple[JSON, Handoff | Finish | None, str]
"""A result, what it means to the graph, or an error."""


def _transfer(work: Work, step: Step, args: JSON) -> _Told:
    to, may = args["to"], may_pass(work, conversations.speaker_of(step))
    if to in may:
        return {"handed_to": to}, Handoff(to), ""
    there = ", ".join(may) or "nobody: answer yourself"
    return None, None, f"{conversations.speaker_of(step)} may not hand over to {to!r}; it may to {there}"


def may_pass(work: Work, who: str) -> tuple[str, ...]:
    """Whom a participant may hand over to by itself."""
    topology = conversations.topology_of(work)
    if isinstance(topology, HandoffTopology):
        return topology.may_pass(who)
    return tuple(name for name in topology.workers if name != who)


def _finish(work: Work, step: Step, args: JSON) -> _Told:
    reason = args.get("reason") or Finish().reason
    return {"finished": reason}, Finish(reason), ""


def _write(work: Work, step: Step, args: JSON) -> _Told:
    change = conversations.writes_of(args)
    found = fold(
        conversations.graph_of(work),
        conversations.state_of(work, step),
        ContextWritten(conversations.speaker_of(step), change),
        work.compiled.registry,
    )
    if found.refused:
        return None, None, found.refused
    return {"set": sorted(change.set), "deleted": sorted(set(change.delete))}, None, ""


def _read(work: Work, step: Step, args: JSON) -> _Told:
    state = conversations.state_of(work, step)
    keys = [args["key"]] if "key" in args else sorted(writes.seen(state))
    found = {key: writes.read(state, key) for key in keys}
    told = [{"key": key, "value": one.value, "tentative": one.tentative} for key, one in found.items()]
    return {"values": told}, None, ""


ANSWERS: Mapping[str, Callable[[Work, Step, JSON], _Told]] = {
    TRANSFER: _transfer,
    FINISH: _finish,
    WRITE: _write,
    READ: _read,
}
"""Total over ``spec_conversation.BY_KIND``, by test."""


def judged(work: Work, step: Step, one: Proposed) -> list[Trip]:
    """What speaks against a call that hands over, beside what speaks against it as a call: it is judged before the brief goes out."""
    if one.tool != TRANSFER or not work.compiled.spec.of_conversation(one.tool) or step.turn is None:
        return []
    return handing_over(work, step, one.args["to"], one.args["brief"])


def handing_over(work: Work, step: Step, to: str, brief: str, *, by_rule: bool = False) -> list[Trip]:
    """What speaks against another agent being active. ``by_rule``: the graph's rules say so, and no agent does; those moves are no hops."""
    proposal = Proposal(
        kind="handoff",
        stage=step.stage,
        step_id=step.id,
        agent=conversations.speaker_of(step),
        target=to,
        payload={"text": brief} if brief else None,
        by_rule=by_rule,
    )
    return guard.judge(proposal, work.view, work.compiled.spec.policy)


def ended(work: Work, step: Step) -> bool:
    """Whether a call of the last answer has ended the turn; what it leaves is then the turn's output."""
    if not step.history or step.turn is None:
        return False
    last = step.history[-1]
    call = next((one for one in last.calls if _ends(work, one)), None)
    if call is None:
        return False
    work.emit(ev.OutputAccepted(step_id=step.id), {"output": {"text": _left(work, step, call), "citations": []}})
    return True


def _ends(work: Work, call: CallRecord) -> bool:
    """Whether a call ends the turn: the engine's own that hands over or ends the conversation, and one of a tool that is declared so."""
    if call.state != "done" or call.error:
        return False
    if work.compiled.spec.of_conversation(call.tool):
        return call.tool in (TRANSFER, FINISH) and bool(call.hands_to or call.ends)
    return any(tool.ends_turn for tool in work.compiled.spec.tools if tool.name == call.tool)


def _left(work: Work, step: Step, call: CallRecord) -> str:
    """What the turn says that a call has ended."""
    if work.compiled.spec.of_conversation(call.tool):
        args = conversations.args_of(work, call, step.history[-1].answer_ref)
        return str(args["brief"] if call.tool == TRANSFER else args["answer"])
    result = work.ctx.contents.read(call.result_ref).get("result")
    if call.hands_to or call.ends:
        said = result.get("reason", "") if isinstance(result, dict) else ""
        return str(said or call.ends or f"handed over to {call.hands_to}")
    return result if isinstance(result, str) else encode(result).decode()
