"""Worker processes that share a backlog end each of its runs once. Speed is not asserted."""

from __future__ import annotations

import psycopg
import pytest

from tests.benchmarks.backlog.drain import drain
from tests.fabric.stores.journal_worlds import REVISION, WORKSPACE

RUNS = 12


@pytest.mark.slow
@pytest.mark.postgresql
def test_two_workers_end_every_run_once(postgresql_dsn):
    drain("postgresql", postgresql_dsn, (WORKSPACE, REVISION), 2, RUNS)
    with psycopg.connect(postgresql_dsn) as database:
        states = database.execute("SELECT state, count(*) FROM fabric_run GROUP BY state").fetchall()
    assert states == [("completed", RUNS)]
