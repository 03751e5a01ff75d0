"""What arrives at a run: a closed, versioned union. Inputs are data; what they change is ``engine.decide``'s business.

Inputs from outside (``RunRequested``, ``DecisionMade``, ``CancelRequested``) travel through the inbox table as JSON; results come back
from the ports in memory. Each has an ``input_id``: the same id twice is the same input.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from fabric.core.frozen import value
from fabric.core.taxonomy import Cause

JSON = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys, cleaned of NUL, lone surrogates and NaN."""


@value(kw_only=True)
class RunRequested:
    """Start. The first input of every run; everything a run pins for good."""

    input_id: str
    request: JSON
    """``payloads.Request`` as JSON."""
    deadline_at: int
    """Microseconds since the epoch: the run's absolute deadline, fixed when it was requested."""
    requested_by: str = ""
    kind: Literal["run_requested"] = "run_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class DecisionMade:
    """A person (or, at expiry, the system) answered an escalation."""

    input_id: str
    escalation_id: str
    verb: Literal["approve", "edit", "reject", "respond"]
    actor: str
    digest: str
    """Digest of what was shown. It must equal the escalation's, or the decision is refused as stale."""
    message: str = ""
    kind: Literal["decision_made"] = "decision_made"
    version: Literal[1] = 1


@value(kw_only=True)
class CancelRequested:
    """Stop issuing, abort what is in flight, end as cancelled."""

    input_id: str
    actor: str
    reason: str = ""
    kind: Literal["cancel_requested"] = "cancel_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class ToolCall:
    """A call proposed by a model, as it came. ``args`` is None when ``raw_args`` was no JSON object."""

    call_id: str
    tool: str
    args: JSON
    raw_args: str = ""


@value(kw_only=True)
class ModelReplied:
    """A model answered: text, proposed calls, or both."""

    command_id: str
    attempt: int
    text: str
    calls: tuple[ToolCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd_micros: int | None = None
    """None: cost is computed from the tokens and the fabric's price."""
    finish: Literal["stop", "length", "content_filter"] = "stop"
    model: str = ""
    sanitized: bool = False
    kind: Literal["model_replied"] = "model_replied"
    version: Literal[1] = 1


@value(kw_only=True)
class ToolFinished:
    """A tool came back. ``error`` is data for the model, not an exception."""

    command_id: str
    attempt: int
    result: JSON
    error: str = ""
    sanitized: bool = False
    kind: Literal["tool_finished"] = "tool_finished"
    version: Literal[1] = 1


@value(kw_only=True)
class CallFailed:
    """One attempt of a call ended without an answer."""

    command_id: str
    attempt: int
    cause: Cause
    message: str
    """One sentence for a person. The raw text goes in ``raw``."""
    status: int | None = None
    retry_after_s: float | None = None
    raw: str = ""
    billed: bool = False
    """True: the provider may have billed it (a timeout after sending, say), so the reservation is settled at worst case."""
    kind: Literal["call_failed"] = "call_failed"
    version: Literal[1] = 1


@value(kw_only=True)
class OwnerChanged:
    """A process took the run over. ``recovered`` is true when calls may have been in flight with the previous owner."""

    input_id: str
    fence: int
    incarnation: str
    kind: Literal["owner_changed"] = "owner_changed"
    version: Literal[1] = 1


@value(kw_only=True)
class TimeReached:
    """The instant a run asked to be woken at has come (or passed)."""

    kind: Literal["time_reached"] = "time_reached"
    version: Literal[1] = 1


Result = ModelReplied | ToolFinished | CallFailed
"""What the ports give back for a command; it names the command and the attempt it answers."""

Input = (
    RunRequested
    | DecisionMade
    | CancelRequested
    | ModelReplied
    | ToolFinished
    | CallFailed
    | OwnerChanged
    | TimeReached
)

InboxInput = RunRequested | DecisionMade | CancelRequested
"""What may stand in the inbox table."""

INBOX: TypeAdapter[InboxInput] = TypeAdapter(Annotated[InboxInput, Field(discriminator="kind")])
"""Reads and writes inbox rows: ``INBOX.dump_json(i)``, ``INBOX.validate_json(raw)`` (pydantic.ValidationError on anything else)."""
