"""Runs the operator's functions in child processes of their own, so that one that never returns can be ended.

A call takes a thread of the tool pool to wait in and a child to run in; at its deadline the child is killed, so the
thread comes back. A child is used again, for at most ``CALLS_MAX`` calls, by calls with an equal environment.
(docs/specification/durability.md)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from functools import partial

from fabric.child_processes.process import ChildProcess
from fabric.core.values.saga import Outcome
from fabric.core.values.units import JSON
from fabric.tools.answers.handovers import read_handover
from fabric.tools.answers.outcome import RetryRequested, ToolError
from fabric.tools.functions.callables import NotATool
from fabric.tools.functions.thread_pool import CallExpired, PoolFull, ToolPool

CHILDREN = 4
"""Largest number of processes."""
CALLS_MAX = 500
"""Number of calls after which a child is replaced: a tool's leaks go with it."""
MODULE = "fabric.tools.functions.child"


class ToolRaised(Exception):
    """The callable raised. The message is its own, with the class in brackets."""


class _Call:
    """One call on its way; ``kill`` may come from another thread at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._over = False
        self.sent = False

    def begins(self, child: ChildProcess) -> bool:
        with self._lock:
            self._child, self.sent = (None, False) if self._over else (child, True)
            return self.sent

    def ends(self) -> bool:
        """Return True when the call ended without being killed."""
        with self._lock:
            self._child = None
            return not self._over

    def kill(self) -> None:
        with self._lock:
            self._over = True
            if self._child is not None:
                self._child.process.kill()


class ProcessPool:
    """Runs functions in at most ``size`` children, each call waiting in a thread of ``threads``."""

    def __init__(self, threads: ToolPool, size: int = CHILDREN, calls_max: int = CALLS_MAX) -> None:
        self._threads, self._calls_max, self._room = threads, calls_max, threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[ChildProcess] = []
        self._closed = False

    async def call(
        self, path: str, args: Mapping[str, JSON], key: str, timeout_s: float, environment: Mapping[str, str]
    ) -> JSON:
        """Return the callable's result. ``environment``: the whole environment of its process.

        Raises NotATool, ToolError (its own, or an invalid result), Retry, ToolRaised, ChildDied, PoolFull (it never
        began), or CallExpired when it did not return in time: its process is killed then.
        """
        call = _Call()
        frame = {"path": path, "args": dict(args), "key": key}
        try:
            return await self._threads.call(partial(self._run, call, frame, timeout_s, environment), timeout_s)
        except CallExpired:
            call.kill()
            if not call.sent:
                raise PoolFull(f"no tool process became free within {timeout_s:.1f} seconds") from None
            raise
        except asyncio.CancelledError:
            call.kill()
            raise

    def close(self) -> None:
        """End the idle children, and each busy one as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _run(self, call: _Call, frame: JSON, timeout_s: float, environment: Mapping[str, str]) -> JSON:
        if not self._room.acquire(timeout=timeout_s):
            raise PoolFull(f"no tool process became free within {timeout_s:.1f} seconds")
        try:
            child = self._take_child(environment)
            if not call.begins(child):
                self._back(child)
                return None  # The caller is gone.
            try:
                said = child.ask(frame)
            except BaseException:
                call.ends()
                child.end()
                raise
            if call.ends():
                self._back(child)
            else:
                child.end()
            return _result(said)
        finally:
            self._room.release()

    def _take_child(self, environment: Mapping[str, str]) -> ChildProcess:
        """Return an idle child with this environment, or a new one. An idle child of another environment makes room for
        it.
        """
        with self._lock:
            same = next((child for child in self._idle if child.environment == environment), None)
            taken = same or (self._idle[0] if self._idle else None)
            if taken is not None:
                self._idle.remove(taken)
        if same is not None:
            return same
        if taken is not None:
            taken.end()
        return ChildProcess(MODULE, environment)

    def _back(self, child: ChildProcess) -> None:
        with self._lock:
            keep = not self._closed and child.calls < self._calls_max and child.process.poll() is None
            if keep:
                self._idle.append(child)
        if not keep:
            child.end()


def _result(said: JSON) -> JSON:
    if "result" in said:
        return said["result"]
    if "returned" in said:
        return read_handover(said["returned"])
    if "bytes" in said:
        size = f"the tool's result has {said['bytes']:,} bytes; at most 1,000,000 are kept; ask for less"
        raise ToolError(size, outcome=Outcome.ANSWERED)
    message, kind = said["error"], said["kind"]
    if kind == NotATool.__name__:
        raise NotATool(message)
    if kind == ToolError.__name__:
        raise ToolError(message, code=said["code"])
    if said.get("retry"):
        raise RetryRequested(message, said["retry"]["after_s"])
    if kind == "NoJson":
        raise ToolError(f"the tool's result is refused: {message}", outcome=Outcome.ANSWERED)
    if kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration"):
        raise ToolRaised(f"it raised {kind}: {message} (RuntimeError)")
    raise ToolRaised(f"{message} ({kind})")
