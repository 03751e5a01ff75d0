"""The agents of a draft: instructions, model, tools and caps of each, and its roles in the topology."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from console.editor.draft import Editing
from console.editor.lists import items_of
from fabric.core.values.units import JSON
from fabric.services.fabrics.checks import TextFinding

FIELDS = ("name", "model", "instructions", "tools")
LOOSE = "in no role yet"
CAPS = "policy.budget.agents"
NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")
"""An agent's name has this form, so that it can stand in a path."""
PERSONA = ("persona.allowed_capabilities", "persona.denied_capabilities")
MORE = ("answers", "output_schema", "calls", "needs", "max_output_tokens", "inline_document_chars", *PERSONA)


def build(editing: Editing) -> dict[str, Any]:
    """The agents in the draft's order."""
    roles = roles_in(editing.at("topology"), editing.at("gates"))

    def note(agent: JSON) -> str:
        found = roles.get(str(agent.get("name")), [LOOSE])
        tools = agent.get("tools")
        more = [str(agent["model"])] if agent.get("model") else []
        more += [f"{len(tools)} tool{'s' if len(tools) > 1 else ''}"] if isinstance(tools, list) and tools else []
        return " · ".join([", ".join(found), *more])

    listed = items_of(editing, "agents", FIELDS, MORE, note=note, beside=_caps_of(editing))
    items = [replace(one, test=NAME.fullmatch(one.name) is not None) for one in listed]
    loose = sum(one.note.startswith(LOOSE) for one in items)
    planned = any(role.startswith("planner") for held in roles.values() for role in held)
    return {"items": items, "listed": "agents", "loose": loose, "planned": planned, "strays": strays(editing)}


def _caps_of(editing: Editing) -> Callable[[int], tuple[str, ...]]:
    """Return a function from an agent's position to the places of its caps. Without a name that fits a path, or with
    another's, it has none.
    """
    names = _names(editing)

    def places(n: int) -> tuple[str, ...]:
        name = names[n]
        mine = NAME.fullmatch(name) is not None and names.index(name) == n
        return tuple(f"{CAPS}.{name}.{unit}" for unit in ("usd_micros", "tokens")) if mine else ()

    return places


def _names(editing: Editing) -> list[str]:
    agents = editing.at("agents")
    listed = agents if isinstance(agents, list) else []
    return [str(one.get("name", "")) if isinstance(one, dict) else "" for one in listed]


@dataclass(frozen=True, slots=True)
class Stray:
    """A cap of an agent that does not exist, or of nothing: it can be taken out here."""

    path: str
    name: str
    findings: tuple[TextFinding, ...]


def strays(editing: Editing) -> list[Stray]:
    """Return the caps under ``policy.budget.agents`` that belong to no agent."""
    table, names = editing.at(CAPS), _names(editing)
    found = [(f"{CAPS}.{name}", str(name)) for name in (table if isinstance(table, dict) else ())]
    return [
        Stray(path, name, editing.about(path))
        for path, name in found
        if NAME.fullmatch(name) and (name not in names or editing.about(path))
    ]


def _topologies(topology: JSON) -> Iterator[tuple[str, dict[str, JSON]]]:
    """The topology and those of its teams, each with the words for whose it is."""
    if not isinstance(topology, dict):
        return
    yield "", topology
    teams = topology.get("teams")
    for lead, team in (teams if isinstance(teams, dict) else {}).items():
        if isinstance(team, dict) and isinstance(team.get("topology"), dict):
            yield f" in the team of {lead}", team["topology"]


def roles_in(topology: JSON, gates: JSON) -> dict[str, list[str]]:
    """Return each agent's roles in the topology and at the gates, in words."""
    found: dict[str, list[str]] = {}
    for whose, within in _topologies(topology):
        for role, named in within.items():
            for name in named if isinstance(named, list) else [named]:
                if isinstance(name, str) and role != "kind":
                    said = {"workers": "worker"}.get(role, role.replace("_", " "))
                    found.setdefault(name, []).append(f"{said}{whose}")
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
