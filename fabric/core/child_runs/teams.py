"""Derives the fabric that each team's runs see, and the least agents that a team starts
(docs/specification/topologies.md).
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology, Team
from fabric.core.state.context import CompiledFabric


def map_specs(spec: FabricSpec) -> dict[str, FabricSpec]:
    """Return the fabric of each team, by its leading worker: with the team's topology and caps. The checks of the
    final outcome stay the fabric's.
    """
    topology = spec.topology
    teams = topology.teams if isinstance(topology, HierarchicalTopology) else {}
    return {lead: _narrow_spec(spec, team) for lead, team in teams.items()}


def spec_within(spec: FabricSpec, topology: str) -> FabricSpec:
    """Return the fabric as a run of this worker's team sees it. Without a name, or for a worker without a team, it is
    unchanged.
    """
    return map_specs(spec).get(topology, spec) if topology else spec


def _narrow_spec(spec: FabricSpec, team: Team) -> FabricSpec:
    given = {"run_usd_micros": team.run_usd_micros, "run_tokens": team.run_tokens}
    caps = {name: cap for name, cap in given.items() if cap is not None}
    policy = spec.policy.model_copy(update={"budget": spec.policy.budget.model_copy(update=caps)})
    gates = spec.gates.model_copy(update={"oracle": None})
    within = spec.model_copy(update={"topology": team.topology, "policy": policy, "gates": gates})
    for worked_out in vars(within).keys() - FabricSpec.model_fields.keys():
        del vars(within)[worked_out]  # It was computed for the whole fabric.
    return within


def needed_agents(nested: Mapping[str, CompiledFabric], agent: str, above: tuple[str, ...] = ()) -> int:
    """Return the least number of agents that a worker's team starts, with the teams below it. 0: the worker leads no
    team.
    """
    if agent not in nested or agent in above:
        return 0
    topology, here = nested[agent].spec.topology, (*above, agent)
    if begun := topology.list_started_agents():
        return sum(1 + needed_agents(nested, name, here) for name in begun)
    return 1 + min(needed_agents(nested, name, here) for name in topology.workers)
