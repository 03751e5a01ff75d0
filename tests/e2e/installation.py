"""A whole Fabric Flow by `manage.py up` over a directory of its own: for the tests in a browser and for the pictures."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.launch.processes.data_directory import ROOT
from console.launch.processes.keeper import descendants
from simulator.installation.database import FILE, clean_environment, copy_sqlite
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.servers.ports import free_port

RUN = re.compile(r"/runs/[0-9a-f-]{36}")
"""The address of a run."""


@dataclass
class Installation:
    """A running Fabric Flow with a data directory of its own."""

    process: subprocess.Popen[bytes]
    base: str
    data: Path
    environ: dict[str, str]
    links: list[str]
    """One-time links that are not used yet."""
    shared: bool = False
    """True: modules share it, and its owner stays alone: among several members no one approves their own run."""

    def manage(self, *command: str) -> str:
        """Run a command of this installation; what it printed. Raises CalledProcessError, with what it said, when it did not end with 0.

        The shell alone may import the tests: nothing else of an installation can.
        """
        line = [sys.executable, str(ROOT / "manage.py"), *command]
        known = {"DJANGO_SETTINGS_MODULE": "tests.settings_running"} if "shell" in command[:2] else {}
        try:
            done = subprocess.run(
                line, env=self.environ | known, check=True, capture_output=True, text=True, timeout=5 * PATIENCE_S
            )
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr[-4000:])
            raise
        return done.stdout

    def login_link(self) -> str:
        """A fresh one-time link."""
        return self.links.pop() if self.links else _link(self.manage("bootstrap"))

    def login_link_of(self, name: str) -> str:
        """A one-time link for a new member, who does not look after the installation."""
        assert not self.shared, "a second member changes who may approve: give the module an installation of its own"
        uses = "from tests.people import member; from fabric.services.actors import login_link_create"
        said = self.manage("django", "shell", "-c", f"{uses}; print(login_link_create(member({name!r})))")
        return f"{self.base}/login/link#{said.split()[-1]}"

    def damage(self, run_id: str) -> None:
        """A stored run holds what no program wrote: lists of runs cannot be made."""
        self.stored("UPDATE fabric_run SET created_at = 'yesterday' WHERE id = ?", run_id)

    def take_database_away(self) -> None:
        """The file is gone, and what opens it finds a directory; the web server starts anew. It does not come back."""
        for path in self.data.glob("fabric.sqlite3*"):
            path.rename(path.with_name(f"away-{path.name}"))
        (self.data / "fabric.sqlite3").mkdir()
        self.kill_web_server()

    def publish(self, source: str) -> None:
        """Publish a fabric."""
        written = self.data / "published.yaml"
        written.write_text(source)
        self.manage("fabric", "publish", str(written))

    def stored(self, statement: str, *given: object) -> list[tuple[object, ...]]:
        """Run a statement on the database, past the program."""
        with closing(sqlite3.connect(self.data / "fabric.sqlite3", timeout=PATIENCE_S)) as opened, opened:
            return opened.execute(statement, given).fetchall()

    def web_server(self) -> int:
        """Process id of the web server."""
        return self._child("console.web_server")

    def worker(self) -> int:
        """Process id of the worker."""
        return self._child("console.worker")

    def kill_web_server(self) -> None:
        """As the kernel would when memory is short; `up` starts another."""
        os.kill(self.web_server(), signal.SIGKILL)

    def _child(self, module: str) -> int:
        (pid,) = [pid for pid in descendants(self.process.pid) if module in _arguments(pid)[:3]]
        return pid


def _link(said: str) -> str:
    found = re.search(r"http\S+/login/\S+", said)
    assert found, said
    return found[0]


def _arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


@contextmanager
def installed(data: Path, **settings: str) -> Iterator[Installation]:
    """`manage.py up` over the directory, stopped by Ctrl-C at the end of the block. ``settings``: of its environment."""
    if not (data / FILE).exists():
        copy_sqlite(
            clean_environment(), data
        )  # That `up` makes the tables itself: tests/console/management/commands/test_prepare.py.
    port = free_port()
    named = {"FABRIC_DATA": str(data), "FABRIC_PORT": str(port)} | settings
    environ = clean_environment() | named
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data), "--port", str(port)]
    with started(command, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = Lines(process.stdout.fileno())
        assert said.next().startswith("Fabric Flow runs at ")
        yield Installation(process, f"http://127.0.0.1:{port}", data, environ, [_link(said.until("/login/"))])
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0
