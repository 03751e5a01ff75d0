"""Tools as a fabric declares them: what runs, and what that does to the world."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from fabric.core.spec_http import HeadersFrom, Places
from fabric.core.spec_parts import Name, Named, Prose
from fabric.core.spec_persona import Capabilities
from fabric.core.spec_price import CallPrice, micros


class ToolSpec(Named):
    """A tool, and what running it does to the world."""

    kind: Literal["builtin", "callable", "http", "mcp", "memory", "conversation"] = Field(
        default="builtin",
        description="Of memory and conversation are the tools that the engine makes of memories and topologies, and no other.",
    )
    effect: Literal["read_only", "idempotent", "mutating", "irreversible"] = "read_only"
    description: Prose = ""
    parameters: dict[str, Any] | None = Field(
        default=None, description="JSON schema of the arguments. None: the built-in's own."
    )
    target: str = Field(
        default="",
        max_length=500,
        description="The operator's name for a callable, URL of an HTTP endpoint, or SERVER/TOOL.",
    )
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    places: Places = Field(default_factory=dict)
    headers_from: HeadersFrom = Field(default_factory=dict)
    allowed_hosts: tuple[str, ...] = Field(default=(), description="http_get: the hosts it may ask.")
    polling: bool = Field(default=False, description="Called again and again by design: detectors leave it alone.")
    timeout_s: Annotated[float, Field(gt=0, le=3_600)] | None = None
    usd_per_call: CallPrice = Field(
        default=None,
        description="Dollars for one call, such as 0.005: each attempt that goes out costs so much. None: it costs nothing.",
    )
    compensation: Name | None = Field(
        default=None, description='Tool that undoes a mutating one. It is called with {"key", "args", "result"}.'
    )
    reconcile: Name | None = Field(
        default=None,
        description='Read-only tool that says whether a mutating one was executed: called with {"key", "args"}, '
        'it answers {"executed": true or false, "result": ...}. None: a person is asked.',
    )
    carry_over: bool = Field(
        default=False, description="Mutating: what it did stays when the run is replanned, and is not done again."
    )
    approval: Literal["required", "waived"] = Field(
        default="required", description="Irreversible: a person is asked before each call; waived needs a deviation."
    )
    hands_over: bool = Field(
        default=False,
        description='HTTP: its result {"handoff": {"target": ..., "reason": ...}} or {"finish": {"reason": ...}} decides who speaks next in a conversation, and '
        '{"set_context": {...}, "delete_context": [...], "result": ...} writes its context variables.',
    )
    ends_turn: bool = Field(
        default=False,
        description="In a conversation: once a call of it came back without an error, its agent's turn is over, and the result is what the turn says.",
    )
    deviation: str = Field(default="", max_length=500, description="Why the approval is waived.")
    approve_when: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)] | None = (
        Field(
            default=None,
            description="Before which calls a person is asked: a condition in CEL over args, agent, stage and run, such as args.amount > 100. "
            "What it cannot say of a call is asked too. None: none but irreversible ones.",
        )
    )
    capabilities: Capabilities = Field(
        default=(),
        description="What an agent must be allowed to call it, such as database:write. None: tool:NAME.",
    )

    @property
    def price_usd_micros(self) -> int:
        """Micro-dollars that one attempt of a call costs."""
        return 0 if self.usd_per_call is None else micros(self.usd_per_call)
