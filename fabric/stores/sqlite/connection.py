"""Connections to the SQLite file: opens them, ends transactions, and translates their errors."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock

from fabric.program.name import program
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.stores.errors import RowRefused

ASK_EVERY_S = 0.0005
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class SqliteConnection:
    """One connection, opened at its first use, lent to one thread at a time. Reopened after an error that it may not
    have survived.
    """

    def __init__(self, path: Path, *, busy_s: float) -> None:
        self._path = path
        self._busy_s = busy_s
        self._lock = RLock()
        self._open: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close it; the next use opens it again."""
        with self._lock:
            self._drop()

    @contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """Lend it for statements that only read, each seeing all earlier commits. Raises StoreUnavailable."""
        with self._lock:
            try:
                yield self._connection()
            except sqlite3.Error as error:
                raise self._translate_error(error, unknown=False) from error

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Lend it inside BEGIN IMMEDIATE ... COMMIT. Raises StoreUnavailable, ``unknown`` when COMMIT failed and may
        stand; RowRefused.
        """
        with self._lock:
            committing = False
            try:
                connection = self._connection()
                self._begin(connection)
                yield connection
                committing = True
                connection.execute("COMMIT")
            except sqlite3.Error as error:
                self._roll_back()
                # A full disk or a lock refuses the commit; a failing one may have kept it, to be found after the next
                # start.
                unknown = committing and _code(error) not in (*_BUSY, sqlite3.SQLITE_FULL)
                raise self._translate_error(error, unknown=unknown) from error
            except BaseException:
                self._roll_back()
                raise

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            # mode=rw: a missing file is an error to report, not a database to create.
            address = f"{self._path.absolute().as_uri()}?mode=rw"
            opened = sqlite3.connect(
                address,
                uri=True,
                timeout=self._busy_s,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=256,
            )
            try:
                opened.execute("PRAGMA synchronous=FULL")
                if opened.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    opened.execute("PRAGMA journal_mode=WAL")
            except sqlite3.Error:
                opened.close()
                raise
            self._open = opened
        return self._open

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Take the write lock, with tries so frequent that one meets the gap of a busy writer.

        SQLite's own waiting tries after 1, 2, 5, 10 ... 100 ms and misses most of them.
        """
        give_up_at = time.monotonic() + self._busy_s
        connection.execute("PRAGMA busy_timeout = 0")
        try:
            while True:
                try:
                    connection.execute("BEGIN IMMEDIATE")
                    return
                except sqlite3.OperationalError as error:
                    if _code(error) not in _BUSY or time.monotonic() >= give_up_at:
                        raise
                time.sleep(ASK_EVERY_S)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {round(self._busy_s * 1000)}")

    def _roll_back(self) -> None:
        if self._open is not None and self._open.in_transaction:
            try:
                self._open.execute("ROLLBACK")
            except sqlite3.Error:
                self._drop()

    def _drop(self) -> None:
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _translate_error(self, error: sqlite3.Error, *, unknown: bool) -> StoreUnavailable | RowRefused:
        code = _code(error)
        if code == sqlite3.SQLITE_CONSTRAINT or isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
            return RowRefused(f"the database file {self._path} refused the row: {error}")
        if code not in _BUSY:
            self._drop()
        sentence = _SENTENCES.get(code, "cannot be used ({error}): try again, or look at the disk it lies on")
        if str(error).startswith(("no such table", "no such column")):
            sentence = f"lacks tables of this version ({{error}}): run {program()} django migrate"
        return StoreUnavailable(f"the database file {self._path} {sentence.format(error=error)}", unknown=unknown)


_SENTENCES = {
    sqlite3.SQLITE_READONLY: "is read-only: let this user write the file and its directory, or choose another directory",
    sqlite3.SQLITE_BUSY: "is held by another process that does not let go of it: end what else writes to it",
    sqlite3.SQLITE_LOCKED: "is held by another connection of this process: try again",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened: it or its directory is not there, or may not be read by this user",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; make room on it",
    sqlite3.SQLITE_IOERR: "cannot be read or written ({error}): look at the disk it lies on",
    sqlite3.SQLITE_CORRUPT: "is damaged ({error}): restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database: choose another file",
}


def _code(error: sqlite3.Error) -> int:
    """Return the primary result code: the extended one is more precise than needed (sqlite.org/rescode.html)."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
