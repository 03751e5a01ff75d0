"""A conversation that a graph drives: ``fold`` takes what happened and gives the next state, with the decision and why it fell so (semantics.md 5; S4).

Each accepted packet is one turn. Its context writes are applied first; then a value that a tool returned decides (the first in the order of emission), else
the first rule whose condition holds, else the default target. The bound on turns comes last: an end that was decided on the same turn wins over it.
A restart edge takes the context back to that of the beginning. A happening that is refused changes nothing. No clock: how long a turn takes is ``expectations.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.frozen import replace, value
from fabric.core.graph import targets, writes
from fabric.core.graph.conditions import holds
from fabric.core.graph.registry import BUILT_IN, Next, Registry
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import (
    Closed,
    ContextWritten,
    Finish,
    Handoff,
    Happening,
    Packet,
    PersonSaid,
    Round,
    RoundBegan,
    RoundLost,
    State,
    ToolUse,
    Turn,
    Why,
)

JSON = Any
MAX_TURNS = "max_turns"
NO_TRANSITION = "no_transition"
"""Why a graph without a default target ends where no rule applies."""


@value()
class Decision:
    """Who speaks after a turn, and why."""

    speaker: str | None
    """None: nobody; the conversation is closed."""
    why: Why
    close_reason: str = ""
    transition: int | None = None
    """Place in the graph's list of the rule that held, or that would have decided but for the bound."""
    tool: str = ""
    """The routing tool of the turn."""
    reason: str = ""
    """What the tool that handed over or ended it said of that."""
    errors: tuple[str, ...] = ()
    """A sentence for each name that could not be resolved: events of the run."""


@value()
class Folded:
    """What came of a happening."""

    state: State
    decision: Decision | None = None
    """After an accepted packet."""
    refused: str = ""
    """Why nothing was changed, in one sentence; empty: it was accepted."""
    delivered: tuple[str, ...] = ()
    """People's messages that the next speaker reads from now on, by id."""


def opened(graph: TransitionGraph, context: Mapping[str, JSON] | None = None) -> State:
    """A conversation at its beginning."""
    return State(
        participants=graph.participants,
        expected=graph.initial_speaker,
        initiator=graph.initiator or graph.initial_speaker,
        context=dict(context or {}),
        begins_with=dict(context or {}),
    )


def fold(graph: TransitionGraph, state: State, happening: Happening, registry: Registry = BUILT_IN) -> Folded:
    """The state after something happened. Pure: the same graph, state and happening give the same answer.

    Unanswered where what an installation registered gives none.
    """
    if state.expected is None:
        return Folded(state, refused=f"the conversation is closed ({state.close_reason}); nothing more is accepted")
    return FOLDS[type(happening)](graph, state, happening, registry)


def _began(graph: TransitionGraph, state: State, happening: RoundBegan, registry: Registry) -> Folded:
    if refused := _out_of_turn(state, happening.speaker):
        return Folded(state, refused=refused)
    if state.round is not None:
        return Folded(state, refused=f"{happening.speaker} has a turn in flight; one packet is committed at a time")
    return Folded(replace(state, round=Round(happening.speaker)))


def _packet(graph: TransitionGraph, state: State, packet: Packet, registry: Registry) -> Folded:
    if refused := _out_of_turn(state, packet.speaker):
        return Folded(state, refused=refused)
    spoken = replace(
        state,
        last_speaker=packet.speaker,
        turns=state.turns + 1,
        context=writes.committed(state, packet),
        round=None,
        waiting=(),
    )
    decision = _bounded(graph, spoken, _decided(graph, spoken, packet, registry))
    after = replace(spoken, expected=decision.speaker, close_reason=decision.close_reason)
    if decision.why is Why.RESTART:
        after = replace(after, context=state.begins_with)
    return Folded(after, decision, delivered=state.waiting)


def _lost(graph: TransitionGraph, state: State, happening: RoundLost, registry: Registry) -> Folded:
    if state.round is None or state.round.speaker != happening.speaker:
        return Folded(state, refused=f"{happening.speaker} has no turn in flight; there is nothing to revert")
    return Folded(replace(state, context=writes.kept(state), round=None, waiting=()), delivered=state.waiting)


