"""Declarations of tools as JSON, as `manage.py fabric mcp` and `fabric openapi` give them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fabric.core.spec_mcp import McpServer
from fabric.services.mcp_offers import ServerOffers
from fabric.services.openapi_import import Imported
from fabric.services.tool_declarations import Declared, LeftOut, as_written

JSON = Any


def offered(server: McpServer, found: ServerOffers) -> JSON:
    """What one server offers."""
    return {
        "server": as_written(server),
        "tools": [_tool(one) for one in found.tools],
        "left_out": [_left(one) for one in found.left_out],
        "resources": [asdict(one) for one in found.resources],
        "prompts": [asdict(one) for one in found.prompts],
    }


def imported(found: Imported) -> JSON:
    """What was made of a document."""
    return {
        "title": found.title,
        "base": found.base,
        "tools": [_tool(one) for one in found.tools],
        "left_out": [_left(one) for one in found.left_out],
    }


def _tool(one: Declared) -> JSON:
    return {"tool": as_written(one.tool), "notes": list(one.notes)}


def _left(one: LeftOut) -> JSON:
    return {"path": one.path, "reason": one.reason}
