"""What is expected of a conversation's pace: how long a turn may take, how long it lives (semantics.md 5; S4 "Default expectations").

A pure function of instants. A violation fires once: who is kept in ``Fired`` has fired, and a new turn begins anew. What handles violations is named by its
``on_violation``; one that raises stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from fabric.core.frozen import value
from fabric.core.graph.spec import TransitionGraph
from fabric.core.graph.state import State
from fabric.core.work import US

OnViolation = Literal["warn", "auto_close"]
TTL = "ttl"
TURN_WITHIN = "expectation_violated:turn_within"
Fired = frozenset[tuple[int, int]]
"""What has fired already: the turns that were taken, and the place of the expectation."""


class Pace(NamedTuple):
    """Since when a conversation waits. Instants in microseconds."""

    opened_at: int
    turn_at: int
    """When the turn came to its expected speaker."""


@value()
class Violation:
    """An expectation that was not met."""

    turn: int
    """Turns that were taken before it."""
    place: int
    """Of the expectation in the graph's list."""
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
    graph: TransitionGraph, state: State, pace: Pace, now: int, fired: Fired
) -> tuple[list[Violation], Fired]:
    """What fires now and did not before: whatever has lasted as long as its bound. Beside it what has fired from now on; of turns that are over nothing is kept."""
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


def expired(graph: TransitionGraph, state: State, pace: Pace, now: int) -> bool:
    """Whether the conversation has lived as long as it may, and is to be closed with ``ttl``."""
    return state.expected is not None and graph.ttl_s is not None and now - pace.opened_at >= graph.ttl_s * US


def due_at(graph: TransitionGraph, state: State, pace: Pace, fired: Fired) -> int | None:
    """The next instant at which something fires or it expires; None: nothing does."""
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
    """In microseconds, rounded up: at that instant it has elapsed."""
    return -int(-seconds * US // 1)


Handler = Callable[[Violation], None]


def handled(found: Iterable[Violation], handlers: Mapping[str, Handler]) -> list[tuple[Violation, str]]:
    """Hands each violation to its handler. Gives back those that failed, with what was raised: a failing one stops no other."""
    failed = []
    for one in found:
        try:
            handlers[one.on_violation](one)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is told, and the others go on
            failed.append((one, f"{type(error).__name__}: {error}"))
    return failed
