"""MCP servers for the tests of their tools: the real one of ``tests/servers/mcp_server.py``, and programs of a few lines that keep to no protocol."""

import asyncio
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.mcp import McpServer
from fabric.core.spec.tools import ToolSpec
from fabric.http.transport import Gate
from fabric.tools.functions.permits import Permits
from fabric.tools.runner import ToolRunner
from tests.fabric.tools.asking import request

MODULE = ("-m", "tests.servers.mcp_server")


def stdio(*more: str, args: tuple[str, ...] = MODULE, **changed: Any) -> McpServer:
    """The real server as a command."""
    given = {"name": "things", "transport": "stdio", "command": sys.executable, "args": (*args, *more)}
    return McpServer(**(given | changed))


def program(text: str, **changed: Any) -> McpServer:
    """A few lines of Python as a server."""
    return stdio(args=("-c", text), **changed)


STARTS_A_CHILD = (
    "import subprocess, sys; subprocess.Popen(['sleep', '1000']); sys.argv = ['x']; "
    "from tests.servers.mcp_server import main; main()"
)
"""The real server, which leaves something running that does not look at its input."""
HEEDS_NOTHING = (
    "import signal, subprocess, sys, threading; subprocess.Popen(['sleep', '1000']); sys.argv = ['x']; "
    "[signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)]; "
    "from tests.servers.mcp_server import main; main(); threading.Event().wait()"
)
"""The same, which does not end with its input either, nor when it is asked to."""
SAYING = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if 'id' not in asked:
        continue
    said = {'jsonrpc': '2.0', 'id': asked['id']}
    method = asked['method']
    if method == 'initialize':
        said['result'] = {'protocolVersion': '2025-06-18', 'capabilities': {}, 'serverInfo': {'name': 'x', 'version': '1'}}
    elif method == 'tools/list':
        said['result'] = {'tools': [{'name': 'act', 'inputSchema': {'type': 'object'}}]}
    elif method == 'tools/call':
        for given in sys.argv[1:]:
            print(given.replace('ID', str(asked['id'])), flush=True)
        continue
    else:
        said['error'] = {'code': -32601, 'message': 'unknown'}
    print(json.dumps(said), flush=True)
"""


DONE = '{"jsonrpc": "2.0", "id": ID, "result": {"content": [{"type": "text", "text": "done"}]}}'


def saying(*lines: str, **changed: Any) -> McpServer:
    """A server of before 2026 that says these lines to every call; ``ID`` in them is the call's."""
    return stdio(args=("-c", SAYING, *lines), **changed)


def permits(server: McpServer, *variables: str, **environment: str) -> Permits:
    """Return what lets that one command be run."""
    return Permits(((server.command, *server.args),), frozenset(variables), os.environ | environment)


def runner(server: McpServer, *variables: str, gate: Gate | None = None, **environment: str) -> ToolRunner:
    """A tool port that may speak to that server."""
    if server.transport == "http":
        return ToolRunner(gate=gate, permits=Permits(variables=frozenset(variables), environment=environment))
    return ToolRunner(gate=gate, permits=permits(server, *variables, **environment))


def tool(name: str, **changed: Any) -> ToolSpec:
    """A declaration of one of its tools."""
    given = {
        "name": "mine",
        "kind": "mcp",
        "target": f"things/{name}",
        "description": "D",
        "parameters": {"type": "object"},
    }
    return ToolSpec(**(given | changed))


async def call(
    port: ToolRunner, server: McpServer, name: str, args: Any = None, **changed: Any
) -> ToolFinished | CallFailed:
    """One call of a tool of a server."""
    spec = changed.pop("spec", None) or tool(name)
    return await port.run(request(spec, args or {}, server=server, **changed))


@contextmanager
def served(*more: str, module: tuple[str, ...] = MODULE, **environment: str) -> Iterator[str]:
    """The real server over HTTP on a loopback port: its ``host:port``."""
    command = [sys.executable, *module, "--http", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    try:
        assert process.stdout is not None
        yield f"127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def http(where: str, **changed: Any) -> McpServer:
    """That server as an address."""
    return McpServer(**({"name": "things", "transport": "http", "url": f"http://{where}/mcp"} | changed))


def line(server: McpServer) -> str:
    """Its command as FABRIC_MCP_COMMANDS takes it."""
    return shlex.join((server.command, *server.args))


def alive(pid: int) -> bool:
    """Return True if a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """Return what a process has started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


async def gone(pid: int) -> None:
    """Waits until a process has ended."""
    ended = asyncio.Event()
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    asyncio.get_running_loop().add_reader(watch, ended.set)
    try:
        await ended.wait()
    finally:
        asyncio.get_running_loop().remove_reader(watch)
        os.close(watch)


def played(scene, port, within_s=60):
    """Runs a scene and ends the sessions on its loop; a test that hangs fails instead."""

    async def whole():
        try:
            return await scene()
        finally:
            await port.end()

    try:
        return asyncio.run(asyncio.wait_for(whole(), within_s))
    finally:
        port.close()


def one(name, args=None, server=None, port=None, **changed):
    """One call in a session of its own."""
    server = server or stdio()
    port = port or runner(server)
    return played(lambda: call(port, server, name, args, **changed), port)
