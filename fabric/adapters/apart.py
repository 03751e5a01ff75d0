"""Work whose time its author sets, done in child processes of bounded memory (``apart_child.py``) that are ended when their time is over.

A child is used again; one that was ended is replaced with the next call. It is given none of this process's settings.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from fabric.adapters.tools.process_pool import Child, ChildDied

JSON = Any
START_S = 60.0
"""Seconds that a child may take to begin, on a machine that is busy."""
AT_ONCE = 2
"""Children at most; a call waits for a free one as long as it might itself take."""
CALLS_MAX = 500
"""Calls after which a child is replaced."""
NO_ROOM = "It needed more memory than it may have and was stopped: make what it asks simpler."


class Ended(Exception):
    """A child was ended, or ended, before it answered. The message is for whoever asked."""


class NoneFree(Exception):
    """All children were busy for as long as the call might have taken."""


class Children:
    """The child processes of one module. Calls come from any thread."""

    def __init__(self, module: str, size: int = AT_ONCE, calls_max: int = CALLS_MAX, start_s: float = START_S) -> None:
        self._module, self._calls_max, self._start_s = module, calls_max, start_s
        self._room = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    def asked(self, frame: JSON, within_s: float) -> JSON:
        """A child's answer to a frame. Raises Ended when there was none in time or no memory for it, ChildDied when it ended otherwise, NoneFree."""
        if not self._room.acquire(timeout=within_s):
            raise NoneFree
        try:
            return self._asked(frame, within_s)
        finally:
            self._room.release()

    def close(self) -> None:
        """Ends the idle ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _asked(self, frame: JSON, within_s: float) -> JSON:
        child = self._taken()
        try:
            said = _within(child, frame, within_s, f"It took longer than {within_s:g} seconds and was stopped")
        except BaseException:
            child.end()
            raise
        if child.calls < self._calls_max:
            with self._lock:
                self._idle.append(child)
        else:
            child.end()
        return said

    def _taken(self) -> Child:
        """An idle one that still lives, or a new one once it is ready."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None and idle.process.poll() is None:
            return idle
        if idle is not None:
            idle.end()
        child = Child(self._module, {"PATH": os.defpath})
        try:
            _within(child, {}, self._start_s, f"No process began within {self._start_s:g} seconds")
        except BaseException:
            child.end()
            raise
        return child


def _within(child: Child, frame: JSON, seconds: float, late: str) -> JSON:
    """A child's answer. Ended when there was none in time, or no room for it; ChildDied when it ended otherwise."""
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
            raise Ended(f"{late}: make what it asks simpler.") from None
        if child.end() >= 0:
            raise  # No signal: the work itself raised, and said so on its standard error.
        raise Ended(NO_ROOM) from None
    finally:
        timer.cancel()
