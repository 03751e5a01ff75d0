"""Tools with their effect on the world and its undoing, the MCP servers that some are of, and memories.

A tool shows the fields that its kind and its effect read, and those that are written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from console.editor.draft import Editing
from console.editor.lists import items_of, users_in
from console.forms.controls.fields import EditField, limit_options
from fabric.core.values.units import JSON

OFFERED = ("builtin", "callable", "http", "mcp")
"""The kinds that an author may pick; the engine makes tools of the others."""
OUTSIDE = ("callable", "http", "mcp")


@dataclass(frozen=True, slots=True)
class ReadBy:
    """The tools that read a field."""

    kinds: tuple[str, ...] = OFFERED
    effect: str = ""
    """The only effect with a meaning for it; empty: all."""
    place: Literal["shown", "more"] = "more"
    """Shown at once, or folded."""


TOOL_FIELDS: Mapping[str, ReadBy] = {
    "name": ReadBy(place="shown"),
    "kind": ReadBy(place="shown"),
    "target": ReadBy(place="shown"),
    "method": ReadBy(("http",), place="shown"),
    "effect": ReadBy(OUTSIDE, place="shown"),
    "compensation": ReadBy(OUTSIDE, "mutating", "shown"),
    "reconcile": ReadBy(OUTSIDE, "mutating", "shown"),
    "description": ReadBy(place="shown"),
    "parameters": ReadBy(OUTSIDE, place="shown"),
    "places": ReadBy(("http",), place="shown"),
    "headers_from": ReadBy(("http",), place="shown"),
    "allowed_hosts": ReadBy(("builtin",), place="shown"),
    "capabilities": ReadBy(),
    "timeout_s": ReadBy(),
    "usd_per_call": ReadBy(),
    "carry_over": ReadBy(OUTSIDE, "mutating"),
    "polling": ReadBy(),
    "hands_over": ReadBy(OUTSIDE),
    "ends_turn": ReadBy(),
    "approval": ReadBy(OUTSIDE, "irreversible"),
    "deviation": ReadBy(OUTSIDE, "irreversible"),
    "approve_when": ReadBy(),
}
"""The fields of a tool in their order; total over ``ToolSpec``, by test."""
TARGETS: Mapping[str, tuple[str, str]] = {
    "builtin": ("Built-in tool", "Empty: the built-in of the tool's own name."),
    "callable": ("Function", "The operator's name of the function."),
    "http": ("URL", "Arguments may stand in its path, such as https://crm.example/customers/{id}."),
    "mcp": ("Tool of a server", "SERVER/TOOL, such as files/read."),
}
"""Label and help of a tool's target; total over ``OFFERED``, by test."""
HELP: Mapping[str, str] = {
    "kind": "How the tool is called.",
    "method": "",
    "parameters": "Arguments that a model gives. Rows keep keywords that they do not show, such as enum.",
    "places": "path: at {NAME} in the URL. header: under its own name. Others travel in the JSON body of POST, PUT and "
    "PATCH, in the query of GET and DELETE.",
    "headers_from": "The value comes from the worker's environment. The operator allows it in FABRIC_TOOL_VARIABLES as "
    "NAME@HOST:PORT.",
}
"""Help of fields that only tools of their kind show."""

SERVER = ("name", "transport", "command", "args", "url")
SERVER_MORE = ("variables", "headers_from", "timeout_s", "connect_s", "result_bytes")
READ_BY_TRANSPORT: Mapping[str, str] = {
    **dict.fromkeys(("command", "args", "variables"), "stdio"),
    **dict.fromkeys(("url", "headers_from"), "http"),
}
"""The fields of a server that one transport alone reads."""
MEMORY = ("name", "scope", "description")
MEMORY_MORE = ("value_schema", "keys", "value_bytes", "carry_over", "retention_days", "conflicts")


def build(editing: Editing) -> dict[str, Any]:
    """The tools, servers and memories in the draft's order."""

    def effect(tool: JSON) -> str:
        undone = f", undone by {tool['compensation']}" if isinstance(tool.get("compensation"), str) else ""
        return f"{str(tool.get('effect', 'read_only')).replace('_', '-')}{undone}"

    def served(server: JSON) -> str:
        return str(server.get("url" if server.get("transport") == "http" else "command", ""))

    def scope(memory: JSON) -> str:
        return f"of one {memory.get('scope', 'run')}"

    used = users_in(editing, "agents", "tools")
    tools = items_of(editing, "tools", _at("shown"), _at("more"), note=effect, users=used, draw=draw_tool_field)
    return {
        "tools": [replace(one, test=_has_test(editing.at(one.path), one.name)) for one in tools],
        "mcp_servers": items_of(editing, "mcp_servers", SERVER, SERVER_MORE, note=served, draw=draw_server_field),
        "memories": items_of(editing, "memories", MEMORY, MEMORY_MORE, note=scope),
    }


def _has_test(tool: JSON, name: str) -> bool:
    return isinstance(tool, dict) and tool.get("kind") == "http" and re.fullmatch("[a-z0-9_-]+", name) is not None


def _at(place: str) -> tuple[str, ...]:
    return tuple(name for name, one in TOOL_FIELDS.items() if one.place == place)


def draw_tool_field(tool: Mapping[str, JSON], one: EditField) -> EditField | None:
    """Return a field of a tool in the words of its kind. None: its kind or effect does not read it."""
    name, kind = one.path.rpartition(".")[2], tool.get("kind", "builtin")
    about = TOOL_FIELDS[name]
    if name in HELP:
        one = replace(one, shape=replace(one.shape, help=HELP[name]))
    if name == "kind":
        return limit_options(one, OFFERED)
    if name == "target" and kind in TARGETS:
        label, said = TARGETS[kind]
        return replace(one, shape=replace(one.shape, label=label, help=said))
    of_kind = kind in about.kinds or kind not in OFFERED
    of_effect = about.effect in ("", tool.get("effect", "read_only"))
    return one if (of_kind and of_effect) or name in tool else None


def draw_server_field(server: Mapping[str, JSON], one: EditField) -> EditField | None:
    """Return a field of a server; None where its transport does not read it."""
    name = one.path.rpartition(".")[2]
    transport = server.get("transport")
    only = READ_BY_TRANSPORT.get(name, transport)
    return one if name in server or only == transport or transport not in READ_BY_TRANSPORT.values() else None
