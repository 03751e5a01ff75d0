"""Facts about steps and calls: requests, answers, refusals, aborted calls."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.events.parts import GrantUse, ProposedCall, TripRecord
from fabric.core.values.cost import NO_PARTS, TokenParts
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import value
from fabric.core.values.taxonomy import Cause, ErrorClass


@value(kw_only=True)
class StepOpened:
    """An agent's step was activated again after a failure; content: the message about the failure. Or a judge's step
    began; content: the judged output, or a tool's arguments.
    """

    step_id: str
    stage: Stage
    branch: int
    agent: str
    round: int
    approved: bool = False
    """True: a person approved it, so its next failure goes to the ladder's last rung."""
    keeps: bool = False
    """True: a call failed, and it alone is made again. The earlier activation's answers and results stand, and its
    corrections count.
    """
    passes: tuple[str, ...] = ()
    """Ids of the refused calls of the last answer that a person approved: they are made now."""
    kind: ClassVar[str] = "step_opened"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TurnOpened:
    """A worker's turn began, in a topology whose workers take turns. Content, if any: the agent's instructions
    besides its brief.
    """

    step_id: str
    branch: int
    """Number of the turn, from 0."""
    agent: str
    brief: int
    """Number of the plan's brief that it executes, from 0."""
    hears: tuple[int, ...] = ()
    """Turns whose output it reads, in order."""
    first: bool = False
    """True: its agent had no turn before in this epoch."""
    chooses: bool = False
    """True: the next speaker is chosen once this turn is over, by its calls and writes."""
    due_at: int = 0
    """Instant at which the graph's first time limit for the turn fires; 0: none."""
    choices: tuple[str, ...] = ()
    """Candidates of a verdict or a vote; empty for other turns."""
    kind: ClassVar[str] = "turn_opened"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallIssued:
    """The intent: committed before the call goes out. Carries key, deadline and the worst-case reservation."""

    command_id: str
    attempt: int
    call: Literal["model", "tool"]
    step_id: str
    agent: str
    target: str
    """Model or tool name."""
    turn: int
    deadline_at: int
    key: str
    prompt: str = ""
    """Rolling digest of the prompt's references; never the prompt."""
    call_id: str = ""
    args_hash: str = ""
    args_ref: str = ""
    reserved_usd_micros: int = 0
    reserved_tokens: int = 0
    max_output_tokens: int = 0
    final: bool = False
    """True: tools were stripped; the agent answers once with the material that it has."""
    grants: tuple[GrantUse, ...] = ()
    """Parts of shared budgets that the call reserves, at its worst case in each."""
    kind: ClassVar[str] = "call_issued"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallStreamed:
    """A complete call arrived while its answer is still streaming in. It is made at once, or waits only for such
    calls. Content: ``{"calls": [...]}``, as in an answer.
    """

    command_id: str
    """The model call of the answer."""
    attempt: int
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    index: int
    """Number of the call in its turn; the last part of its own command id."""
    after: tuple[str, ...] = ()
    """Calls of its answer that it waits for."""
    given: str = ""
    """The id under which its model knows it, if it differs."""
    kind: ClassVar[str] = "call_streamed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ModelAnswered:
    """A model answered. Content: ``{"output": ...}``, ``{"text", "calls"}`` or the raw text of a refused answer."""

    command_id: str
    attempt: int
    step_id: str
    verdict: Literal["output", "calls", "rejected"]
    calls: tuple[ProposedCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd_micros: int = 0
    problems: tuple[str, ...] = ()
    """Problems of the answer, which the model receives; each non-empty answer with a problem costs a correction."""
    sanitized: bool = False
    handled: tuple[str, ...] = ()
    """Calls that failed before the answer was complete, where other calls of the answer handle that error."""
    finish: Literal["stop", "length", "content_filter"] = "stop"
    """The reason why the model stopped: it was done, the token limit cut its answer, or its provider withheld it."""
    model: str = ""
    """The model that answered, by its endpoint's name."""
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """The reason to doubt the endpoint's count of tokens or the price of its service tier; "": no doubt. It names the
    amount charged instead.
    """
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
    kind: ClassVar[str] = "model_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ToolAnswered:
    """A tool answered. Content: the result, and the context variables that it writes; for an error ``{"call": {"id",
    "tool", "args"}, "error"}``.
    """

    command_id: str
    attempt: int
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    masked_hash: str
    """Fingerprint of the result with clocks, ids and durations masked."""
    error: bool = False
    sanitized: bool = False
    failure: str = ""
    """Identity of an error, by which repeats are counted; "" for a result. It has the tool, and a fingerprint of the
    error's signature.
    """
    hands_to: str = ""
    """Agent that the tool hands the conversation to; "": none."""
    ends: str = ""
    """Reason for which it ends the conversation; "": it does not."""
    handled: bool = False
    """True: another call of its answer handles this error, so that it costs no correction."""
    writes: int = 0
    """Number of context variables that it sets or deletes; the content has them."""
    cost_usd_micros: int = 0
    """Its tool's price; 0 too if the attempt was charged before."""
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
    kind: ClassVar[str] = "tool_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallRefused:
    """A proposed call was not executed. Content: the model's message for its call id, ``{"call": {"id", "tool",
    "args"}, "error"}``.
    """

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    cause: Cause
    mechanism: str
    problem: str
    correction: bool = False
    """True: a structural error, which costs the step a correction at the end of the wave."""
    kind: ClassVar[str] = "call_refused"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallDeduplicated:
    """A repeated call id with equal arguments: the first result counts for both."""

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    turn: int
    result_ref: str
    result_bytes: int = 0
    masked_hash: str = ""
    error: bool = False
    """True: that result is an error."""
    kind: ClassVar[str] = "call_deduplicated"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallEdited:
    """A person approved a proposed call with other arguments, or another tool in its place. Content: ``{"calls":
    [{"call_id", "tool", "args"}]}``, as in an answer.
    """

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    proposed_hash: str
    """Hash of the arguments that the model had proposed."""
    actor: str
    proposed_tool: str = ""
    """The tool that the model had proposed, where another one is called; "": no change."""
    kind: ClassVar[str] = "call_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallResolved:
    """The references in a proposed call were resolved: its arguments as they will be sent. Content: ``{"calls":
    [{"call_id", "tool", "args"}]}``.
    """

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    proposed_hash: str
    """Hash of the arguments with their references, as the model had proposed them."""
    kind: ClassVar[str] = "call_resolved"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallSkipped:
    """A planned call is skipped: its condition is false, or it refers to a skipped call. Content: ``{"skipped":
    ...}``, the reason.
    """

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    kind: ClassVar[str] = "call_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallResponded:
    """A person answered a proposed call in place of its tool, so it is not made. Content: ``{"result": ...}``, their
    words.
    """

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    actor: str
    kind: ClassVar[str] = "call_responded"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputRequested:
    """A tool's server asks a person in the middle of a call, and continues only after the answer. Content:
    ``{"server", "message", "schema", "said"}``.
    """

    command_id: str
    attempt: int
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    asked: str
    """Digest of message and form: an equal request receives the earlier answer."""
    number: int
    """The number of the question within its call, from 1."""
    cost_usd_micros: int = 0
    """Its tool's price, since the attempt went out."""
    kind: ClassVar[str] = "input_requested"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputGiven:
    """A person answered the question of a tool's server; the call goes out once more with the answer. Content:
    ``{"asked": digest, "answer": {...}}``.
    """

    command_id: str
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    actor: str
    kind: ClassVar[str] = "input_given"
    version: ClassVar[int] = 1


@value(kw_only=True)
class OutputAccepted:
    """An output stands whose calls have all drained without an error, or a call ended the turn. Content: the output,
    ``{"output": ...}``.
    """

    step_id: str
    answer_ref: str = ""
    """Reference of the answer with it; "": this event's own content."""
    kind: ClassVar[str] = "output_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class HandedOff:
    """The active agent of a peer chain changed. Content: ``{"text": ...}``, the brief of the new agent."""

    step_id: str
    from_agent: str
    to_agent: str
    kind: ClassVar[str] = "handed_off"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AttemptFailed:
    """One attempt ended without an answer. Content: the raw text, where there is any."""

    command_id: str
    attempt: int
    step_id: str
    error_class: ErrorClass
    cause: Cause
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    charged_usd_micros: int = 0
    charged_tokens: int = 0
    trip: TripRecord | None = None
    """The mechanism that did not let it be sent; None: it was sent, or could not be."""
    breaker_wait_s: float | None = None
    """Seconds for which its circuit breaker stays open, if it refused the call, or the call was its probe. None
    otherwise.
    """
    shut: tuple[str, ...] = ()
    """Possible fallbacks whose call an open circuit breaker would have refused then."""
    partial: bool = False
    """True: a part of the answer had arrived. The engine decides about it like any failure; no adapter repeats the
    call on its own.
    """
    billed: bool = False
    """True: the charge is the endpoint's bill. False: its reservation, or nothing."""
    input_tokens: int = 0
    """Input tokens by the endpoint's count; 0: not reported."""
    output_tokens: int = 0
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """The reason to doubt the endpoint's bill, as in ``model_answered``."""
    probed: str = ""
    """The circuit breaker that the call probed, by its row's scope; "": none."""
    kind: ClassVar[str] = "attempt_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AttemptInterrupted:
    """The process of this attempt is gone. Its bill is unknown, so it is charged at its worst case."""

    command_id: str
    attempt: int
    charged_usd_micros: int = 0
    charged_tokens: int = 0
    kind: ClassVar[str] = "attempt_interrupted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallAborted:
    """A call in flight was aborted (cancel, halt, replan, quorum met). It is charged at its worst case, and its
    result is void.
    """

    command_id: str
    attempt: int
    reason: str
    charged_usd_micros: int = 0
    charged_tokens: int = 0
    kind: ClassVar[str] = "call_aborted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class LateResultIgnored:
    """A result arrived for a superseded call (older epoch, aborted, over): kept as a fact, ignored as data. Content:
    the result.
    """

    command_id: str
    attempt: int
    reason: str
    kind: ClassVar[str] = "late_result_ignored"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputIgnored:
    """An input from outside changed nothing, for this reason (a decision too late, a second start)."""

    input_kind: str
    reason: str
    kind: ClassVar[str] = "input_ignored"
    version: ClassVar[int] = 1
