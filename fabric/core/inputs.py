"""What arrives at a run: a closed, versioned union. Inputs are data; what they change is ``engine.decide``'s business.

Inputs from outside (``RunRequested``, ``DecisionMade``, ``CancelRequested``) travel through the inbox table as JSON; results come back
from the ports in memory. Each has an ``input_id``: the same id twice is the same input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

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

_BY_KIND: Mapping[str, Any] = {
    "run_requested": RunRequested,
    "decision_made": DecisionMade,
    "cancel_requested": CancelRequested,
}
"""Total by test."""


class _Inbox:
    """Inbox rows as bytes."""

    def dump_json(self, given: InboxInput) -> bytes:
        """One input as JSON, its kind and version first."""
        body = msgspec.to_builtins(given)
        return msgspec.json.encode({"kind": given.kind, "version": given.version, **body})

    def validate_json(self, raw: bytes) -> InboxInput:
        """The input in a row. ValueError, one sentence, for anything that is none of this version's."""
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
            found: InboxInput = msgspec.convert(body, _BY_KIND[body.get("kind", "")])
        except KeyError:
            raise ValueError(
                f"an inbox row of kind {body.get('kind')!r} is not known to this version: upgrade it"
            ) from None
        except msgspec.DecodeError as error:
            raise ValueError(f"an inbox row cannot be read: {error}") from error
        return found


INBOX = _Inbox()
"""Reads and writes inbox rows."""
