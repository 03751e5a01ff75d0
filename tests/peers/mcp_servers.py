"""The reference servers of the Model Context Protocol, as an author of a fabric declares them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fabric.core.spec.mcp import McpServer
from tests.peers.processes import node, package, script, served

EVERYTHING = ("@modelcontextprotocol/server-everything", "dist", "index.js")
FILESYSTEM = ("@modelcontextprotocol/server-filesystem", "dist", "index.js")


def of(command: str, *args: str, **changed: Any) -> McpServer:
    """A server that is a command."""
    return McpServer(**({"name": "things", "transport": "stdio", "command": command, "args": args} | changed))


def everything() -> McpServer:
    return of(node(), package(*EVERYTHING), "stdio")


def filesystem(folder: Path) -> McpServer:
    return of(node(), package(*FILESYSTEM), str(folder))


def clock() -> McpServer:
    return of(script("mcp-server-time"))


def git(folder: Path) -> McpServer:
    return of(script("mcp-server-git"), "--repository", str(folder))


def fetch(*more: str) -> McpServer:
    return of(script("mcp-server-fetch"), *more)


@contextmanager
def everything_over_http(folder: Path, port: int) -> Iterator[str]:
    """The same over streamable HTTP: its ``host:port``. It answers a request without a session with 400 and is up then."""
    command = [node(), package(*EVERYTHING), "streamableHttp"]
    environ = os.environ | {"PORT": str(port)}
    with served(command, f"http://127.0.0.1:{port}/mcp", folder, environ):
        yield f"127.0.0.1:{port}"
