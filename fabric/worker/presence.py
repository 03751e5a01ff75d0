"""Presence of other workers: PostgreSQL reports a dead one in a second, instead of a lapsed lease in ten.

1. A worker has an advisory lock on a connection of its own: the server frees it with the session, so it ends with the
   process.
2. The others look once a second. A missing lock alone proves nothing: a restart of the server frees all of them, of
   healthy workers too.
3. So a worker counts as dead only when its lock was missing for ``GRACE_S`` of one unbroken session of the watcher. A
   failure that
   breaks all sessions breaks the watcher's too. Its grace then begins anew, while the others are already on their way
   back.
4. A process that stands still keeps its session; then the lease decides. (docs/specification/durability.md)
"""

from __future__ import annotations

import logging
import secrets
import select
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial

import psycopg

from fabric.core.values.units import US
from fabric.runtime.ports.journal import StoreUnavailable
from fabric.stores.postgresql.connection import Connection, connect, is_cut, texts, translate_error
from fabric.stores.postgresql.statements import ownership as statements
from fabric.worker.lease import Lease
from fabric.worker.process.clock import elapsed_s, moved_alone

log = logging.getLogger(__name__)
LOOK_S = 1.0
"""Seconds between two looks while no worker is missing."""
MISSING_LOOK_S = 0.5
GRACE_S = 1.0
RECONNECT_S = 0.1
_SETTINGS = {"statement_timeout": "5000", "application_name": "fabric-presence"}


class MissingWorkers:
    """Workers that one session misses, and since when."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._since: dict[str, float] = {}
        self._looked: tuple[float, float] | None = None

    def __bool__(self) -> bool:
        return bool(self._since)

    def record_look(self, missing: Sequence[str], now_s: float, server_s: float) -> list[str]:
        """Record one look at ``now_s`` (seconds on a monotonic clock); return the workers that were missing for the
        whole grace.

        ``server_s``: the server's clock. If it was set since the last look, leases prove nothing, so no worker is
        judged and the grace begins anew.
        """
        before, self._looked = self._looked, (now_s, server_s)
        if before is not None and moved_alone(server_s - before[1], now_s - before[0]):
            self._since.clear()
        self._since = {name: self._since.get(name, now_s) for name in missing}
        return [name for name, since in self._since.items() if now_s - since >= self._grace_s]

    def forget(self) -> None:
        """Forget everything: the session is broken, so its observations may have been its own fault."""
        self._since.clear()
        self._looked = None


class Presence:
    """Keeps this worker's lock, and ends incarnations whose lock is gone.

    1. ``on_gone``: called when runs may have come free.
    2. ``untell``: removes the lock's key from an incarnation's row by another connection, while this one cannot be
       made anew: a returning server may
       have no room for it. Then no watcher misses a lock that the row does not name.
    3. Where the lock is not the session's own (behind a transaction pooler) it reports that once and does nothing
       more: the lease alone decides then.
    """

    def __init__(
        self,
        dsn: str,
        lease: Lease,
        on_gone: Callable[[], None],
        *,
        untell: Callable[[str], None] = lambda name: None,
        session: Callable[[], Connection] | None = None,
    ) -> None:
        self._dsn, self._lease, self._on_gone, self._untell = dsn, lease, on_gone, untell
        self._session = session or partial(connect, dsn, _SETTINGS)
        self.key = secrets.randbits(62)
        """Number of the lock. Random, not derived from a name, so that two never collide."""
        self.ended: list[str] = []
        """Incarnations that this watcher has ended."""
        self.looks = self.sessions = 0
        """Number of looks, and of connections that had the lock."""
        self._told = self._hidden = ""
        self._missing = MissingWorkers()
        self._stop = threading.Event()
        self._bell, self._ear = socket.socketpair()
        self._thread = threading.Thread(target=self._keep, name="fabric-presence", daemon=True)

    def start(self) -> None:
        """Start the thread. The lease must have been started: the lock is recorded with its incarnation's row."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread and free the lock, once: after the incarnation has retired, so that no watcher reports it."""
        self._stop.set()
        self._bell.close()  # The thread's end of the pair becomes readable.
        self._thread.join(timeout=10)
        self._ear.close()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        said = False
        while not self._stop.is_set():
            try:
                with self._session() as connection:
                    if not self._holds(connection):
                        return
                    said = False
                    self._watch(connection)
            except psycopg.Error as error:
                if not said:
                    log.warning(
                        "the presence lock is not held for now: %s", translate_error(error, self._dsn, sent=False)
                    )
                said = True
            except Exception:
                log.exception("the presence lock goes on after an error of its own")
            self._missing.forget()
            self._hide()
            self._stop.wait(RECONNECT_S)

    def _hide(self) -> None:
        told, self._told = self._told, ""
        if self._stop.is_set() or not (told or self._hidden):
            return
        self._hidden = told or self._hidden
        try:
            self._untell(self._hidden)
        except StoreUnavailable:  # Then no watcher can look either.
            return
        self._hidden = ""

    def _holds(self, connection: Connection) -> bool:
        """Take the lock, and check that it is this session's. Returns False where sessions are not kept."""
        while not self._stop.is_set():
            ((held, pid),) = connection.run(statements.HOLD, {"key": self.key})
            if held:
                break
            self._stop.wait(RECONNECT_S)  # The server has not noticed yet that the session before has ended.
        else:
            return False
        # A pooler that lends connections by the transaction has to lend another one while this transaction lasts.
        with self._session() as other, other.transaction():
            other.execute("SELECT 1")
            proofs = [connection.run(statements.PROVE, {"key": self.key})[0] for _ in range(2)]
        if any(proof != (pid, True) for proof in proofs):
            log.warning(
                "the database is reached through a pooler that lends a connection for one transaction, so no lock can show which workers "
                "live: a dead one is noticed when its lease ends; give workers a direct connection for quicker takeovers"
            )
            return False
        self.sessions += 1
        return True

    def _watch(self, connection: Connection) -> None:
        while not self._stop.is_set():
            if self._told != self._lease.name:
                self._tell(connection)
            found, now_s = connection.run(statements.WATCH, {}), elapsed_s()
            missing = [name for _, name in found if name not in (None, self._lease.name)]
            self.looks += 1
            gone = self._missing.record_look(missing, now_s, found[0][0] / US)
            if gone:
                ended = [name for name, _ in connection.run(statements.END, {"names": texts(gone)})]
                self.ended += ended
                if ended:
                    log.warning("gone without a word: %s; their runs are free", ", ".join(ended))
                    self._on_gone()
            self._rest(connection, MISSING_LOOK_S if self._missing else LOOK_S)

    def _rest(self, connection: Connection, pause_s: float) -> None:
        """Wait. Raises psycopg.Error as soon as the session is cut: a second later other workers may have missed its
        lock for too long.
        """
        waiting = select.poll()  # Not select(): a process with many sockets has descriptors beyond its 1,024.
        for descriptor in (connection.fileno(), self._ear.fileno()):
            waiting.register(descriptor, select.POLLIN)
        waiting.poll(1000 * pause_s)
        if is_cut(connection):
            raise psycopg.OperationalError("the session was cut")

    def _tell(self, connection: Connection) -> None:
        """Write the lock's key to this incarnation's row; for a retired one, make the lease find out at once."""
        name = self._lease.name
        if connection.run(statements.TELL, {"key": self.key, "name": name}):
            self._told = name
        else:
            self._lease.beat_soon()
