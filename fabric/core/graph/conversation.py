"""Drives a conversation by a graph: ``fold`` returns the state after a happening, with the decision and its reason.

Sources: docs/specification/topologies.md; S4. Each accepted packet is one turn. It is folded in this order:

1. Its context writes are applied.
2. A value that a tool returned decides (the first one emitted); else the first rule whose condition is true; else the
   default target.
3. The limit of turns is applied; an end that was decided in this turn wins over it.

A restart edge resets the context to its initial values. A refused happening changes nothing. There is no clock here:
``core/conversations/expectations.py`` has the time limits.

A participant sees the last messages in full, and the rest as one line (S4 "Default view"). The line has counts and
names alone, so that it is reproducible, and at most as long as its participants' names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fabric.core.graph import conditions
from fabric.core.graph import state as writes
from fabric.core.graph.conditions import holds
from fabric.core.graph.registry import BUILT_IN, Next, Registry
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import (
    ContextWritten,
    ConversationClosed,
    Finish,
    Handoff,
    Happening,
    Packet,
    PersonSaid,
    Round,
    RoundBegan,
    RoundLost,
    SpeakerReason,
    State,
    ToolUse,
    Turn,
)
from fabric.core.values.frozen import replace, value
from fabric.core.values.units import JSON

MAX_TURNS = "max_turns"
NO_TRANSITION = "no_transition"
"""Why a graph without a default target ends where no rule applies."""


@value()
class Decision:
    """The next speaker after a turn, and the reason."""

    speaker: str | None
    """Next speaker; None: the conversation is closed."""
    why: SpeakerReason
    close_reason: str = ""
    transition: int | None = None
    """Position in the graph's list of the rule that decided, or that would have without the limit of turns."""
    tool: str = ""
    """The routing tool of the turn."""
    reason: str = ""
    """Reason given by the tool that handed over or ended the conversation."""
    errors: tuple[str, ...] = ()
    """A sentence for each name that could not be resolved: events of the run."""


@value()
class FoldResult:
    """The result of a happening."""

    state: State
    decision: Decision | None = None
    """After an accepted packet."""
    refused: str = ""
    """Reason for which nothing was changed, in one sentence; "": the happening was accepted."""
    delivered: tuple[str, ...] = ()
    """People's messages that the next speaker reads from now on, by id."""


def open_conversation(graph: TransitionGraph, context: Mapping[str, JSON] | None = None) -> State:
    """Return a conversation at its beginning."""
    return State(
        participants=graph.participants,
        expected=graph.initial_speaker,
        initiator=graph.initiator or graph.initial_speaker,
        context=dict(context or {}),
        begins_with=dict(context or {}),
    )


def fold(graph: TransitionGraph, state: State, happening: Happening, registry: Registry = BUILT_IN) -> FoldResult:
    """Return the state after a happening. Pure: equal arguments give equal results.

    Raises Unanswered if a function of the installation gives no answer.
    """
    if state.expected is None:
        return FoldResult(state, refused=f"the conversation is closed ({state.close_reason}); nothing more is accepted")
    return FOLDS[type(happening)](graph, state, happening, registry)


def _began(graph: TransitionGraph, state: State, happening: RoundBegan, registry: Registry) -> FoldResult:
    if refused := _out_of_turn(state, happening.speaker):
        return FoldResult(state, refused=refused)
    if state.round is not None:
        return FoldResult(state, refused=f"{happening.speaker} has a turn in flight; one packet is committed at a time")
    return FoldResult(replace(state, round=Round(happening.speaker)))


def _packet(graph: TransitionGraph, state: State, packet: Packet, registry: Registry) -> FoldResult:
    if refused := _out_of_turn(state, packet.speaker):
        return FoldResult(state, refused=refused)
    spoken = replace(
        state,
        last_speaker=packet.speaker,
        turns=state.turns + 1,
        context=writes.context_after(state, packet),
        round=None,
        waiting=(),
    )
    decision = _apply_max_turns(graph, spoken, _decide_speaker(graph, spoken, packet, registry))
    after = replace(spoken, expected=decision.speaker, close_reason=decision.close_reason)
    if decision.why is SpeakerReason.RESTART:
        after = replace(after, context=state.begins_with)
    return FoldResult(after, decision, delivered=state.waiting)


def _lose_round(graph: TransitionGraph, state: State, happening: RoundLost, registry: Registry) -> FoldResult:
    if state.round is None or state.round.speaker != happening.speaker:
        return FoldResult(state, refused=f"{happening.speaker} has no turn in flight; there is nothing to revert")
    return FoldResult(
        replace(state, context=writes.committed_context(state), round=None, waiting=()), delivered=state.waiting
    )


def _context(graph: TransitionGraph, state: State, happening: ContextWritten, registry: Registry) -> FoldResult:
    if happening.writer and happening.writer not in state.participants:
        sentence = f"{happening.writer!r} takes no part; participants and people outside write context variables"
        return FoldResult(state, refused=sentence)
    return FoldResult(writes.log_writes(state, happening.writer, happening.writes))


def _person(graph: TransitionGraph, state: State, happening: PersonSaid, registry: Registry) -> FoldResult:
    if state.round is None:
        return FoldResult(state, delivered=(happening.message,))
    return FoldResult(replace(state, waiting=(*state.waiting, happening.message)))


def _close_conversation(
    graph: TransitionGraph, state: State, happening: ConversationClosed, registry: Registry
) -> FoldResult:
    """Lose the turn in flight; waiting messages of people are delivered, so that they are in the record."""
    closed = replace(
        state,
        expected=None,
        close_reason=happening.reason,
        context=writes.committed_context(state),
        round=None,
        waiting=(),
    )
    return FoldResult(closed, delivered=state.waiting)


