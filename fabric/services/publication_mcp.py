"""MCP servers at publication: a command and an environment variable are the operator's to allow, an address is held to what all addresses are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.permits import Permits
from fabric.core.spec import FabricSpec
from fabric.core.spec_mcp import McpServer, server_of
from fabric.services.fabric_yaml import Problem

if TYPE_CHECKING:
    from fabric.services.publication import Installation


def server_problem(server: McpServer, gate: Gate, permits: Permits) -> str:
    """Why a server may not be spoken to here; empty when it may. One sentence."""
    if server.transport == "stdio":
        return permits.command_problem(server)
    return gate.problem(server.url) or permits.headers_problem(server.url, server.headers_from)


def mcp_servers(spec: FabricSpec, where: Installation) -> Iterator[Problem]:
    """Servers that this installation does not let a fabric speak to."""
    for n, server in enumerate(spec.mcp_servers):
        if problem := server_problem(server, where.gate, where.permits):
            yield Problem(f"mcp_servers.{n}", f"MCP server {server.name!r}: {problem}")


def unused(spec: FabricSpec) -> Iterator[Problem]:
    """Servers of which no tool is declared."""
    called = {server.name for tool in spec.tools if (server := server_of(spec.mcp_servers, tool.kind, tool.target))}
    for n, server in enumerate(spec.mcp_servers):
        if server.name not in called:
            yield Problem(f"mcp_servers.{n}", f"MCP server {server.name!r} has no tool that is declared")
