"""Answers calls of a conversation's own tools in the decision that issues them (docs/specification/topologies.md).
Their whole effect is in the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import events as ev
from fabric.core.calls.proposed import Proposed
from fabric.core.calls.tool_answers import tool_answered
from fabric.core.conversations import turns as conversations
from fabric.core.decision import guard
from fabric.core.decision.work import Work
from fabric.core.events.inputs import ToolFinished
from fabric.core.graph import state as writes
from fabric.core.graph.conversation import fold
from fabric.core.graph.state import ContextWritten, Finish, Handoff
from fabric.core.mechanisms.contract import Proposal
from fabric.core.spec.topologies.conversation import FINISH, READ, TRANSFER, WRITE
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.state.failure import Failure
from fabric.core.state.run import CallRecord, Pending, Step
from fabric.core.values.fingerprint import encode
from fabric.core.values.taxonomy import Trip
from fabric.core.values.units import JSON


def answer_call(work: Work, pending: Pending) -> Failure | None:
    """Answer a call that was just issued; return the failure that its error causes, like any tool's."""
    issued, step = pending.issued, work.run.steps[pending.issued.step_id]
    last = step.history[-1]
    call = next(one for one in last.calls if one.call_id == issued.call_id)
    if step.turn is None:
        said = f"{step.agent} takes no part in the conversation; only those who take part may call {issued.target}"
        told: tuple[JSON, Handoff | Finish | None, str] = (None, None, said)
    else:
        told = ANSWERS[issued.target](work, step, conversations.find_args(work, call, last.answer_ref))
    result, returned, error = told
    finished = ToolFinished(
        command_id=issued.command_id, attempt=issued.attempt, result=result, error=error, returned=returned
    )
    return tool_answered(work, pending, finished)


_ToolAnswer = tuple[JSON, Handoff | Finish | None, str]
"""A result, its meaning to the graph, or an error."""


def _transfer(work: Work, step: Step, args: JSON) -> _ToolAnswer:
    to, may = args["to"], may_pass(work, conversations.find_speaker(step))
    if to in may:
        return {"handed_to": to}, Handoff(to), ""
    there = ", ".join(may) or "no other agent: answer yourself"
    return None, None, f"{conversations.find_speaker(step)} may not hand over to {to!r}; it may to {there}"


def may_pass(work: Work, who: str) -> tuple[str, ...]:
    """Return the participants that ``who`` may hand over to on its own."""
    topology = conversations.find_topology(work)
    if isinstance(topology, HandoffTopology):
        return topology.may_pass(who)
    return tuple(name for name in topology.workers if name != who)


def _finish(work: Work, step: Step, args: JSON) -> _ToolAnswer:
    reason = args.get("reason") or Finish().reason
    return {"finished": reason}, Finish(reason), ""


def _write(work: Work, step: Step, args: JSON) -> _ToolAnswer:
    change = conversations.read_writes(args)
    found = fold(
        conversations.find_graph(work),
        conversations.build_state(work, step),
        ContextWritten(conversations.find_speaker(step), change),
        work.compiled_fabric.registry,
    )
    if found.refused:
        return None, None, found.refused
    return {"set": sorted(change.set), "deleted": sorted(set(change.delete))}, None, ""


def _read(work: Work, step: Step, args: JSON) -> _ToolAnswer:
    state = conversations.build_state(work, step)
    keys = [args["key"]] if "key" in args else sorted(writes.visible_context(state))
    found = {key: writes.read(state, key) for key in keys}
    told = [{"key": key, "value": one.value, "tentative": one.tentative} for key, one in found.items()]
    return {"values": told}, None, ""


ANSWERS: Mapping[str, Callable[[Work, Step, JSON], _ToolAnswer]] = {
    TRANSFER: _transfer,
    FINISH: _finish,
    WRITE: _write,
    READ: _read,
}
"""Total over ``spec_conversation.BY_KIND``, by test."""


def judge_handover(work: Work, step: Step, one: Proposed) -> list[Trip]:
    """Return the trips against a call's handover, besides those against the call; judged before the brief goes out."""
    if one.tool != TRANSFER or not work.compiled_fabric.spec.of_conversation(one.tool) or step.turn is None:
        return []
    return handing_over(work, step, one.args["to"], one.args["brief"])


def handing_over(work: Work, step: Step, to: str, brief: str, *, by_rule: bool = False) -> list[Trip]:
    """Return the trips against another agent becoming active. ``by_rule``: the graph's rules chose it, and no agent
    did; such moves are no hops.
    """
    proposal = Proposal(
        kind="handoff",
        stage=step.stage,
        step_id=step.id,
        agent=conversations.find_speaker(step),
        target=to,
        payload={"text": brief} if brief else None,
        by_rule=by_rule,
    )
    return guard.judge(proposal, work.view, work.compiled_fabric.spec.policy)


def end_turn(work: Work, step: Step) -> bool:
    """End the turn if a call of the last answer does so; its text becomes the turn's output. Returns True if it
    ended.
    """
    if not step.history or step.turn is None:
        return False
    last = step.history[-1]
    call = next((one for one in last.calls if _ends(work, one)), None)
    if call is None:
        return False
    work.emit(ev.OutputAccepted(step_id=step.id), {"output": {"text": _turn_text(work, step, call), "citations": []}})
    return True


def _ends(work: Work, call: CallRecord) -> bool:
    """Return True if a call ends the turn. The engine's own tools do so by a handover or an end, others by
    ``ends_turn``.
    """
    if call.state != "done" or call.error:
        return False
    if work.compiled_fabric.spec.of_conversation(call.tool):
        return call.tool in (TRANSFER, FINISH) and bool(call.hands_to or call.ends)
    return any(tool.ends_turn for tool in work.compiled_fabric.spec.tools if tool.name == call.tool)


def _turn_text(work: Work, step: Step, call: CallRecord) -> str:
    """Return the output of the turn that a call has ended."""
    if work.compiled_fabric.spec.of_conversation(call.tool):
        args = conversations.find_args(work, call, step.history[-1].answer_ref)
        return str(args["brief"] if call.tool == TRANSFER else args["answer"])
    result = work.ctx.contents.read(call.result_ref).get("result")
    if call.hands_to or call.ends:
        said = result.get("reason", "") if isinstance(result, dict) else ""
        return str(said or call.ends or f"handed over to {call.hands_to}")
    return result if isinstance(result, str) else encode(result).decode()
