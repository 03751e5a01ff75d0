"""Fabrics whose workers take turns by a graph: whether a turn that fails goes on by a rule, computed from the written rules (``derivation/speakers.py``)."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.derivation.speakers import ON_FAILURE, kinds_of, leads_on
from fabric.core.spec import FabricSpec
from fabric.core.spec_graph import GraphTopology
from fabric.core.taxonomy import ErrorClass, FailureType

NO_TURN = "it is no turn that a rule could lead on from"
CLASSES: Mapping[FailureType, ErrorClass] = {
    FailureType.TOOL_LOOP: ErrorClass.COMPILATION_LOOP,
    FailureType.NO_PROGRESS: ErrorClass.COMPILATION_LOOP,
}
"""Classes of the failures that a turn meets as ``sustained`` makes them."""


def leaves_by_rules(spec: FabricSpec) -> bool:
    """Whether any rule of the fabric's graph looks at how a turn ended."""
    topology = spec.topology
    if not isinstance(topology, GraphTopology):
        return False
    rules = topology.graph.to_dict()["transitions"]
    return any(kind in kinds_of(rule["when"]) for rule in rules for kind in ON_FAILURE)


def not_by_rule(spec: FabricSpec, failure: FailureType) -> str:
    """Why the failure of the first turn does not go on by a rule; empty: it does."""
    topology = spec.topology
    if failure not in CLASSES or not isinstance(topology, GraphTopology):
        return NO_TURN
    on = leads_on(topology.graph, topology.context, topology.initial_speaker, str(CLASSES[failure]))
    return "" if on else "no rule on how a turn ended leads on from it"
