"""A real MCP server for tests, over standard input and output or over HTTP: ``python -m tests.mcp_server [--http] [--without TOOL,...]``.

Over HTTP it says its port on standard output. A tool that tells more than its answer writes to a named pipe in the directory of MCP_NOTES, where the test
has made one of its name, and waits until it is read.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
import threading
from pathlib import Path

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("tests")
NOTES = Path(os.environ.get("MCP_NOTES", os.devnull))


def note(name: str) -> None:
    if (NOTES / name).is_fifo():
        (NOTES / name).write_text(str(os.getpid()))


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(structured_output=False, annotations=ToolAnnotations(read_only_hint=False, idempotent_hint=True))
def echo(text: str) -> str:
    """Says it again."""
    return text


@server.tool(structured_output=False)
def whoami(ctx: Context) -> str:
    """Which process this is, and what the call carried."""
    meta = dict(ctx.request_context.meta or {})
    return f"{os.getpid()} {meta.get('fabric-flow/idempotency-key')}"


@server.tool(structured_output=False)
def environment() -> str:
    """The names of the variables that this process was given."""
    return " ".join(sorted(os.environ))


@server.tool()
def fail(how: str = "value") -> str:
    """Fails."""
    if how == "exit":
        if NOTES.is_dir():
            with (NOTES / "fails").open("a") as told:
                told.write("x")
        os._exit(7)
    raise ToolError("the printer is on fire")


class Sure(BaseModel):
    sure: bool


@server.tool(structured_output=False)
async def asks(ctx: Context) -> str:
    """Asks the person at the other end, where nobody is."""
    return str(await ctx.elicit("Are you sure?", Sure))


@server.tool(structured_output=False)
def large(megabytes: int) -> str:
    """Gives much."""
    return "x" * (megabytes * 1_000_000)


@server.tool()
def never() -> str:
    """Never returns, and nothing can make it."""
    note("never")
    threading.Event().wait()
    return "it did"


@server.tool(structured_output=False)
def noisy(lines: int) -> str:
    """Writes to standard error."""
    for _ in range(lines):
        sys.stderr.write("noise " * 100 + "\n")
    return "done"


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--http", action="store_true")
    asked.add_argument("--without", default="", help="tools that are not there")
    asked.add_argument("--json", action="store_true", help="answers as JSON, not as events")
    told = asked.parse_args()
    for name in filter(None, told.without.split(",")):
        server.remove_tool(name)
    if told.http:
        asyncio.run(serve(json=told.json))
    else:
        server.run("stdio")


async def serve(*, json: bool, server: MCPServer = server) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app(json_response=json)
    await uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listening])


if __name__ == "__main__":
    main()
