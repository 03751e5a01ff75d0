"""Tools of an MCP server, declared in the draft that names it: the button's part of what ``manage.py fabric mcp`` does."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from console.configure.fields import at, named_in
from fabric.core.spec_mcp import McpServer
from fabric.services import here
from fabric.services.errors import Refused
from fabric.services.mcp_offers import offers_of
from fabric.services.tool_declarations import as_written
from fabric.services.yaml_edit import Edit, Insert

JSON = Any
WITHIN_S = 20.0
"""How long a page waits for a server's greeting at most."""


def declarations(tree: JSON, path: str) -> list[Edit]:
    """The edits that declare what the server at a path offers and no tool of the draft is yet. Refused where it cannot be asked, or offers nothing new."""
    try:
        server = McpServer.model_validate(at(tree, path))
    except ValidationError:
        raise Refused("this server is not whole yet: see what is wrong with it, then ask it", code="invalid") from None
    asked = server.model_copy(update={"connect_s": min(server.connect_s, WITHIN_S)})
    where = here.installation()
    found = offers_of(asked, where.gate, where.permits, taken=named_in(tree, "tools")).tools
    listed = at(tree, "tools")
    tools = listed if isinstance(listed, list) else []
    known = {one.get("target") for one in tools if isinstance(one, dict) and one.get("kind") == "mcp"}
    new = [one.tool for one in found if one.tool.target not in known]
    if not new:
        raise Refused(f"every tool that {server.name!r} offers is declared already, or none can be", code="invalid")
    return [Insert(("tools", len(tools) + n), as_written(tool)) for n, tool in enumerate(new)]
