"""Fabrics whose workers take turns by a graph: whether a turn that fails goes on by a rule, computed from the written rules (``derivation/speakers.py``)."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.derivation.conditions import asks_how
from fabric.core.derivation.speakers import leads_on, restarts_from
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
    return any(asks_how(rule["when"]) for rule in rules)


def goes_back(spec: FabricSpec) -> bool:
    """Whether any turn of the fabric's graph that fails leads back to a retry target."""
    topology = spec.topology
    if not isinstance(topology, GraphTopology):
        return False
    own = topology.retry_targets.values()
    named = [topology.retry_target, topology.fallback_retry_target]
    named += [to for one in own for to in (one.retry_target, one.fallback_retry_target)]
    return any(to is not None for to in named)


def not_back(spec: FabricSpec, failure: FailureType) -> str:
    """Why the failure of the first turn does not go back to a retry target; empty: it does."""
    topology = spec.topology
    if failure not in CLASSES or not isinstance(topology, GraphTopology):
        return NO_TURN
    if not not_by_rule(spec, failure):
        return "a rule on how a turn ended decides"
    first = topology.initial_speaker
    own = topology.retry_targets.get(first)
    named = (own.retry_target, own.fallback_retry_target) if own is not None else (None, None)
    ways = [to for to in (*named, topology.retry_target, topology.fallback_retry_target) if to is not None]
    if topology.max_turns is None or topology.max_turns < 2:
        return "there is no turn after the first"
    # Only the first speaker has had a turn yet.
    left = [to for to in ways if _visits(spec, to) > (1 if to == first else 0)]
    return "" if left else "no retry target has a turn left"


def _visits(spec: FabricSpec, who: str) -> float:
    limits, topology = spec.policy.limits, spec.topology
    assert isinstance(topology, GraphTopology)
    most = topology.max_visits.get(who, limits.max_node_visits)
    if most is None:
        return float("inf")
    return most - 1 if limits.visits_preset == "fabro" else most


def is_blocked(spec: FabricSpec, failure: FailureType) -> bool:
    """Whether the failure of the first turn comes to a restart edge, which such a failure never crosses."""
    topology = spec.topology
    if not_by_rule(spec, failure) or not isinstance(topology, GraphTopology):
        return False
    return restarts_from(topology.graph, topology.context, topology.initial_speaker, str(CLASSES[failure]))


def not_by_rule(spec: FabricSpec, failure: FailureType) -> str:
    """Why the failure of the first turn does not go on by a rule; empty: it does."""
    topology = spec.topology
    if failure not in CLASSES or not isinstance(topology, GraphTopology):
        return NO_TURN
    on = leads_on(topology.graph, topology.context, topology.initial_speaker, str(CLASSES[failure]))
    return "" if on else "no rule on how a turn ended leads on from it"
