"""A limit on how long the database may work on a read: what takes longer is given up, and said."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import OperationalError, connection, transaction

STEPS = 10_000
"""Instructions of SQLite's machine between two looks at the clock: well under a millisecond."""
QUERY_CANCELLED = "57014"
"""PostgreSQL's code for a statement that its timeout ended."""


class TookTooLong(Exception):
    """The database did not answer within the limit; nothing was changed."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Lets the reads inside take ``seconds``: each on PostgreSQL, together on SQLite. Raises TookTooLong. They must be evaluated inside."""
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
        cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(max(1, round(seconds * 1000)))])
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
