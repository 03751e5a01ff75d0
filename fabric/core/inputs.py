"""What arrives at a run: a closed, versioned union. Inputs are data; what they change is ``engine.decide``'s business.

Inputs from outside (``InboxInput``) travel through the inbox table as JSON; results come back
from the ports in memory. Each has an ``input_id``: the same id twice is the same input.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from fabric.core.budget_caps import NamedCap
from fabric.core.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.events.control import KeptWork
from fabric.core.forms import InputRequest
from fabric.core.frozen import value
from fabric.core.graph.state import Finish, Handoff, Writes
from fabric.core.person_inputs import ContextGiven, PersonSpoke
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.core.token_parts import NO_PARTS, TokenParts
from fabric.core.upcasters import SINCE_INPUT, UPCAST_INPUT, upcast
from fabric.core.verdict import Trip

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
    caused_by: tuple[str, ...] = ()  # Who made what the starter acted with (``run_started``).
    kind: Literal["run_requested"] = "run_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class DecisionMade:
    """A person (or, at expiry, the system) answered an escalation."""

    input_id: str
    escalation_id: str
    verb: Literal["approve", "edit", "reject", "respond", "decline"]
    actor: str
    digest: str
    """Digest of what was shown. It must equal the escalation's, or the decision is refused as stale."""
    message: str = ""
    edited: JSON = None
    """``edit``: what is to stand in place of what was shown."""
    cap_usd_micros: int | None = None
    """``approve`` of a cost overrun: most the run may spend from now on, altogether; None: its cap stays."""
    model: str = ""
    """``approve`` of a failure that another model may do away with: the one that the question names; empty: the agent's own again."""
    caps: tuple[NamedCap, ...] = ()
    """``approve`` of a cost overrun: other caps of the run that the question names, as they are to be from now on."""
    tool: str = ""
    """``edit`` of a call: the tool that is called in place of the one that is shown; empty: that one."""
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
class TerminateRequested:
    """Stop at once: abort what is in flight, undo nothing, end as aborted."""

    input_id: str
    actor: str
    reason: str = ""
    kind: Literal["terminate_requested"] = "terminate_requested"
    version: Literal[1] = 1


@value(kw_only=True)
class PauseRequested:
    """Issue nothing until the run is resumed; what is out may come back."""

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
    """A content that a fork takes over: whose it is (``ContentKept.what``), and its JSON."""

    what: str
    content: JSON


@value(kw_only=True)
class ForkRequested:
    """Start from an event of another run, with what that had come to (``forks.kept_at``)."""

    input_id: str
    request: JSON
    deadline_at: int
    origin_run_id: str
    origin_seq: int
    origin_hash: str
    stages: tuple[tuple[str, str], ...] = ()
    """``(stage, reference of its output)`` of what is not run again, in order."""
    branches: tuple[tuple[int, str, str], ...] = ()  # ``(branch, agent, reference)``: those that are done.
    parts: tuple[tuple[int, str, tuple[int, ...], tuple[int, ...]], ...] = ()
    """``(branch, reference, briefs, briefs without anything)`` of what the rounds of those brought that are runs of their own."""
    contents: tuple[Kept, ...] = ()
    edited: str = ""
    topology: str = ""  # Of a fork of a team's run: the worker whose topology that runs.
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
    """From an endpoint: the id that it gave, of any length; empty: it gave none. In a prompt: the engine's own id."""
    tool: str
    args: JSON
    raw_args: str = ""
    server_id: str = ""
    """In a prompt: the id that the endpoint gave, where the engine's own differs."""
    own: JSON = None
    """Fields of the call that only its provider understands, such as a thought signature; None: it gave none."""


@value(kw_only=True)
class CallStreamed:
    """A call of an answer that is still coming in is whole. ``calls``: all that are, in order, this one last."""

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
    """Parts of the answer that only its provider understands, such as reasoning; they go back to the same model. None: it gave none."""
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """The reason to doubt the endpoint's count of tokens or the price of its service tier, and what is charged instead. Empty: no doubt."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
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
    """Whether it was done; None: yes, or with an error no."""
    code: str = ""
    """The tool's own name for its error: an error code, an exit code."""
    returned: Handoff | Finish | None = None
    """What its result means to the conversation that it was called in; None: nothing."""
    writes: Writes | None = None
    """Its changes of the conversation's context variables; None: none."""
    requested: InputRequest | None = None
    """The question that its server asks a person before it does the call; None: it asks nothing. ``error`` says so too, for a call that waits for no person."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
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
    outcome: Outcome = Outcome.UNKNOWN
    """Rejected where it is certain that nothing was done: it was never sent, or refused."""
    trip: Trip | None = None
    """The mechanism that did not let it be sent."""
    breaker_wait_s: float | None = None
    """Its circuit breaker is open, for it was refused or was a probe that failed: so long, unless a person acts sooner."""
    shut: tuple[str, ...] = ()
    """Models that could have stood in, and whose call a circuit breaker would have refused when this came back."""
    partial: bool = False
    """True: a part of the answer had come before it broke off."""
    input_tokens: int = 0
    """As the endpoint counted them, of an answer that cannot be used; 0: it did not say."""
    output_tokens: int = 0
    parts: TokenParts = NO_PARTS
    cost_usd_micros: int | None = None
    """The cost that the endpoint reports; None: the engine computes it from the tokens and the fabric's price."""
    usage_problem: str = ""
    """As of ``ModelReplied``."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
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
    """The owner stops and waits for its calls no longer. ``unsent``: ``(command id, attempt)`` of those that had not been sent yet."""

    unsent: frozenset[tuple[str, int]] = frozenset()
    kind: Literal["worker_stopping"] = "worker_stopping"
    version: Literal[1] = 1


@value(kw_only=True)
class InputUnreadable:
    """An inbox row that is no input at all: nobody will ever read it, so it is taken out, and the journal says so."""

    input_id: str
    reason: str
    """One sentence: why."""
    kind: Literal["input_unreadable"] = "input_unreadable"
    version: Literal[1] = 1


@value(kw_only=True)
class TimeReached:
    """The instant a run asked to be woken at has come (or passed)."""

    kind: Literal["time_reached"] = "time_reached"
    version: Literal[1] = 1


Result = ModelReplied | ToolFinished | CallFailed
"""What the ports give back for a command; it names the command and the attempt it answers."""

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
"""What may stand in the inbox table."""

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


class NewerInput(ValueError):
    """An inbox row of a kind or version that this program does not know: a newer one wrote it, and reads it."""


class _Inbox:
    """Inbox rows as bytes."""

    def dump_json(self, given: InboxInput) -> bytes:
        """One input as JSON, its kind and version first."""
        body = msgspec.to_builtins(given)
        return msgspec.json.encode({"kind": given.kind, "version": given.version, **body})

    def validate_json(self, raw: bytes) -> InboxInput:
        """The input in a row, of an older version too. NewerInput, or ValueError for what is no input at all: one sentence each."""
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
        """The lowest format that reads this input: what ``JournalStore.put_input`` and ``NewRun`` are given."""
        return SINCE_INPUT.get(given.kind, 1)


def latest(cls: Any) -> int:
    """The version of an input's kind that this program writes."""
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


INBOX = _Inbox()
"""Reads and writes inbox rows."""
