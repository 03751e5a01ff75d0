"""Defines inputs that arrive at a run: a closed, versioned union. Inputs are data; ``engine.decide`` decides their
effect.

Inputs from outside (``InboxInput``) travel through the inbox table as JSON; results come back from the ports in memory.
Each has an ``input_id``: a repeated id is a repeated input. A conversation gets messages and changes of its context
variables in this way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

import msgspec

from fabric.core.events.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.events.control import KeptWork
from fabric.core.events.envelope import SINCE_INPUT, UPCAST_INPUT, upcast
from fabric.core.graph.state import Finish, Handoff, Writes
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.texts.forms import InputRequest
from fabric.core.values.cost import NO_PARTS, TokenParts
from fabric.core.values.frozen import value
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause, Trip
from fabric.core.values.units import JSON


@value(kw_only=True)
class RunRequested:
    """Start. The first input of every run; everything a run pins for good."""

    input_id: str
    request: JSON
    """``payloads.Request`` as JSON."""
    deadline_at: int
    """Microseconds since the epoch: the run's absolute deadline, fixed when it was requested."""
    requested_by: str = ""
    caused_by: tuple[str, ...] = ()  # Other people who created the starter's credentials.
    kind: Literal["run_requested"] = "run_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class DecisionMade:
    """A person (or, at expiry, the system) answered a review."""

    input_id: str
    review_id: str
    verb: Literal["approve", "edit", "reject", "respond", "decline"]
    actor: str
    digest: str
    """Digest of the content that the reviewer saw. It must equal the review's, or the decision is refused as stale."""
    message: str = ""
    edited: JSON = None
    """``edit``: the replacement of the shown part."""
    cap_usd_micros: int | None = None
    """``approve`` of a cost overrun: most the run may spend from now on, altogether; None: its cap stays."""
    model: str = ""
    """``approve`` of a failure with a possible fallback: the model that the review names; "": the agent's own again."""
    caps: tuple[NamedCap, ...] = ()
    """``approve`` of a cost overrun: new values of the other caps that the review names."""
    tool: str = ""
    """``edit`` of a call: the tool to call in place of the shown one; "": no change."""
    kind: Literal["decision_made"] = "decision_made"
    version: Literal[1] = 1


@value(kw_only=True)
class CancelRequested:
    """Stop issuing, abort the calls in flight, end as cancelled."""

    input_id: str
    actor: str
    reason: str = ""
    kind: Literal["cancel_requested"] = "cancel_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class TerminateRequested:
    """Stop at once: abort the calls in flight, undo nothing, end as aborted."""

    input_id: str
    actor: str
    reason: str = ""
    kind: Literal["terminate_requested"] = "terminate_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class PauseRequested:
    """Issue nothing until the run is resumed; results of calls in flight may come back."""

    input_id: str
    actor: str
    reason: str = ""
    kind: Literal["pause_requested"] = "pause_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class ResumeRequested:
    """Go on after a pause."""

    input_id: str
    actor: str
    kind: Literal["resume_requested"] = "resume_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class Kept:
    """A content that a fork takes over: its owner (``ContentKept.what``), and its JSON."""

    what: str
    content: JSON


@value(kw_only=True)
class ForkRequested:
    """Start from an event of another run, with the outputs and turns kept there (``forks.find_fork_point``)."""

    input_id: str
    request: JSON
    deadline_at: int
    origin_run_id: str
    origin_seq: int
    origin_hash: str
    stages: tuple[tuple[str, str], ...] = ()
    """``(stage, reference of its output)`` of the stages that do not run again, in order."""
    branches: tuple[tuple[int, str, str], ...] = ()  # ``(branch, agent, reference)``: those that are done.
    parts: tuple[tuple[int, str, tuple[int, ...], tuple[int, ...]], ...] = ()
    """``(branch, reference, briefs, briefs without a part)`` of the rounds of branches that are child runs."""
    contents: tuple[Kept, ...] = ()
    edited: str = ""
    topology: str = ""  # For a fork of a team's run: the worker whose topology it runs.
    requested_by: str = ""
    caused_by: tuple[str, ...] = ()  # As in ``RunRequested``.
    stopped: tuple[str, ...] = ()  # Sentences, as in ``RunForked``.
    work: tuple[KeptWork, ...] = ()  # As in ``RunForked``.
    kind: Literal["fork_requested"] = "fork_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class ToolCall:
    """A call that a model proposes. ``args`` is None when ``raw_args`` was no JSON object."""

    call_id: str
    """In an answer: the endpoint's id, of any length; "": none. In a prompt: the engine's own id."""
    tool: str
    args: JSON
    raw_args: str = ""
    server_id: str = ""
    """In a prompt: the endpoint's id, if the engine's own differs."""
    own: JSON = None
    """Fields of the call that only its provider understands, such as a thought signature; None: none."""


