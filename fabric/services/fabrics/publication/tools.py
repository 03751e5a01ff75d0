"""Publication rules for tools: callables, MCP servers, and effects on the world (docs/specification/changes.md).

- Mutating tools need a compensation that can be repeated. Irreversible tools need a person before each call, or a
  reason against it.
- A fabric uses the operator's names of functions, and declares their effects no weaker than their authors do.
- The operator allows commands and environment variables of MCP servers; addresses obey the rules of all addresses.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.mcp import McpServer, find_server
from fabric.core.spec.tools import ToolSpec
from fabric.http.transport import Gate
from fabric.services.fabrics.yaml.document import FabricProblem
from fabric.services.installation.facts import InstallationFacts
from fabric.tools.functions.named_tools import pairs_problems
from fabric.tools.functions.permits import Permits


def ways_back(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each change without a repeatable compensation, or irreversible call without a person
    before it.
    """
    for n, tool in enumerate(spec.tools):
        for field, sentence in _ways_back(spec, tool):
            yield FabricProblem(f"tools.{n}.{field}", f"tool {tool.name!r} {sentence}")


def priced_errands(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each priced tool that the engine calls whatever the budget is.

    These are compensations, and checks that look if a change was made.
    """
    for n, tool in enumerate(spec.tools):
        if not tool.price_usd_micros:
            continue
        for other in spec.tools:
            does = {other.compensation: "undoes", other.reconcile: "reconciles"}.get(tool.name)
            if does is not None:
                sentence = f"tool {tool.name!r} {does} {other.name!r}, which no budget can stop; leave its price out"
                yield FabricProblem(f"tools.{n}.usd_per_call", sentence)
                break


def _ways_back(spec: FabricSpec, tool: ToolSpec) -> Iterator[tuple[str, str]]:
    if tool.effect == "mutating" and tool.compensation is None:
        yield "compensation", "is mutating; name the tool that undoes it, or declare it irreversible"
    if tool.effect != "mutating":
        for field in ("compensation", "reconcile"):
            if getattr(tool, field) is not None:
                yield field, f"is {tool.effect}, and only a mutating tool has a {field}; leave it out"
        if tool.carry_over:
            yield "carry_over", f"is {tool.effect}, and only what a mutating tool did is carried over; leave it out"
    if tool.compensation is not None and tool.effect == "mutating":
        yield from _compensation(tool, spec.tool(tool.compensation))
    if tool.reconcile is not None and spec.tool(tool.reconcile).effect != "read_only":
        said = spec.tool(tool.reconcile).effect
        yield (
            "reconcile",
            f"is reconciled by {tool.reconcile!r}, which is {said}; asking must change nothing, so name a read_only tool",
        )
    if tool.approve_when is not None and tool.effect == "irreversible" and tool.approval == "required":
        yield (
            "approve_when",
            "is irreversible, so each call needs a review already; leave the rule out, or waive `approval` with a `deviation`",
        )
    if tool.approval == "waived" and tool.effect != "irreversible":
        yield "approval", f"is {tool.effect}, and only irreversible calls are approved beforehand; leave it out"
    elif tool.approval == "waived" and not tool.deviation.strip():
        yield (
            "deviation",
            "is irreversible and waives the approval; give a `deviation` with the reason, or take `approval` away",
        )


def _compensation(tool: ToolSpec, undo: ToolSpec) -> Iterator[tuple[str, str]]:
    if undo.name == tool.name:
        yield "compensation", "cannot undo itself; name another tool"
    elif undo.effect != "idempotent":
        sentence = f"is undone by {undo.name!r}, which is {undo.effect}; it may be sent more than once, so it must be idempotent"
        yield "compensation", sentence
    elif undo.kind == "builtin":
        yield (
            "compensation",
            f"is undone by {undo.name!r}, but no built-in undoes anything; name an http or callable tool",
        )
    elif undo.kind == "http" and undo.method not in ("POST", "PUT", "PATCH"):
        sentence = (
            f"is undone by {undo.name!r} with {undo.method}, but a compensation is called with a JSON body "
            '{"key", "args", "result"}; use POST, PUT or PATCH'
        )
        yield "compensation", sentence


def named_functions(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each callable tool that the operator did not name. Also for one that is declared too weak, or
    undone by another tool wrongly.
    """
    tools = {tool.name: tool for tool in spec.tools}
    for n, tool in enumerate(spec.tools):
        if tool.kind != "callable" or not tool.target:
            continue
        permits = where.permits
        for field, sentence in (*permits.callable_problems(tool), *pairs_problems(tool, tools, permits.tools)):
            yield FabricProblem(f"tools.{n}.{field}", f"tool {tool.name!r}: {sentence}")


def server_problem(server: McpServer, gate: Gate, permits: Permits) -> str:
    """Return the reason why a server may not be used here, in one sentence; empty when it may."""
    if server.transport == "stdio":
        return permits.command_problem(server)
    return gate.problem(server.url) or permits.headers_problem(server.url, server.headers_from)


def mcp_servers(spec: FabricSpec, where: InstallationFacts) -> Iterator[FabricProblem]:
    """Yield a problem for each server that this installation forbids to fabrics."""
    for n, server in enumerate(spec.mcp_servers):
        if problem := server_problem(server, where.gate, where.permits):
            yield FabricProblem(f"mcp_servers.{n}", f"MCP server {server.name!r}: {problem}")


def warn_unused_servers(spec: FabricSpec) -> Iterator[FabricProblem]:
    """Yield a warning for each server without a declared tool."""
    called = {server.name for tool in spec.tools if (server := find_server(spec.mcp_servers, tool.kind, tool.target))}
    for n, server in enumerate(spec.mcp_servers):
        if server.name not in called:
            yield FabricProblem(f"mcp_servers.{n}", f"MCP server {server.name!r} has no tool that is declared")
