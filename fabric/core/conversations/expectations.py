"""Time limits of a conversation: of a turn, and of the whole conversation (docs/specification/topologies.md; S4
"Default expectations").

A pure function of instants. A violation fires once: ``Fired`` lists those that have fired, and a new turn begins
anew.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import State
from fabric.core.values.frozen import value
from fabric.core.values.units import US

OnViolation = Literal["warn", "auto_close"]
TTL = "ttl"
TURN_WITHIN = "expectation_violated:turn_within"
Fired = frozenset[tuple[int, int]]
"""Limits that have fired: the number of turns taken, and the position of the limit."""


class ConversationClock(NamedTuple):
    """Since when a conversation waits. Instants in microseconds."""

    opened_at: int
    turn_at: int
    """Instant at which the turn came to its expected speaker."""


@value()
class Violation:
    """An expectation that was not met."""

    turn: int
    """Turns that were taken before it."""
    place: int
    """Position of the limit in the graph's list."""
    speaker: str
    on_violation: OnViolation
    seconds: float
    """The bound."""
    elapsed_s: float

    @property
    def close_reason(self) -> str:
        """Why the conversation is closed, where it is."""
        return TURN_WITHIN


def violations(
    graph: TransitionGraph, state: State, pace: ConversationClock, now: int, fired: Fired
) -> tuple[list[Violation], Fired]:
    """Return the limits that fire now for the first time, and all that have fired in this turn."""
    kept = frozenset(one for one in fired if one[0] == state.turns)
    if state.expected is None:
        return [], kept
    elapsed = now - pace.turn_at
    found = [
        Violation(state.turns, place, state.expected, one.on_violation, one.seconds, elapsed / US)
        for place, one in enumerate(graph.expectations)
        if elapsed >= one.seconds * US and (state.turns, place) not in kept
    ]
    return found, kept | {(one.turn, one.place) for one in found}


def is_expired(graph: TransitionGraph, state: State, pace: ConversationClock, now: int) -> bool:
    """Return True if the conversation has exceeded its time to live, and is to be closed with ``ttl``."""
    return state.expected is not None and graph.ttl_s is not None and now - pace.opened_at >= graph.ttl_s * US


def due_at(graph: TransitionGraph, state: State, pace: ConversationClock, fired: Fired) -> int | None:
    """Return the next instant at which a time limit fires or the conversation expires; None: none."""
    if state.expected is None:
        return None
    turns = (
        pace.turn_at + _whole(one.seconds)
        for place, one in enumerate(graph.expectations)
        if (state.turns, place) not in fired
    )
    ttl = () if graph.ttl_s is None else (pace.opened_at + _whole(graph.ttl_s),)
    return min((*turns, *ttl), default=None)


def _whole(seconds: float) -> int:
    """Return the duration in microseconds, rounded up, so that it has passed at that instant."""
    return -int(-seconds * US // 1)
