"""Starts real workers of an installation on a database of their own, and the runs that they take.

Runs are started by the installation's services in another process, and read from its database.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import psycopg

from fabric.core.events.envelope import split_row
from fabric.packing.rows import unpack
from simulator.installation.database import MANAGE, ROOT, temporary_database

WORKER = "celery --quiet -A console worker --pool threads --concurrency 4 --loglevel WARNING"
WORKER_MORE = " --without-gossip --without-mingle --without-heartbeat"


@dataclass(slots=True)
class Site:
    """One installation: its environment and its worker processes."""

    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    restarts: int = 0

    @property
    def log(self) -> Path:
        """Return the file with the workers' output."""
        return Path(self.environment["FABRIC_DATA"]) / "worker.log"

    def start_worker(self) -> None:
        """Starts one more worker process."""
        command = [
            sys.executable,
            "-m",
            *(WORKER + WORKER_MORE).split(),
            "-n",
            f"w{len(self.workers)}-{self.restarts}@%h",
        ]
        with self.log.open("ab") as log:
            self.workers.append(
                subprocess.Popen(
                    command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
                )
            )

    def replace_dead_workers(self) -> int:
        """Starts a worker in place of each that has ended, as a supervisor would. Returns how many."""
        dead = [worker for worker in self.workers if worker.poll() is not None]
        for worker in dead:
            self.workers.remove(worker)
            self.restarts += 1
            self.start_worker()
        return len(dead)

    def count_deaths(self) -> int:
        """Counts the workers that ended by themselves, with those that were replaced."""
        return self.restarts + sum(worker.poll() is not None for worker in self.workers)

    def manage(self, *arguments: str) -> dict[str, Any]:
        """Run a command and return its last line, which is JSON. Raises RuntimeError with its output if it fails."""
        done = subprocess.run(
            [*MANAGE, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)}: exit {done.returncode}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found

    def stop(self) -> None:
        """Ends the workers: SIGTERM, then SIGKILL."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(10)


@contextmanager
def temporary_site(db: str, *, provider: str, workers: int, more: Mapping[str, str] | None = None) -> Iterator[Site]:
    """Make an installation on ``sqlite`` or ``postgresql`` (with Redis as broker), and remove it.

    ``provider``: provider of its scripted agents. ``more``: further variables of its environment.
    """
    with temporary_database(db) as environment:
        environment |= {"FABRIC_PROVIDERS": f"scripted={provider}", **(more or {})}
        if db == "postgresql":
            environment["CELERY_BROKER_URL"] = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
        made = Site(environment)
        made.manage("prepare", "--json")
        try:
            for _ in range(workers):
                made.start_worker()
            yield made
        finally:
            made.stop()


def wait_until(done: Callable[[], bool], made: Site, timeout_s: float) -> None:
    """Wait until ``done`` returns True, and replace workers that die. Raises TimeoutError after ``timeout_s``."""
    give_up = time.monotonic() + timeout_s
    while not done():
        made.replace_dead_workers()
        if time.monotonic() > give_up:
            tail = made.log.read_text(errors="replace")[-3000:] if made.log.exists() else "nothing"
            raise TimeoutError(f"not done within {timeout_s:.0f} s; the workers said: {tail}")
        time.sleep(0.1)


START = """
import json, sys
import django
django.setup()
from fabric.composition import engine as wiring
from fabric.core.people.actor import Actor
from fabric.runtime.ports.journal import Document
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from fabric.services.actors import workspace_default
actor = Actor("installation", workspace_default(), "system")
ids = []
for asked in json.load(sys.stdin):
    name = fabric_publish(actor=actor, source=asked["fabric"], origin="installation").name
    for n in range(asked["runs"]):
        started = run_start(store=wiring.store(), nudge=wiring.nudge(), actor=actor, fabric=name, text=asked["text"],
                            documents=[Document(*one) for one in asked["documents"]], tier=asked["tier"])
        ids.append(started.run_id)
print(json.dumps(ids))
"""


def publish_and_start(made: Site, asked: Sequence[Mapping[str, Any]]) -> list[str]:
    """Publish fabrics and start their runs by the console's services, in another process. Return the runs' ids.

    Each of ``asked`` has ``fabric`` (YAML), ``runs`` (number), ``tier``, ``text`` and ``documents`` (pairs of name
    and text).
    """
    command = [sys.executable, "-c", START]
    environment = {**made.environment, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, input=json.dumps(list(asked)), text=True, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    ids: list[str] = json.loads(done.stdout.strip().splitlines()[-1])
    return ids


class DatabaseAway(RuntimeError):
    """The database does not answer at this moment."""


class Rows:
    """A database, read from outside. ``where``: connection string of PostgreSQL, or data directory with a SQLite
    file.
    """

    def __init__(self, where: str | Path) -> None:
        self._where = where

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Reads the database that a process with this environment uses."""
        return cls(environment.get("DATABASE_URL") or Path(environment["FABRIC_DATA"]))

    def read(self, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement. Raises DatabaseAway when the database does not answer."""
        try:
            if isinstance(self._where, str):
                return self.read_postgresql(self._where, statement)
            file = next(found for found in sorted(self._where.glob("*.sqlite3")) if found.is_file())
            # Not mode=ro: the first reader after a killed process has to recover its log.
            with closing(sqlite3.connect(f"file:{file}?mode=rw", uri=True, timeout=5)) as lite:
                return lite.execute(statement).fetchall()
        except (psycopg.OperationalError, sqlite3.OperationalError) as error:
            raise DatabaseAway(str(error)) from error

    def read_postgresql(self, address: str, statement: str) -> list[tuple[Any, ...]]:
        """Returns the rows of a statement, on a new connection."""
        with psycopg.connect(address, connect_timeout=3, autocommit=True) as opened:
            cursor = opened.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def read_patiently(self, statement: str, timeout_s: float = 60.0) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, and wait for an absent database. Raises DatabaseAway after ``timeout_s``."""
        give_up = time.monotonic() + timeout_s
        while True:
            try:
                return self.read(statement)
            except DatabaseAway:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.1)

    def read_states(self) -> dict[str, str]:
        """Returns the state of each run by its id."""
        return {str(run): str(state) for run, state in self.read_patiently("SELECT id, state FROM fabric_run")}

    def read_facts(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the facts of each run's journal in order, each with its kind and its instant."""
        rows = self.read_patiently("SELECT run_id, kind, at, header FROM fabric_event ORDER BY run_id, seq")
        found: dict[str, list[dict[str, Any]]] = {}
        for run_id, first, at, header in rows:
            for _, kind, _, own in split_row(0, str(first), 0, unpack(bytes(header))):
                fact = {"attempt": 1, **json.loads(own)["d"], "kind": kind, "at": at}
                found.setdefault(str(run_id), []).append(fact)
        return found
