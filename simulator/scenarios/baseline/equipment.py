"""Adds to a fabric the parts without which it cannot meet a failure; the drill names them.

A fabric without a planner can have no malformed plan, but its table has the cell, which applies to the next revision.
Table, limits and everything else stay the fabric's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.schema.payloads import Brief
from fabric.core.schema.topology import SupervisorTopology, TopologySpec
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.tools import ToolSpec
from fabric.core.spec.tree import AgentSpec
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import FailureType
from simulator.swarm.fabrics import QUERY

LOOKUP = ToolSpec(
    name="drill-lookup",
    kind="callable",
    target="drill-lookup",
    description="Looks something up.",
    parameters=QUERY,
)
ARTICLE = {"planner": "a", "aggregator": "an", "critic": "a", "finalizer": "a"}
Equipped = tuple[FabricSpec, str]
"""The fabric, and the added parts in words; empty for none."""


def _make_agent(spec: FabricSpec, role: str) -> AgentSpec:
    """Return an agent for a vacant role, with the first worker's model."""
    taken = {agent.name for agent in spec.agents}
    name = next(one for one in (f"drill-{role}", f"drill-{role}-2") if one not in taken)
    model = spec.agent(spec.topology.workers[0]).model
    return AgentSpec(name=name, instructions=f"You are the {role}.", model=model, max_output_tokens=1_024)


def with_role(role: str) -> Callable[[FabricSpec], Equipped]:
    """Return a function that fills a vacant role of the topology."""

    def equip(spec: FabricSpec) -> Equipped:
        if getattr(spec.topology, role) is not None:
            return spec, ""
        agent = _make_agent(spec, role)
        fields = {role: agent.name} | ({"plan": None} if role == "planner" else {})
        kept = _with_planner(spec.topology) if role == "planner" else spec.topology
        topology = kept.model_copy(update=fields)
        return spec.model_copy(
            update={"agents": (*spec.agents, agent), "topology": topology}
        ), f"{ARTICLE[role]} {role}"

    return equip


def _with_planner(topology: TopologySpec) -> TopologySpec:
    """Return the topology in a form with a planner. One without a plan becomes a supervisor with all speakers as
    workers.
    """
    if not topology.count_briefs():
        return topology
    around = {name: getattr(topology, name) for name in ("aggregator", "critic", "finalizer", "handover")}
    return SupervisorTopology.model_construct(workers=topology.speakers(), plan=None, plan_critic=None, **around)


def _add_spender(spec: FabricSpec) -> Equipped:
    """Add an agent after the one that spends all money, because money is checked before a call."""
    merged, aggregator = with_role("aggregator")(spec)
    if merged.topology.critic is not None or merged.topology.finalizer is not None:
        return merged, aggregator
    asked, finalizer = with_role("finalizer")(merged)
    return asked, " and ".join(filter(None, (aggregator, finalizer)))


MADE = ("memory", "conversation")
"""Kinds of tools that the engine makes; their calls leave nothing outside."""


def only_reads(tool: ToolSpec) -> bool:
    """Return True if a call of the tool only reads, once, and needs no review."""
    return tool.effect == "read_only" and not tool.polling and tool.kind not in MADE and tool.approve_when is None


def reader(spec: FabricSpec) -> tuple[str, str]:
    """Return ``(worker, tool)`` of the first worker with a tool that only reads; empty names without one.

    Leads and members of teams are left out: the run itself is disturbed, and not its children.
    """
    tools = {tool.name: tool for tool in spec.all_tools}
    for worker in spec.topology.hands():
        for name in spec.agent(worker).tools:
            tool = tools[name]
            if only_reads(tool):
                return worker, name
    return "", ""


def with_lookup(spec: FabricSpec) -> FabricSpec:
    """Give the first worker the drill's own tool, which finds nothing: real tools would find something."""
    return spec if any(tool.name == LOOKUP.name for tool in spec.tools) else with_tools(spec, LOOKUP)


def with_tools(spec: FabricSpec, first: ToolSpec, *behind: ToolSpec) -> FabricSpec:
    """Give the first worker one more tool, with the tools that belong to it and that no agent calls."""
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
    """Add a worker outside of teams if all workers lead teams, or work in them."""
    if spec.topology.hands():
        return spec, ""
    worker, plan = _make_agent(spec, "worker"), spec.topology.plan
    fields: dict[str, Any] = {"workers": (*spec.topology.workers, worker.name)}
    if plan is not None:
        brief = Brief(agent=worker.name, title="Its part", instructions="Say what bears on the request.")
        fields["plan"] = plan.model_copy(update={"briefs": (*plan.briefs, brief)})
    topology = spec.topology.model_copy(update=fields)
    return spec.model_copy(update={"agents": (*spec.agents, worker), "topology": topology}), "a worker"


MEETS: Mapping[FailureType, Callable[[FabricSpec], Equipped]] = {
    FailureType.TOOL_LOOP: _with_reader,
    FailureType.DEADLOCK: with_role("planner"),
    FailureType.COST_OVERRUN: _add_spender,
    FailureType.PROVIDER: with_role("finalizer"),
    FailureType.SCHEMA_GROUNDING: with_role("finalizer"),
    FailureType.PLAN_MALFORMED: with_role("planner"),
    FailureType.NO_PROGRESS: _with_reader,
    FailureType.UNSAFE_OUTPUT: with_role("finalizer"),
}
"""Equipment for each failure. Total over the failure types, by test."""


@keep_results
def equip_fabric(spec: FabricSpec, failure: FailureType) -> Equipped:
    """Return the fabric with the parts that meet the failure as ``sustained`` makes it."""
    return MEETS[failure](spec)