@value(kw_only=True)
class CallStreamed:
    """A call is complete in an answer that is still streaming in. ``calls``: all complete ones, in order, this one
    last.
    """

    command_id: str
    attempt: int
    calls: tuple[ToolCall, ...]
    kind: Literal["call_streamed"] = "call_streamed"
    version: Literal[1] = 1


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
    own: JSON = None
    """Parts of the answer that only its provider understands, such as reasoning. They go back to the model that gave
    them. None: there are none.
    """
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """The reason to doubt the endpoint's count of tokens or the price of its service tier; "": no doubt. It names the
    amount charged instead.
    """
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
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
    outcome: Outcome | None = None
    """Execution of the call; None: executed, or with an error not executed."""
    code: str = ""
    """The tool's own name for its error: an error code, an exit code."""
    returned: Handoff | Finish | None = None
    """Effect of the result on the conversation of the call; None: none."""
    writes: Writes | None = None
    """Its changes of the conversation's context variables; None: none."""
    requested: InputRequest | None = None
    """The question of its server to a person before it executes the call; None: none. ``error`` has it too, for a
    call that waits for no person.
    """
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
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
    """True: the provider may have billed it (a timeout after sending, say), so the reservation is settled at worst
    case.
    """
    outcome: Outcome = Outcome.UNKNOWN
    """Rejected where it is certain that nothing was done: it was never sent, or refused."""
    trip: Trip | None = None
    """The mechanism that did not let it be sent."""
    breaker_wait_s: float | None = None
    """Seconds for which its open circuit breaker stays open, unless a person acts sooner. The call was refused, or was
    a failed probe.
    """
    shut: tuple[str, ...] = ()
    """Possible fallbacks whose call an open circuit breaker would have refused when this came back."""
    partial: bool = False
    """True: a part of the answer had come before it broke off."""
    input_tokens: int = 0
    """Input tokens of an unusable answer by the endpoint's count; 0: not reported."""
    output_tokens: int = 0
    parts: TokenParts = NO_PARTS
    cost_usd_micros: int | None = None
    """The cost that the endpoint reports; None: the engine computes it from the tokens and the fabric's price."""
    usage_problem: str = ""
    """The reason to doubt the endpoint's bill, as in ``ModelReplied``."""
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
    never_sent: bool = False
    """True: the call failed before any request went out, so it tells nothing about its endpoint."""
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
class WorkerStopping:
    """The owner stops and no longer waits for its calls. ``unsent``: ``(command id, attempt)`` of those never sent."""

    unsent: frozenset[tuple[str, int]] = frozenset()
    kind: Literal["worker_stopping"] = "worker_stopping"
    version: Literal[1] = 1


@value(kw_only=True)
class InputUnreadable:
    """An inbox row cannot be read as an input. It is removed from the inbox, and the journal records it."""

    input_id: str
    reason: str
    """Reason, in one sentence."""
    kind: Literal["input_unreadable"] = "input_unreadable"
    version: Literal[1] = 1


@value(kw_only=True)
class TimeReached:
    """The instant a run asked to be woken at has come (or passed)."""

    kind: Literal["time_reached"] = "time_reached"
    version: Literal[1] = 1


