"""Fan-outs of many sizes (performance.md P8): the counters a step do not grow with their size. They are asserted; speed is not."""

import pytest

from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.benchmarks.throughput.fanout import FanOut
from tests.fabric.stores.journal_worlds import REVISION, WORKSPACE

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def bench(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "bench.sqlite3"
        path.write_bytes(request.getfixturevalue("sqlite_template").read_bytes())
        store = SqliteStore(path)
    else:
        store = PostgresqlStore(request.getfixturevalue("postgresql_dsn"))
    made = FanOut(store, WORKSPACE, REVISION)
    yield made
    made.stop()
    store.close()


def test_a_step_costs_no_more_in_a_fan_out_of_many_children(bench):
    few, many = bench.figure(100), bench.figure(400)
    assert (few.children, many.children) == (2, 7)
    assert many.commits_per_step <= 1.2 * few.commits_per_step
    assert many.statements_per_step <= 1.2 * few.statements_per_step
    assert many.bytes_per_step <= 1.2 * few.bytes_per_step


def test_a_fan_out_that_one_run_does_itself_has_no_children(bench):
    assert bench.figure(64).children == 0
