"""Nudges between the processes of one data directory, as datagrams over local sockets.

Each listener binds a socket of its own, named after its topic; a sender writes to every socket of that name. Any
failure (no listener, a full queue, a stale name) loses the nudge and nothing else.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fabric.stores.rows import write_nudge
from fabric.worker.nudges.listener import Kind, OnMessage, ReceivedNudge, read_told

PATH_MAX = 103
"""Largest path of a socket, in bytes: 104 with the closing NUL where it is shortest, 108 on Linux (unix(7))."""
NAME_MAX = 32
RECEIVE_BYTES = 262_144
DATAGRAM_RUNS = 1_000
"""Largest number of runs in one datagram, so that it stays below a sender's buffer."""

_numbers = itertools.count(1)


def socket_directory(data: Path) -> Path:
    """Return the directory of a data directory's sockets. It is inside it, or in this user's temporary place where that
    path is too long.

    Raises OSError when neither is possible.
    """
    inside = data.absolute() / "nudge"
    if len(os.fsencode(inside)) + 1 + NAME_MAX <= PATH_MAX:
        inside.mkdir(mode=0o700, parents=True, exist_ok=True)
        return inside
    home = Path(tempfile.gettempdir()) / f"fabric-flow-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    # All users may write to this folder, so the socket counts only if it is this user's and closed to others.
    seen = home.lstat()
    if seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        raise PermissionError(f"{home} belongs to another user: remove it, or set TMPDIR")
    outside = home / hashlib.sha256(os.fsencode(data.absolute())).hexdigest()[:16]
    outside.mkdir(mode=0o700, exist_ok=True)
    return outside


class SocketNudge:
    """``ports.Nudge`` over the sockets of a data directory. Never waits, never raises."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._directory: Path | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()

    def wake(self, run_id: str) -> None:
        """See ``ports.Nudge``."""
        self._say("wake", run_id)

    def announce(self, run_seqs: Mapping[str, int]) -> None:
        """See ``ports.Nudge``."""
        pairs = list(run_seqs.items())
        for start in range(0, len(pairs), DATAGRAM_RUNS):
            self._say("told", write_nudge(pairs[start : start + DATAGRAM_RUNS]))

    def close(self) -> None:
        """Close the sending socket; the next nudge opens it again."""
        with self._lock:
            if self._socket:
                self._socket.close()
                self._socket = None

    def _say(self, kind: Kind, text: str) -> None:
        message = f"{kind} {text}".encode("utf-8", "replace")
        with self._lock, suppress(OSError):
            if self._directory is None:
                self._directory = socket_directory(self._data)
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.setblocking(False)
            for path in self._directory.iterdir():
                if kind in path.name.split(".", 1)[0].split("+"):
                    self._send(self._socket, message, path)

    @staticmethod
    def _send(sender: socket.socket, message: bytes, path: Path) -> None:
        try:
            sender.sendto(message, os.fspath(path))
        except ConnectionRefusedError:
            # Its process is gone and left the name behind.
            with suppress(OSError):
                path.unlink()
        except OSError:
            pass  # A full queue or a name that has just gone: lost, as nudges may be.


class SocketListener:
    """``listener.Listener`` on the sockets of a data directory."""

    def __init__(self, data: Path, on_message: OnMessage, *, kinds: tuple[Kind, ...] = ("wake", "told")) -> None:
        self._data = data
        self._on_message = on_message
        self._kinds = kinds
        self._path: Path | None = None
        self._thread: threading.Thread | None = None
        self._stopping = False

    def start(self) -> None:
        """See ``listener.Listener``. Raises OSError when no socket can be made in the data directory."""
        name = f"{'+'.join(self._kinds)}.{os.getpid()}.{next(_numbers)}"
        self._path = socket_directory(self._data) / name
        self._path.unlink(missing_ok=True)  # Left by a process that had this process's number.
        receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            receiver.bind(os.fspath(self._path))
        except OSError:
            receiver.close()
            raise
        self._stopping = False
        self._thread = threading.Thread(target=self._hear, args=(receiver,), name="nudge-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """See ``listener.Listener``."""
        thread, path = self._thread, self._path
        if thread is None or path is None:
            return
        self._thread = None
        self._stopping = True
        # An empty datagram to itself: the one thing that wakes the thread at once.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
            sender.sendto(b"", os.fspath(path))
        thread.join()
        path.unlink(missing_ok=True)

    def _hear(self, receiver: socket.socket) -> None:
        with receiver:
            while not self._stopping:
                try:
                    message = receiver.recv(RECEIVE_BYTES).decode("utf-8", "replace")
                except OSError:
                    return
                kind, _, text = message.partition(" ")
                if kind == "wake":
                    self._on_message(ReceivedNudge("wake", {text: 0} if text else {}))
                elif kind == "told":
                    self._on_message(ReceivedNudge("told", read_told(text)))
