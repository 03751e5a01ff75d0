"""Every kind of topology that a fabric may have, told apart by ``kind``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Tag

from fabric.core.spec_debate import DebateTopology
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology
from fabric.core.spec_hierarchical import HierarchicalTopology
from fabric.core.spec_single import kind_of
from fabric.core.spec_sop import SopTopology
from fabric.core.spec_topology import SupervisorTopology, TopologySpec

KINDS: tuple[type[TopologySpec], ...] = (
    SupervisorTopology,
    SopTopology,
    GraphTopology,
    HandoffTopology,
    HierarchicalTopology,
    DebateTopology,
)
BY_KIND: Mapping[str, type[TopologySpec]] = {str(kind.model_fields["kind"].default): kind for kind in KINDS}


Topology = Annotated[
    Annotated[SupervisorTopology, Tag("supervisor")]
    | Annotated[SopTopology, Tag("sop")]
    | Annotated[GraphTopology, Tag("graph")]
    | Annotated[HandoffTopology, Tag("handoff")]
    | Annotated[HierarchicalTopology, Tag("hierarchical")]
    | Annotated[DebateTopology, Tag("debate")],
    Discriminator(kind_of),
]
