"""A connection that runs prepared statements by one call of libpq each: no cursor, no generator, no column objects.

The step path sends few statements, many times a second. In this process psycopg's cursor costs more than the rest of a flush. Its own
binding of libpq, which stands here in its place, costs a tenth of that. It also lets other threads run while the server works.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import psycopg
from psycopg import abc, adapt, errors, pq

BINARY, TEXT = pq.Format.BINARY, pq.Format.TEXT


class Prepares(Protocol):
    """A statement with its parameters in order."""

    sql: bytes

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """The parameters' values in their order; KeyError for one that is missing."""
        ...


class PreparedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection with ``run`` beside everything else that it has."""

    _names: dict[bytes, bytes]
    _loader: abc.Transformer

    def run(self, statement: Prepares, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rows of one statement, which is prepared at its first use here. Raises psycopg.Error; OperationalError when the connection is lost."""
        try:
            name = self._names[statement.sql]
        except (AttributeError, KeyError):
            name = self._prepare(statement.sql)
        sent, formats = _encoded(statement.arguments(values))
        result = self._checked(self.pgconn.exec_prepared(name, sent, formats, BINARY))
        if result.status != pq.ExecStatus.TUPLES_OK or not result.ntuples:
            return []
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    def _prepare(self, sql: bytes) -> bytes:
        if not hasattr(self, "_names"):
            self._names, self._loader = {}, adapt.Transformer(self)
        name = b"fabric_%d" % len(self._names)
        self._checked(self.pgconn.prepare(name, sql))
        self._names[sql] = name
        return name

    def _checked(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            return result
        error = errors.error_from_result(result)
        if error.sqlstate is None and self.pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(str(error)) from error
        raise error


def _encoded(arguments: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Values on the wire. Texts are sent in binary, with their length: a NUL in them is refused by the server and not cut off."""
    sent: list[Any] = []  # bytes or None; psycopg's annotation forgets the None
    formats: list[int] = []
    for value in arguments:
        if isinstance(value, bytes):
            sent.append(value)
            formats.append(BINARY)
        elif isinstance(value, str):
            sent.append(value.encode())
            formats.append(BINARY)
        else:  # None, bool or int: the server knows the width that it wants.
            sent.append(None if value is None else str(value).encode())
            formats.append(TEXT)
    return sent, formats
