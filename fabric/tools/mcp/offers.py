"""The offer of an MCP server, as it describes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabric.core.values.units import JSON


@dataclass(frozen=True, slots=True)
class McpToolOffer:
    """A tool. Only its name and the form of its arguments are trusted. Absent hints are None."""

    name: str
    description: str
    schema: Mapping[str, JSON]
    read_only: bool | None = None
    idempotent: bool | None = None
    destructive: bool | None = None

    @property
    def silent(self) -> bool:
        """Return True if it declares nothing about the tool's effect on the world."""
        return self.read_only is None and self.idempotent is None and self.destructive is None


@dataclass(frozen=True, slots=True)
class ResourceOffer:
    """A readable resource. ``uri`` is its address, or a template of addresses (RFC 6570) where ``template`` is true."""

    uri: str
    name: str
    description: str
    mime_type: str
    template: bool = False


@dataclass(frozen=True, slots=True)
class PromptOffer:
    """A prompt with the names of its arguments; ``required`` has the needed ones."""

    name: str
    description: str
    arguments: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class McpServerOffer:
    """All offers of a server."""

    tools: tuple[McpToolOffer, ...]
    resources: tuple[ResourceOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()
    unlisted: tuple[tuple[str, str], ...] = ()
    """Kinds that it declares and does not list, with its words on each."""


@dataclass(slots=True)
class KnownServer:
    """Facts about a server that outlive one session."""

    tools: set[str] = field(default_factory=set)
    """Tools that it offered at any time."""
    asks: bool = False
    """True: it asked a question without the name of a call, so its calls go out one at a time."""
