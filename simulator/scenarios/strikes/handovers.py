"""Agents of a fabric can hand a request round in circles of two and of three. This module finds the circles."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise, permutations

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.topologies.conversation import TRANSFER, is_conversation
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.handoff import HandoffTopology
from fabric.core.spec.tree import AgentSpec

Way = Mapping[str, str]
"""The next agent of each, by name. Empty: there is no such circle."""


def first_agent(spec: FabricSpec) -> str:
    """Return the agent that has the request first, where workers pass it on."""
    return spec.topology.hands()[0]


def find_circle(spec: FabricSpec, peers: int) -> Way:
    """Return the circle of so many that the request reaches soonest, with the way into it.

    It is among the agents that can hand on as they are.
    """
    able = {agent.name for agent in spec.agents if TRANSFER in agent.tools}
    return _way(spec, peers, able)


def with_transfer(spec: FabricSpec, peers: int) -> tuple[FabricSpec, str]:
    """Return the fabric with the tool for handing on where such a circle lacks it, and the change in words.

    The words are empty where nothing was lacking, or where there is no such circle.
    """
    if find_circle(spec, peers):
        return spec, ""
    lacking = [name for name in _way(spec, peers, spec.topology.workers) if TRANSFER not in spec.agent(name).tools]
    if not lacking:
        return spec, ""
    agents = tuple(
        agent.model_copy(update={"tools": (TRANSFER, *agent.tools)}) if agent.name in lacking else agent
        for agent in spec.agents
    )
    asked = {agent.model for agent in agents if agent.name in lacking}
    models = tuple(
        model.model_copy(update={"tool_calls": True}) if model.name in asked else model for model in spec.models
    )
    fields = {"agents": agents, "models": models}
    return spec.model_copy(update=fields), f"tool {TRANSFER} for {' and '.join(lacking)}"


HUB = "drill-hub"
"""The supervisor that hands over, in a drill of a stuck supervisor."""


def with_hub(spec: FabricSpec) -> tuple[FabricSpec, str]:
    """Return the fabric with a hub above its first worker, and the change in words.

    The hub takes the place of the topology: a planner turns to its workers once an epoch, a hub whenever it likes.
    The words are empty where the fabric has a hub.
    """
    if HUB in spec.topology.workers:
        return spec, ""
    worker = (spec.topology.hands() or spec.topology.workers)[0]
    model = spec.agent(worker).model
    hub = AgentSpec(
        name=HUB, instructions="You give the work out.", model=model, max_output_tokens=1_024, tools=(TRANSFER,)
    )
    back = {"when": {"kind": "from_speaker", "agent": worker}, "then": {"kind": "agent", "agent": HUB}}
    topology = GraphTopology.model_validate(
        {"workers": (HUB, worker), "initial_speaker": HUB, "transitions": [back], "max_turns": 20}
    )
    models = tuple(one.model_copy(update={"tool_calls": True}) if one.name == model else one for one in spec.models)
    fields = {"agents": (*spec.agents, hub), "models": models, "topology": topology}
    # Not a copy, which would keep the tools that were made of the other topology.
    kept = {name: getattr(spec, name) for name in FabricSpec.model_fields}
    return FabricSpec.model_construct(**(kept | fields)), f"{HUB} above {worker} in place of its topology"


def explain_no_circle(spec: FabricSpec, peers: int) -> str:
    """Return the sentence that says why a fabric has no circle of so many. An empty text says that it has one."""
    if not is_conversation(spec.topology):
        return (
            f"fabric {spec.name} hands nothing over: its workers answer to the topology {spec.topology.kind}, "
            "and only those of a graph or a handoff pass the request on to each other"
        )
    if _way(spec, peers, spec.topology.workers):
        return ""
    return f"fabric {spec.name} lets no {peers} of its workers hand the request on to each other in a circle"


def _way(spec: FabricSpec, peers: int, able: Collection[str]) -> Way:
    if not is_conversation(spec.topology):
        return {}
    passes = _passes(spec)

    def onward(who: str) -> list[str]:
        return [name for name in passes(who) if name in able] if who in able else []

    came: dict[str, str] = {first_agent(spec): ""}
    for who in (queue := [first_agent(spec)]):
        if circle := _circle(who, peers, onward):
            return {**_path(who, came), **circle}
        for name in onward(who):
            if name not in came:
                came[name] = who
                queue.append(name)
    return {}


def _passes(spec: FabricSpec) -> Callable[[str], tuple[str, ...]]:
    topology = spec.topology
    if isinstance(topology, HandoffTopology):
        return topology.may_pass
    return lambda who: tuple(name for name in topology.workers if name != who)


def _circle(who: str, peers: int, onward: Callable[[str], list[str]]) -> Way:
    """Return a circle of so many different agents that begins with that one."""
    reached = [
        name
        for name in dict.fromkeys([*onward(who), *(two for one in onward(who) for two in onward(one))])
        if name != who
    ]
    for others in permutations(reached, peers - 1):
        round_ = (who, *others, who)
        if all(to in onward(one) for one, to in pairwise(round_)):
            return dict(pairwise(round_))
    return {}


def _path(to: str, came: Mapping[str, str]) -> Way:
    found: dict[str, str] = {}
    while came[to]:
        found[came[to]] = to
        to = came[to]
    return found
