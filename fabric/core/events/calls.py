"""Facts about steps and calls: what was asked for, what came back, what was refused, what was let go."""

from __future__ import annotations

from typing import ClassVar, Literal

from fabric.core.events.parts import GrantUse, ProposedCall, TripRecord
from fabric.core.flow import Stage
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause, ErrorClass
from fabric.core.token_parts import NO_PARTS, TokenParts


@value(kw_only=True)
class StepOpened:
    """A further activation of an agent after one that failed; content: what it is told about that. Or a judge's; content: what it judges, or a tool's arguments."""

    step_id: str
    stage: Stage
    branch: int
    agent: str
    round: int
    approved: bool = False
    """True: a person approved it, so its next failure goes to the ladder's last rung."""
    keeps: bool = False
    """True: a call failed, and it alone is made again. The answers and results of the activation before stand, and its corrections count."""
    passes: tuple[str, ...] = ()
    """Refused calls of the last answer that a person let pass, by id: they are made now."""
    kind: ClassVar[str] = "step_opened"
    version: ClassVar[int] = 1


@value(kw_only=True)
class TurnOpened:
    """A worker's turn began, in a topology whose workers take turns. Content, where there is any: what its agent is told beside its brief."""

    step_id: str
    branch: int
    """Which turn it is, from 0."""
    agent: str
    brief: int
    """Which brief of the plan it does, from 0."""
    hears: tuple[int, ...] = ()
    """Turns whose output it reads, in order."""
    first: bool = False
    """True: its agent had no turn before in this epoch."""
    chooses: bool = False
    """True: who speaks after it is chosen once it is over, by what was called and written in it."""
    due_at: int = 0
    """When the first of the graph's expectations of it fires; 0: none does."""
    choices: tuple[str, ...] = ()
    """Of a verdict or a vote: whom it may be for. None: it is neither."""
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
    """True: tools were stripped; the agent answers once with what it has."""
    grants: tuple[GrantUse, ...] = ()
    """What it is reserved from of budgets that runs share, at its worst case in each."""
    kind: ClassVar[str] = "call_issued"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallStreamed:
    """A whole call of an answer that is still coming in: it is made at once, or waits only for such calls. Content: ``{"calls": [...]}``, as an answer has it."""

    command_id: str
    """The model call whose answer it is."""
    attempt: int
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    index: int
    """Which call of its turn; the last part of its own command id."""
    after: tuple[str, ...] = ()
    """Calls of the same answer that it waits for."""
    given: str = ""
    """The id that its model knows it by, where that is another one."""
    kind: ClassVar[str] = "call_streamed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ModelAnswered:
    """A model's answer, journaled. Content: ``{"output": ...}``, ``{"text", "calls"}`` or the raw text of what was refused."""

    command_id: str
    attempt: int
    step_id: str
    verdict: Literal["output", "calls", "rejected"]
    calls: tuple[ProposedCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd_micros: int = 0
    problems: tuple[str, ...] = ()
    """What was wrong with it, told to the model; each non-empty answer of this kind costs a correction."""
    sanitized: bool = False
    handled: tuple[str, ...] = ()
    """Calls that came back with an error before the answer was whole, where others of its calls ask about that error."""
    finish: Literal["stop", "length", "content_filter"] = "stop"
    """The reason why the model stopped: it was done, the token limit cut its answer, or its provider withheld it."""
    model: str = ""
    """The model that answered, as its endpoint names it."""
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """The reason to doubt the endpoint's count of tokens or the price of its service tier, and what is charged instead. Empty: no doubt."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
    kind: ClassVar[str] = "model_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class ToolAnswered:
    """A tool's result, journaled. Content: the result, and what it writes to the context variables; of an error ``{"call": {"id", "tool", "args"}, "error"}``."""

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
    """What makes an error the same error again: its tool, and a fingerprint of its signature; empty for a result."""
    hands_to: str = ""
    """Whom it hands the conversation over to; empty: to nobody."""
    ends: str = ""
    """Why it ends the conversation; empty: it does not."""
    handled: bool = False
    """Of an error: another call of the same answer asks about it, so that it costs no correction."""
    writes: int = 0
    """How many context variables it sets or deletes; the content says which."""
    cost_usd_micros: int = 0
    """Its tool's price. 0 too where the attempt that it answers was charged before."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
    kind: ClassVar[str] = "tool_answered"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallRefused:
    """A proposed call was not executed. Content: what the model reads for its call id, ``{"call": {"id", "tool", "args"}, "error"}``."""

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
    """The same call id with equal arguments came again: the first result stands for both. Or the same call was made for an answer that broke off."""

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
    correction: bool = False
    """True: a structural or runtime error, which costs the step a correction at the end of the wave."""
    begun: bool = False
    """True: it was made for an answer to the same request that broke off, and is proposed anew by the one that came whole."""
    kind: ClassVar[str] = "call_deduplicated"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallEdited:
    """A person lets a proposed call pass with other arguments, or has another tool called in its place. Content: ``{"calls": [{"call_id", "tool", "args"}]}``, as an answer has them."""

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    proposed_hash: str
    """Of the arguments that the model had proposed."""
    actor: str
    proposed_tool: str = ""
    """The tool that the model had proposed to call, where another one is called; empty: it is the same."""
    kind: ClassVar[str] = "call_edited"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallResolved:
    """What a proposed call refers to is known: its arguments as they will be sent. Content: ``{"calls": [{"call_id", "tool", "args"}]}``."""

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    proposed_hash: str
    """Of the arguments with their references, as the model had proposed them."""
    kind: ClassVar[str] = "call_resolved"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallSkipped:
    """A planned call is not made: its condition does not hold, or it refers to one that was not made. Content: ``{"skipped": ...}``, why."""

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    kind: ClassVar[str] = "call_skipped"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallResponded:
    """A person answered a proposed call in the tool's stead: it is not made. Content: ``{"result": ...}``, their words."""

    step_id: str
    call_id: str
    tool: str
    args_hash: str
    actor: str
    kind: ClassVar[str] = "call_responded"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputRequested:
    """The server of a tool asks a person in the middle of a call, and does the call only after the answer. Content: ``{"server", "message", "schema", "said"}``."""

    command_id: str
    attempt: int
    step_id: str
    call_id: str
    tool: str
    args_hash: str
    asked: str
    """Digest of message and form: the same question gets the same answer."""
    number: int
    """The number of the question within its call, from 1."""
    cost_usd_micros: int = 0
    """Its tool's price: the attempt went out."""
    kind: ClassVar[str] = "input_requested"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputGiven:
    """A person answered what the server of a tool asked; the call goes out once more with it. Content: ``{"asked": digest, "answer": {...}}``."""

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
    """An output stands whose calls have all drained without an error. Or a call ended the turn. Content: what it leaves as its output, ``{"output": ...}``."""

    step_id: str
    answer_ref: str = ""
    """The answer that it came with; empty: it is this event's own content."""
    kind: ClassVar[str] = "output_accepted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class HandedOff:
    """The active agent of a peer chain changed. Content: ``{"text": ...}``, what it was told."""

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
    """Its circuit breaker is open for so long: it refused the call, or the call was its probe."""
    shut: tuple[str, ...] = ()
    """Models that may stand in for the one that was asked, and whose call a circuit breaker would have refused then."""
    partial: bool = False
    """True: a part of the answer had come. What is done about it is decided like any failure; nobody asks again by themselves."""
    billed: bool = False
    """True: it is charged what the endpoint billed. False: its reservation, or nothing."""
    input_tokens: int = 0
    """As the endpoint counted them; 0: it did not say."""
    output_tokens: int = 0
    parts: TokenParts = NO_PARTS
    usage_problem: str = ""
    """As of ``model_answered``."""
    probed: str = ""
    """The circuit breaker whose probe the call was, by its row's scope; empty: it probed none."""
    kind: ClassVar[str] = "attempt_failed"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AttemptInterrupted:
    """The process that held this attempt is gone; whether it was billed is unknown, so it is charged at worst case."""

    command_id: str
    attempt: int
    charged_usd_micros: int = 0
    charged_tokens: int = 0
    kind: ClassVar[str] = "attempt_interrupted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallAborted:
    """A call in flight was let go (cancel, halt, replan, quorum met): charged at worst case, its result is void."""

    command_id: str
    attempt: int
    reason: str
    charged_usd_micros: int = 0
    charged_tokens: int = 0
    kind: ClassVar[str] = "call_aborted"
    version: ClassVar[int] = 1


@value(kw_only=True)
class LateResultIgnored:
    """A result for a call that was superseded (older epoch, aborted, over): kept as a fact, ignored as data. Content: the result."""

    command_id: str
    attempt: int
    reason: str
    kind: ClassVar[str] = "late_result_ignored"
    version: ClassVar[int] = 1


@value(kw_only=True)
class InputIgnored:
    """Something from outside changed nothing, and why (a decision too late, a second start)."""

    input_kind: str
    reason: str
    kind: ClassVar[str] = "input_ignored"
    version: ClassVar[int] = 1
