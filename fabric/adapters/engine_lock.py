"""Exactly one engine process per data directory, under an OS lock (design.md 5 "SQLite"): the lock goes with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from itertools import count
from pathlib import Path

TRIES = 10
PAUSE_S = 0.02
"""Somebody who only looks holds the lock for a moment: an attempt that meets them is made again."""


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
        """Takes the lock; EngineRunning when somebody has it, and still has it when ``until`` is set. OSError when the directory cannot be written.

        It is tried again and again, since nobody who waits in the system's own call for it could be told to end.
        """
        file = self._open()
        try:
            for tried in count(1):
                if _locked(file, fcntl.LOCK_EX):
                    break
                if until.is_set() if until is not None else tried == TRIES:
                    raise EngineRunning(self._path.parent.name)
                time.sleep(PAUSE_S)
        except BaseException:
            os.close(file)
            raise
        self._file = file

    def held_elsewhere(self) -> bool:
        """Whether another process has it now. Any number may look at once."""
        if self._file is not None:
            return False
        file = self._open()
        try:
            return not _locked(file, fcntl.LOCK_SH)
        finally:
            os.close(file)

    def give_back(self) -> None:
        """Lets go of it; nothing when it is not held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _locked(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
