"""A disk that is full: what was acknowledged stands, what was not waits, and everything is written when there is room again."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from fabric.runtime.ports.journal import BatchFate
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.chaos.servers.local import ServerMissing, tmpfs
from tests.fabric.stores.journal_worlds import ROOT, SEED
from tests.fabric.stores.writer.fire_scenes import Pen, stands
from tests.fabric.stores.writer.writer_scenes import WAIT_S, owned
from tests.servers.own_server import left_out, own_server

DISK_MB = 32
RUNS = 16


@pytest.fixture
def small_disk(tmp_path_factory):
    """A folder on a disk of its own, that can be filled up."""
    folder = (
        Path("/tmp") / f"disk-{os.getpid()}"
    )  # Nowhere below pytest's folders: those are closed to the database's user.
    if os.geteuid() != 0:
        pytest.skip("a disk can be filled up only as root; what a write that fails does to SQLite is tried below")
    try:
        with tmpfs(folder, DISK_MB):
            yield folder
    except ServerMissing as error:
        left_out(str(error))
    finally:
        folder.rmdir()


@contextmanager
def full(folder):
    """Not a byte is left on the disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    yield
    ballast.unlink()


def until(true):
    give_up = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def written_in_the_end(store, filled, sentence):
    """Some before the disk is full, some that meet it, some behind those; all of them stand."""
    journals = owned(store, RUNS)
    with Pen(store) as pen:
        pen.write(journals)
        assert set(dict(pen.outcomes.wait(RUNS)).values()) == {BatchFate.COMMITTED}
        with filled():
            pen.write(journals, content=os.urandom(50_000))
            pen.write(journals)
            until(lambda: pen.writer.trouble is not None)
            assert sentence in str(pen.writer.trouble)
            assert len(pen.outcomes.seen) == RUNS, "nothing was acknowledged that is not written"
            assert {head.last_seq for head in store.heads([one.run_id for one in journals]).values()} == {1}
        assert [fate for _, fate in pen.outcomes.wait(2 * RUNS)] == [BatchFate.COMMITTED] * 3 * RUNS
    stands(store, journals)
    assert pen.writer.trouble is None


@pytest.mark.postgresql
def test_postgresql_on_a_full_disk(small_disk, tmp_path):
    with own_server(disk=small_disk) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(SEED.encode())
        store = PostgresqlStore(server.url())
        written_in_the_end(store, lambda: full(small_disk), "is out of resources: could not extend file")
        store.close()


def test_sqlite_on_a_full_disk(small_disk, sqlite_template):
    path = small_disk / "journal.sqlite3"
    shutil.copy(sqlite_template, path)
    store = SqliteStore(path)
    written_in_the_end(store, lambda: full(small_disk), "cannot grow: the disk is full; make room on it")
    store.close()


# -- for every user: a file that may not grow --------------------------------------------------------------------------


@contextmanager
def no_growth(path):
    """No file of this process may get longer than the log of its database is."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    log = path.with_name(path.name + "-wal")
    resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def test_sqlite_whose_log_cannot_be_written(tmp_path, sqlite_template):
    """In a process of its own, which a failing write of SQLite's tells that a commit may stand."""
    path = tmp_path / "journal.sqlite3"
    shutil.copy(sqlite_template, path)
    command = [sys.executable, "-m", "tests.fabric.stores.writer.test_disk_full", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == "all of it stands"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    held = SqliteStore(file)
    written_in_the_end(held, lambda: no_growth(file), "cannot be read or written")
    held.close()
    print(json.dumps("all of it stands"))
