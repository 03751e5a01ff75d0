"""SQLite alone has these: one commit a flush, what its errors mean, and room for other processes."""

import os
import resource
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.stores.errors import RowRefused
from fabric.stores.sqlite.journal import PAUSE_S, SqliteStore
from tests.fabric.stores.journal_worlds import Journal, columns, new_run

UNPRIVILEGED = 65534


def owned(store, runs=1):
    store.register("host-1", lease_s=3600)
    for _ in range(runs):
        store.create(new_run())
    return [Journal(run.run_id, run.fence) for run in store.claim("host-1", limit=1000, queues=["default"])]


def test_a_flush_is_one_commit(sqlite_world):
    store = sqlite_world.store
    journals = owned(store, 64)
    before = store.commits
    store.write([journal.batch(4, consumed=("start",)) for journal in journals])
    assert store.commits == before + 1
    assert store.write([journals[0].rival(9).batch()]) == [BatchFate.FENCED]
    assert store.commits == before + 1, "a flush of which nothing held commits nothing"
    assert store.claim("host-1", limit=9, queues=["default"]) == []
    assert store.commits == before + 1


def test_what_was_committed_is_on_the_disk(sqlite_world):
    store = sqlite_world.store
    store.create(new_run())
    with store._writer.use() as connection:
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_other_processes_are_retired_by_the_holder_of_the_directory(sqlite_world):
    store = sqlite_world.store
    owned(store, 2)
    store.register("host-2", lease_s=3600)
    assert store.claim("host-2", limit=9, queues=["default"]) == []
    store.retire_others("host-2")
    assert [run.taken_over for run in store.claim("host-2", limit=9, queues=["default"])] == [True, True]


class Forgetful(SqliteStore):
    """Loses the answer of a claim after the runs were taken."""

    def _load(self, taken, now, cut):
        self._load = super()._load
        raise StoreUnavailable("the answer was lost", unknown=True)


@pytest.mark.parametrize(("number", "claims"), [(3, 0), (1, 3)])
def test_runs_of_a_claim_whose_answer_was_lost_are_claimed_again(sqlite_world, number, claims):
    """A suspect that would have to be alone too: it is not in its own way."""
    store = Forgetful(sqlite_world.path, clock=sqlite_world.clock)
    store.register("host-1", lease_s=3600)
    runs = {store.create(new_run())[0] for _ in range(number)}
    sqlite_world.set_claims("", claims)
    with pytest.raises(StoreUnavailable):
        store.claim("host-1", limit=9, queues=["default"])
    taken = store.claim("host-1", limit=2, queues=["default"])
    taken += store.claim("host-1", limit=9, queues=["default"])
    assert {(run.run_id, run.fence) for run in taken} == {(run, 2) for run in runs}
    assert store.claim("host-1", limit=9, queues=["default"]) == []
    store.close()


# -- errors ------------------------------------------------------------------------------------------------------------


