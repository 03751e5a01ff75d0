"""Ports of calls: protocols for models and tools, and the values that cross them.

Real ones are in ``fabric/adapters``, scripted ones in ``simulator``. Instants are microseconds since the epoch, UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, Protocol, runtime_checkable

from fabric.core.events.inputs import CallFailed, CallStreamed, ModelReplied, ToolCall, ToolFinished
from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import ModelSpec
from fabric.core.values.frozen import value
from fabric.core.values.units import JSON
from fabric.runtime.ports.journal import Document
from fabric.runtime.ports.memories import MemoryCall


@value()
class ChatMessage:
    """One rendered message. ``calls`` are the assistant's proposals; ``call_id`` names the call that a tool message
    answers.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    tool: str = ""
    model: str = ""
    """The fabric's model that answered, if the message has ids or reasoning of its provider; "": it has none."""
    own: JSON = None
    """Parts of the answer that only that model's provider understands; None: there are none."""


@value(kw_only=True)
class ToolOffer:
    """A tool as it is offered to a model."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


@value(kw_only=True)
class ModelRequest:
    """One attempt at one model call, rendered and ready to send."""

    command_id: str
    attempt: int
    run_id: str
    trace_headers: Mapping[str, str]
    """Headers that carry the trace to the peer (``Trace.write_headers``); empty outside a run."""
    agent: str
    model: ModelSpec
    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolOffer, ...]
    output: str
    """Name of the wanted shape in ``payloads.AGENT_OUTPUT``."""
    output_schema: Mapping[str, JSON] | None
    """None: plain text is wanted, or a plan of calls."""
    plans: bool = False
    """True: the answer may be a plan of calls, in JSON that no schema describes."""
    data_schema: Mapping[str, JSON] | None = None
    """The schema of the answer's ``data``, as its author wrote it; None: no data is wanted."""
    max_output_tokens: int
    idempotency_key: str
    deadline_at: int
    workspace: str = ""
    """Id of the workspace whose stored keys may be used; "": none."""
    child: bool = False
    """True if another run spawned this one."""
    streamed: Callable[[CallStreamed], None] | None = None
    """Called with each call that is complete while the rest of the answer is still streaming in. None: no call begins
    early.
    """

    @property
    def wants_words(self) -> bool:
        """Return True if plain words are wanted, and no JSON."""
        return self.output_schema is None and not self.plans


@value(kw_only=True)
class ToolRequest:
    """One attempt at one tool call."""

    command_id: str
    attempt: int
    run_id: str
    trace_headers: Mapping[str, str]  # See ``ModelRequest``.
    tool: ToolSpec
    args: Mapping[str, JSON]
    idempotency_key: str
    deadline_at: int
    documents: Callable[[], tuple[Document, ...]]
    memory: MemoryCall | None = None
    """Further facts of a call of a memory's tool; None for other tools."""
    server: McpServer | None = None
    """Server of an MCP tool; None for other tools."""
    answers: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    """A person's answers to its server, by the digest of the question."""


class ModelPort(Protocol):
    """Asks a model once. No hidden retry, a hard end at the deadline, every failure a ``CallFailed``; never raises
    but on cancellation.
    """

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Make one attempt."""
        ...


@runtime_checkable
class Ending(Protocol):
    """A port that keeps something on the loop that it is asked on."""

    async def end(self) -> None:
        """Close its resources, on that loop, before the loop ends."""
        ...


class ToolPort(Protocol):
    """Runs a tool once. A tool's own error is a ``ToolFinished`` with ``error``; ``CallFailed`` is for failures that
    the model cannot fix.
    """

    async def run(self, request: ToolRequest) -> ToolFinished | CallFailed:
        """Make one attempt."""
        ...
