"""Defines intents for the world outside: commands, and messages that leave a run with its batch.

Messages go in the batch's transaction: child runs that begin, and inputs for other runs of the family.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from fabric.core.events.child_inputs import ChildEnded, ChildRequested, ChildStuck, ChildWaits
from fabric.core.events.inputs import CancelRequested, DecisionMade, PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.values.frozen import value


@value(kw_only=True)
class Message:
    """One message of a prompt by reference: the template that renders it and the contents that fill it."""

    role: Literal["system", "user", "assistant", "tool"]
    template: str
    """Name in ``runtime/prompts.py``'s table, for example ``brief@1``."""
    refs: tuple[str, ...] = ()
    """Content references that fill it."""
    part: int | None = None
    """Number of the plan's brief, where the template takes one."""
    call_id: str = ""
    tool: str = ""
    error: bool = False
    speaker: str = ""
    """Speaker of the words, where the template names one."""


@value(kw_only=True)
class CallModel:
    """Ask a model once."""

    command_id: str
    attempt: int
    step_id: str
    agent: str
    model: str
    messages: Iterable[Message]
    """Messages in order; a conversation's are made when they are read (``prompt.Messages``)."""
    tools: tuple[str, ...]
    output: str
    """Name in ``payloads.AGENT_OUTPUT``; the endpoint receives that schema if it supports one."""
    max_output_tokens: int
    idempotency_key: str
    deadline_at: int
    """End of the attempt, whatever the endpoint does; microseconds since the epoch."""
    typed: str = ""
    """The agent whose ``output_schema`` the answer's data has to fit; "": no data is wanted."""
    kind: ClassVar[str] = "call_model"
    version: ClassVar[int] = 1


@value(kw_only=True)
class CallTool:
    """Run a tool once."""

    command_id: str
    attempt: int
    step_id: str
    agent: str
    tool: str
    args_ref: str
    """Reference of the model answer that proposed it."""
    call_id: str
    idempotency_key: str
    deadline_at: int
    answers: tuple[str, ...] = ()
    """References of a person's answers to the tool's server."""
    kind: ClassVar[str] = "call_tool"
    version: ClassVar[int] = 1


@value(kw_only=True)
class AbortCall:
    """Abort a call in flight; its result no longer matters."""

    command_id: str
    attempt: int
    kind: ClassVar[str] = "abort_call"
    version: ClassVar[int] = 1


Call = CallModel | CallTool
Command = CallModel | CallTool | AbortCall

Down = CancelRequested | TerminateRequested | PauseRequested | ResumeRequested | DecisionMade
Up = ChildWaits | ChildStuck | ChildEnded


@value(kw_only=True)
class Spawn:
    """A child run begins, on its parent's revision, tier, queue, priority and session."""

    run_id: str
    title: str
    seed: int
    given: ChildRequested


@value(kw_only=True)
class Tell:
    """An input for a parent or a child; exactly once, by its id."""

    run_id: str
    given: Down | Up


Outgoing = Spawn | Tell
