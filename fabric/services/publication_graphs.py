"""What keeps a fabric whose workers take turns by a graph, or pass a request on, from being published, and what its author should know (semantics.md 5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from fabric.core import spec_conversation
from fabric.core.graph import problems as rules
from fabric.core.graph.reach import Crew
from fabric.core.graph.registry import BUILT_IN, Registry
from fabric.core.spec import FabricSpec
from fabric.core.spec_conversation import FINISH, TRANSFER, is_conversation
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology
from fabric.services.fabric_yaml import Problem
from fabric.services.publication_teams import everywhere


def unsound_graphs(spec: FabricSpec, where: Any) -> Iterator[Problem]:
    """Names that are wrong, rules that would end a conversation and never can, tools of conversations in hands that take part in none; of teams too."""
    yield from everywhere(spec, partial(_unsound, where.registry))
    for n, agent in enumerate(spec.agents):
        for m, name in enumerate(agent.tools):
            if spec.of_conversation(name) and agent.name not in spec_conversation.members(spec.topology, name):
                which = "the conversation" if is_conversation(spec.topology) else "any team's conversation that has it"
                sentence = (
                    f"agent {agent.name!r} takes no part in {which}, and only workers may call {name}; take it out"
                )
                yield Problem(f"agents.{n}.tools.{m}", sentence)


def warnings(spec: FabricSpec, registry: Registry = BUILT_IN) -> list[Problem]:
    """Rules that can never decide, workers that nothing leads to, a conversation that nothing ends; of teams too."""
    return list(everywhere(spec, partial(_doubtful, registry)))


def _unsound(registry: Registry, spec: FabricSpec) -> Iterator[Problem]:
    yield from (Problem(_path(one.path), one.sentence) for one in _found(spec, registry) if not one.warning)


def _doubtful(registry: Registry, spec: FabricSpec) -> Iterator[Problem]:
    yield from (Problem(_path(one.path), one.sentence) for one in _found(spec, registry) if one.warning)


def _found(spec: FabricSpec, registry: Registry) -> list[rules.Problem]:
    topology = spec.topology
    if not isinstance(topology, GraphTopology | HandoffTopology):
        return []
    if any(worker not in {agent.name for agent in spec.agents} for worker in topology.workers):
        return []  # That is told already.
    return rules.problems(topology.graph, crew_of(spec), registry)


def crew_of(spec: FabricSpec) -> Crew:
    """What each worker may call, and which of those tools may hand over or end: the engine's own, and functions, whose results no declaration tells."""
    tools = {name: frozenset(spec.tools_of(spec.agent(name))) for name in spec.topology.workers}
    functions = {tool.name for tool in spec.tools if tool.kind == "callable" or tool.hands_over}
    made = {TRANSFER, FINISH} & set(spec_conversation.BY_KIND.get(spec.topology.kind, ()))
    return Crew(tools, frozenset(functions | made), spec.policy.goal_gates.nodes)


def _path(path: str) -> str:
    first, dot, rest = path.partition(".")
    return f"topology.{'workers' if first == 'participants' else first}{dot}{rest}"
