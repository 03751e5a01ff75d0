"""A run's conversation as the graph's rules see it: its state out of the journal's fold, and a turn that is over as one packet (semantics.md 5).

The run keeps where the conversation stands (``Run.talk``); the context variables are a content, and what the turn in flight wrote stands in its calls until
its packet is committed. So a turn that is lost takes its writes with it: they go with the activation that made them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabric.core.frozen import value
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import Finish, Handoff, Logged, NodeOutcome, Packet, Round, State, ToolUse, Writes
from fabric.core.graph.writes import written
from fabric.core.run import CallRecord, Run, Step
from fabric.core.spec_conversation import WRITE
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology
from fabric.core.taxonomy import CLASSIFY
from fabric.core.work import Work

JSON = Any


def topology_of(work: Work) -> GraphTopology | HandoffTopology:
    """The run's topology, whose workers take turns by a graph."""
    topology = work.compiled.spec.topology
    assert isinstance(topology, GraphTopology | HandoffTopology)
    return topology


def graph_of(work: Work) -> TransitionGraph:
    """Its graph."""
    return topology_of(work).graph


def context_of(work: Work) -> Mapping[str, JSON]:
    """The context variables that are committed."""
    if ref := work.run.talk.context_ref:
        found: Mapping[str, JSON] = work.ctx.contents.read(ref)["context"]
        return found
    return _begins_with(work)


def _begins_with(work: Work) -> Mapping[str, JSON]:
    topology = topology_of(work)
    return topology.context if isinstance(topology, GraphTopology) else {}


def state_of(work: Work, step: Step | None = None) -> State:
    """Where the conversation stands. ``step``: the turn in flight, or the one whose packet is about to be committed."""
    graph, talk = graph_of(work), work.run.talk
    speaker = talk.speaker or graph.initial_speaker
    return State(
        participants=graph.participants,
        expected=None if talk.closed else speaker,
        initiator=graph.initiator or graph.initial_speaker,
        turns=talk.turns,
        context=kept_context(work) if step is None else context_of(work),
        begins_with=_begins_with(work),
        close_reason=talk.closed,
        round=None if step is None else Round(speaker, _log(work, step)),
    )


def _log(work: Work, step: Step) -> tuple[Logged, ...]:
    """The changes of context variables during a turn, its own and those from outside, in their order."""
    own = [Logged(True, one) for one in _writes(work, step)]
    for ref, after in reversed(work.run.talk.written):
        own.insert(min(after, len(own)), Logged(False, writes_of(work.ctx.contents.read(ref))))
    return tuple(own)


def in_flight(run: Run) -> Step | None:
    """The turn that has begun and whose packet is not committed; None: there is none."""
    turns = (step for step in run.steps.values() if step.turn is not None and step.turn.chooses)
    return next((step for step in turns if step.branch == run.talk.turns and not run.talk.closed), None)


def hears_open(run: Run, step: Step) -> bool:
    """Whether a turn that this one is given is under way again: a person let both be tried once more, and this one waits for what is said there."""
    if step.turn is None or not step.turn.hears:
        return False
    turns = (other for other in run.steps.values() if other.stage is step.stage and other.branch in step.turn.hears)
    return any(turn.status not in ("done", "failed") for turn in turns)


def speaker_of(step: Step) -> str:
    """Whose turn a step is, whoever took it over."""
    assert step.turn is not None
    return step.turn.agent


@value()
class Over:
    """A turn that is over."""

    packet: Packet
    reasons: Mapping[str, str]
    """What the tools that hand over or end it said of that, by tool: the first of each."""


def over(work: Work, step: Step) -> Over:
    """A turn as one packet. One that failed brings how it failed and nothing else: its calls and writes go with it."""
    if step.status != "done":
        assert step.cause is not None
        outcome = NodeOutcome.PARTIAL_SUCCESS if step.partial else NodeOutcome.FAIL
        return Over(Packet(speaker_of(step), outcome=outcome, error=CLASSIFY[step.cause].error_class), {})
    made = [call for turn in step.history for call in turn.calls if call.state == "done"]
    reasons: dict[str, str] = {}
    for call in made:
        if call.hands_to:
            reasons.setdefault(call.tool, _reason(work, call))
    return Over(Packet(speaker_of(step), calls=tuple(map(_use, made))), reasons)


def _use(call: CallRecord) -> ToolUse:
    if call.hands_to:
        return ToolUse(call.tool, Handoff(call.hands_to))
    return ToolUse(call.tool, Finish(call.ends) if call.ends else None)


def _reason(work: Work, call: CallRecord) -> str:
    told = work.ctx.contents.read(call.result_ref).get("result")
    return str(told.get("reason", "")) if isinstance(told, dict) else ""


def _writes(work: Work, step: Step) -> Iterator[Writes]:
    """What a turn wrote, in the order in which the calls came back to it: that of their proposal."""
    if step.status == "failed":
        return
    for turn in step.history:
        for call in turn.calls:
            if call.state != "done" or call.error:
                continue
            if call.writes:
                yield writes_of(work.ctx.contents.read(call.result_ref)["context"])
            elif call.tool == WRITE:
                yield writes_of(args_of(work, call, turn.answer_ref))


def kept_context(work: Work) -> Mapping[str, JSON]:
    """The context variables as they stand where the turn in flight is lost: with what came from outside meanwhile."""
    context = context_of(work)
    for ref, _ in work.run.talk.written:
        context = written(context, writes_of(work.ctx.contents.read(ref)))
    return context


def own_writes(work: Work, step: Step) -> int:
    """How many changes a turn has made so far."""
    return sum(1 for _ in _writes(work, step))


def args_of(work: Work, call: CallRecord, answer_ref: str) -> JSON:
    """The arguments of a call."""
    proposed = work.ctx.contents.read(call.args_ref or answer_ref)["calls"]
    return next(one["args"] for one in proposed if one["call_id"] == call.call_id)


def writes_of(args: JSON) -> Writes:
    """A change of context variables as a call asks for it."""
    return Writes(delete=tuple(args.get("delete", ())), set=args.get("set", {}))
