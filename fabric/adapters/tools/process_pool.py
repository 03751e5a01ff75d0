"""Functions that the operator named in child processes of their own, so that one that never returns can be ended.

A call takes a thread of the tool pool to wait in and a child to run in; at its deadline the child is killed, so the thread comes back. A child is
used again, for at most ``CALLS_MAX`` calls, by what is given the same environment. (design.md 5 "Tools")
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from typing import IO, Any

from fabric.adapters.known_secrets import KNOWN
from fabric.adapters.tools.callables import NotATool
from fabric.adapters.tools.child import receive, send
from fabric.adapters.tools.handing_over import read
from fabric.adapters.tools.outcome import Retry, ToolError
from fabric.adapters.tools.pool import Expired, PoolFull, ToolPool
from fabric.core.saga import Outcome

JSON = Any
CHILDREN = 4
"""Processes at most."""
CALLS_MAX = 500
"""Calls after which a child is replaced: what a tool leaks goes with it."""
LINE_BYTES_MAX = 64 * 1024
"""Of what a child prints; a longer line is passed on in parts."""
MODULE = "fabric.adapters.tools.child"


class ToolRaised(Exception):
    """The callable raised. The message is its own, with the class in brackets."""


class ChildDied(Exception):
    """The child ended while the call was running: by the tool itself, or from outside. Whether it was done nobody knows."""


class Child:
    """A process that runs a module and its pipes, which take and give frames (``child.py``). ``calls``: how many it has run.

    ``environment``: what it is given of the environment beside the way to the modules, on which the working directory is only if it is on ours.
    """

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        found = os.pathsep.join(path for path in sys.path if path)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, "PYTHONPATH": found},
        )
        self.environment, self.calls = environment, 0
        threading.Thread(target=_passed_on, args=(self.process.stderr,), name="child-stderr", daemon=True).start()

    def ask(self, frame: JSON) -> JSON:
        """Its answer to a frame. ChildDied when it ends before it has given one."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.calls += 1
        try:
            send(self.process.stdin, frame)
            said = receive(self.process.stdout)
        except OSError:
            said = None
        if said is None:
            raise ChildDied(f"its process ended while it was running (exit code {self.end()})")
        return said

    def end(self) -> int:
        """Ends it, whatever it does; its exit code."""
        self.process.kill()  # What it printed is passed on to its end, and that pipe is closed there.
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # What was still to be written goes nowhere.
        return self.process.wait()


class _Call:
    """One call on its way; ``kill`` may come from another thread at any moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: Child | None = None
        self._over = False
        self.sent = False

    def begins(self, child: Child) -> bool:
        with self._lock:
            self._child, self.sent = (None, False) if self._over else (child, True)
            return self.sent

    def ends(self) -> bool:
        """True when it came to its end by itself."""
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
        self._idle: list[Child] = []
        self._closed = False

    async def call(
        self, path: str, args: Mapping[str, JSON], key: str, timeout_s: float, environment: Mapping[str, str]
    ) -> JSON:
        """The callable's result. ``environment``: all that its process is given of the environment.

        Raises NotATool, ToolError (its own, or a result that is none), Retry, ToolRaised, ChildDied, PoolFull (it was never begun), or Expired when it
        had not returned in time: its process is killed then.
        """
        call = _Call()
        frame = {"path": path, "args": dict(args), "key": key}
        try:
            return await self._threads.call(partial(self._run, call, frame, timeout_s, environment), timeout_s)
        except Expired:
            call.kill()
            if not call.sent:
                raise PoolFull(f"no tool process became free within {timeout_s:.1f} seconds") from None
            raise
        except asyncio.CancelledError:
            call.kill()
            raise

    def close(self) -> None:
        """Ends the idle children, and each busy one as it comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.end()

    def _run(self, call: _Call, frame: JSON, timeout_s: float, environment: Mapping[str, str]) -> JSON:
        if not self._room.acquire(timeout=timeout_s):
            raise PoolFull(f"no tool process became free within {timeout_s:.1f} seconds")
        try:
            child = self._taken(environment)
            if not call.begins(child):
                self._back(child)
                return None  # Nobody waits any more.
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

    def _taken(self, environment: Mapping[str, str]) -> Child:
        """An idle one that was given the same, or a new one, for which an idle one of another environment makes room."""
        with self._lock:
            same = next((child for child in self._idle if child.environment == environment), None)
            taken = same or (self._idle[0] if self._idle else None)
            if taken is not None:
                self._idle.remove(taken)
        if same is not None:
            return same
        if taken is not None:
            taken.end()
        return Child(MODULE, environment)

    def _back(self, child: Child) -> None:
        with self._lock:
            keep = not self._closed and child.calls < self._calls_max and child.process.poll() is None
            if keep:
                self._idle.append(child)
        if not keep:
            child.end()


def _passed_on(printed: IO[bytes]) -> None:
    """What a child prints, on this process's standard error and without the secrets that are known here."""
    with printed:
        while line := printed.readline(LINE_BYTES_MAX):
            sys.stderr.write(KNOWN.masked(line.decode("utf-8", "replace")))
            sys.stderr.flush()


def _result(said: JSON) -> JSON:
    if "result" in said:
        return said["result"]
    if "returned" in said:
        return read(said["returned"])
    if "bytes" in said:
        size = f"the tool's result has {said['bytes']:,} bytes; at most 1,000,000 are kept; ask for less"
        raise ToolError(size, outcome=Outcome.ANSWERED)
    message, kind = said["error"], said["kind"]
    if kind == NotATool.__name__:
        raise NotATool(message)
    if kind == ToolError.__name__:
        raise ToolError(message, code=said["code"])
    if said.get("retry"):
        raise Retry(message, said["retry"]["after_s"])
    if kind == "NoJson":
        raise ToolError(f"the tool's result is refused: {message}", outcome=Outcome.ANSWERED)
    if kind in ("SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration"):
        raise ToolRaised(f"it raised {kind}: {message} (RuntimeError)")
    raise ToolRaised(f"{message} ({kind})")
