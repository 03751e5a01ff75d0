"""Fresh runs beside many finished ones: two databases in turns, an empty one and a full one.

One process drives both, so that a busy machine slows both. Statements a run have to be equal.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.db import connection

from fabric.composition import engine as wiring
from fabric.models import Workspace
from simulator.installation import database
from tests.benchmarks.caps.capped_worker import journal
from tests.benchmarks.console import many_runs
from tests.benchmarks.throughput.flow5 import Flow5
from tests.benchmarks.throughput.spec import SPEC

RUNS = 60
"""Fresh runs of a round."""


class Side:
    """The fresh runs of the database that Django is connected to, beside so many finished ones."""

    def __init__(self, db: str, finished: int) -> None:
        workspace = Workspace.objects.create(name="bench")
        fabrics = many_runs.fabrics_create(workspace.id, SPEC.model_dump_json(), SPEC.digest())
        many_runs.generate(workspace.id, fabrics, finished, now=time.time_ns() // 1_000, live=0)
        store: Any = journal(db, wiring.dsn() if db == "postgresql" else str(connection.settings_dict["NAME"]))
        self._store, self._engine = store, Flow5(store, workspace.id, fabrics[0][1])
        self.seconds: list[float] = []
        self.statements: list[int] = []

    def round(self, runs: int, concurrency: int) -> None:
        """Measure one round."""
        before = self._store.statements
        self.seconds.append(self._engine.run(runs, concurrency)[0])
        self.statements.append(self._store.statements - before)

    def stop(self) -> None:
        """Stop the engine."""
        self._engine.stop()
        self._store.close()


def measure(db: str, finished: int, rounds: int, concurrency: int, runs: int = RUNS) -> dict[str, Any]:
    """Return runs a second and statements a run without and with finished runs, and the ratio of the times."""
    full = Side(db, finished)
    with database.temporary_database(db) as other, _connected(db, other):
        empty = Side(db, 0)
        try:
            for _ in range(rounds + 1):
                for side in (empty, full):
                    side.round(runs, concurrency)
        finally:
            empty.stop()
            full.stop()
    # The first round fills caches.
    times = list(zip(empty.seconds[1:], full.seconds[1:], strict=True))
    return {
        "finished": finished,
        "empty_runs_per_s": round(runs / statistics.median(one for one, _ in times), 1),
        "full_runs_per_s": round(runs / statistics.median(one for _, one in times), 1),
        "empty_statements_per_run": round(statistics.median(empty.statements[1:]) / runs, 2),
        "full_statements_per_run": round(statistics.median(full.statements[1:]) / runs, 2),
        "time_ratio": round(statistics.median(full / empty for empty, full in times), 3),
    }


@contextmanager
def _connected(db: str, environment: dict[str, str]) -> Iterator[None]:
    """Connect Django to another database of the same kind."""
    if db == "postgresql":
        name = urlsplit(environment["DATABASE_URL"]).path.removeprefix("/")
    else:
        [file] = Path(environment["FABRIC_DATA"]).glob("*.sqlite3")
        name = str(file)
    before = connection.settings_dict["NAME"]
    _connect(name)
    try:
        yield
    finally:
        _connect(before)


def _connect(name: str | Path) -> None:
    connection.close()
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]
    connection.settings_dict["NAME"] = name
