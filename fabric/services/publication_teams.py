"""Publication of teams: what holds of a topology holds of each team's, told by its path; and what only teams can have wrong (semantics.md 5 "Hierarchical")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from fabric.core.spec import FabricSpec
from fabric.core.spec_hierarchical import HierarchicalTopology
from fabric.core.teams import specs_of
from fabric.services.fabric_yaml import Problem
from fabric.services.publication_judges import judge_problems
from fabric.services.publication_limits import branches, quorum
from fabric.services.publication_outputs import typed_outputs

if TYPE_CHECKING:
    from fabric.services.publication import Installation

TOPOLOGY = "topology."


def in_teams(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """What keeps a fabric with teams from being published."""
    topology = spec.topology
    if not isinstance(topology, HierarchicalTopology):
        return

    def judges(within: FabricSpec) -> Iterator[Problem]:
        yield from (Problem(path, sentence) for path, sentence in judge_problems(within, where.gate))

    yield from _of_teams(
        spec,
        judges,
        lambda one: typed_outputs(one, where),
        lambda one: branches(one, where),
        lambda one: quorum(one, where),
    )
    yield from _too_deep(spec, topology)
    yield from _caps(spec, topology)
    yield from _promises(spec, topology)


def everywhere(spec: FabricSpec, *rules: Callable[[FabricSpec], Iterable[Problem]]) -> Iterator[Problem]:
    """What rules say of a fabric, then what they say of its teams."""
    for rule in rules:
        yield from rule(spec)
    yield from _of_teams(spec, *rules)


def _of_teams(spec: FabricSpec, *rules: Callable[[FabricSpec], Iterable[Problem]]) -> Iterator[Problem]:
    """What they say of the teams and not of the whole, each once."""
    found = {problem for rule in rules for problem in rule(spec)}
    for lead, within in specs_of(spec).items():
        for problem in (_of_team(lead, problem) for rule in rules for problem in rule(within)):
            if problem not in found:
                found.add(problem)
                yield problem


def _of_team(lead: str, problem: Problem) -> Problem:
    inside = problem.path.startswith(TOPOLOGY)
    return replace(problem, path=f"{TOPOLOGY}teams.{lead}.{problem.path}") if inside else problem


def _too_deep(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[Problem]:
    limit = spec.policy.limits.recursion
    for lead, level in topology.levels().items():
        if level > limit:
            sentence = f"works on level {level}, and policy.limits.recursion allows {limit}; lead it from further up"
            yield Problem(f"topology.teams.{lead}", sentence)


def _caps(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[Problem]:
    """A cap that is never reached says something else than its author means."""
    for field in ("run_usd_micros", "run_tokens"):
        whole = getattr(spec.policy.budget, field)
        for lead, team in topology.teams.items():
            own = getattr(team, field)
            if own is not None and whole is not None and own > whole:
                sentence = f"{own:,} is more than the whole run may use (policy.budget.{field}, {whole:,}); lower it, or leave it out"
                yield Problem(f"topology.teams.{lead}.{field}", sentence)


def _promises(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[Problem]:
    """The schema of a lead is a promise of who writes its team's answer."""
    for n, agent in enumerate(spec.agents):
        team = topology.teams.get(agent.name)
        if team is None or agent.output_schema is None:
            continue
        if agent.name != (team.topology.finalizer or team.topology.aggregator):
            sentence = f"agent {agent.name!r} leads a team, and does not write its answer; name it there as finalizer or aggregator, or leave the schema out"
            yield Problem(f"agents.{n}.output_schema", sentence)
