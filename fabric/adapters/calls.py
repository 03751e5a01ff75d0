"""The model loop: one thread with one asyncio loop on which every call of a process is out, however many there are.

A call in flight is a coroutine, never a thread. What comes back goes to one callback, on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import uvloop

from fabric.core.inputs import CallFailed, Result
from fabric.core.taxonomy import Cause

log = logging.getLogger(__name__)
LET_GO_S = 5.0
"""How long a port may take to let go of a cancelled call when the loop ends."""
Key = tuple[str, str, int]
"""``(run id, command id, attempt)``."""
Call = Callable[[], Coroutine[Any, Any, Result]]
OnResults = Callable[[list[tuple[Key, Result]]], None]


class CallLoop:
    """Runs calls and reports their results. ``start`` once, ``stop`` once.

    Calls are begun together by ``flush``, and results that came in one turn of the loop are reported together: what became ready at
    the same time is then one step of the host and one commit.
    """

    def __init__(self, on_results: OnResults, *, limit: int) -> None:
        self._on_results = on_results
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fabric-calls", daemon=True)
        self._room = asyncio.Semaphore(limit)
        self._collected: list[tuple[Key, Call | None]] = []
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._results: list[tuple[Key, Result]] = []
        self.inflight = 0
        self.inflight_peak = 0

    def start(self) -> None:
        """Starts the loop's thread."""
        self._thread.start()

    # -- from the host's thread ----------------------------------------------------------------------------------------

    def submit(self, key: Key, call: Call) -> None:
        """Takes a call; ``flush`` begins it. It waits its turn when ``limit`` calls are out."""
        self._collected.append((key, call))

    def abort(self, key: Key) -> None:
        """Lets go of a call with the next ``flush``; nothing is reported for it any more."""
        self._collected.append((key, None))

    def flush(self) -> None:
        """Hands what was collected to the loop, in order."""
        if self._collected:
            collected, self._collected = self._collected, []
            self._loop.call_soon_threadsafe(self._begin, collected)

    def abort_run(self, run_id: str) -> None:
        """Lets go of every call of a run."""
        self._collected = [one for one in self._collected if one[0][0] != run_id]
        self._loop.call_soon_threadsafe(self._cancel_run, run_id)

    def stop(self) -> None:
        """Cancels what is out, ends the thread and closes the loop; nothing is reported any more."""
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(self._end()))
        self._thread.join(timeout=2 * LET_GO_S)
        if not self._thread.is_alive():
            self._loop.close()

    # -- on the loop's thread ------------------------------------------------------------------------------------------

    def _begin(self, collected: list[tuple[Key, Call | None]]) -> None:
        for key, call in collected:
            if call is not None:
                task = self._tasks[key] = self._loop.create_task(self._run(key, call))
                # Not in the coroutine: one that is cancelled before its first turn never comes to its end.
                task.add_done_callback(partial(self._forget, key))
            elif key in self._tasks:
                self._tasks[key].cancel()

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]

    def _cancel_run(self, run_id: str) -> None:
        for key, task in self._tasks.items():
            if key[0] == run_id:
                task.cancel()

    async def _run(self, key: Key, call: Call) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._room:
                self.inflight += 1
                self.inflight_peak = max(self.inflight_peak, self.inflight)
                try:
                    result = await call()
                finally:
                    self.inflight -= 1
        except asyncio.CancelledError as error:
            result = _raised(key, error)  # A library's own cancellation that got out: nobody here asked for it.
        except Exception as error:
            # A port must not raise; if it does, the run still gets a truthful end and the log the traceback.
            log.exception("port raised for %s", key)
            result = _raised(key, error)
        if task.cancelling():  # It was let go of, whatever the port made of that.
            return
        if not self._results:
            self._loop.call_soon(self._report)
        self._results.append((key, result))

    def _report(self) -> None:
        results, self._results = self._results, []
        self._on_results(results)

    async def _end(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_S)
        await self._loop.shutdown_asyncgens()
        self._loop.stop()


def _raised(key: Key, error: BaseException) -> CallFailed:
    message = f"the adapter failed: {type(error).__name__}: {error}"[:500]
    return CallFailed(command_id=key[1], attempt=key[2], cause=Cause.UNKNOWN, message=message, billed=True)
