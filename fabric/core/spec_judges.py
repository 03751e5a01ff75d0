"""Names of judges in a fabric: whom its gates ask, and how they answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fabric.core.spec import FabricSpec

IN_JSON = ("planner", "critic", "plan_critic", "handover")
"""Roles whose answers have a shape that plain words have not."""


def unknown_judges(spec: FabricSpec) -> Iterator[str]:
    """What is wrong with the agents and tools that gates and the plan's critic name, with its path."""
    agents, tools = {agent.name for agent in spec.agents}, {tool.name for tool in spec.tools}
    for field, name in spec.judging.items():
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
    for field, name in (asked | spec.judging).items():
        if name in agents and spec.agent(name).answers == "text":
            role = "critic" if field.startswith("gates.") else field.rpartition(".")[2]
            role = "side that votes" if role.isdecimal() else role
            yield f"{field}: {name!r} answers in text, but a {role} must answer in json"
