"""Runs work whose author controls its duration in child processes of bounded memory (``child.py``). They are ended when
their time is over.

A child is used again; one that was ended is replaced with the next call. It gets none of this process's settings.
"""

from __future__ import annotations

import os
import threading

from fabric.child_processes.process import ChildDied, ChildProcess
from fabric.core.values.units import JSON

START_S = 60.0
"""Seconds that a child may take to begin on a busy machine."""
AT_ONCE = 2
"""Largest number of children; a call waits for a free one as long as it might itself take."""
CALLS_MAX = 500
"""Number of calls after which a child is replaced."""
NO_ROOM = "It needed more memory than it may have and was stopped: make what it asks simpler."


class ChildProcessEnded(Exception):
    """A child ended before it answered, or was ended. The message is for the caller."""


class NoneFree(Exception):
    """All children were busy for as long as the call might have taken."""


class ModuleChildren:
    """The child processes of one module. Calls come from any thread."""

    def __init__(self, module: str, size: int = AT_ONCE, calls_max: int = CALLS_MAX, start_s: float = START_S) -> None:
        self._module, self._calls_max, self._start_s = module, calls_max, start_s
        self._room = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[ChildProcess] = []

    def ask(self, frame: JSON, within_s: float) -> JSON:
        """Return a child's answer to a frame. Raises Ended after its time or memory, ChildDied after another end,
        NoneFree.
        """
        if not self._room.acquire(timeout=within_s):
            raise NoneFree
        try:
            return self._ask(frame, within_s)
        finally:
            self._room.release()

    def close(self) -> None:
        """End the idle ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _ask(self, frame: JSON, within_s: float) -> JSON:
        child = self._take_child()
        try:
            said = _ask_child(child, frame, within_s, f"It took longer than {within_s:g} seconds and was stopped")
        except BaseException:
            child.end()
            raise
        if child.calls < self._calls_max:
            with self._lock:
                self._idle.append(child)
        else:
            child.end()
        return said

    def _take_child(self) -> ChildProcess:
        """Return a living idle child, or a new one once it is ready."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None and idle.process.poll() is None:
            return idle
        if idle is not None:
            idle.end()
        child = ChildProcess(self._module, {"PATH": os.defpath})
        try:
            _ask_child(child, {}, self._start_s, f"No process began within {self._start_s:g} seconds")
        except BaseException:
            child.end()
            raise
        return child


def _ask_child(child: ChildProcess, frame: JSON, seconds: float, late: str) -> JSON:
    """Return a child's answer. Raises Ended after its time or memory; ChildDied after another end."""
    over = threading.Event()

    def end() -> None:
        over.set()
        child.process.kill()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        return child.ask(frame)
    except ChildDied:
        if over.is_set():
            raise ChildProcessEnded(f"{late}: make what it asks simpler.") from None
        if child.end() >= 0:
            raise  # No signal: the work itself raised, with its error on standard error.
        raise ChildProcessEnded(NO_ROOM) from None
    finally:
        timer.cancel()
