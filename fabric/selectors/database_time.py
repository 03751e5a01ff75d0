"""Reads the time inside the database: its clock in a statement, and the limit of a read.

Leases are set and compared on the database's clock, never on a caller's own.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import OperationalError, connection, models, transaction
from django.db.models import Func

STEPS = 10_000
"""Instructions of SQLite's machine between two looks at the clock: well under a millisecond."""
QUERY_CANCELLED = "57014"
"""PostgreSQL's code for a statement that its timeout ended."""


class TookTooLong(Exception):
    """The database did not answer within the limit; nothing was changed."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Limit the reads inside to ``seconds``: each on PostgreSQL, together on SQLite. Raises TookTooLong. They must
    be evaluated inside.
    """
    try:
        with _postgresql(seconds) if connection.vendor == "postgresql" else _sqlite(seconds):
            yield
    except OperationalError as error:
        cause = error.__cause__
        cancelled = getattr(cause, "sqlstate", "") == QUERY_CANCELLED
        interrupted = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
        if cancelled or interrupted:
            raise TookTooLong(f"the database did not answer within {seconds:g} s") from error
        raise


@contextmanager
def _postgresql(seconds: float) -> Iterator[None]:
    # Local to a transaction: behind a pooler the next one to use the connection must not inherit it.
    with transaction.atomic(), connection.cursor() as cursor:
        # To compile a statement takes longer than most of these reads.
        limit = "SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true)"
        cursor.execute(limit, [str(max(1, round(seconds * 1000)))])
        yield


@contextmanager
def _sqlite(seconds: float) -> Iterator[None]:
    connection.ensure_connection()
    raw = connection.connection
    end = time.monotonic() + seconds
    raw.set_progress_handler(lambda: time.monotonic() > end, STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, STEPS)


SQL = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""Microseconds since the epoch, on PostgreSQL."""


class StoreNow(Func):
    """Microseconds since the epoch, UTC, inside a statement. SQLite's file is on this machine, and so is its clock."""

    output_field = models.BigIntegerField()

    def as_sql(self, compiler: Any, connection: Any, *given: Any, **more: Any) -> tuple[str, Any]:
        """Return the machine's clock at the time of the statement."""
        return "%s", [time.time_ns() // 1_000]

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        """Return the server's clock at the time of the row's reading."""
        return SQL, []


def store_now_sql() -> tuple[str, list[int]]:
    """Return the store's clock as SQL with its parameters, for a written-out statement."""
    return (SQL, []) if connection.vendor == "postgresql" else ("%s", [time.time_ns() // 1_000])


def store_now() -> int:
    """Return the store's clock, in microseconds since the epoch; SQLite's is the machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {SQL}")
        return int(cursor.fetchone()[0])
