"""Trying a check on a sample, within its time: where that is the author's to set, in a child process that is ended when it is over.

A child is used again; one that was ended is replaced with the next trial. Its memory is bounded (``child.py``), it asks no database, no network and no
model, and is given none of the server's settings.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from fabric.adapters.tools.process_pool import Child, ChildDied
from fabric.core.spec import FabricSpec
from fabric.services.errors import Refused
from fabric.services.trying.child import NO_ROOM
from fabric.services.trying.shapes import Draft, Sample, Tried, TriedLine
from fabric.services.trying.trials import TRIALS, draft_of, kind_at, made

JSON = Any
TRIAL_S = 5.0
"""Seconds that a trial may take."""
START_S = 60.0
"""Seconds that a child may take to begin, on a machine that is busy."""
AT_ONCE = 2
"""Children at most; a trial waits for a free one as long as it might itself take."""
CALLS_MAX = 500
"""Trials after which a child is replaced."""
MODULE = "fabric.services.trying.child"


def tried(spec: Draft | FabricSpec, path: str, sample: Sample, *, within_s: float = TRIAL_S) -> Tried:
    """Makes the check at a path of a fabric with a sample, within so many seconds: nothing is kept, nobody is asked.

    ``spec``: the fabric, or its YAML as it reads, whatever is wrong with it elsewhere. Refused for a box that cannot be read (invalid, too_large), a path
    where nothing stands (not_found), and while too many others are being tried (unavailable).
    """
    if not TRIALS[kind_at(path)].apart:
        return made(spec, path, sample)
    return CHILDREN.tried({"draft": draft_of(spec), "path": path, "sample": dict(sample)}, within_s)


class Children:
    """The child processes of this one. Trials come from any thread."""

    def __init__(self, size: int = AT_ONCE, calls_max: int = CALLS_MAX) -> None:
        self._room, self._calls_max = threading.BoundedSemaphore(size), calls_max
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    def tried(self, frame: JSON, within_s: float) -> Tried:
        """What a child says of a trial; an error where it had to be ended. Refused as the function of that name."""
        if not self._room.acquire(timeout=within_s):
            raise Refused("too many others are being tried; try it again in a few seconds", code="unavailable")
        try:
            return _read(self._asked(frame, within_s))
        except _Ended as ended:
            return Tried("error", (TriedLine("error", str(ended)),))
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
        child = Child(MODULE, {"PATH": os.defpath})
        try:
            _within(child, {}, START_S, f"No process began within {START_S:g} seconds")
        except BaseException:
            child.end()
            raise
        return child


CHILDREN = Children()


class _Ended(Exception):
    """A child was ended, or ended, before it answered. The message is for whoever tries."""


def _within(child: Child, frame: JSON, seconds: float, late: str) -> JSON:
    """A child's answer. _Ended when there was none in time, or no room for it; ChildDied when it ended otherwise."""
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
            raise _Ended(f"{late}: make what it asks simpler.") from None
        if child.end() >= 0:
            raise  # No signal: the trial itself raised, and said so on its standard error.
        raise _Ended(NO_ROOM) from None
    finally:
        timer.cancel()


def _read(said: JSON) -> Tried:
    if "refused" in said:
        raise Refused(**said["refused"])
    return Tried(said["verdict"], tuple(TriedLine(**one) for one in said["lines"]))
