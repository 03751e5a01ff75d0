"""The bare loop that flow5 is measured against: one statement a step, which inserts a 1 KB row and moves the run's position. No engine at all."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import psycopg

from tests.benchmarks.throughput.answers import FILLER, STEPS

TABLES = (
    "CREATE TABLE IF NOT EXISTS bare_run (id text PRIMARY KEY, seq integer NOT NULL)",
    "CREATE TABLE IF NOT EXISTS bare_event (run_id text, seq integer, payload text NOT NULL, PRIMARY KEY (run_id, seq))",
)
STEP_POSTGRESQL = (
    "WITH moved AS (UPDATE bare_run SET seq = %(seq)s WHERE id = %(run)s AND seq = %(seq)s - 1 RETURNING id)"
    " INSERT INTO bare_event SELECT id, %(seq)s, %(payload)s FROM moved"
)


class BareLoop(Protocol):
    """One client's loop."""

    def run(self, run_id: str) -> None:
        """One run: its row, then eight steps, each committed before the next."""
        ...


class BarePostgresql:
    """One connection, autocommit, prepared."""

    def __init__(self, dsn: str) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(dsn, autocommit=True, prepare_threshold=0)
        for table in TABLES:
            self._connection.execute(table)

    def run(self, run_id: str) -> None:
        """One run."""
        self._connection.execute("INSERT INTO bare_run VALUES (%s, 0)", (run_id,))
        for seq in range(1, STEPS + 1):
            self._connection.execute(STEP_POSTGRESQL, {"seq": seq, "run": run_id, "payload": FILLER})


class BareSqlite:
    """One connection; each step is one IMMEDIATE transaction of its two statements, synchronous=FULL as the engine's."""

    _one_at_a_time = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        for table in TABLES:
            self._connection.execute(table)

    def run(self, run_id: str) -> None:
        """One run."""
        self._change(("INSERT INTO bare_run VALUES (?, 0)", (run_id,)))
        for seq in range(1, STEPS + 1):
            self._change(
                ("UPDATE bare_run SET seq = ? WHERE id = ? AND seq = ? - 1", (seq, run_id, seq)),
                ("INSERT INTO bare_event VALUES (?, ?, ?)", (run_id, seq, FILLER)),
            )

    def _change(self, *statements: tuple[str, tuple[Any, ...]]) -> None:
        with self._one_at_a_time:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement, values in statements:
                self._connection.execute(statement, values)
            self._connection.execute("COMMIT")


def timed(loops: list[BareLoop], runs: int, prefix: str) -> float:
    """Seconds for ``runs`` runs, one client a loop."""
    shares = [[f"{prefix}-{n}" for n in range(first, runs, len(loops))] for first in range(len(loops))]
    begun = time.perf_counter()
    with ThreadPoolExecutor(len(loops)) as clients:
        list(clients.map(_run_all, loops, shares))
    return time.perf_counter() - begun


def _run_all(loop: BareLoop, run_ids: list[str]) -> None:
    for run_id in run_ids:
        loop.run(run_id)
