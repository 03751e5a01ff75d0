"""Whom the agents of a fabric can hand a request to and fro with: circles of two and of three, each with the way that leads into it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import pairwise, permutations

from fabric.core.spec import AgentSpec, FabricSpec
from fabric.core.spec_conversation import TRANSFER, is_conversation
from fabric.core.spec_graph import GraphTopology
from fabric.core.spec_handoff import HandoffTopology

Way = Mapping[str, str]
"""Whom each agent hands on to, by name; empty: there is no such circle."""


def first_of(spec: FabricSpec) -> str:
    """Who has the request first, where workers pass it on."""
    return spec.topology.hands()[0]


def way(spec: FabricSpec, peers: int) -> Way:
    """The circle of so many that the request comes to soonest, and the way there, among the agents that can hand on as they are."""
    able = {agent.name for agent in spec.agents if TRANSFER in agent.tools}
    return _way(spec, peers, able)


def with_transfer(spec: FabricSpec, peers: int) -> tuple[FabricSpec, str]:
    """The fabric with the tool that hands on for who lacks it on such a way, and that in words; empty: nothing was lacking, or there is no such way at all."""
    if way(spec, peers):
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
    """The fabric with a hub above its first worker in place of its topology, and that in words; empty: it has one. A planner turns to its workers once an epoch, a hub whenever it likes."""
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


def why_not(spec: FabricSpec, peers: int) -> str:
    """Why no circle of so many can come about in a fabric, one sentence; empty: it can."""
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

    came: dict[str, str] = {first_of(spec): ""}
    for who in (queue := [first_of(spec)]):
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
    """A circle of so many, each another, that begins with that one."""
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
