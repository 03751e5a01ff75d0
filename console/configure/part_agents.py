"""Agents: what each is told, what it thinks with, what it may do, and what it stands for in the topology."""

from __future__ import annotations

from typing import Any

from console.configure.editing import Editing
from console.configure.lists import items_of

JSON = Any
FIELDS = ("name", "model", "instructions", "tools")
LOOSE = "in no role yet"
MORE = ("answers", "needs", "max_output_tokens", "inline_document_chars")


def build(editing: Editing) -> dict[str, Any]:
    """The agents in the draft's order."""
    roles = roles_in(editing.at("topology"), editing.at("gates"))

    def note(agent: JSON) -> str:
        found = roles.get(str(agent.get("name")), [LOOSE])
        tools = agent.get("tools")
        more = [str(agent["model"])] if agent.get("model") else []
        more += [f"{len(tools)} tool{'s' if len(tools) > 1 else ''}"] if isinstance(tools, list) and tools else []
        return " · ".join([", ".join(found), *more])

    items = items_of(editing, "agents", FIELDS, MORE, note=note)
    return {"items": items, "listed": "agents", "loose": sum(one.note.startswith(LOOSE) for one in items)}


def roles_in(topology: JSON, gates: JSON) -> dict[str, list[str]]:
    """What each agent is in the topology and at the gates, in words."""
    found: dict[str, list[str]] = {}
    for role, named in (topology if isinstance(topology, dict) else {}).items():
        for name in named if isinstance(named, list) else [named]:
            if isinstance(name, str) and role != "kind":
                found.setdefault(name, []).append({"workers": "worker"}.get(role, role.replace("_", " ")))
    asked = gates if isinstance(gates, dict) else {}
    oracle = asked.get("oracle")
    judges = [("grounding critic", asked.get("grounding_critic"))]
    judges += [
        ("oracle", one.get("critic")) for one in (oracle if isinstance(oracle, list) else []) if isinstance(one, dict)
    ]
    for role, name in judges:
        if isinstance(name, str):
            found.setdefault(name, []).append(role)
    return found
