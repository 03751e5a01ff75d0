"""Teams: the fabric as the runs of each team see it, and how many agents a team has to start at the least (semantics.md 5 "Hierarchical")."""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.context import Compiled
from fabric.core.spec import FabricSpec
from fabric.core.spec_hierarchical import HierarchicalTopology, Team


def specs_of(spec: FabricSpec) -> dict[str, FabricSpec]:
    """By the worker that leads it: the fabric with a team's topology and caps. What the finished outcome is held to is the fabric's, and no team's."""
    topology = spec.topology
    teams = topology.teams if isinstance(topology, HierarchicalTopology) else {}
    return {lead: _within(spec, team) for lead, team in teams.items()}


def spec_within(spec: FabricSpec, topology: str) -> FabricSpec:
    """The fabric as a run sees it that runs this worker's topology; as it is for an empty name, and for one that leads no team."""
    return specs_of(spec).get(topology, spec) if topology else spec


def _within(spec: FabricSpec, team: Team) -> FabricSpec:
    given = {"run_usd_micros": team.run_usd_micros, "run_tokens": team.run_tokens}
    caps = {name: cap for name, cap in given.items() if cap is not None}
    policy = spec.policy.model_copy(update={"budget": spec.policy.budget.model_copy(update=caps)})
    gates = spec.gates.model_copy(update={"oracle": None})
    within = spec.model_copy(update={"topology": team.topology, "policy": policy, "gates": gates})
    for worked_out in vars(within).keys() - FabricSpec.model_fields.keys():
        del vars(within)[worked_out]  # It was the whole fabric's.
    return within


def needed(nested: Mapping[str, Compiled], agent: str, above: tuple[str, ...] = ()) -> int:
    """How many agents the team that a worker leads starts at the least, those of the teams below it with them; 0: it leads none."""
    if agent not in nested or agent in above:
        return 0
    topology, here = nested[agent].spec.topology, (*above, agent)
    if begun := topology.begun():
        return sum(1 + needed(nested, name, here) for name in begun)
    return 1 + min(needed(nested, name, here) for name in topology.workers)
