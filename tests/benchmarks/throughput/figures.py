"""A benchmark counts, per step and per run. Counters do not depend on the machine's mood, so tests may assert them (performance.md P6, P7)."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import psycopg

from fabric.runtime.ports.journal import JournalStore
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.benchmarks.throughput.answers import STEPS


class CountingStore(JournalStore, Protocol):
    """A store that counts what it asks of its database; heartbeats are left out."""

    commits: int
    statements: int
    bytes_written: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A store's counters at one moment."""

    commits: int
    statements: int
    bytes_written: int

    @classmethod
    def of(cls, store: CountingStore) -> Counted:
        """As they stand now."""
        return cls(store.commits, store.statements, store.bytes_written)

    def since(self, before: Counted) -> Counted:
        """Return what was added."""
        return Counted(
            self.commits - before.commits,
            self.statements - before.statements,
            self.bytes_written - before.bytes_written,
        )


def per_step(spent: Counted, runs: int, *, syncing: bool) -> dict[str, float | None]:
    """Commits, syncs, statements and bytes a step of so many flow5 runs, creation and claim included.

    A sync is a commit that waited until the database's log was flushed for it; ``syncing``: whether commits do so at all. Commits of several connections may
    have shared a flush, so the disk saw at most so many. SQLite copies its log into the file now and then (each 1,000 pages), which is not counted.
    """
    steps = runs * STEPS
    commits = round(spent.commits / steps, 3)
    return {
        "commits_per_step": commits,
        "syncs_per_step": commits if syncing else None,
        "statements_per_step": round(spent.statements / steps, 3),
        "bytes_per_step": round(spent.bytes_written / steps),
    }


def commits_sync(store: CountingStore) -> bool:
    """Return True if a commit waits for the disk. PostgreSQL is asked, for its own counter of flushes cannot tell.

    ``pg_stat_wal.wal_sync`` is the whole server's, with every other database on it, and a connection adds its share up to ten seconds late. What can be
    relied on: a transaction that wrote rows waits for its flush unless one of these two settings says otherwise. The SQLite store asks for it itself.
    """
    if not isinstance(store, PostgresqlStore):
        return True
    with psycopg.connect(store.dsn) as connection:
        asked = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        found = connection.execute(asked).fetchone()
    return found is not None and found[0] == "on" and found[1] != "off"


def event_rows(store: JournalStore, run_ids: Sequence[str]) -> int:
    """The most rows that one of the runs has in its journal."""
    return max(len(store.journal(run_id)) for run_id in run_ids)


def stored(store: PostgresqlStore | SqliteStore) -> int:
    """Bytes of the database that the store is on: its tables and their indexes, and the room in them that is not used yet."""
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(store.path)) as file:
            return math.prod(file.execute(f"PRAGMA page_{what}").fetchone()[0] for what in ("count", "size"))
    with psycopg.connect(store.dsn) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return int(found[0])
