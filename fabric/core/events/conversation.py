"""Facts about conversations that a graph drives: the next speaker with the reason, and turns that take too long."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.graph.state import NodeOutcome, SpeakerReason
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import ErrorClass


@value(kw_only=True)
class SpeakerChosen:
    """A turn is over and accepted as a whole, and the next speaker is chosen. Or the conversation was closed from
    outside. Content: ``{"context", "reason"}``: the context variables from now on, and the explanation of the tool that
    handed over.
    """

    step_id: str
    """The turn that is over; "" for a conversation that was closed before any turn."""
    turn: int
    """Turns that were accepted so far."""
    from_agent: str
    """Agent whose turn it was, even where a stronger agent took it over."""
    speaker: str = ""
    """Next speaker; "": the conversation is closed."""
    why: SpeakerReason
    transition: int | None = None
    """Position in the graph's list of the rule that applied."""
    tool: str = ""
    """The routing tool of the turn."""
    close_reason: str = ""
    outcome: NodeOutcome = NodeOutcome.SUCCESS
    failure_class: ErrorClass | None = None
    errors: tuple[str, ...] = ()
    """A sentence for each name that leads to no agent."""
    said_ref: str = ""
    """Reference of the turn's output; "": it left none."""
    level: str = ""
    """Level of the retry target or the unmet goal that was applied (``retry_targets.TargetLevel``)."""
    crossed: str = ""
    """Signature of the failure that crossed a restart edge; each crossing is counted."""
    kind: ClassVar[str] = "speaker_chosen"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TurnOverdue:
    """A turn has lasted as long as the graph expects it to last at most."""

    step_id: str
    speaker: str
    place: int
    """Position of the time limit in the graph's list."""
    seconds: float
    elapsed_us: int
    on_violation: Literal["warn", "auto_close"]
    due_at: int = 0
    """Instant at which the next time limit fires; 0: none."""
    kind: ClassVar[str] = "turn_overdue"
    version: ClassVar[int] = 1


@value(kw_only=True)
class PersonSaid:
    """A person's message joined the conversation, and waits for the turn in flight. The next speaker reads it.
    Content: ``{"actor", "text"}``.
    """

    actor: str
    kind: ClassVar[str] = "person_said"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ContextWritten:
    """An outsider wrote context variables of the conversation. Content: ``{"set", "delete", "context"}``, the last
    one after the change.
    """

    actor: str
    writes: int
    """Number of variables that are set or deleted."""
    in_turn: bool = False
    """True: a turn is in flight. The change joins that turn's writes in order of arrival, and stays even if the turn
    fails.
    """
    after: int = 0
    """Number of changes of the turn in flight that came before it."""
    kind: ClassVar[str] = "context_written"
    version: ClassVar[int] = 1
