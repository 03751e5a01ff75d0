"""A real MCP server for tests, over standard input and output or over HTTP: ``python -m tests.servers.mcp_server [--http] [--without TOOL,...]``.

Over HTTP it says its port on standard output; ``--old`` has it speak as servers of before 2026 do, with sessions. A tool that tells more than its answer writes to a named pipe in the directory of MCP_NOTES, where the test
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
from typing import Annotated

import uvicorn
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

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
    return f"{os.getpid()} {meta.get('fabric-flow/idempotency-key')} {meta.get('traceparent')}"


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


class Floor(BaseModel):
    floor: int = Field(ge=0, le=9, default=1)


@server.tool(structured_output=False)
async def asks(ctx: Context, questions: int = 1, told: str = "") -> str:
    """Asks the person at the other end, and says what each question came to."""
    came = []
    for number in range(questions):
        found = await ctx.elicit(f"Are you sure{told}? ({number + 1})", Sure)
        came.append(f"{found.action} {getattr(found, 'data', None)}")
    return "; ".join(came)


async def ask_floor(room: str) -> Elicit[Floor]:
    return Elicit(f"On which floor is {room}?", Floor)


async def ask_sure() -> Elicit[Sure]:
    return Elicit("Are you sure?", Sure)


@server.tool(structured_output=False)
async def books(
    room: str,
    floor: Annotated[Floor, Resolve(ask_floor)],
    sure: Annotated[ElicitationResult[Sure], Resolve(ask_sure)],
) -> str:
    """Books a room once it knows its floor and that the person is sure: in each protocol as that has it."""
    return f"booked {room} on floor {floor.floor}: {sure.action}"


@server.tool(structured_output=False)
async def asks_elsewhere(ctx: Context) -> str:
    """Asks the person to open an address."""
    return str(await ctx.elicit_url("Sign in", "https://example.com/sign-in", "e1"))


@server.tool(structured_output=False)
async def asks_by_a_strange_form(ctx: Context) -> str:
    """Asks by a form that the protocol does not have."""
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    return str(await ctx.session.elicit_form("Fill it in", nested, related_request_id=ctx.request_id))


@server.tool(structured_output=False)
def can(ctx: Context) -> str:
    """What the client says that it can."""
    return ctx.session.client_params.capabilities.model_dump_json(exclude_none=True)


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


def later(a: int) -> str:
    """Was not there from the beginning."""
    return str(a)


def later_by_name(name: str) -> str:
    """The same tool with another form."""
    return name


@server.tool(structured_output=False)
async def change(ctx: Context, away: str = "", form: str = "number") -> str:
    """Takes a tool away, or gives ``later`` in one of two forms, and says that its tools changed."""
    if away:
        server.remove_tool(away)
    else:
        if any(one.name == "later" for one in await server.list_tools()):
            server.remove_tool("later")
        server.add_tool(later if form == "number" else later_by_name, name="later", structured_output=False)
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "done"


@server.resource("notes://today", mime_type="text/plain")
def today() -> str:
    """What is to be done today."""
    return "feed the cat"


@server.resource("notes://{day}/{n}", mime_type="text/plain")
def of_day(day: str, n: str) -> str:
    """A note of another day."""
    return f"note {n} of {day}"


@server.prompt()
def tidy(room: str) -> str:
    """How a room is tidied."""
    return f"Tidy the {room}."


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
    asked.add_argument("--port", type=int, default=0)
    asked.add_argument("--old", action="store_true", help="speaks the protocol of before 2026 alone")
    asked.add_argument("--json", action="store_true", help="answers as JSON, not as events")
    told = asked.parse_args()
    for name in filter(None, told.without.split(",")):
        server.remove_tool(name)
    if told.http:
        asyncio.run(serve(json=told.json, port=told.port, old=told.old))
    else:
        server.run("stdio")


async def serve(*, json: bool, server: MCPServer = server, port: int = 0, old: bool = False) -> None:
    listening = socket.create_server(("127.0.0.1", port))
    print(listening.getsockname()[1], flush=True)
    app = server.streamable_http_app(json_response=json)
    config = uvicorn.Config(without_discovery(app) if old else app, log_level="error")
    await uvicorn.Server(config).serve(sockets=[listening])


def without_discovery(app):
    """The same server for clients that do not know the protocol of 2026: it has no ``server/discover``."""

    async def answered(scope, receive, send):
        if dict(scope.get("headers", ())).get(b"mcp-method") != b"server/discover":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return answered


if __name__ == "__main__":
    main()
