"""Every kind of topology that a fabric may have, distinguished by ``kind``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Discriminator, Tag

from fabric.core.schema.topology import SupervisorTopology, TopologySpec
from fabric.core.spec.topologies.debate import DebateTopology
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology
from fabric.core.spec.topologies.single import read_kind
from fabric.core.spec.topologies.sop import SopTopology

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
    Discriminator(read_kind),
]
