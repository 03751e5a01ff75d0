"""Opens and keeps connections to PostgreSQL, runs prepared statements on them, and translates their errors.

A column of values is packed once into a PostgreSQL array in the binary wire format: quoting text arrays took more than
half of a bare journal writer's time. Format: PostgreSQL source, ``array_send``: dimensions, a flag for nulls, the
element's type; the length and lower bound; each element after its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from select import POLLIN, poll
from struct import Struct
from threading import Lock, Semaphore
from typing import Any, Protocol

import psycopg
from psycopg import abc, adapt, errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fabric.program.name import program
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.stores.errors import RowRefused, StoreBusy

# -- prepared connection -----------------------------------------------------------------------------------------------

BINARY, TEXT = pq.Format.BINARY, pq.Format.TEXT


class Prepares(Protocol):
    """A statement with its parameters in order."""

    sql: bytes

    def arguments(self, values: Mapping[str, Any]) -> list[Any]:
        """Return the parameters' values in their order. Raises KeyError for a missing one."""
        ...


class PreparedConnection(psycopg.Connection[tuple[Any, ...]]):
    """A psycopg connection that also runs prepared statements by one call of libpq each: no cursor, no column objects.

    The step path sends few statements, many times a second. In this process psycopg's cursor costs more than the rest
    of a flush. psycopg's own binding of libpq, used here directly, costs a tenth of that. It also lets other threads
    run while the server works.
    """

    _names: dict[bytes, bytes]
    _loader: abc.Transformer

    def run(self, statement: Prepares, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement, which is prepared at its first use here.

        Raises psycopg.Error; OperationalError when the connection is lost.
        """
        try:
            name = self._names[statement.sql]
        except (AttributeError, KeyError):
            name = self._prepare(statement.sql)
        sent, formats = _encode_values(statement.arguments(values))
        result = self._check_result(self.pgconn.exec_prepared(name, sent, formats, BINARY))
        if result.status != pq.ExecStatus.TUPLES_OK or not result.ntuples:
            return []
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    def _prepare(self, sql: bytes) -> bytes:
        if not hasattr(self, "_names"):
            self._names, self._loader = {}, adapt.Transformer(self)
        name = b"fabric_%d" % len(self._names)
        self._check_result(self.pgconn.prepare(name, sql))
        self._names[sql] = name
        return name

    def _check_result(self, result: pq.abc.PGresult) -> pq.abc.PGresult:
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            return result
        error = errors.error_from_result(result)
        if error.sqlstate is None and self.pgconn.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(str(error)) from error
        raise error


def _encode_values(arguments: Sequence[Any]) -> tuple[list[Any], list[int]]:
    """Return values on the wire. Texts are sent in binary, with their length: the server refuses a NUL in them
    instead of cutting them off.
    """
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


# -- connection --------------------------------------------------------------------------------------------------------

CONNECT_DEFAULTS = {
    "connect_timeout": "5",
    "application_name": "fabric-flow",
    # A peer that vanished without a word is noticed after 11 s, not after two hours.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
# Every statement of the stores must use an index, whatever the statistics were when it was planned: a plan made while
# the tables were empty must not last until they are full. Compiling such a plan to machine code would take longer
# than running it.
PLANNING = {"plan_cache_mode": "force_generic_plan", "jit": "off"} | {
    f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "mergejoin")
}
"""Settings of connections on which the stores' statements run."""
OPEN_MAX = 8
"""Largest number of connections that one store opens for its callers.

The server serves few statements faster than many, and opening a connection costs more than most of them.
"""
ROOM_S = 30.0
"""Seconds that a caller waits for a free connection; longer than any statement may take."""
Connection = PreparedConnection

_BROKEN = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected)


def connect(dsn: str, settings: Mapping[str, str]) -> Connection:
    """Open a connection with one transaction a statement and these settings of the server. Raises psycopg.Error."""
    given = conninfo_to_dict(dsn)
    defaults: dict[str, Any] = {key: value for key, value in CONNECT_DEFAULTS.items() if key not in given}
    connection = PreparedConnection.connect(
        make_conninfo(dsn, **defaults), autocommit=True, cursor_factory=psycopg.RawCursor
    )
    for name, value in settings.items():
        connection.execute("SELECT set_config($1, $2, false)", [name, value])
    return connection


def is_cut(connection: Connection) -> bool:
    """Return True when the server has closed the connection, or sent something unasked, since its last use. Costs no
    round trip.
    """
    if connection.closed:
        return True
    looked = poll()  # Not select(): a process with many sockets has descriptors beyond its 1,024.
    looked.register(connection.fileno(), POLLIN)
    return bool(looked.poll(0))


