"""Defines the state of a conversation that a graph drives, and the happenings that change it.

Sources: docs/specification/topologies.md; S4 "State Object", "Packet execution model". Values alone:
``conversation.py`` folds happenings into the state. Messages are in the run's contents, never here. A context variable
is written without taking a turn, and is tentative while its round is in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from fabric.core.values.frozen import replace, value
from fabric.core.values.taxonomy import ErrorClass
from fabric.core.values.units import JSON


class NodeOutcome(StrEnum):
    """Outcome of a participant's turn (S1 "Goal gates", "Edge routing")."""

    SUCCESS = "success"
    PARTIAL_SUCCESS = "partial_success"
    FAIL = "fail"


OUTCOME_KEY = "outcome"
FAILURE_KEY = "failure_class"
ENGINE_KEYS = frozenset({OUTCOME_KEY, FAILURE_KEY})
"""Keys of the context that the engine writes after each turn, over participants' values."""


class SpeakerReason(StrEnum):
    """Reason for the choice of the next speaker."""

    HANDOFF = "handoff"
    FINISH = "finish"
    TRANSITION = "transition"
    RESTART = "restart"
    """A restart edge: the conversation begins anew."""
    DEFAULT = "default"
    NO_DEFAULT = "no_default"
    MAX_TURNS = "max_turns"
    RETRY_TARGET = "retry_target"
    """A turn failed, and no rule on its outcome applied."""
    GOAL = "goal"
    """The conversation would have ended before a goal is met."""
    EXPECTATION = "expectation"
    """An outside event: a turn took too long."""
    TTL = "ttl"
    """An outside event: the conversation exceeded its time to live."""


@value()
class Handoff:
    """Result of a tool that picks the next speaker by name; it beats a static rule for that tool."""

    target: str
    reason: str = ""


@value()
class Finish:
    """Result of a tool that ends the conversation (AG2: ``Finish``)."""

    reason: str = "finished"


@value()
class ToolUse:
    """A tool call of a turn, and its result for the graph, if any."""

    tool: str
    returned: Handoff | Finish | None = None


@value()
class Writes:
    """A change of the context variables: keys are deleted first, then set."""

    delete: tuple[str, ...] = ()
    set: Mapping[str, JSON] = field(default_factory=dict)


@value()
class RoundWrote:
    """A tool's result that also writes context variables (AG2: ``set_context``)."""

    writes: Writes
    result: JSON = None
    """The part that the model sees."""
    then: Handoff | Finish | None = None
    """The next speaker, or the end; None: neither."""


class LoggedWrites(NamedTuple):
    """Context writes that arrived while a round was in flight."""

    tentative: bool
    """True: writes of the round itself, which stay only if its packet is committed. Other participants' writes
    always stay.
    """
    writes: Writes


@value()
class Round:
    """A turn in flight: its speaker has begun, its packet is not committed."""

    speaker: str
    log: tuple[LoggedWrites, ...] = ()
    """Writes since it began, in the order of their arrival."""


@value()
class State:
    """State of a conversation."""

    participants: tuple[str, ...]
    """Participants in order, which RoundRobin follows."""
    expected: str | None
    """Next speaker; None: the conversation is closed."""
    initiator: str
    """Participant to whom RevertToInitiator goes back."""
    last_speaker: str = ""
    turns: int = 0
    """Accepted turns."""
    context: Mapping[str, JSON] = field(default_factory=dict)
    """Context variables that are committed. Never changed in place."""
    begins_with: Mapping[str, JSON] = field(default_factory=dict)
    """Initial context variables, which a restart edge restores."""
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
    """A whole turn at once: its message, calls, handover, writes, and outcome."""

    speaker: str
    text: str = ""
    calls: tuple[ToolUse, ...] = ()
    """Calls in the order of emission."""
    writes: Writes = Writes()
    outcome: NodeOutcome = NodeOutcome.SUCCESS
    error: ErrorClass | None = None
    """Class of its failure; None: it did not fail."""


@value()
class RoundLost:
    """The round crashed before its packet was committed: its writes are reverted with it, and its speaker is
    expected anew.
    """

    speaker: str


@value()
class ContextWritten:
    """Context variables were written; no turn is taken."""

    writer: str
    """A participant; "": an outsider."""
    writes: Writes


@value()
class PersonSaid:
    """A person sent a message into the conversation; no turn is taken."""

    message: str
    """Id of the message, which the next speaker reads."""


@value()
class ConversationClosed:
    """The conversation was closed from outside: by a participant, an expectation, its time to live."""

    reason: str


Happening = RoundBegan | Packet | RoundLost | ContextWritten | PersonSaid | ConversationClosed


@value()
class Turn:
    """The facts that conditions and targets look at: the state after the turn's bookkeeping, the packet, and its
    routing tool.
    """

    state: State
    packet: Packet
    tool: str = ""
    """The first call that a rule names; "": none (AG2: ``routing.tool``)."""


class ReadVariable(NamedTuple):
    """One context variable as a reader sees it."""

    value: JSON
    """None: not set; null and unset are equal."""
    tentative: bool
    """True: the round in flight wrote or deleted it. It is reset if the round is lost."""


def apply_writes(context: Mapping[str, JSON], writes: Writes) -> Mapping[str, JSON]:
    """Return the context after a change: deleted first, then set."""
    left = {key: held for key, held in context.items() if key not in writes.delete}
    return left | dict(writes.set)


def read(state: State, key: str) -> ReadVariable:
    """Return a context variable as any reader sees it now."""
    own = state.round.log if state.round is not None else ()
    last = next((one for one in reversed(own) if key in one.writes.set or key in one.writes.delete), None)
    return ReadVariable(visible_context(state).get(key), tentative=last is not None and last.tentative)


def visible_context(state: State) -> Mapping[str, JSON]:
    """Return every context variable as it stands now, with the tentative writes of the round in flight."""
    return _apply_writes(state.context, state.round.log if state.round is not None else ())


def committed_context(state: State) -> Mapping[str, JSON]:
    """Return the context without the writes of the round in flight, which stands if that is lost."""
    log = state.round.log if state.round is not None else ()
    return _apply_writes(state.context, (one for one in log if not one.tentative))


def context_after(state: State, packet: Packet) -> Mapping[str, JSON]:
    """Return the context after a packet: its round's writes, its own, and its outcome. The failure class is None where
    it did not fail.
    """
    said = apply_writes(visible_context(state), packet.writes)
    return {**said, OUTCOME_KEY: str(packet.outcome), FAILURE_KEY: packet.error and str(packet.error)}


def log_writes(state: State, writer: str, writes: Writes) -> State:
    """Return the state after context writes; those of the round in flight are tentative."""
    if state.round is None:
        return replace(state, context=apply_writes(state.context, writes))
    return replace(state, round=_add_writes(state.round, LoggedWrites(writer == state.round.speaker, writes)))


def _add_writes(current: Round, one: LoggedWrites) -> Round:
    return Round(current.speaker, (*current.log, one))


def _apply_writes(context: Mapping[str, JSON], log: Iterable[LoggedWrites]) -> Mapping[str, JSON]:
    for one in log:
        context = apply_writes(context, one.writes)
    return context
