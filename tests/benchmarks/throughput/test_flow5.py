"""The counters of flow5 (performance.md P6, P7): they are the same on every machine, so they are asserted; speed is not."""

import sqlite3
from contextlib import closing, contextmanager

import psycopg
import pytest

from fabric.core.events.envelope import list_kinds
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.benchmarks.throughput import figures
from tests.benchmarks.throughput.answers import STEPS
from tests.benchmarks.throughput.flow5 import Flow5
from tests.benchmarks.throughput.lockstep import LockstepWriter
from tests.fabric.stores.journal_worlds import REVISION, WORKSPACE

RUNS = 16
ROWS = 11
"""Most rows of a run's journal; some have several of its 28 events."""
POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def store(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "bench.sqlite3"
        path.write_bytes(request.getfixturevalue("sqlite_template").read_bytes())
        made = SqliteStore(path)
    else:
        made = PostgresqlStore(request.getfixturevalue("postgresql_dsn"))
    yield made
    made.close()


@contextmanager
def running(store, writer=None):
    engine = Flow5(store, WORKSPACE, REVISION, writer)
    try:
        yield engine
    finally:
        engine.stop()


def counted(store, engine, concurrency):
    """The figures of 16 runs, so many at once."""
    before = figures.Counted.of(store)
    _, run_ids = engine.run(RUNS, concurrency)
    spent = figures.Counted.of(store).since(before)
    assert len(run_ids) == len(set(run_ids)) == RUNS
    found = figures.per_step(spent, RUNS, syncing=figures.commits_sync(store))
    found["event_rows"] = figures.event_rows(store, run_ids)
    print(f"\n{type(store).__name__} at {concurrency}: {found}")
    return found


def completed(store, run_ids):
    return [store.journal(run_id)[-1].kind for run_id in run_ids]


def test_alone(store):
    with running(store) as engine:
        engine.run(2, 1)
        found = counted(store, engine, 1)
    assert found["commits_per_step"] <= 1.0
    assert found["syncs_per_step"] <= 1.0
    assert found["event_rows"] <= ROWS
    if isinstance(store, PostgresqlStore):
        assert found["statements_per_step"] <= 1.5


def test_at_eight_with_commit_held_until_all_have_a_batch_ready(store):
    with running(store, LockstepWriter(store)) as engine:
        found = counted(store, engine, 8)
    assert found["commits_per_step"] <= 0.5
    assert found["syncs_per_step"] <= 0.5
    assert found["event_rows"] <= ROWS
    if isinstance(store, PostgresqlStore):
        assert found["statements_per_step"] <= 1.5


def test_every_run_is_flow5_and_completes(store):
    with running(store) as engine:
        _, run_ids = engine.run(3, 3)
    for run_id in run_ids:
        kinds = [kind for row in store.journal(run_id) for kind in list_kinds(row.kind, row.header)]
        assert kinds[-1] == "run_ended"
        assert kinds.count("model_answered") == STEPS
        assert kinds.count("stage_entered") == 5


def test_a_run_takes_less_room_than_the_least_of_the_others(store):
    """P10. What a database takes at once, pages and all, is spread over as many runs as make it small."""
    with running(store) as engine:
        engine.run(8, 8)
        before = figures.stored(store)
        engine.run(96, 8)
        assert 5_000 < (figures.stored(store) - before) / 96 <= 17_800


def test_headers_and_payloads_of_a_run_take_less_than_four_kilobytes(store):
    """Of the 17.8 KB that a run may take (P10); the rest is ids, hashes, and what the database adds."""
    with running(store) as engine:
        _, run_ids = engine.run(4, 1)
    where = ", ".join(f"'{run_id}'" for run_id in run_ids)
    asked = f"SELECT sum(length(header) + coalesce(length(payload), 0)) FROM fabric_event WHERE run_id IN ({where})"
    if isinstance(store, PostgresqlStore):
        with psycopg.connect(store.dsn) as connection:
            ((stored,),) = connection.execute(asked)
    else:
        with closing(sqlite3.connect(store.path)) as connection:
            ((stored,),) = connection.execute(asked)
    assert stored / 4 <= 4_000


@pytest.mark.postgresql
@pytest.mark.parametrize(("setting", "syncing"), [("on", True), ("local", True), ("off", False)])
def test_commits_of_a_server_that_does_not_wait_for_its_disk_are_no_syncs(postgresql_dsn, setting, syncing):
    store = PostgresqlStore(f"{postgresql_dsn}?options=-c%20synchronous_commit%3D{setting}")
    assert figures.commits_sync(store) is syncing
    spent = figures.Counted(commits=80, statements=100, bytes_written=8_000)
    assert figures.per_step(spent, 10, syncing=syncing) == {
        "commits_per_step": 1.0,
        "syncs_per_step": 1.0 if syncing else None,
        "statements_per_step": 1.25,
        "bytes_per_step": 100,
    }
