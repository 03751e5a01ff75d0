"""The web server itself, as an operator starts it, over a data directory of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import clean_environment, copy_sqlite
from tests.console.launch.started_processes import PATIENCE_S, started
from tests.servers.ports import free_port


@dataclass
class WebServer:
    """One that answers."""

    process: subprocess.Popen[bytes]
    port: int
    environ: dict[str, str]

    def ask(self, method: str, path: str, **more: Any) -> tuple[int, bytes]:
        """One request: the status and the body of its answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, **more)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def resident_bytes(self) -> int:
        """Its memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@contextmanager
def serving(data: Path, *before: str, **settings: str) -> Iterator[WebServer]:
    """A web server, ended at the end of the block. ``before``: a command that starts it in turn, such as ``prlimit``. ``settings``: of its environment."""
    copy_sqlite(clean_environment(), data)
    port = free_port()
    environ = clean_environment() | {"FABRIC_DATA": str(data), "FABRIC_PORT": str(port)} | settings
    command = [*before, sys.executable, "-m", "console.web_server", "--port", str(port)]
    with started(command, env=environ, cwd=ROOT, stderr=subprocess.PIPE) as process:
        server = WebServer(process, port, environ)
        while process.poll() is None:
            try:
                server.ask("GET", "/healthz")
                break
            except OSError:
                continue
        assert process.poll() is None, process.stderr and process.stderr.read().decode()
        yield server
