"""Nudges inside PostgreSQL: NOTIFY travels in the statement that made the change (``stores.postgresql.statements``),
LISTEN is here.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
from collections.abc import Mapping

import psycopg

from fabric.stores.postgresql.connection import Connection, connect, translate_error
from fabric.stores.postgresql.statements import TOLD_CHANNEL, WAKE_CHANNEL
from fabric.worker.nudges.listener import Kind, OnMessage, ReceivedNudge, read_told

RECONNECT_MIN_S = 0.1
RECONNECT_MAX_S = 2.0
_CHANNELS: dict[Kind, str] = {"wake": WAKE_CHANNEL, "told": TOLD_CHANNEL}
_KINDS: dict[str, Kind] = {channel: kind for kind, channel in _CHANNELS.items()}
_log = logging.getLogger(__name__)


class PostgresqlNudge:
    """``ports.Nudge`` for a ``PostgresqlStore`` that notifies: the store's own statements have sent everything, one
    NOTIFY a flush.
    """

    def wake(self, run_id: str) -> None:
        """Do nothing: the insertion carried the nudge."""

    def announce(self, run_seqs: Mapping[str, int]) -> None:
        """Do nothing: the flush carried the nudge."""


class PostgresqlListener:
    """``listener.Listener`` by LISTEN on a direct connection of its own (a transaction pooler would swallow it).

    After a lost connection it connects again, waiting 0.1 s to 2 s, and then reports that messages may have been
    missed.
    """

    def __init__(self, dsn: str, on_message: OnMessage, *, kinds: tuple[Kind, ...] = ("wake", "told")) -> None:
        self._dsn = dsn
        self._on_message = on_message
        self._kinds = kinds
        self._stopping = threading.Event()
        self._listening = threading.Event()
        self._thread: threading.Thread | None = None
        self._bell: socket.socket | None = None

    def start(self) -> None:
        """See ``listener.Listener``: returns when the first attempt to connect has ended, well or not."""
        self._stopping.clear()
        self._listening.clear()
        self._bell, heard = socket.socketpair()
        self._thread = threading.Thread(target=self._keep_listening, args=(heard,), name="nudge-listener", daemon=True)
        self._thread.start()
        self._listening.wait()

    def stop(self) -> None:
        """See ``listener.Listener``."""
        thread, bell = self._thread, self._bell
        if thread is None or bell is None:
            return
        self._thread = None
        self._stopping.set()
        bell.close()  # The thread's end of the pair becomes readable.
        thread.join()

    def _keep_listening(self, bell: socket.socket) -> None:
        pause_s = RECONNECT_MIN_S
        missed = False
        with bell:
            while not self._stopping.is_set():
                try:
                    with connect(self._dsn, {}) as connection:
                        for kind in self._kinds:
                            connection.execute(f"LISTEN {_CHANNELS[kind]}".encode())
                        self._listening.set()
                        if missed:
                            self._say_missed()
                        pause_s, missed = RECONNECT_MIN_S, True
                        self._hear(connection, bell)
                except psycopg.Error as error:
                    _log.warning("not listening for now: %s", translate_error(error, self._dsn, sent=False))
                    missed = True
                self._listening.set()
                self._stopping.wait(pause_s)
                pause_s = min(2 * pause_s, RECONNECT_MAX_S)

    def _hear(self, connection: Connection, bell: socket.socket) -> None:
        """Pass on nudges until stopped. Raises psycopg.Error when the connection is lost."""
        waiting = select.poll()  # Not select(): a process with many sockets has descriptors beyond its 1,024.
        for descriptor in (connection.fileno(), bell.fileno()):
            waiting.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if bell.fileno() in ready or self._stopping.is_set():
                return
            for notice in connection.notifies(timeout=0):
                kind = _KINDS.get(notice.channel)
                if kind == "wake":
                    self._on_message(ReceivedNudge("wake", {notice.payload: 0}))
                elif kind == "told":
                    self._on_message(ReceivedNudge("told", read_told(notice.payload)))

    def _say_missed(self) -> None:
        for kind in self._kinds:
            self._on_message(ReceivedNudge(kind))
