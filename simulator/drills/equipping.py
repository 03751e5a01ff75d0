"""What a fabric lacks for a failure to be met in it at all: the cell is drilled in the fabric with just that, and the drill says so.

Where nobody plans no plan can be malformed, and still the table has the cell: it holds for the next revision. The table, the limits and everything else
stay the fabric's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.payloads import Brief
from fabric.core.spec import AgentSpec, FabricSpec
from fabric.core.spec_tools import ToolSpec
from fabric.core.spec_topology import SupervisorTopology, TopologySpec
from fabric.core.taxonomy import FailureType
from simulator.kernel.published import QUERY

LOOKUP = ToolSpec(
    name="drill-lookup",
    kind="callable",
    target="drill-lookup",
    description="Looks something up.",
    parameters=QUERY,
)
ARTICLE = {"planner": "a", "aggregator": "an", "critic": "a", "finalizer": "a"}
Equipped = tuple[FabricSpec, str]
"""The fabric, and what was put into it, in words; empty: nothing."""


def _named(spec: FabricSpec, role: str) -> AgentSpec:
    """An agent for a role that nobody has, who asks what the first worker asks."""
    taken = {agent.name for agent in spec.agents}
    name = next(one for one in (f"drill-{role}", f"drill-{role}-2") if one not in taken)
    model = spec.agent(spec.topology.workers[0]).model
    return AgentSpec(name=name, instructions=f"You are the {role}.", model=model, max_output_tokens=1_024)


def with_role(role: str) -> Callable[[FabricSpec], Equipped]:
    """Puts somebody into a role of the topology that nobody has."""

    def equip(spec: FabricSpec) -> Equipped:
        if getattr(spec.topology, role) is not None:
            return spec, ""
        agent = _named(spec, role)
        fields = {role: agent.name} | ({"plan": None} if role == "planner" else {})
        kept = _planned(spec.topology) if role == "planner" else spec.topology
        topology = kept.model_copy(update=fields)
        return spec.model_copy(
            update={"agents": (*spec.agents, agent), "topology": topology}
        ), f"{ARTICLE[role]} {role}"

    return equip


def _planned(topology: TopologySpec) -> TopologySpec:
    """The topology as somebody can plan it: where it is its own plan, all who speak in it as workers of a supervisor, with the roles around them."""
    if not topology.made():
        return topology
    around = {name: getattr(topology, name) for name in ("aggregator", "critic", "finalizer", "handover")}
    return SupervisorTopology.model_construct(workers=topology.speakers(), plan=None, plan_critic=None, **around)


def _with_whoever_spends(spec: FabricSpec) -> Equipped:
    """Money is looked at before a call: somebody has to be asked after the one whose answer costs it all."""
    merged, aggregator = with_role("aggregator")(spec)
    if merged.topology.critic is not None or merged.topology.finalizer is not None:
        return merged, aggregator
    asked, finalizer = with_role("finalizer")(merged)
    return asked, " and ".join(filter(None, (aggregator, finalizer)))


MADE = ("memory", "conversation")
"""Kinds of tools that the engine makes: calling them asks nobody outside."""


def reads(tool: ToolSpec) -> bool:
    """Whether calling a tool only reads, once, and nobody has a word before it."""
    return tool.effect == "read_only" and not tool.polling and tool.kind not in MADE and tool.approve_when is None


def reader(spec: FabricSpec) -> tuple[str, str]:
    """``(worker, tool)``: the first worker that has a tool which only reads, once; empty names: none has. Whoever leads a team, or works in one, is none of those:
    what is struck is the run itself, and no child of it.
    """
    tools = {tool.name: tool for tool in spec.all_tools}
    for worker in spec.topology.hands():
        for name in spec.agent(worker).tools:
            tool = tools[name]
            if reads(tool):
                return worker, name
    return "", ""


def with_lookup(spec: FabricSpec) -> FabricSpec:
    """The first worker with a tool of the drill's own, which finds nothing: real tools would find something."""
    return spec if any(tool.name == LOOKUP.name for tool in spec.tools) else with_tools(spec, LOOKUP)


def with_tools(spec: FabricSpec, first: ToolSpec, *behind: ToolSpec) -> FabricSpec:
    """The first worker with one more tool, and with it those that belong to that tool and that nobody calls."""
    worker = spec.agent((spec.topology.hands() or spec.topology.workers)[0])
    able = worker.model_copy(update={"tools": (first.name, *worker.tools)})
    agents = tuple(able if agent is worker else agent for agent in spec.agents)
    models = tuple(
        model.model_copy(update={"tool_calls": True}) if model.name == worker.model else model for model in spec.models
    )
    fields = {"agents": agents, "models": models, "tools": (*spec.tools, first, *behind)}
    return spec.model_copy(update=fields)


def _with_reader(spec: FabricSpec) -> Equipped:
    if reader(spec)[1]:
        return spec, ""
    with_hands, worker = _with_hands(spec)
    return with_lookup(with_hands), " with ".join(filter(None, (worker, "a tool that reads")))


def _with_hands(spec: FabricSpec) -> Equipped:
    """Where all lead teams, or work in them as well, one more worker, who does neither."""
    if spec.topology.hands():
        return spec, ""
    worker, plan = _named(spec, "worker"), spec.topology.plan
    fields: dict[str, Any] = {"workers": (*spec.topology.workers, worker.name)}
    if plan is not None:
        brief = Brief(agent=worker.name, title="Its part", instructions="Say what bears on the request.")
        fields["plan"] = plan.model_copy(update={"briefs": (*plan.briefs, brief)})
    topology = spec.topology.model_copy(update=fields)
    return spec.model_copy(update={"agents": (*spec.agents, worker), "topology": topology}), "a worker"


MEETS: Mapping[FailureType, Callable[[FabricSpec], Equipped]] = {
    FailureType.TOOL_LOOP: _with_reader,
    FailureType.DEADLOCK: with_role("planner"),
    FailureType.COST_OVERRUN: _with_whoever_spends,
    FailureType.PROVIDER: with_role("finalizer"),
    FailureType.SCHEMA_GROUNDING: with_role("finalizer"),
    FailureType.PLAN_MALFORMED: with_role("planner"),
    FailureType.NO_PROGRESS: _with_reader,
    FailureType.UNSAFE_OUTPUT: with_role("finalizer"),
}
"""What each failure is met by. Total over the failure types, by test."""


def equipped(spec: FabricSpec, failure: FailureType) -> Equipped:
    """The fabric with whoever meets the failure as ``sustained`` makes it."""
    return MEETS[failure](spec)
