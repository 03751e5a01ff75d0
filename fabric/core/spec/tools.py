"""Declares tools of a fabric: the code that runs, its effect on the world, and its capabilities.

A capability is needed to call a tool, and a persona says which of them an agent may use (S3 "Persona constraints";
docs/specification/protections.md). It is a name in parts, such as ``database:write``. An entry of a persona may end in
``:*``, and then covers all that begin like it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from fabric.core.schema.limits import Unit, declare_amount, declare_limit
from fabric.core.schema.parts import Name, Named, Prose, SpecGroup
from fabric.core.spec.http import HeadersFrom, Places
from fabric.core.spec.price import CallPrice, micros
from fabric.core.values.frozen import value

CHARS = 100
_PART = "[a-z0-9][a-z0-9_-]*"
_NEEDED = rf"^[a-z][a-z0-9_-]*(:{_PART})+$"
_ENTRY = rf"^[a-z][a-z0-9_-]*(:{_PART})*:(\*|{_PART})$"
_SAID = "lower-case words with digits, - and _, and a colon between two, such as database:write"


def _capability(text: str) -> str:
    if not re.fullmatch(_NEEDED, text):
        raise ValueError(f"{text!r} is no capability; write {_SAID}")
    return text


def _entry(text: str) -> str:
    if not re.fullmatch(_ENTRY, text):
        raise ValueError(f"{text!r} is no capability; write {_SAID}, or database:* for all that begin like it")
    return text


Needed = Annotated[
    str, Field(max_length=CHARS), AfterValidator(_capability), Field(json_schema_extra={"pattern": _NEEDED})
]
"""Lower-case letters, digits, dash and underscore in two parts or more, a colon between them."""
Entry = Annotated[str, Field(max_length=CHARS), AfterValidator(_entry), Field(json_schema_extra={"pattern": _ENTRY})]
"""A capability, or a prefix of several with ``:*``."""
ALLOWED: Final = "allowed_capabilities"
DENIED: Final = "denied_capabilities"
Constraint = Literal["allowed_capabilities", "denied_capabilities"]

Capabilities = Annotated[tuple[Needed, ...], Field(max_length=16)]
"""Capability that a tool needs."""


class Persona(SpecGroup):
    """Capabilities of an agent. A denied one beats an allowed one."""

    allowed_capabilities: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="Capabilities that the agent may use, such as database:read or files:*. None: all that are not denied.",
    )
    denied_capabilities: Annotated[tuple[Entry, ...], Field(max_length=64)] = Field(
        default=(), description="Capabilities that the agent may never use."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Persona:
        if self.allowed_capabilities is None and not self.denied_capabilities:
            raise ValueError(f"says nothing: give {ALLOWED} or {DENIED}, or leave it out")
        return self


@value()
class Violation:
    """A capability that an agent lacks, and by which of its persona's lists."""

    constraint: Constraint
    capability: str


def list_needed_capabilities(tool: ToolSpec) -> tuple[str, ...]:
    """Return the capabilities that a call of a tool needs: the declared ones, else the one with its name."""
    return tool.capabilities or (f"tool:{tool.name}",)


def covers(entry: str, capability: str) -> bool:
    """Return True if an entry of a persona covers a capability."""
    return capability.startswith(entry[:-1]) if entry.endswith(":*") else capability == entry


def violations(persona: Persona | None, capabilities: Iterable[str]) -> Iterator[Violation]:
    """Those of the capabilities that a persona does not let its agent use."""
    if persona is None:
        return
    for capability in capabilities:
        if any(covers(entry, capability) for entry in persona.denied_capabilities):
            yield Violation(DENIED, capability)
        elif persona.allowed_capabilities is not None and not any(
            covers(entry, capability) for entry in persona.allowed_capabilities
        ):
            yield Violation(ALLOWED, capability)


def list_violations(persona: Persona | None, tool: ToolSpec) -> tuple[Violation, ...]:
    """Why an agent with that persona may not call a tool; empty: it may."""
    return tuple(violations(persona, list_needed_capabilities(tool)))


def because(one: Violation) -> str:
    """``needs database:write, which its persona denies``."""
    return f"needs {one.capability}, which its persona {'denies' if one.constraint == DENIED else 'does not allow'}"


class ToolSpec(Named):
    """A tool, and what running it does to the world."""

    kind: Literal["builtin", "callable", "http", "mcp", "memory", "conversation"] = Field(
        default="builtin",
        description="How the tool is called. The kinds memory and conversation belong to tools that the engine makes.",
    )
    effect: Literal["read_only", "idempotent", "mutating", "irreversible"] = Field(
        default="read_only", description="Effect of a call on the world."
    )
    description: Prose = Field(default="", description="Words about the tool that the model reads.")
    parameters: dict[str, Any] | None = Field(
        default=None, description="JSON schema of the arguments. None: the schema of the built-in tool."
    )
    target: str = Field(
        default="",
        max_length=500,
        description="The operator's name for a callable, the URL of an HTTP endpoint, or SERVER/TOOL.",
    )
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"] = Field(
        default="POST", description="For HTTP: the method of the request."
    )
    places: Places = Field(default_factory=dict)
    headers_from: HeadersFrom = Field(default_factory=dict)
    allowed_hosts: tuple[str, ...] = Field(default=(), description="For http_get: the hosts that the tool may call.")
    polling: bool = Field(
        default=False, description="True: repeated calls are intended, and the loop detectors ignore them."
    )
    timeout_s: Annotated[float, Field(gt=0, le=3_600)] | None = declare_limit(
        None,
        "Timeout",
        Unit.SECONDS,
        "A call may take at most this long. None: the tier's call timeout.",
        stops="the call is given up",
    )
    usd_per_call: CallPrice = declare_amount(
        None,
        "Price of one call",
        Unit.USD_A_CALL,
        "Each attempt that is sent costs this much, in dollars, such as 0.005. None: it costs nothing.",
    )
    compensation: Name | None = Field(
        default=None, description='A tool that undoes a mutating one. Its arguments are {"key", "args", "result"}.'
    )
    reconcile: Name | None = Field(
        default=None,
        description='A read-only tool that checks whether a mutating one was executed. From {"key", "args"} it answers {"executed": true or false, "result": ...}. None: a person decides.',
    )
    carry_over: bool = Field(
        default=False,
        description="True, for a mutating tool: its change stays if the run is replanned, and is not made again.",
    )
    approval: Literal["required", "waived"] = Field(
        default="required", description="For an irreversible tool: each call needs a review. waived needs a deviation."
    )
    hands_over: bool = Field(
        default=False,
        description='HTTP: its result {"handoff": {"target": ..., "reason": ...}} or {"finish": {"reason": ...}} decides who speaks next in a conversation, and '
        '{"set_context": {...}, "delete_context": [...], "result": ...} writes its context variables.',
    )
    ends_turn: bool = Field(
        default=False,
        description="True, in a conversation: a call without an error ends the agent's turn, and its result is what the turn says.",
    )
    deviation: str = Field(default="", max_length=500, description="The reason why the approval is waived.")
    approve_when: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1_000)] | None = (
        Field(
            default=None,
            description="Calls that need a review: a condition in CEL over args, agent, stage and run, such as args.amount > 100. Calls that it cannot judge need one too. None: only irreversible calls.",
        )
    )
    capabilities: Capabilities = Field(
        default=(),
        description="Capabilities that an agent needs to call the tool, such as database:write. None: tool:NAME.",
    )

    @property
    def price_usd_micros(self) -> int:
        """Micro-dollars that one attempt of a call costs."""
        return 0 if self.usd_per_call is None else micros(self.usd_per_call)
