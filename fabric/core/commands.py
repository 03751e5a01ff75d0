"""What shall be done outside: a closed, versioned union of intents. A command is issued only after its event has committed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from fabric.core.frozen import value

JSON = Any


@value(kw_only=True)
class Message:
    """One message of a prompt by reference: which template renders it and whose content fills it."""

    role: Literal["system", "user", "assistant", "tool"]
    template: str
    """Name in ``runtime/prompts.py``'s table, for example ``brief@1``."""
    refs: tuple[str, ...] = ()
    """Content references that fill it."""
    part: int | None = None
    """Which brief of a plan, where the template takes one."""
    call_id: str = ""
    tool: str = ""
    error: bool = False
    speaker: str = ""
    """Whose words they are, where the template says so."""


@value(kw_only=True)
class CallModel:
    """Ask a model once."""

    command_id: str
    attempt: int
    step_id: str
    agent: str
    model: str
    messages: Iterable[Message]
    """In order; a conversation's are made when they are read (``prompt.Messages``)."""
    tools: tuple[str, ...]
    output: str
    """Name in ``payloads.AGENT_OUTPUT``; the endpoint is asked for that schema where it can be."""
    max_output_tokens: int
    idempotency_key: str
    deadline_at: int
    """Microseconds since the epoch; the attempt is over then, whatever the endpoint does."""
    typed: str = ""
    """The agent whose ``output_schema`` the answer's data has to fit; empty: no data is asked for."""
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
    """Let go of a call in flight; its result no longer matters."""

    command_id: str
    attempt: int
    kind: ClassVar[str] = "abort_call"
    version: ClassVar[int] = 1


Call = CallModel | CallTool
Command = CallModel | CallTool | AbortCall