class Connections:
    """Connections that are opened when needed and kept for the next call, at most ``OPEN_MAX``. No thread of its
    own, and the true error at once.

    A connection that the server cut while it lay idle is thrown away, not used: after a restart of the server the
    first call succeeds.
    """

    def __init__(self, dsn: str, settings: Mapping[str, str]) -> None:
        self._dsn = dsn
        self._settings = dict(settings)
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._room = Semaphore(OPEN_MAX)

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Lend a connection for one statement. Raises psycopg.Error when none opens or comes free within ``ROOM_S``."""
        if not self._room.acquire(timeout=ROOM_S):
            raise psycopg.OperationalError(f"none of {OPEN_MAX} connections came free within {ROOM_S:.0f} s")
        try:
            yield from self._lend_connection()
        finally:
            self._room.release()

    def _lend_connection(self) -> Iterator[Connection]:
        connection = self._take() or connect(self._dsn, self._settings)
        try:
            yield connection
        finally:
            # One that was left in the middle of a statement (the thread was interrupted) is of no use to the next.
            if connection.info.transaction_status in _BROKEN:
                connection.close()
            else:
                with self._lock:
                    self._idle.append(connection)

    def rename(self, name: str) -> None:
        """Send this name to the server from now on (``application_name``). The server shows it as the holder of
        statements and row locks.
        """
        with self._lock:
            self._settings["application_name"] = name
        self.close()

    def _take(self) -> Connection | None:
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not is_cut(connection):
                return connection
            connection.close()

    def close(self) -> None:
        """Close idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()


def where(dsn: str) -> str:
    """Return the database's name and place for a message: never its password."""
    given = conninfo_to_dict(dsn)
    host = given.get("host") or given.get("hostaddr") or "this machine"
    port = f":{given['port']}" if given.get("port") else ""
    return f"the PostgreSQL database {given.get('dbname') or ''} at {host}{port}".replace("  ", " ")


def translate_error(error: psycopg.Error, dsn: str, *, sent: bool) -> StoreUnavailable | RowRefused:
    """Return the engine's error for a driver's. ``sent``: a change was on its way when the connection was lost, so
    it may stand.
    """
    said = _first_line(error)
    place = where(dsn)
    if isinstance(error, BUSY):
        return StoreBusy(f"{place} is busy: {said}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(f"{place} is read-only: point DATABASE_URL at the primary server")
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreUnavailable(f"{place} lacks tables of this version ({said}): run {program()} django migrate")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreUnavailable(f"{place} refuses this user ({said}): grant it the tables")
    state = error.sqlstate or ""
    if state.startswith("53"):
        return StoreUnavailable(f"{place} is out of resources: {said}")
    cut = state.startswith(("08", "57")) or (
        not state and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    )
    if cut:
        return StoreUnavailable(f"{place} does not answer: {said}", unknown=sent)
    if state.startswith(("28", "3D", "58")):
        return StoreUnavailable(f"{place} cannot be used: {said}")
    return RowRefused(f"{place} refused the row: {said}")


def _first_line(error: psycopg.Error) -> str:
    text = error.diag.message_primary or str(error)
    return text.strip().split("\n", 1)[0] or type(error).__name__


_HEAD = Struct("!iiI")
_DIMENSION = Struct("!ii")
_LENGTH = Struct("!i")
_BIGINT = Struct("!iq")
_DOUBLE = Struct("!id")
_NULL = _LENGTH.pack(-1)
_TRUE = _LENGTH.pack(1) + b"\1"
_FALSE = _LENGTH.pack(1) + b"\0"


def texts(values: Sequence[str | None]) -> bytes:
    """Return ``text[]``. Raises UnicodeEncodeError for a lone surrogate: callers clean their text."""
    return _array(25, len(values), _add_lengths(None if value is None else value.encode() for value in values))


def byteas(values: Sequence[bytes | None]) -> bytes:
    """Return ``bytea[]``."""
    return _array(17, len(values), _add_lengths(values))


def bigints(values: Sequence[int | None]) -> bytes:
    """Return ``bigint[]``."""
    pack = _BIGINT.pack
    return _array(20, len(values), [_NULL if value is None else pack(8, value) for value in values])


def doubles(values: Sequence[float | None]) -> bytes:
    """Return ``double precision[]``."""
    pack = _DOUBLE.pack
    return _array(701, len(values), [_NULL if value is None else pack(8, value) for value in values])


def bools(values: Sequence[bool | None]) -> bytes:
    """Return ``boolean[]``."""
    return _array(16, len(values), [_TRUE if value else _NULL if value is None else _FALSE for value in values])


def _add_lengths(values: Iterable[bytes | None]) -> list[bytes]:
    pack = _LENGTH.pack
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(_NULL)
        else:
            parts.append(pack(len(value)))
            parts.append(value)
    return parts


def _array(element: int, length: int, parts: list[bytes]) -> bytes:
    if not length:
        return _HEAD.pack(0, 0, element)
    # The flag may say that there are nulls when there are none: the elements tell for themselves.
    return b"".join([_HEAD.pack(1, 1, element), _DIMENSION.pack(length, 1), *parts])
