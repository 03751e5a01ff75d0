"""The topologies of one level: those whose workers do their work themselves, distinguished by ``kind``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from fabric.core.schema.topology import DEFAULT_KIND, SupervisorTopology
from fabric.core.spec.topologies.debate import DebateTopology
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.spec.topologies.sop import SopTopology


def read_kind(given: Any) -> str:
    """The kind that a topology says it is, read or as a mapping; what is no word is none."""
    kind = given.get("kind", DEFAULT_KIND) if isinstance(given, Mapping) else getattr(given, "kind", DEFAULT_KIND)
    return str(kind)


Single = Annotated[
    Annotated[SupervisorTopology, Tag("supervisor")]
    | Annotated[SopTopology, Tag("sop")]
    | Annotated[GraphTopology, Tag("graph")]
    | Annotated[HandoffTopology, Tag("handoff")]
    | Annotated[DebateTopology, Tag("debate")],
    Discriminator(read_kind),
]
