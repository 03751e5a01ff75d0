"""Defines FabricSpec: a fabric as one typed tree, in YAML and out. Frozen once published; a run pins its digest.

If a name does not exist, the error says which field named it. The judges of a fabric are named by its gates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import model_validator

from fabric.core.schema.parts import Named
from fabric.core.spec.endpoints import breaker_problems
from fabric.core.spec.mcp import mcp_problems
from fabric.core.spec.memories import OFFERED, tool_name
from fabric.core.spec.memories import problems as memory_problems
from fabric.core.spec.policies.fallbacks import cheaper_problems, fallback_problems
from fabric.core.spec.retry_layers import layer_problems
from fabric.core.spec.stages import stage_problems
from fabric.core.spec.topologies import conversation as spec_conversation
from fabric.core.spec.tree import FabricTree
from fabric.core.values.flow import Stage

IN_JSON = ("planner", "critic", "plan_critic", "handover")
"""Roles whose answers have a shape that plain words have not."""


def unknown_judges(spec: FabricTree) -> Iterator[str]:
    """Yield each wrong agent or tool that gates and the plan's critic name, with its path."""
    agents, tools = {agent.name for agent in spec.agents}, {tool.name for tool in spec.tools}
    for field, name in spec.judge_agents.items():
        if name not in agents:
            yield f"{field}: no agent is named {name!r}"
    for n, check in enumerate(spec.gates.oracle or ()):
        if check.tool is not None and check.tool not in tools:
            yield f"gates.oracle.{n}.tool: no tool is named {check.tool!r}"
    shaped = set(spec.topology.in_json())
    roles = spec.topology.roles().items()
    asked = {
        f"topology.{field}": name for field, name in roles if field.rpartition(".")[2] in IN_JSON or field in shaped
    }
    for field, name in (asked | spec.judge_agents).items():
        if name in agents and spec.agent(name).answers == "text":
            role = "critic" if field.startswith("gates.") else field.rpartition(".")[2]
            role = "side that votes" if role.isdecimal() else role
            yield f"{field}: {name!r} answers in text, but a {role} must answer in json"


class FabricSpec(FabricTree):
    """A whole fabric."""

    @model_validator(mode="after")
    def _names_exist(self) -> FabricSpec:
        problems = [
            *_duplicates(self),
            *_unknown(self),
            *unknown_judges(self),
            *_unknown_ways_back(self),
            *_unknown_goals(self),
            *fallback_problems({model.name: model.fallbacks for model in self.models}),
            *cheaper_problems({model.name: model.cheaper for model in self.models}),
            *stage_problems(self),
            *layer_problems(self),
            *breaker_problems(self),
            *mcp_problems(self.mcp_servers, [(tool.kind, tool.target) for tool in self.tools]),
            *memory_problems(self.memories, declared := [(tool.name, tool.kind) for tool in self.tools]),
            *spec_conversation.problems(self.topology, declared),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


def _duplicates(spec: FabricTree) -> Any:
    named: tuple[tuple[str, tuple[Named, ...]], ...]
    named = (("models", spec.models), ("tools", spec.tools), ("agents", spec.agents))
    for field, items in named:
        seen: set[str] = set()
        for n, item in enumerate(items):
            if item.name in seen:
                yield f"{field}.{n}.name: {item.name!r} is there twice"
            seen.add(item.name)


def _unknown(spec: FabricTree) -> Any:
    agents = {agent.name for agent in spec.agents}
    models, tools = {model.name for model in spec.models}, {tool.name for tool in spec.tools}
    tools |= {tool_name(verb, memory.name) for memory in spec.memories for verb in OFFERED}
    tools |= {tool.name for tool in spec.conversation_tools}
    for field, name in spec.topology.roles().items():
        if name not in agents:
            yield f"topology.{field}: no agent is named {name!r}"
    for n, agent in enumerate(spec.agents):
        if agent.model not in models:
            yield f"agents.{n}.model: no model is named {agent.model!r}"
        for missing in (name for name in agent.tools if name not in tools):
            yield f"agents.{n}.tools: no tool is named {missing!r}"
    for name in spec.policy.budget.agents:
        if name not in agents:
            yield f"policy.budget.agents.{name}: no agent is named {name!r}"
    yield from (f"topology.{told}" for told in spec.topology.list_misplaced())


def _unknown_ways_back(spec: FabricTree) -> Any:
    tools = {tool.name for tool in spec.tools}
    for n, tool in enumerate(spec.tools):
        for field in ("compensation", "reconcile"):
            name = getattr(tool, field)
            if name is not None and name not in tools:
                yield f"tools.{n}.{field}: no tool is named {name!r}"


def _unknown_goals(spec: FabricTree) -> Any:
    for n, node in enumerate(spec.policy.goal_gates.nodes):
        if node not in spec.topology.list_all_workers() and node not in tuple(Stage):
            yield f"policy.goal_gates.nodes.{n}: {node!r} is no stage and no worker of this fabric"
