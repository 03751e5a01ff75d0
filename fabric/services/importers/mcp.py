"""Lists the offers of MCP servers: tools as declarations, resources and prompts by name.

A server's words on a tool are a hint: without any, the gravest effect is assumed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import ValidationError

from fabric.core.spec.mcp import READ_RESOURCE, McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.core.texts.text import clean_text
from fabric.http.transport import Gate
from fabric.policies.schemas.evaluators import SchemaProblem, compile_schema
from fabric.secrets.known_secrets import KNOWN
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.document import list_problems
from fabric.services.fabrics.yaml.tree import YamlProblem, read_yaml
from fabric.services.importers.tool_declarations import DeclaredTool, LeftOut, tool_name
from fabric.tools.answers.outcome import CallBroken
from fabric.tools.functions.permits import Permits
from fabric.tools.mcp.offers import McpServerOffer, McpToolOffer, PromptOffer, ResourceOffer
from fabric.tools.mcp.servers import McpServers

DESCRIPTION_CHARS = 20_000
LINE_CHARS, SHOWN = 200, 20
"""Length of a line that names a resource or a prompt, in characters; number of resources that a model sees."""
NO_WORD = "the server describes it with no word; say what it does, models choose tools by it"


def servers_in(text: str, *, origin: str) -> list[McpServer]:
    """Return the servers in a YAML text, a whole fabric or that group alone. Raises Refused with the error."""
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
                f"{origin}, {each.path}: {each.sentence}" for each in list_problems(error, tree, ("mcp_servers", n))
            ]
    if wrong:
        raise Refused("; ".join(wrong), code="invalid", field="file", problems=tuple(wrong))
    return found


def server_at(url: str) -> McpServer:
    """Return a server at a bare address, named after its host."""
    host = (urlsplit(url).hostname or "server").removeprefix("www.").removeprefix("mcp.")
    return McpServer(name=tool_name(host.split(".")[0], ()), transport="http", url=url)


@dataclass(frozen=True, slots=True)
class ServerOffers:
    """The offer of a server: tools as declarations, tools that cannot be declared, and its resources and prompts."""

    tools: list[DeclaredTool]
    left_out: list[LeftOut]
    resources: tuple[ResourceOffer, ...] = ()
    prompts: tuple[PromptOffer, ...] = ()


def build_offers(server: McpServer, gate: Gate, permits: Permits, *, taken: Collection[str] = ()) -> ServerOffers:
    """Ask a server for its tools. ``taken``: names of other tools. Raises Refused where the server cannot be asked."""

    async def ask_server() -> McpServerOffer:
        servers = McpServers(gate, permits)
        try:
            return await servers.read_offer(server)
        finally:
            await servers.end()

    try:
        offered = KNOWN.mask_value(asyncio.run(ask_server()))
    except CallBroken as error:
        raise Refused(KNOWN.mask_text(error.message), code="invalid", field="server") from None
    tools, left = declare_tools(server, offered.tools, taken)
    left += [
        LeftOut(f"{server.name}/{what}", f"the server does not list them: {why}") for what, why in offered.unlisted
    ]
    if offered.resources and READ_RESOURCE not in {one.name for one in offered.tools}:
        tools.append(_declare_reader(server, offered.resources, [*taken, *(one.tool.name for one in tools)]))
    return ServerOffers(tools, left, offered.resources, offered.prompts)


def beside_tools(server: McpServer, found: ServerOffers) -> list[str]:
    """Return comments in YAML with a server's resources and prompts; empty where it has none."""
    lines = []
    if found.resources:
        lines.append(f"# Resources of {server.name}, read by its tool {READ_RESOURCE}:")
        lines += [f"#   {_offer_line(one.uri, one.mime_type, one.description or one.name)}" for one in found.resources]
    if found.prompts:
        lines.append(
            f"# Prompts of {server.name}; no agent is given one, so copy what is of use into its instructions:"
        )
        lines += [f"#   {_offer_line(one.name, ', '.join(one.arguments), one.description)}" for one in found.prompts]
    return lines


def _offer_line(what: str, about: str, description: str) -> str:
    said = clean_text(f"{what} ({about})" if about else what)[0]
    return " ".join(f"{said}: {clean_text(description)[0]}".split())[:LINE_CHARS].rstrip(": ")


def _declare_reader(server: McpServer, resources: Iterable[ResourceOffer], taken: list[str]) -> DeclaredTool:
    """Return the tool that reads a resource of a server by its address."""
    there = [f"{one.uri}{' (a template)' if one.template else ''}" for one in resources]
    more = f" and {len(there) - SHOWN:,} more" if len(there) > SHOWN else ""
    tool = ToolSpec.model_validate(
        {
            "name": tool_name(f"read_{server.name}", taken),
            "kind": "mcp",
            "effect": "read_only",
            "description": clean_text(f"Reads a resource by its address: {', '.join(there[:SHOWN])}{more}.")[0],
            "target": f"{server.name}/{READ_RESOURCE}",
            "parameters": {
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "the address of the resource"}},
                "required": ["uri"],
                "additionalProperties": False,
            },
        }
    )
    return DeclaredTool(
        tool, (f"{tool.name}: reads what the server calls resources; it changes nothing by the protocol",)
    )


def declare_tools(
    server: McpServer, offered: Iterable[McpToolOffer], taken: Collection[str] = ()
) -> tuple[list[DeclaredTool], list[LeftOut]]:
    """Return a declaration of each tool of a server."""
    found: list[DeclaredTool] = []
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
        found.append(DeclaredTool(tool, tuple(notes)))
    return found, left


def _tool(server: McpServer, one: McpToolOffer, taken: list[str]) -> ToolSpec:
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


def _effect(one: McpToolOffer) -> tuple[str, str]:
    """Return the presumed effect of a tool with the reason; a server's hints are no proof."""
    if one.read_only:
        return "read_only", "the server says that it changes nothing; believe it only where you believe the server"
    if one.idempotent and one.destructive is False:
        said = "the server says that it may be repeated and destroys nothing, so nothing of it is undone"
        return "idempotent", f"{said}; look before you publish it"
    if one.destructive is False:
        said = "the server says that it adds and destroys nothing"
        return "irreversible", f"{said}; declare it mutating where a tool of yours undoes it"
    reason = "the server says nothing of what it changes" if one.silent else "the server says that it may destroy"
    return "irreversible", f"{reason}, so each call needs a review; declare its effect"
