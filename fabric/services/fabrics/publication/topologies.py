"""Publication rules for topologies: graphs, requests that are passed on, and teams
(docs/specification/topologies.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from fabric.core.child_runs.teams import map_specs
from fabric.core.graph import problems as rules
from fabric.core.graph.reach import Crew
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies import conversation as spec_conversation
from fabric.core.spec.topologies.conversation import FINISH, TRANSFER, is_conversation
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.spec.topologies.hierarchical import HierarchicalTopology
from fabric.services.fabrics.publication.outputs import typed_outputs
from fabric.services.fabrics.publication.protections.limits import branches, quorum
from fabric.services.fabrics.publication.protections.reviewers import judge_problems
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.services.installation.facts import InstallationFacts

TOPOLOGY = "topology."


def find_team_problems(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield the problems that keep a fabric with teams from being published."""
    topology = spec.topology
    if not isinstance(topology, HierarchicalTopology):
        return

    def judges(within: FabricSpec) -> Iterator[FabricProblem]:
        yield from (FabricProblem(path, sentence) for path, sentence in judge_problems(within, where.gate))

    yield from _judge_teams(
        spec,
        judges,
        lambda one: typed_outputs(one, where),
        lambda one: branches(one, where),
        lambda one: quorum(one, where),
    )
    yield from _too_deep(spec, topology)
    yield from _caps(spec, topology)
    yield from _promises(spec, topology)


def everywhere(spec: FabricSpec, *rules: Callable[[FabricSpec], Iterable[FabricProblem]]) -> Iterator[FabricProblem]:
    """Yield the problems of the fabric by each rule, then those of its teams."""
    for rule in rules:
        yield from rule(spec)
    yield from _judge_teams(spec, *rules)


def _judge_teams(spec: FabricSpec, *rules: Callable[[FabricSpec], Iterable[FabricProblem]]) -> Iterator[FabricProblem]:
    """Yield the problems of teams that the whole fabric does not have, each once."""
    found = {problem for rule in rules for problem in rule(spec)}
    for lead, within in map_specs(spec).items():
        for problem in (_place_in_team(lead, problem) for rule in rules for problem in rule(within)):
            if problem not in found:
                found.add(problem)
                yield problem


def _place_in_team(lead: str, problem: FabricProblem) -> FabricProblem:
    inside = problem.path.startswith(TOPOLOGY)
    return replace(problem, path=f"{TOPOLOGY}teams.{lead}.{problem.path}") if inside else problem


def _too_deep(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[FabricProblem]:
    limit = spec.policy.limits.recursion
    for lead, level in topology.levels().items():
        if level > limit:
            sentence = f"works on level {level}, and policy.limits.recursion allows {limit}; lead it from further up"
            yield FabricProblem(f"topology.teams.{lead}", sentence)


def _caps(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[FabricProblem]:
    """Yield a problem for each cap that can never be reached."""
    for field in ("run_usd_micros", "run_tokens"):
        whole = getattr(spec.policy.budget, field)
        for lead, team in topology.teams.items():
            own = getattr(team, field)
            if own is not None and whole is not None and own > whole:
                sentence = f"{own:,} is more than the whole run may use (policy.budget.{field}, {whole:,}); lower it, or leave it out"
                yield FabricProblem(f"topology.teams.{lead}.{field}", sentence)


def _promises(spec: FabricSpec, topology: HierarchicalTopology) -> Iterator[FabricProblem]:
    """Yield a problem for each lead whose schema its team's writer does not promise."""
    for n, agent in enumerate(spec.agents):
        team = topology.teams.get(agent.name)
        if team is None or agent.output_schema is None:
            continue
        if agent.name != (team.topology.finalizer or team.topology.aggregator):
            sentence = f"agent {agent.name!r} leads a team, and does not write its answer; name it there as finalizer or aggregator, or leave the schema out"
            yield FabricProblem(f"agents.{n}.output_schema", sentence)


def unsound_graphs(spec: FabricSpec, where: Any) -> Iterator[FabricProblem]:
    """Yield a problem for each wrong name, unreachable end of a conversation, and misplaced conversation tool; of
    teams too.
    """
    yield from everywhere(spec, partial(_unsound, where.registry))
    for n, agent in enumerate(spec.agents):
        for m, name in enumerate(agent.tools):
            if spec.of_conversation(name) and agent.name not in spec_conversation.members(spec.topology, name):
                which = "the conversation" if is_conversation(spec.topology) else "any team's conversation that has it"
                sentence = (
                    f"agent {agent.name!r} takes no part in {which}, and only workers may call {name}; take it out"
                )
                yield FabricProblem(f"agents.{n}.tools.{m}", sentence)


def warnings(spec: FabricSpec, registry: Registry = BUILT_IN) -> list[FabricProblem]:
    """Return a warning for each rule that never decides, each unreachable worker, and each endless conversation. Teams
    are included.
    """
    return list(everywhere(spec, partial(_doubtful, registry)))


def _unsound(registry: Registry, spec: FabricSpec) -> Iterator[FabricProblem]:
    yield from (
        FabricProblem(_path(one.path), one.sentence) for one in _graph_warnings(spec, registry) if not one.warning
    )


def _doubtful(registry: Registry, spec: FabricSpec) -> Iterator[FabricProblem]:
    yield from (FabricProblem(_path(one.path), one.sentence) for one in _graph_warnings(spec, registry) if one.warning)


def _graph_warnings(spec: FabricSpec, registry: Registry) -> list[rules.Problem]:
    topology = spec.topology
    if not isinstance(topology, GraphTopology | HandoffTopology):
        return []
    if any(worker not in {agent.name for agent in spec.agents} for worker in topology.workers):
        return []  # Already reported.
    return rules.problems(topology.graph, build_crew(spec), registry)


def build_crew(spec: FabricSpec) -> Crew:
    """Return the tools of each worker, and those that may hand over or end. They are the engine's own, and functions,
    whose results no declaration states.
    """
    tools = {name: frozenset(spec.tools_of(spec.agent(name))) for name in spec.topology.workers}
    functions = {tool.name for tool in spec.tools if tool.kind == "callable" or tool.hands_over}
    made = {TRANSFER, FINISH} & set(spec_conversation.BY_KIND.get(spec.topology.kind, ()))
    return Crew(tools, frozenset(functions | made), spec.policy.goal_gates.nodes)


def _path(path: str) -> str:
    first, dot, rest = path.partition(".")
    return f"topology.{'workers' if first == 'participants' else first}{dot}{rest}"
