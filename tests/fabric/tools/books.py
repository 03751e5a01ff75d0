"""One booking service behind each kind of tool: what it did stands in a file, which is the judge of what a port says of a call.

``python -m tests.fabric.tools.books [--http]`` is an MCP server of it, on the official SDK; its file is BOOKS.
"""

import os
import sys
import threading
from pathlib import Path
from typing import Any

from fabric.tools.answers.outcome import ToolError
from fabric.tools.functions.callables import tool

REFUSED = "the room is taken"
PARAMETERS = {"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"]}
VARIABLE = "BOOKS"


class Books:
    """The file: a line a key under which something was booked. Where its ``bell`` is a named pipe, a booking that is never answered is told there."""

    def __init__(self, path: Path) -> None:
        self.path, self.bell = path, path.with_suffix(".bell")

    def keys(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []

    def book(self, key: str, kind: str) -> Any:
        """Books once a key, but for what is refused, and gives what a call of that kind is answered. ValueError: refused."""
        if kind == "refused":
            raise ValueError(REFUSED)
        if key not in self.keys():
            with self.path.open("a") as file:
                file.write(f"{key}\n")
        if kind == "slow" and self.bell.is_fifo():
            self.bell.write_text("it is done, and the answer is lost")
        said = {"large": "x" * 1_000_001, "unfit": "a\0b"}
        return {"id": f"of {key}", "kind": said.get(kind, kind)}


def books() -> Books:
    """That of this process's environment."""
    return Books(Path(os.environ[VARIABLE]))


def _booked(key: str, kind: str) -> Any:
    """In a process of its own: what loses its answer dies, and what is slow never returns."""
    made = books().book(key, kind)
    if kind == "lost":
        os._exit(7)
    if kind == "slow":
        threading.Event().wait()
    return made


@tool(effect="idempotent", variables=(VARIABLE,))
def book(kind, *, idempotency_key):
    try:
        return _booked(idempotency_key, kind)
    except ValueError as error:
        raise ToolError(str(error)) from error


def serve() -> None:
    """The MCP server. The SDK takes a second to import, and the child of a callable needs none of it."""
    import asyncio

    from mcp.server.mcpserver import Context, MCPServer
    from mcp.server.mcpserver.exceptions import ToolError as Told

    from tests.servers import mcp_server

    server = MCPServer("books")

    def book(kind: str, ctx: Context) -> dict[str, Any]:
        try:
            return _booked(str(dict(ctx.request_context.meta or {})["fabric-flow/idempotency-key"]), kind)
        except ValueError as error:
            raise Told(str(error)) from error

    server.tool()(book)
    if "--http" in sys.argv:
        asyncio.run(mcp_server.serve(json=False, server=server))
    else:
        server.run("stdio")


if __name__ == "__main__":
    serve()
