"""Declares the MCP servers of a fabric, and the tools that it may call there (design.md 7 "Tools").

A tool of kind ``mcp`` names its server and the server's own name for it: ``target: SERVER/TOOL``. What it does to the
world, its arguments, its timeout, its way back and who approves it stand in its declaration, as with every other tool;
nothing that a server says of its tools is taken for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from fabric.core.schema.limits import Unit, declare_limit
from fabric.core.schema.parts import Name, SpecGroup
from fabric.core.spec.http import HeaderName, VariableName

ARGUMENT = r"^[^\x00]*$"
Argument = Annotated[str, StringConstraints(max_length=4_000, pattern=ARGUMENT)]
READ_RESOURCE = "resources/read"
"""Target, behind the server's name, of the tool that reads a resource by its address: the protocol's own method. A
server's tool of that name comes first.
"""
_PAGE = "docs/specification/tools.md"
RESULT_BYTES = 1_000_000
"""Largest size of a stored tool result."""


class McpServer(SpecGroup):
    """An MCP server: a command that is run beside the worker, or an address."""

    name: Name = Field(description="Name by which tools refer to the server.")
    transport: Literal["stdio", "http"] = Field(
        description="stdio: a command that speaks over its standard input and output. http: an address (streamable HTTP)."
    )
    command: Annotated[str, StringConstraints(max_length=1_000)] = Field(
        default="",
        description="For stdio: the program. The operator allows it with its arguments in FABRIC_MCP_COMMANDS.",
    )
    args: Annotated[tuple[Argument, ...], Field(max_length=100)] = Field(
        default=(), description="For stdio: arguments of the program."
    )
    variables: Annotated[tuple[VariableName, ...], Field(max_length=50)] = Field(
        default=(),
        description="For stdio: names of the environment variables that the program gets. Values stay in the worker's environment; the operator allows the names in FABRIC_TOOL_VARIABLES.",
    )
    url: Annotated[str, StringConstraints(max_length=500)] = Field(
        default="", description="For http: the address, such as https://example.org/mcp."
    )
    headers_from: dict[HeaderName, VariableName] = Field(
        default_factory=dict,
        description="http: headers whose values come from the worker's environment: header to variable, such as "
        "Authorization: CRM_TOKEN. The operator allows them in FABRIC_TOOL_VARIABLES as NAME@HOST:PORT.",
    )
    timeout_s: Annotated[float, Field(gt=0, le=3_600)] = declare_limit(
        60.0,
        "Timeout of one call",
        Unit.SECONDS,
        "A call may take at most this long if its tool has no timeout of its own.",
        stops="the call is given up",
        source=_PAGE,
    )
    connect_s: Annotated[float, Field(gt=0, le=300)] = declare_limit(
        20.0,
        "Connection timeout",
        Unit.SECONDS,
        "The server must answer the first greeting within this time.",
        stops="the server counts as unavailable",
        source=_PAGE,
    )
    result_bytes: Annotated[int, Field(ge=100, le=RESULT_BYTES)] = declare_limit(
        RESULT_BYTES,
        "Largest result",
        Unit.BYTES,
        "A result, as JSON, may be at most this large.",
        stops="the model gets an error in place of a larger result",
        source=_PAGE,
    )

    @model_validator(mode="after")
    def _of_one_transport(self) -> McpServer:
        other = {"stdio": ("url", "headers_from"), "http": ("command", "args", "variables")}[self.transport]
        if strange := [name for name in other if getattr(self, name)]:
            raise ValueError(f"transport {self.transport} has no {' and no '.join(strange)}; leave it out")
        needed = {"stdio": "command", "http": "url"}[self.transport]
        if not getattr(self, needed).strip():
            raise ValueError(f"transport {self.transport} needs {needed}")
        return self


McpServers = Annotated[
    tuple[McpServer, ...],
    Field(
        max_length=32,
        description="MCP servers, whose tools are declared in `tools`: kind mcp, target SERVER/TOOL.",
    ),
]


def split_target(target: str) -> tuple[str, str]:
    """Server and tool of a target; both empty where it names no tool of a server."""
    server, _, tool = target.partition("/")
    return (server, tool) if server and tool else ("", "")


def find_server(servers: Iterable[McpServer], kind: str, target: str) -> McpServer | None:
    """The server whose tool a declaration is; None: of none."""
    name = split_target(target)[0] if kind == "mcp" else ""
    return next((one for one in servers if one.name == name), None)


def mcp_problems(servers: tuple[McpServer, ...], tools: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each mismatch of servers and tools. Tools are kind and target, in their order."""
    names = [one.name for one in servers]
    for n, name in enumerate(names):
        if name in names[:n]:
            yield f"mcp_servers.{n}.name: {name!r} is there twice"
    for n, (kind, target) in enumerate(tools):
        if kind != "mcp":
            continue
        server, _ = split_target(target)
        if not server:
            yield f"tools.{n}.target: {target!r} names no tool of an MCP server; write SERVER/TOOL"
        elif server not in names:
            yield f"tools.{n}.target: no MCP server is named {server!r}"
