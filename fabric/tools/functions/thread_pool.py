"""A bounded pool of threads for code that may never return.

A call that outlives its deadline is abandoned: its thread counts as leaked and keeps its place until it returns,
because Python cannot end a thread. The threads are daemons, so that a leaked one cannot hold up the process's end.
(docs/specification/durability.md)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Literal

SIZE = 16
"""Number of threads."""
WAITING_MAX = 1_000
"""Calls that may wait for a thread."""


class PoolFull(Exception):
    """No thread was free, and no place to wait for one was free in time."""


class CallExpired(Exception):
    """The call had begun and did not return in time; its thread is leaked until it does."""


@dataclass(slots=True, eq=False)
class _Job:
    function: Callable[[], Any]
    done: asyncio.Future[Any]
    state: Literal["waiting", "running", "left", "over"] = "waiting"
    loop: asyncio.AbstractEventLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = self.done.get_loop()


class ToolPool:
    """Runs functions in at most ``size`` threads; at most ``waiting_max`` calls wait. Usable from several event
    loops.
    """

    def __init__(self, size: int = SIZE, waiting_max: int = WAITING_MAX) -> None:
        self._size, self._waiting_max = size, waiting_max
        self._lock = threading.Lock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = self._running = self._waiting = self._leaked = 0
        self._closed = False

    @property
    def size(self) -> int:
        """Return the largest number of threads."""
        return self._size

    @property
    def leaked_threads(self) -> int:
        """Return the number of threads that still run an abandoned call."""
        return self._leaked

    async def call(self, function: Callable[[], Any], timeout_s: float) -> Any:
        """Return the function's result. Raises its errors, PoolFull, or CallExpired when it has not
        returned in time.
        """
        job = _Job(function, asyncio.get_running_loop().create_future())
        self._enqueue(job)
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return await job.done
        except TimeoutError:
            if not limit.expired():
                raise
            if self._leave(job):
                raise CallExpired(f"it did not return within {timeout_s:.1f} seconds") from None
            raise PoolFull(f"no thread became free within {timeout_s:.1f} seconds ({self._size} are busy)") from None
        except asyncio.CancelledError:
            self._leave(job)
            raise

    def close(self) -> None:
        """End the idle threads, and each busy one as it returns. Waiting calls are cancelled."""
        with self._lock:
            self._closed = True
            threads = self._threads
        for _ in range(threads):
            self._jobs.put(None)

    def _enqueue(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise PoolFull("the tool pool is closed")
            if self._waiting >= self._waiting_max:
                raise PoolFull(f"{self._size} tool threads are busy and {self._waiting} calls wait already")
            self._waiting += 1
            grow = self._threads < self._size and self._waiting > self._threads - self._running
            self._threads += grow
        self._jobs.put(job)
        if grow:
            threading.Thread(target=self._work, name="tool", daemon=True).start()

    def _leave(self, job: _Job) -> bool:
        """Abandon a job; return True when it had begun."""
        with self._lock:
            if job.state == "waiting":
                job.state = "over"
                self._waiting -= 1
                return False
            if job.state == "running":
                job.state = "left"
                self._leaked += 1
            return True

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._lock:
                if job.state != "waiting":
                    continue
                job.state = "running"
                self._waiting -= 1
                self._running += 1
            result, error = None, None
            try:
                result = job.function()
            except BaseException as raised:  # noqa: BLE001 - Foreign code; SystemExit must end its call, not this thread.
                error = raised
            if self._end(job):
                _tell(job, result, error)

    def _end(self, job: _Job) -> bool:
        """Free the thread; return True when the caller still waits."""
        with self._lock:
            self._running -= 1
            self._leaked -= job.state == "left"
            wanted = job.state == "running"
            job.state = "over"
            return wanted


def _tell(job: _Job, result: Any, error: BaseException | None) -> None:
    if error is not None and (not isinstance(error, Exception) or isinstance(error, StopIteration)):
        # A future takes neither.
        error = RuntimeError(f"it raised {type(error).__name__}: {error}")

    def settle() -> None:
        if job.done.done():
            return
        if error is None:
            job.done.set_result(result)
        else:
            job.done.set_exception(error)

    try:
        job.loop.call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # The loop has ended, and with it all callers.
