"""Runs that wait for a person, very many of them, and what one worker asks of its database meanwhile (performance.md P13).

The runs are real: an engine brings each to its review and gives it back. Then a worker is started as in production, behind a wire that counts
the statements it sends, once before there are any runs and once with all of them: what it asks must not depend on how many wait.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg

from fabric.core.events.inputs import CallFailed
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ModelRequest
from fabric.runtime.ports.journal import JournalStore
from simulator.installation.workers import Site
from tests.benchmarks.throughput import flow5, spec
from tests.chaos.faults.failpoints import FOLDER
from tests.chaos.servers.proxy import Proxies

START_S = 60.0
SETTLED_S = 12.0
"""After its start a worker looks at everything once; its slowest look comes every ten seconds."""
AT_ONCE = 32
EXECUTES = frozenset(b"QE")
"""Frontend messages that run a statement: a simple query, or the execution of a prepared one (PostgreSQL "Message Formats")."""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"

SPEC = FabricSpec.model_validate(
    spec.SPEC.model_dump(mode="json", exclude_unset=True)
    | {"name": "idle", "decision_table": {"provider_failure": {"batch": {"rungs": [{"reaction": "escalate"}]}}}}
)


class RefusingModels:
    """Agents whose provider refuses every request, so that their run asks a person."""

    async def ask(self, request: ModelRequest) -> CallFailed:
        """A refusal that no retry mends."""
        return CallFailed(
            command_id=request.command_id,
            attempt=request.attempt,
            cause=Cause.BAD_REQUEST,
            message="the provider refuses it",
        )


class Statements:
    """Counts what clients have PostgreSQL execute, on all connections of a wire."""

    def __init__(self) -> None:
        self.count = 0

    def connection(self) -> Callable[[bytes], None]:
        """The listener of one connection: ``proxy.Listener``."""
        left, started = bytearray(), False

        def heard(chunk: bytes) -> None:
            nonlocal started
            left.extend(chunk)
            while (head := 5 if started else 4) <= len(left):
                length = int.from_bytes(left[head - 4 : head]) + head - 4
                if len(left) < length:
                    return
                if started:
                    self.count += left[0] in EXECUTES
                else:
                    # A request for encryption (8 bytes) comes before the startup message, which always names a user.
                    started = length > 8
                del left[:length]

        return heard


@contextmanager
def worker(statements: Statements) -> Iterator[int]:
    """A worker of this process's installation, on a wire that is counted; its process id. TimeoutError when it does not come up."""
    address = urlsplit(os.environ["DATABASE_URL"])
    with Proxies() as proxies:
        wire = proxies.to(address.port or 5432, statements.connection)
        host = f"{address.username or ''}{':' + address.password if address.password else ''}@127.0.0.1:{wire.port}"
        folder = Path(os.environ["FABRIC_DATA"])
        site = Site(
            {**os.environ, "DATABASE_URL": urlunsplit(address._replace(netloc=host)), FOLDER: str(folder)},
        )
        try:
            site.start_worker()
            _until(lambda: _value("SELECT count(*) FROM fabric_incarnation WHERE retired_at IS NULL") > 0)
            time.sleep(SETTLED_S)
            yield site.workers[0].pid
        finally:
            site.stop()


def measure(store: JournalStore, workspace_id: str, revision_id: str, paused: int, seconds: int) -> dict[str, Any]:
    """Return what a worker asks, and holds, with no runs and with so many that wait. RuntimeError when not all of them came to wait, or one was claimed."""
    before = _measured(seconds)
    engine = flow5.Flow5(store, workspace_id, revision_id, models=RefusingModels(), spec=SPEC)
    engine.run(paused, min(AT_ONCE, paused))
    engine.stop()
    waiting = _waiting()
    if waiting != paused:
        raise RuntimeError(f"{waiting} of {paused} runs wait for a person")
    claims = _value("SELECT sum(fence) FROM fabric_run")
    with_them = _measured(seconds)
    if (_waiting(), _value("SELECT sum(fence) FROM fabric_run")) != (paused, claims):
        raise RuntimeError("a run without an answer was claimed")
    return {"work": "idle", "db": "postgresql", "paused": paused, "none": before, "all": with_them}


def _measured(seconds: int) -> dict[str, float]:
    statements, others = Statements(), _value(CONNECTIONS)
    with worker(statements) as pid:
        begun, before = time.monotonic(), statements.count
        time.sleep(seconds)
        asked, took = statements.count - before, time.monotonic() - begun
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return {
            "statements_per_s": round(asked / took, 2),
            "connections": _value(CONNECTIONS) - others,
            "threads": int(status["Threads"]),
            "rss_mib": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        }


def _waiting() -> int:
    return _value(f"SELECT count(*) FROM fabric_run WHERE state = '{RunState.WAITING}' AND incarnation IS NULL")


def _value(query: str) -> int:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row is not None and row[0] is not None else 0


def _until(there: Callable[[], bool]) -> None:
    give_up = time.monotonic() + START_S
    while not there():
        if time.monotonic() > give_up:
            raise TimeoutError(f"the worker did not come up within {START_S:.0f} s")
        time.sleep(0.1)