Result = ModelReplied | ToolFinished | CallFailed
"""Results of the ports for a command; each names the command and the attempt that it answers."""


class NewerInput(ValueError):
    """An inbox row has a kind or version that this program does not know. A newer program wrote it, and reads it."""


class _Inbox:
    """Inbox rows as bytes."""

    def dump_json(self, given: InboxInput) -> bytes:
        """One input as JSON, its kind and version first."""
        body = msgspec.to_builtins(given)
        return msgspec.json.encode({"kind": given.kind, "version": given.version, **body})

    def validate_json(self, raw: bytes) -> InboxInput:
        """Return the input in a row, of an older version too. Raises NewerInput, or ValueError for a malformed
        input; each with one sentence.
        """
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any])
            kind, version = _envelope(body.pop("kind", None), body.pop("version", None))
            cls = _BY_KIND[kind]
            known = latest(cls)
            found: InboxInput = msgspec.convert(upcast(body, kind, version, known, UPCAST_INPUT), cls)
        except msgspec.DecodeError as error:
            raise ValueError(f"an inbox row cannot be read: {error}") from error
        return found

    def format_of(self, given: InboxInput) -> int:
        """Return the lowest format that reads this input, for ``JournalStore.put_input`` and ``NewRun``."""
        return SINCE_INPUT.get(given.kind, 1)


def latest(cls: Any) -> int:
    """Return the version of an input's kind that this program writes."""
    return int(cls.__dataclass_fields__["version"].default)


def _envelope(kind: Any, version: Any) -> tuple[str, int]:
    if not isinstance(kind, str) or not isinstance(version, int) or version < 1:
        raise ValueError(f"an inbox row cannot be read: it has no kind and version, but {kind!r} and {version!r}")
    cls = _BY_KIND.get(kind)
    if cls is None:
        raise NewerInput(f"an inbox row of kind {kind!r} is not known to this version: upgrade it")
    if version > latest(cls):
        message = f"an inbox row is {kind} version {version}; this program knows version {latest(cls)}: upgrade it"
        raise NewerInput(message)
    return kind, version


@value(kw_only=True)
class PersonSpoke:
    """A person sends a message into a run's conversation. The next speaker reads it; the message takes no turn."""

    input_id: str
    actor: str
    text: str
    kind: Literal["person_spoke"] = "person_spoke"
    version: Literal[1] = 1


@value(kw_only=True)
class ContextGiven:
    """A person, or a program in their name, writes context variables of a run's conversation. The change takes no
    turn.
    """

    input_id: str
    actor: str
    set: Mapping[str, JSON] = field(default_factory=dict)
    delete: tuple[str, ...] = ()
    """Keys that are deleted before others are set."""
    kind: Literal["context_given"] = "context_given"
    version: Literal[1] = 1


InboxInput = (
    RunRequested
    | ForkRequested
    | DecisionMade
    | CancelRequested
    | TerminateRequested
    | PauseRequested
    | ResumeRequested
    | PersonSpoke
    | ContextGiven
    | ChildRequested
    | ChildWaits
    | ChildStuck
    | ChildEnded
)
"""Inputs that the inbox table may contain."""

Input = (
    InboxInput
    | CallStreamed
    | ModelReplied
    | ToolFinished
    | CallFailed
    | OwnerChanged
    | WorkerStopping
    | InputUnreadable
    | TimeReached
)

_BY_KIND: Mapping[str, Any] = {
    "run_requested": RunRequested,
    "fork_requested": ForkRequested,
    "decision_made": DecisionMade,
    "cancel_requested": CancelRequested,
    "terminate_requested": TerminateRequested,
    "pause_requested": PauseRequested,
    "resume_requested": ResumeRequested,
    "person_spoke": PersonSpoke,
    "context_given": ContextGiven,
    "child_requested": ChildRequested,
    "child_waits": ChildWaits,
    "child_stuck": ChildStuck,
    "child_ended": ChildEnded,
}
"""Total by test."""


INBOX = _Inbox()
"""Reads and writes inbox rows."""