FOLDS: Mapping[type, Callable[[TransitionGraph, State, Any, Registry], FoldResult]] = {
    RoundBegan: _began,
    Packet: _packet,
    RoundLost: _lose_round,
    ContextWritten: _context,
    PersonSaid: _person,
    ConversationClosed: _close_conversation,
}
"""Fold function of each happening. Total, by test."""


def _out_of_turn(state: State, speaker: str) -> str:
    if speaker == state.expected:
        return ""
    return f"{state.expected} is expected to speak, not {speaker!r}; nothing was changed"


# -- who speaks next ---------------------------------------------------------------------------------------------------


def _decide_speaker(graph: TransitionGraph, state: State, packet: Packet, registry: Registry) -> Decision:
    call, errors = _find_routing_call(graph, state, packet)
    tool = call.tool if call is not None else ""
    if call is not None and isinstance(call.returned, Finish):
        reason = call.returned.reason or Finish().reason
        return Decision(None, SpeakerReason.FINISH, close_reason=reason, tool=tool, errors=errors)
    if call is not None and _leads(state, call):
        assert isinstance(call.returned, Handoff)
        return Decision(
            call.returned.target, SpeakerReason.HANDOFF, tool=tool, reason=call.returned.reason, errors=errors
        )
    turn = Turn(state, packet, tool)
    for place, rule in graph.ordered_rules:
        if not holds(rule.when, turn, registry):
            continue
        found, error = _resolve_target(rule.then, turn, registry, f"transitions.{place}.then")
        if found is not None:
            why = SpeakerReason.RESTART if rule.restart and found.speaker is not None else SpeakerReason.TRANSITION
            return Decision(found.speaker, why, found.close_reason, place, tool, errors=errors)
        errors = (*errors, error)
    if graph.default_target is None:
        return Decision(None, SpeakerReason.NO_DEFAULT, close_reason=NO_TRANSITION, tool=tool, errors=errors)
    found, error = _resolve_target(graph.default_target, turn, registry, "default_target")
    if found is None:
        return Decision(None, SpeakerReason.NO_DEFAULT, close_reason=NO_TRANSITION, tool=tool, errors=(*errors, error))
    return Decision(found.speaker, SpeakerReason.DEFAULT, found.close_reason, tool=tool, errors=errors)


def _find_routing_call(graph: TransitionGraph, state: State, packet: Packet) -> tuple[ToolUse | None, tuple[str, ...]]:
    """Return the call that routes the turn, and the errors of invalid handoffs. It is the first that returned a
    target, or that a rule names. A handoff to an unknown participant is an error, and counts as not returned.
    """
    errors: list[str] = []
    for call in packet.calls:
        if isinstance(call.returned, Handoff) and not _leads(state, call):
            there = ", ".join(state.participants)
            errors.append(
                f"tool {call.tool} hands over to {call.returned.target!r}, who takes no part; there are: {there}"
            )
        if isinstance(call.returned, Finish) or _leads(state, call) or call.tool in graph.routing_tools:
            return call, tuple(errors)
    return None, tuple(errors)


def _leads(state: State, call: ToolUse) -> bool:
    return isinstance(call.returned, Handoff) and call.returned.target in state.participants


def _resolve_target(target: conditions.Target, turn: Turn, registry: Registry, path: str) -> tuple[Next | None, str]:
    found = conditions.resolve_target(target, turn, registry)
    if found.speaker is None or found.speaker in turn.state.participants:
        reason = found.close_reason or (NO_TRANSITION if found.speaker is None else "")
        return Next(found.speaker, reason), ""
    return None, f"{path} leads to {found.speaker!r}, who takes no part; the next rule decides"


def _apply_max_turns(graph: TransitionGraph, state: State, decision: Decision) -> Decision:
    if decision.speaker is None or graph.max_turns is None or state.turns < graph.max_turns:
        return decision
    return replace(decision, speaker=None, why=SpeakerReason.MAX_TURNS, close_reason=MAX_TURNS)


PER_PARTICIPANT = 2
"""Messages in full for each participant."""
NAMES_MAX = 16
"""Speakers that the summary names; the rest it counts."""


class ViewMessage(NamedTuple):
    """A message of the conversation, with the reference of its text."""

    speaker: str
    ref: str


class ConversationView(NamedTuple):
    """The messages that a participant reads, in order."""

    summary: str
    """One line about the earlier messages; "": all messages are there in full."""
    messages: tuple[ViewMessage, ...]


def default_view(messages: Sequence[ViewMessage], participants: int) -> ConversationView:
    """Return the last 2N messages of N participants, and a summary of the rest."""
    recent = PER_PARTICIPANT * participants
    cut = max(len(messages) - recent, 0)
    return ConversationView(_summary(messages[:cut]), tuple(messages[cut:]))


def _summary(earlier: Sequence[ViewMessage]) -> str:
    """Return message counts by speaker, the first speaker first: ``Earlier: 5 messages (alice 3, bob 2).``."""
    if not earlier:
        return ""
    counts = list(Counter(one.speaker for one in earlier).items())
    told = [f"{speaker} {count}" for speaker, count in counts[:NAMES_MAX]]
    rest = sum(count for _, count in counts[NAMES_MAX:])
    if rest:
        told.append(f"{len(counts) - NAMES_MAX} others {rest}")
    plural = "" if len(earlier) == 1 else "s"
    return f"Earlier: {len(earlier)} message{plural} ({', '.join(told)})."
