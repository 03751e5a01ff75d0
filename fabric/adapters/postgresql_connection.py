"""Connections to PostgreSQL: how they are opened and kept, and what their errors mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from select import POLLIN, poll
from threading import Lock, Semaphore
from typing import Any

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fabric.adapters.postgresql_prepared import PreparedConnection
from fabric.adapters.store_errors import RowRefused, StoreBusy
from fabric.runtime.ports import StoreUnavailable

CONNECT_DEFAULTS = {
    "connect_timeout": "5",
    "application_name": "fabric-flow",
    # A peer that vanished without a word is noticed after 11 s, not after two hours.
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "11000",
}
# Every statement of the stores is meant to go through an index, whatever the statistics said when it was planned: a plan made while the
# tables were empty must not last into the day when they are not. Compiling such a plan to machine code would take longer than running it.
PLANNING = {"plan_cache_mode": "force_generic_plan", "jit": "off"} | {
    f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "mergejoin")
}
"""Settings of connections on which the stores' statements run."""
OPEN_MAX = 8
"""Connections that one store opens for its callers. The server serves few statements faster than many, and opening one costs more than most of them."""
ROOM_S = 30.0
"""How long a caller waits for one of them; longer than any statement may take."""
Connection = PreparedConnection

_BROKEN = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.SerializationFailure, errors.DeadlockDetected)


def connect(dsn: str, settings: Mapping[str, str]) -> Connection:
    """Opens a connection, one transaction a statement, with these settings of the server. Raises psycopg.Error."""
    given = conninfo_to_dict(dsn)
    defaults: dict[str, Any] = {key: value for key, value in CONNECT_DEFAULTS.items() if key not in given}
    connection = PreparedConnection.connect(
        make_conninfo(dsn, **defaults), autocommit=True, cursor_factory=psycopg.RawCursor
    )
    for name, value in settings.items():
        connection.execute("SELECT set_config($1, $2, false)", [name, value])
    return connection


def is_cut(connection: Connection) -> bool:
    """True when the server has closed the connection, or said something unasked, since its last use. Costs no round trip."""
    if connection.closed:
        return True
    looked = poll()  # Not select(): a process with many sockets has descriptors beyond its 1,024.
    looked.register(connection.fileno(), POLLIN)
    return bool(looked.poll(0))


class Connections:
    """Connections that are opened when needed and kept for the next, at most ``OPEN_MAX``. No thread of its own, and the true error at once.

    A connection that the server cut while it lay idle is thrown away, not used: after a restart of the server the first call succeeds.
    """

    def __init__(self, dsn: str, settings: Mapping[str, str]) -> None:
        self._dsn = dsn
        self._settings = dict(settings)
        self._idle: list[Connection] = []
        self._lock = Lock()
        self._room = Semaphore(OPEN_MAX)

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Lends a connection for one statement; raises psycopg.Error when none can be opened, or none came free within ``ROOM_S``."""
        if not self._room.acquire(timeout=ROOM_S):
            raise psycopg.OperationalError(f"none of {OPEN_MAX} connections came free within {ROOM_S:.0f} s")
        try:
            yield from self._lent()
        finally:
            self._room.release()

    def _lent(self) -> Iterator[Connection]:
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
        """From now on the server is told this name (``application_name``): who has a statement under way, or a row in its hand, can be seen there."""
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
        """Closes what lies idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            with suppress(psycopg.Error):
                connection.close()


def where(dsn: str) -> str:
    """The database's name and place for a message: never its password."""
    given = conninfo_to_dict(dsn)
    host = given.get("host") or given.get("hostaddr") or "this machine"
    port = f":{given['port']}" if given.get("port") else ""
    return f"the PostgreSQL database {given.get('dbname') or ''} at {host}{port}".replace("  ", " ")


def translated(error: psycopg.Error, dsn: str, *, sent: bool) -> StoreUnavailable | RowRefused:
    """What a driver's error means to the engine. ``sent``: a change was on its way when the connection was lost, so it may stand."""
    said = _first_line(error)
    place = where(dsn)
    if isinstance(error, BUSY):
        return StoreBusy(f"{place} is busy: {said}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(f"{place} is read-only: point DATABASE_URL at the primary server")
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn):
        return StoreUnavailable(f"{place} lacks tables of this version ({said}): run manage.py migrate")
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
