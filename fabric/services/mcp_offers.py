"""What MCP servers offer, as declarations of tools. What a server says of a tool is a hint: where it says nothing, the gravest is supposed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from fabric.adapters.evaluators import SchemaProblem, compile_schema
from fabric.adapters.tools.mcp.offer import Offer, Offered
from fabric.adapters.tools.mcp.servers import McpServers
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.outcome import CallBroken
from fabric.adapters.tools.permits import Permits
from fabric.core.spec_mcp import McpServer
from fabric.core.spec_tools import ToolSpec
from fabric.core.text import clean_text
from fabric.services.errors import Refused
from fabric.services.fabric_yaml import problems_of
from fabric.services.tool_declarations import Declared, LeftOut, tool_name
from fabric.services.yaml_tree import YamlProblem, read_yaml

JSON = Any
DESCRIPTION_CHARS = 20_000
NO_WORD = "the server describes it with no word; say what it does, models choose tools by it"


def servers_in(text: str, *, origin: str) -> list[McpServer]:
    """The servers that a YAML text declares, be it a whole fabric or that group alone. Refused with what is wrong."""
    try:
        tree = read_yaml(text).value
    except YamlProblem as error:
        raise Refused(f"{origin}: {error}", code="invalid", field="file") from None
    listed = tree.get("mcp_servers") if isinstance(tree, dict) else None
    if not isinstance(listed, list) or not listed:
        raise Refused(
            f"{origin} declares no mcp_servers; add the group, or name an address", code="invalid", field="file"
        )
    found, wrong = [], []
    for n, one in enumerate(listed):
        try:
            found.append(McpServer.model_validate(one))
        except ValidationError as error:
            wrong += [
                f"{origin}, {each.path}: {each.sentence}" for each in problems_of(error, tree, ("mcp_servers", n))
            ]
    if wrong:
        raise Refused("; ".join(wrong), code="invalid", field="file", problems=tuple(wrong))
    return found


def server_at(url: str) -> McpServer:
    """A server of which only the address is known, called after its host."""
    host = (urlsplit(url).hostname or "server").removeprefix("www.").removeprefix("mcp.")
    return McpServer(name=tool_name(host.split(".")[0], ()), transport="http", url=url)


def offers_of(
    server: McpServer, gate: Gate, permits: Permits, *, taken: Collection[str] = ()
) -> tuple[list[Declared], list[LeftOut]]:
    """Asks a server what it offers: a declaration each, and what cannot be one. ``taken``: names of other tools. Refused where it cannot be asked."""

    async def asked() -> Offered:
        servers = McpServers(gate, permits)
        try:
            return await servers.offered(server)
        finally:
            await servers.end()

    try:
        offered = asyncio.run(asked())
    except CallBroken as error:
        raise Refused(error.message, code="invalid", field="server") from None
    return declared(server, offered.tools, taken)


def declared(
    server: McpServer, offered: Iterable[Offer], taken: Collection[str] = ()
) -> tuple[list[Declared], list[LeftOut]]:
    """A declaration of each tool that a server offers."""
    found: list[Declared] = []
    left: list[LeftOut] = []
    for one in offered:
        path = f"{server.name}/{one.name}"
        try:
            compile_schema(one.schema)
            tool = _tool(server, one, [*taken, *(each.tool.name for each in found)])
        except (SchemaProblem, ValidationError) as error:
            said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            left.append(LeftOut(path, f"it cannot be declared: {said}"))
            continue
        notes = [f"{one.name}: {_effect(one)[1]}", *([NO_WORD] if not one.description.strip() else [])]
        found.append(Declared(tool, tuple(notes)))
    return found, left


def _tool(server: McpServer, one: Offer, taken: list[str]) -> ToolSpec:
    return ToolSpec.model_validate(
        {
            "name": tool_name(one.name, taken),
            "kind": "mcp",
            "effect": _effect(one)[0],
            "description": clean_text(one.description)[0].strip()[:DESCRIPTION_CHARS],
            "target": f"{server.name}/{one.name}",
            "parameters": dict(one.schema),
        }
    )


def _effect(one: Offer) -> tuple[str, str]:
    """What a tool is supposed to do to the world, and why: hints of a server are only that."""
    if one.read_only:
        return "read_only", "the server says that it changes nothing; believe it only where you believe the server"
    if one.idempotent and one.destructive is False:
        said = "the server says that it may be repeated and destroys nothing, so nothing of it is undone"
        return "idempotent", f"{said}; look before you publish it"
    if one.destructive is False:
        said = "the server says that it adds and destroys nothing"
        return "irreversible", f"{said}; declare it mutating where a tool of yours undoes it"
    told = "the server says nothing of what it changes" if one.silent else "the server says that it may destroy"
    return "irreversible", f"{told}, so a person is asked before each call; declare what it is"
