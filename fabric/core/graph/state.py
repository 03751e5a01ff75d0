"""What a conversation that a graph drives is made of: its state, and what can happen to it (semantics.md 5; S4 "State Object", "Packet execution model").

Values alone. ``conversation.py`` folds what happens into the state; what was said stands in the run's contents, never here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, NamedTuple

from fabric.core.frozen import value
from fabric.core.taxonomy import ErrorClass

JSON = Any


class NodeOutcome(StrEnum):
    """How a participant's turn ended (S1 "Goal gates", "Edge routing")."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    FAIL = "fail"


OUTCOME_KEY = "outcome"
FAILURE_KEY = "failure_class"
ENGINE_KEYS = frozenset({OUTCOME_KEY, FAILURE_KEY})
"""Keys of the context that are written after each turn, over whatever participants wrote there."""


class Why(StrEnum):
    """What decided who speaks next."""

    HANDOFF = "handoff"
    FINISH = "finish"
    TRANSITION = "transition"
    RESTART = "restart"
    """By a restart edge: the conversation begins anew."""
    DEFAULT = "default"
    NO_DEFAULT = "no_default"
    MAX_TURNS = "max_turns"
    RETRY_TARGET = "retry_target"
    """A turn failed, and no rule on how it ended leads on from it."""
    GOAL = "goal"
    """It would have ended, and a goal is not met yet."""
    EXPECTATION = "expectation"
    """From outside: a turn took too long."""
    TTL = "ttl"
    """From outside: the conversation lived as long as it may."""


@value()
class Handoff:
    """What a tool returns to pick the next speaker by name; it beats a static rule for that tool."""

    target: str
    reason: str = ""


@value()
class Finish:
    """What a tool returns to end the conversation (AG2: ``Finish``)."""

    reason: str = "finished"


@value()
class ToolUse:
    """A tool that was called in a turn, and what it returned for the graph, if it did."""

    tool: str
    returned: Handoff | Finish | None = None


@value()
class Writes:
    """A change of the context variables: keys are deleted first, then set."""

    delete: tuple[str, ...] = ()
    set: Mapping[str, JSON] = field(default_factory=dict)


@value()
class Wrote:
    """A tool's result that also writes context variables (AG2: ``set_context``)."""

    writes: Writes
    result: JSON = None
    """The part that the model sees."""
    then: Handoff | Finish | None = None
    """The next speaker, or the end; None: it says neither."""


class Logged(NamedTuple):
    """Context writes that arrived while a round was in flight."""

    tentative: bool
    """The round's own: they stand if its packet is committed. Another participant's stand whatever becomes of it."""
    writes: Writes


@value()
class Round:
    """A turn in flight: its speaker has begun, its packet is not committed."""

    speaker: str
    log: tuple[Logged, ...] = ()
    """Writes since it began, in the order of their arrival."""


@value()
class State:
    """Where a conversation stands."""

    participants: tuple[str, ...]
    """In their order, which RoundRobin follows."""
    expected: str | None
    """Who speaks next; None: it is closed."""
    initiator: str
    """Whom RevertToInitiator goes back to."""
    last_speaker: str = ""
    turns: int = 0
    """Accepted turns."""
    context: Mapping[str, JSON] = field(default_factory=dict)
    """Context variables that are committed. Never changed in place."""
    begins_with: Mapping[str, JSON] = field(default_factory=dict)
    """Those of its beginning, which a restart edge goes back to."""
    close_reason: str = ""
    """Why it is closed, or about to be."""
    round: Round | None = None
    waiting: tuple[str, ...] = ()
    """People's messages that wait for the packet in flight, by id, the first first."""


# -- what happens ------------------------------------------------------------------------------------------------------


@value()
class RoundBegan:
    """The expected speaker has begun its turn."""

    speaker: str


@value()
class Packet:
    """A whole turn at once: what was said, called, handed over and written, and how it ended."""

    speaker: str
    text: str = ""
    calls: tuple[ToolUse, ...] = ()
    """In the order of their emission."""
    writes: Writes = Writes()
    outcome: NodeOutcome = NodeOutcome.SUCCESS
    error: ErrorClass | None = None
    """How it failed; None: it did not."""


@value()
class RoundLost:
    """The round crashed before its packet was committed: its writes are reverted with it, and its speaker is expected anew."""

    speaker: str


@value()
class ContextWritten:
    """Context variables were written; no turn is taken."""

    writer: str
    """A participant; empty: somebody outside."""
    writes: Writes


@value()
class PersonSaid:
    """A person sent a message into the conversation; no turn is taken."""

    message: str
    """Its id: the next speaker reads it."""


@value()
class Closed:
    """The conversation was closed from outside: by a participant, an expectation, its time to live."""

    reason: str


Happening = RoundBegan | Packet | RoundLost | ContextWritten | PersonSaid | Closed


@value()
class Turn:
    """What conditions and targets look at: the state after the turn's bookkeeping, the packet, and its routing tool."""

    state: State
    packet: Packet
    tool: str = ""
    """The first call that a rule names; empty: there was none (AG2: ``routing.tool``)."""
