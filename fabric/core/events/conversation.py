"""Facts about conversations that a graph drives: whose turn it is next and why, and turns that take too long."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.frozen import value
from fabric.core.graph.state import NodeOutcome, Why
from fabric.core.taxonomy import ErrorClass


@value(kw_only=True)
class SpeakerChosen:
    """A turn is over and accepted as a whole, and who speaks next is decided; or the conversation was closed from outside. Content: ``{"context", "reason"}``: the
    context variables from now on, and what the tool that handed over said of it.
    """

    step_id: str
    """The turn that is over; of one that was closed before anybody spoke empty."""
    turn: int
    """Turns that were accepted so far."""
    from_agent: str
    """Whose turn it was, also where a stronger agent took it over."""
    speaker: str = ""
    """Who speaks next; empty: nobody, the conversation is closed."""
    why: Why
    transition: int | None = None
    """Place in the graph's list of the rule that held."""
    tool: str = ""
    """The routing tool of the turn."""
    close_reason: str = ""
    outcome: NodeOutcome = NodeOutcome.SUCCESS
    failure_class: ErrorClass | None = None
    errors: tuple[str, ...] = ()
    """A sentence for each name that leads to nobody."""
    said_ref: str = ""
    """Where the output of the turn stands; empty: it left none."""
    level: str = ""
    """Of a retry target, or a goal that is not met: whose target it is (``retry_targets.Level``)."""
    crossed: str = ""
    """Of a restart edge that a failure crossed: the failure's signature, which is counted."""
    kind: ClassVar[str] = "speaker_chosen"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TurnOverdue:
    """A turn has lasted as long as the graph expects it to last at most."""

    step_id: str
    speaker: str
    place: int
    """Of the expectation in the graph's list."""
    seconds: float
    elapsed_us: int
    on_violation: Literal["warn", "auto_close"]
    due_at: int = 0
    """When the next expectation fires; 0: none does."""
    kind: ClassVar[str] = "turn_overdue"
    version: ClassVar[int] = 1


@value(kw_only=True)
class PersonSaid:
    """A person's message stands in the conversation, and waits for the turn in flight: whoever speaks next reads it. Content: ``{"actor", "text"}``."""

    actor: str
    kind: ClassVar[str] = "person_said"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ContextWritten:
    """Somebody outside wrote context variables of the conversation. Content: ``{"set", "delete", "context"}``, the last one as it stands then."""

    actor: str
    writes: int
    """How many variables are set or deleted."""
    in_turn: bool = False
    """A turn is in flight: it stands beside what that turn writes, in the order of their arrival, whatever becomes of the turn."""
    after: int = 0
    """How many changes of the turn in flight came before it."""
    kind: ClassVar[str] = "context_written"
    version: ClassVar[int] = 1
