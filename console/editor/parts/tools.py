"""Tools with their effect on the world and its undoing, the MCP servers that some are of, and memories."""

from __future__ import annotations

from typing import Any

from console.editor.draft import Editing
from console.editor.lists import items_of, users_in
from fabric.core.values.units import JSON

FIELDS = ("name", "kind", "effect", "description", "target", "method", "compensation", "reconcile")
MORE = (
    "capabilities",
    "parameters",
    "places",
    "headers_from",
    "allowed_hosts",
    "timeout_s",
    "usd_per_call",
    "carry_over",
    "polling",
    "hands_over",
    "ends_turn",
    "approval",
    "deviation",
    "approve_when",
)
SERVER = ("name", "transport", "command", "args", "url")
SERVER_MORE = ("variables", "headers_from", "timeout_s", "connect_s", "result_bytes")
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

    return {
        "tools": items_of(editing, "tools", FIELDS, MORE, note=effect, users=users_in(editing, "agents", "tools")),
        "mcp_servers": items_of(editing, "mcp_servers", SERVER, SERVER_MORE, note=served),
        "memories": items_of(editing, "memories", MEMORY, MEMORY_MORE, note=scope),
    }