def _context(graph: TransitionGraph, state: State, happening: ContextWritten, registry: Registry) -> Folded:
    if happening.writer and happening.writer not in state.participants:
        sentence = f"{happening.writer!r} takes no part; participants and people outside write context variables"
        return Folded(state, refused=sentence)
    return Folded(writes.logged(state, happening.writer, happening.writes))


def _person(graph: TransitionGraph, state: State, happening: PersonSaid, registry: Registry) -> Folded:
    if state.round is None:
        return Folded(state, delivered=(happening.message,))
    return Folded(replace(state, waiting=(*state.waiting, happening.message)))


def _closed(graph: TransitionGraph, state: State, happening: Closed, registry: Registry) -> Folded:
    """A turn in flight is lost with it; people's messages that waited are delivered, so that they stand in the record."""
    closed = replace(
        state, expected=None, close_reason=happening.reason, context=writes.kept(state), round=None, waiting=()
    )
    return Folded(closed, delivered=state.waiting)


FOLDS: Mapping[type, Callable[[TransitionGraph, State, Any, Registry], Folded]] = {
    RoundBegan: _began,
    Packet: _packet,
    RoundLost: _lost,
    ContextWritten: _context,
    PersonSaid: _person,
    Closed: _closed,
}
"""What becomes of each happening. Total, by test."""


def _out_of_turn(state: State, speaker: str) -> str:
    if speaker == state.expected:
        return ""
    return f"{state.expected} is expected to speak, not {speaker!r}; nothing was changed"


# -- who speaks next ---------------------------------------------------------------------------------------------------


def _decided(graph: TransitionGraph, state: State, packet: Packet, registry: Registry) -> Decision:
    call, errors = _routing(graph, state, packet)
    tool = call.tool if call is not None else ""
    if call is not None and isinstance(call.returned, Finish):
        reason = call.returned.reason or Finish().reason
        return Decision(None, Why.FINISH, close_reason=reason, tool=tool, errors=errors)
    if call is not None and _leads(state, call):
        assert isinstance(call.returned, Handoff)
        return Decision(call.returned.target, Why.HANDOFF, tool=tool, reason=call.returned.reason, errors=errors)
    turn = Turn(state, packet, tool)
    for place, rule in graph.ordered:
        if not holds(rule.when, turn, registry):
            continue
        found, error = _resolved(rule.then, turn, registry, f"transitions.{place}.then")
        if found is not None:
            why = Why.RESTART if rule.restart and found.speaker is not None else Why.TRANSITION
            return Decision(found.speaker, why, found.close_reason, place, tool, errors=errors)
        errors = (*errors, error)
    if graph.default_target is None:
        return Decision(None, Why.NO_DEFAULT, close_reason=NO_TRANSITION, tool=tool, errors=errors)
    found, error = _resolved(graph.default_target, turn, registry, "default_target")
    if found is None:
        return Decision(None, Why.NO_DEFAULT, close_reason=NO_TRANSITION, tool=tool, errors=(*errors, error))
    return Decision(found.speaker, Why.DEFAULT, found.close_reason, tool=tool, errors=errors)


def _routing(graph: TransitionGraph, state: State, packet: Packet) -> tuple[ToolUse | None, tuple[str, ...]]:
    """The call that routes the turn: the first that returned where to go, or that a rule names. A handoff to nobody is an error, and counts as not returned."""
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


def _resolved(target: targets.Target, turn: Turn, registry: Registry, path: str) -> tuple[Next | None, str]:
    found = targets.resolved(target, turn, registry)
    if found.speaker is None or found.speaker in turn.state.participants:
        reason = found.close_reason or (NO_TRANSITION if found.speaker is None else "")
        return Next(found.speaker, reason), ""
    return None, f"{path} leads to {found.speaker!r}, who takes no part; the next rule decides"


def _bounded(graph: TransitionGraph, state: State, decision: Decision) -> Decision:
    if decision.speaker is None or graph.max_turns is None or state.turns < graph.max_turns:
        return decision
    return replace(decision, speaker=None, why=Why.MAX_TURNS, close_reason=MAX_TURNS)
