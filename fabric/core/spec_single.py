"""The topologies of one level: those whose workers do their work themselves, told apart by ``kind``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from fabric.core.spec_debate import DebateTopology
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology
from fabric.core.spec_sop import SopTopology
from fabric.core.spec_topology import DEFAULT_KIND, SupervisorTopology


def kind_of(given: Any) -> str:
    """The kind that a topology says it is, read or as a mapping; what is no word is none."""
    kind = given.get("kind", DEFAULT_KIND) if isinstance(given, Mapping) else getattr(given, "kind", DEFAULT_KIND)
    return str(kind)


Single = Annotated[
    Annotated[SupervisorTopology, Tag("supervisor")]
    | Annotated[SopTopology, Tag("sop")]
    | Annotated[GraphTopology, Tag("graph")]
    | Annotated[HandoffTopology, Tag("handoff")]
    | Annotated[DebateTopology, Tag("debate")],
    Discriminator(kind_of),
]
