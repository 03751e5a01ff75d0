"""Capabilities: what calling a tool takes, and which of them an agent may use (S3 "Persona constraints"; semantics.md 7).

A capability is a name in parts, such as ``database:write``. An entry of a persona may end in ``:*`` and is then all that begins like it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from fabric.core.frozen import value
from fabric.core.spec_parts import SpecGroup

if TYPE_CHECKING:
    from fabric.core.spec import AgentSpec, FabricSpec
    from fabric.core.spec_tools import ToolSpec

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
"""The same, or the beginning of several with ``:*`` behind it."""
ALLOWED: Final = "allowed_capabilities"
DENIED: Final = "denied_capabilities"
Constraint = Literal["allowed_capabilities", "denied_capabilities"]

Capabilities = Annotated[tuple[Needed, ...], Field(max_length=16)]
"""What a tool needs."""


class Persona(SpecGroup):
    """What an agent may use at all, whatever it is told: what is denied beats what is allowed."""

    allowed_capabilities: Annotated[tuple[Entry, ...], Field(min_length=1, max_length=64)] | None = Field(
        default=None,
        description="All that it may use, such as database:read or files:*. None: everything that is not denied.",
    )
    denied_capabilities: Annotated[tuple[Entry, ...], Field(max_length=64)] = Field(
        default=(), description="What it may not use, allowed or not."
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


def needed(tool: ToolSpec) -> tuple[str, ...]:
    """What calling a tool takes: what it declares, else the capability that carries its name."""
    return tool.capabilities or (f"tool:{tool.name}",)


def covers(entry: str, capability: str) -> bool:
    """Whether an entry of a persona is about a capability."""
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


def barred(agent: AgentSpec, tool: ToolSpec) -> tuple[Violation, ...]:
    """Why an agent may not call a tool; empty: its persona lets it."""
    return tuple(violations(agent.persona, needed(tool)))


def because(one: Violation) -> str:
    """``needs database:write, which its persona denies``."""
    return f"needs {one.capability}, which its persona {'denies' if one.constraint == DENIED else 'does not allow'}"


# -- what an author probably did not mean ------------------------------------------------------------------------------


def doubtful(spec: FabricSpec) -> Iterator[tuple[str, str]]:
    """Tools that an agent can never call, and entries that are about no tool: a sentence each, with its path."""
    known = {capability for tool in spec.asked_tools for capability in needed(tool)}
    for n, agent in enumerate(spec.agents):
        if agent.persona is not None:
            yield from _out_of_reach(spec, n, agent)
            yield from _about_nothing(f"agents.{n}.persona", agent.persona, known)


def _out_of_reach(spec: FabricSpec, n: int, agent: AgentSpec) -> Iterator[tuple[str, str]]:
    found = {name: why for name in agent.tools if (why := barred(agent, spec.tool(name)))}
    if len(found) > 1 and len(found) == len(dict.fromkeys(agent.tools)):
        yield (
            f"agents.{n}.persona",
            f"agent {agent.name!r} may call none of its {len(found)} tools: its persona bars them all",
        )
    for m, name in enumerate(agent.tools):
        if name in found:
            yield f"agents.{n}.tools.{m}", f"agent {agent.name!r} can never call {name!r}: it {because(found[name][0])}"


def _about_nothing(path: str, persona: Persona, known: set[str]) -> Iterator[tuple[str, str]]:
    for field, entries in ((ALLOWED, persona.allowed_capabilities or ()), (DENIED, persona.denied_capabilities)):
        for n, entry in enumerate(entries):
            if not any(covers(entry, one) for one in known):
                yield f"{path}.{field}.{n}", f"no tool of this fabric needs {entry!r}"
