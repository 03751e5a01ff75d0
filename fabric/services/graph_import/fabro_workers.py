"""Fabro's nodes that no model speaks for, as parts of a fabric: a person who is asked, a tool that is called.

Each is an agent of the model ``nobody``, whose provider ``fixed`` makes one call and asks no model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabric.services.graph_import.dot_reader import Node
from fabric.services.graph_import.fabro_attributes import Kind
from fabric.services.graph_import.fabro_edges import Edges
from fabric.services.graph_import.fabro_notes import Notes

JSON = Any
MODEL, ASK, GATE = "nobody", "ask_person", "human.gate"
SCRIPTS = ("script", "tool_command")
READ: Mapping[Kind, tuple[str, ...]] = {Kind.PERSON: ("label",), Kind.COMMAND: SCRIPTS}
"""Attributes of nodes that stand in those parts."""


@dataclass
class Workers:
    """The parts of a workflow."""

    notes: Notes

    @staticmethod
    def reads(kind: Kind, name: str) -> bool:
        """Returns True where an attribute of this kind of node is read here."""
        return name in READ.get(kind, ())

    def parts(
        self, nodes: Mapping[str, Node], kinds: Mapping[str, Kind], people: Mapping[str, str], edges: Edges
    ) -> dict[str, JSON]:
        """Models, tools and agents; empty where a model speaks for every node."""
        calls: dict[str, JSON] = {}
        tools: list[JSON] = []
        for name, node in nodes.items():
            if kinds[name] is Kind.PERSON:
                calls[people[name]] = {"tool": ASK, "args": self._question(node, edges)}
                tools += [] if {"name": ASK} in tools else [{"name": ASK}]
            elif kinds[name] is Kind.COMMAND:
                tool = f"run-{people[name]}"[:63]
                calls[people[name]] = {"tool": tool, "args": {}}
                tools.append(self._command(node, tool))
        if not calls:
            return {}
        free = {"input_usd_per_mtok": 0, "output_usd_per_mtok": 0}
        model = {"name": MODEL, "provider": "fixed", "price": free, "options": {"agents": calls}}
        agents = [
            {
                "name": name,
                "model": MODEL,
                "tools": [call["tool"]],
                "instructions": "Nobody thinks here: the call is made.",
            }
            for name, call in calls.items()
        ]
        return {"models": [model], "tools": tools, "agents": agents}

    def _question(self, node: Node, edges: Edges) -> JSON:
        given = node.attributes.get("label")
        found = edges.answers_of(node.id)
        args: dict[str, JSON] = {
            "question": given.value.replace("\\n", "\n") if given is not None and given.value.strip() else node.id,
            "keeps_as": GATE,
        }
        if found.answers:
            args["answers"] = dict(found.answers)
        if found.free:
            args["other"] = True
        said = ", ".join(found.answers.values()) or "in their own words"
        self.notes.take(node.line, f"node {node.id}", f"a person is asked, and answers {said}; no answer is a failure")
        return args

    def _command(self, node: Node, tool: str) -> JSON:
        script = next((node.attributes[one].value for one in SCRIPTS if one in node.attributes), "")
        self.notes.leave(
            node.line,
            f"node {node.id}",
            f"runs a command, and no shell runs here: declare what {tool} is, by its kind, target and effect",
        )
        return {
            "name": tool,
            "kind": "http",
            "effect": "mutating",
            "description": f"Does: {script}" if script else "Does the command.",
        }
