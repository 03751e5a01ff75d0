"""Exactly one engine process per data directory, under an OS lock (docs/specification/durability.md): the lock ends
with its process.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from itertools import count
from pathlib import Path

TRIES = 10
PAUSE_S = 0.02
"""Seconds between two tries. A process that only looks has the lock for a moment, so a try that meets it is
repeated.
"""


class EngineRunning(RuntimeError):
    """Another process hosts the runs of this data directory. Use it, or stop it first."""

    def __init__(self, where: str) -> None:
        super().__init__(f"an engine is running on {where} already: use it, or stop it first")


class EngineLock:
    """The lock of one data directory. Not shared between threads."""

    def __init__(self, data: Path) -> None:
        self._path = data / "engine.lock"
        self._file: int | None = None

    def take(self, *, until: threading.Event | None = None) -> None:
        """Take the lock. Raises EngineRunning when another process still has it once ``until`` is set; OSError for
        an unwritable directory.

        It tries repeatedly, since a process that waits in the system's own call could not be ended.
        """
        file = self._open()
        try:
            for tried in count(1):
                if _try_lock(file, fcntl.LOCK_EX):
                    break
                if until.is_set() if until is not None else tried == TRIES:
                    raise EngineRunning(self._path.parent.name)
                time.sleep(PAUSE_S)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def held_elsewhere(self) -> bool:
        """Return True if another process has the lock now. Any number of processes may look at once."""
        if self._file is not None:
            return False
        file = self._open()
        try:
            return not _try_lock(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    def give_back(self) -> None:
        """Release the lock; do nothing without it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
