"""Gives a run's conversation to the graph's rules: the folded state, and a finished turn as one packet
(docs/specification/topologies.md).

The run has the state of the conversation (``Run.talk``). The context variables are a content. Writes of the turn in
flight are in its calls until its packet is committed. So a lost turn loses its writes: they go with the activation
that made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fabric.core.decision.work import Work
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import (
    Finish,
    Handoff,
    LoggedWrites,
    NodeOutcome,
    Packet,
    Round,
    State,
    ToolUse,
    Writes,
    apply_writes,
)
from fabric.core.spec.topologies.conversation import WRITE
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.state.run import CallRecord, Run, Step
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import CLASSIFY
from fabric.core.values.units import JSON


def find_topology(work: Work) -> GraphTopology | HandoffTopology:
    """Return the run's topology, whose workers take turns by a graph."""
    topology = work.compiled_fabric.spec.topology
    assert isinstance(topology, GraphTopology | HandoffTopology)
    return topology


def find_graph(work: Work) -> TransitionGraph:
    """Return its graph."""
    return find_topology(work).graph


def build_context(work: Work) -> Mapping[str, JSON]:
    """Return the context variables that are committed."""
    if ref := work.run.talk.context_ref:
        found: Mapping[str, JSON] = work.ctx.contents.read(ref)["context"]
        return found
    return _begins_with(work)


def _begins_with(work: Work) -> Mapping[str, JSON]:
    topology = find_topology(work)
    return topology.context if isinstance(topology, GraphTopology) else {}


def build_state(work: Work, step: Step | None = None) -> State:
    """Return the state of the conversation. ``step``: the turn in flight, or the one whose packet is about to be
    committed.
    """
    graph, talk = find_graph(work), work.run.talk
    speaker = talk.speaker or graph.initial_speaker
    return State(
        participants=graph.participants,
        expected=None if talk.closed else speaker,
        initiator=graph.initiator or graph.initial_speaker,
        turns=talk.turns,
        context=kept_context(work) if step is None else build_context(work),
        begins_with=_begins_with(work),
        close_reason=talk.closed,
        round=None if step is None else Round(speaker, _log(work, step)),
    )


def _log(work: Work, step: Step) -> tuple[LoggedWrites, ...]:
    """Return the changes of context variables during a turn, its own and those from outside, in their order."""
    own = [LoggedWrites(True, one) for one in _writes(work, step)]
    for ref, after in reversed(work.run.talk.written):
        own.insert(min(after, len(own)), LoggedWrites(False, read_writes(work.ctx.contents.read(ref))))
    return tuple(own)


def in_flight(run: Run) -> Step | None:
    """Return the turn that has begun and whose packet is not committed; None: there is none."""
    turns = (step for step in run.steps.values() if step.turn is not None and step.turn.chooses)
    return next((step for step in turns if step.branch == run.talk.turns and not run.talk.closed), None)


def hears_open(run: Run, step: Step) -> bool:
    """Return True if a turn that this one hears runs again. A person allowed both another attempt, and this one
    waits for the other's output.
    """
    if step.turn is None or not step.turn.hears:
        return False
    turns = (other for other in run.steps.values() if other.stage is step.stage and other.branch in step.turn.hears)
    return any(turn.status not in ("done", "failed") for turn in turns)


def find_speaker(step: Step) -> str:
    """Return the agent whose turn a step is, even if another one took it over."""
    assert step.turn is not None
    return step.turn.agent


@value()
class Over:
    """A finished turn."""

    packet: Packet
    reasons: Mapping[str, str]
    """Reasons given by the tools that hand over or end the conversation, by tool: the first of each."""


def close_turn(work: Work, step: Step) -> Over:
    """Return a turn as one packet. A failed turn's packet has only its failure, without its calls and writes."""
    if step.status != "done":
        assert step.cause is not None
        outcome = NodeOutcome.PARTIAL_SUCCESS if step.partial else NodeOutcome.FAIL
        return Over(Packet(find_speaker(step), outcome=outcome, error=CLASSIFY[step.cause].error_class), {})
    made = [call for turn in step.history for call in turn.calls if call.state == "done"]
    reasons: dict[str, str] = {}
    for call in made:
        if call.hands_to:
            reasons.setdefault(call.tool, _reason(work, call))
    return Over(Packet(find_speaker(step), calls=tuple(map(_use, made))), reasons)


def _use(call: CallRecord) -> ToolUse:
    if call.hands_to:
        return ToolUse(call.tool, Handoff(call.hands_to))
    return ToolUse(call.tool, Finish(call.ends) if call.ends else None)


def _reason(work: Work, call: CallRecord) -> str:
    told = work.ctx.contents.read(call.result_ref).get("result")
    return str(told.get("reason", "")) if isinstance(told, dict) else ""


def _writes(work: Work, step: Step) -> Iterator[Writes]:
    """Yield the writes of a turn, in the order of their calls' proposal."""
    if step.status == "failed":
        return
    for turn in step.history:
        for call in turn.calls:
            if call.state != "done" or call.error:
                continue
            if call.writes:
                yield read_writes(work.ctx.contents.read(call.result_ref)["context"])
            elif call.tool == WRITE:
                yield read_writes(find_args(work, call, turn.answer_ref))


def kept_context(work: Work) -> Mapping[str, JSON]:
    """Return the context variables without the turn in flight, with the changes from outside meanwhile."""
    context = build_context(work)
    for ref, _ in work.run.talk.written:
        context = apply_writes(context, read_writes(work.ctx.contents.read(ref)))
    return context


def own_writes(work: Work, step: Step) -> int:
    """Return the number of changes that a turn has made so far."""
    return sum(1 for _ in _writes(work, step))


def find_args(work: Work, call: CallRecord, answer_ref: str) -> JSON:
    """Return the arguments of a call."""
    proposed = work.ctx.contents.read(call.args_ref or answer_ref)["calls"]
    return next(one["args"] for one in proposed if one["call_id"] == call.call_id)


def read_writes(args: JSON) -> Writes:
    """Return the change of context variables that a call requests."""
    return Writes(delete=tuple(args.get("delete", ())), set=args.get("set", {}))