@contextmanager
def unprivileged():
    """As a user whom permissions bind, even where the tests run as root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(UNPRIVILEGED)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_read_only_file_is_told_in_a_sentence(sqlite_template):
    directory = Path(tempfile.mkdtemp())
    try:
        path = directory / "journal.sqlite3"
        shutil.copy(sqlite_template, path)
        store = SqliteStore(path)
        store.create(new_run())
        path.chmod(0o444)
        directory.chmod(0o555)
        store.close()
        with unprivileged(), pytest.raises(StoreUnavailable) as caught:
            store.create(new_run())
        assert not caught.value.unknown
        assert str(caught.value).startswith(f"the database file {path} is read-only: ")
        directory.chmod(0o755)
        path.chmod(0o644)
        store.close()
        store.create(new_run())
        store.close()
    finally:
        directory.chmod(0o755)
        shutil.rmtree(directory)


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    store = SqliteStore(tmp_path / "missing.sqlite3")
    with pytest.raises(StoreUnavailable, match=r"missing\.sqlite3 cannot be opened: "):
        store.next_due_s()
    assert list(tmp_path.glob("missing*")) == []


def test_a_file_that_is_no_database_is_told(tmp_path):
    (tmp_path / "notes.txt").write_text("a note\n" * 1000)
    with pytest.raises(StoreUnavailable, match="is not a SQLite database"):
        SqliteStore(tmp_path / "notes.txt").next_due_s()


def test_a_file_without_the_tables_says_what_to_do(tmp_path):
    sqlite3.connect(tmp_path / "empty.sqlite3").execute("CREATE TABLE other (id)")
    with pytest.raises(StoreUnavailable, match=r"run python3 manage\.py django migrate"):
        SqliteStore(tmp_path / "empty.sqlite3").next_due_s()


def test_a_file_that_another_process_holds_is_told_and_then_works(sqlite_world):
    store = SqliteStore(sqlite_world.path, busy_s=0.01)
    other = sqlite3.connect(sqlite_world.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="held by another process") as caught:
        store.create(new_run())
    assert not caught.value.unknown
    other.execute("ROLLBACK")
    other.close()
    store.create(new_run())
    store.close()


def test_a_commit_that_the_disk_refuses_leaves_its_fate_unknown(sqlite_world):
    store = sqlite_world.store
    (journal,) = owned(store)
    store.write([journal.batch()])
    lost = journal.rival(1)
    with file_size_limit(sqlite_world.path.with_name(sqlite_world.path.name + "-wal").stat().st_size):
        with pytest.raises(StoreUnavailable, match="cannot be read or written") as caught:
            store.write([lost.batch(content=b"x" * 200_000)])
        assert caught.value.unknown
        with pytest.raises(StoreUnavailable) as caught:
            store.write([journal.rival(1).batch(4, content=b"x" * 9_000_000)])
    assert store.heads([journal.run_id])[journal.run_id].last_seq == 1
    assert store.write([journal.batch()]) == [BatchFate.COMMITTED]


@contextmanager
def file_size_limit(size: int):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_only_commit_finds_wrong_is_refused_and_known(sqlite_world):
    store = sqlite_world.store
    (journal,) = owned(store)
    with store._writer.use() as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
        connection.execute("CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
        connection.execute("CREATE TRIGGER orphan AFTER INSERT ON fabric_event BEGIN INSERT INTO child VALUES (1); END")
    with pytest.raises(RowRefused):
        store.write([journal.batch()])
    with store._writer.use() as connection:
        assert not connection.in_transaction
        connection.execute("DROP TRIGGER orphan")
    assert store.journal(journal.run_id) == []


@pytest.mark.parametrize("changed", [{"revision_id": "never-published"}, {"start_key": None}])
def test_a_row_that_cannot_be_stored_is_refused_by_name(sqlite_world, changed):
    with pytest.raises(RowRefused, match="refused the row: "):
        sqlite_world.store.create(new_run(**changed))
    assert sqlite_world.ask("SELECT count(*) FROM fabric_run") == [(0,)]


def test_a_poisoned_batch_refuses_the_flush_and_nothing_is_written(sqlite_world):
    store = sqlite_world.store
    first, second = owned(store, 2)
    with pytest.raises(RowRefused):
        store.write([first.batch(), second.batch(columns=columns(reason=None))])
    assert store.journal(first.run_id) == []
    assert len(store.inbox("host-1")) == 2


# -- room for others ---------------------------------------------------------------------------------------------------


def test_the_writer_pauses_when_another_process_asked_lately_and_else_now_and_then(sqlite_world):
    writer, web = sqlite_world.store, sqlite_world.another()
    journals = owned(writer)
    writer.write([journals[0].batch()])
    hint = sqlite_world.path.with_name(sqlite_world.path.name + "-asked")
    hint.unlink(missing_ok=True)
    writer.pause_s()
    writer._paused_at += 3600
    assert writer.pause_s() == 0.0
    writer.put_input(journals[0].run_id, "mine", b"")
    assert writer.pause_s() == 0.0, "the writer's own process leaves no hint"
    web.put_input(journals[0].run_id, "theirs", b"")
    assert writer.pause_s() == PAUSE_S
    os.utime(hint, (0, 0))
    writer._paused_at += 3600
    assert writer.pause_s() == 0.0
    writer._paused_at = 0.0
    assert writer.pause_s() == PAUSE_S
