"""The database's clock inside a statement: leases are set and compared on it, never on a caller's own."""

from __future__ import annotations

import time
from typing import Any

from django.db import connection, models
from django.db.models import Func

SQL = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
"""Microseconds since the epoch, on PostgreSQL."""


class StoreNow(Func):
    """Microseconds since the epoch, UTC. SQLite's file is on this machine, and so is its clock."""

    output_field = models.BigIntegerField()

    def as_sql(self, compiler: Any, connection: Any, *given: Any, **more: Any) -> tuple[str, Any]:
        """The machine's clock, as it is when the statement is made."""
        return "%s", [time.time_ns() // 1_000]

    def as_postgresql(self, compiler: Any, connection: Any, **more: Any) -> tuple[str, Any]:
        """The server's clock, as it is when the row is looked at."""
        return SQL, []


def store_now_sql() -> tuple[str, list[int]]:
    """The same for a statement that is written out, and its parameters."""
    return (SQL, []) if connection.vendor == "postgresql" else ("%s", [time.time_ns() // 1_000])


def store_now() -> int:
    """The same by itself."""
    sql, params = store_now_sql()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sql}", params)
        return int(cursor.fetchone()[0])
