"""Stores memories on PostgreSQL. A change locks its memory by an advisory lock of its transaction, so memories do not
wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg

from fabric.stores.memories import Ask, SqlMemories, lock_name
from fabric.stores.postgresql.connection import Connection, translate_error
from fabric.stores.postgresql.grants import SharedConnections

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(?, 7))"
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"


@lru_cache(maxsize=64)
def _number_placeholders(statement: str) -> bytes:
    """Return the statement with PostgreSQL's numbers for its question marks."""
    first, *rest = statement.split("?")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(rest, 1))).encode()


class PostgresqlMemories(SharedConnections, SqlMemories):
    """``ports.memories.MemoryStore`` on PostgreSQL 14 or later."""

    @contextmanager
    def _alone(self, fabric_id: str, memory: str) -> Iterator[tuple[Ask, int]]:
        # The time is read under the lock: a call that waited for it beyond its deadline comes too late.
        with self._use_connection(changes=True) as connection, connection.transaction():
            _run_statement(connection, _LOCK, (lock_name(fabric_id, memory),))
            now = _run_statement(connection, _NOW, ())[0][0]
            yield lambda statement, values: _run_statement(connection, statement, values), now

    def _look(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._use_connection(changes=False) as connection:
            return _run_statement(connection, statement, values)

    def _time(self) -> int:
        return int(self._look(_NOW, ())[0][0])

    @contextmanager
    def _use_connection(self, *, changes: bool) -> Iterator[Connection]:
        self.count(statements=1)
        sent = False
        try:
            with self._connections.use() as connection:
                sent = changes
                yield connection
        except psycopg.Error as error:
            raise translate_error(error, self.dsn, sent=sent) from error


def _run_statement(connection: Connection, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    cursor = connection.execute(_number_placeholders(statement), list(values))
    return cursor.fetchall() if cursor.description else []
