"""The calls of a process: all of them are out on one asyncio loop, however many there are.

A call in flight is a coroutine, never a thread. Everything here happens on the loop's thread, and what comes back goes to one callback.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fabric.core.inputs import CallFailed, Result
from fabric.core.taxonomy import Cause

log = logging.getLogger(__name__)
LET_GO_S = 5.0
"""How long a port may take to let go of a cancelled call when the loop ends."""
Key = tuple[str, str, int]
"""``(run id, command id, attempt)``."""
Call = Callable[[], Coroutine[Any, Any, Result | None]]
"""None: nobody was asked anything."""
OnResults = Callable[[list[tuple[Key, Result | None]]], None]


class Calls:
    """Runs calls on ``loop`` and reports their results.

    Results that came in one turn of the loop are reported together: what became ready at the same time is then one step of the host and one commit.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_results: OnResults, *, limit: int) -> None:
        self._loop = loop
        self._on_results = on_results
        self._room = asyncio.Semaphore(limit)
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._results: list[tuple[Key, Result | None]] = []
        self._unsent: set[Key] = set()
        self.inflight = 0
        self.inflight_peak = 0

    def begin(self, key: Key, call: Call) -> None:
        """Begins a call in the loop's next turn. It waits its turn when ``limit`` calls are out."""
        self._unsent.add(key)
        task = self._tasks[key] = self._loop.create_task(self._run(key, call))
        # Not in the coroutine: one that is cancelled before its first turn never comes to its end.
        task.add_done_callback(partial(self._forget, key))

    def abort(self, key: Key) -> None:
        """Lets go of a call; nothing is reported for it any more."""
        if key in self._tasks:
            self._tasks[key].cancel()

    def abort_run(self, run_id: str) -> None:
        """Lets go of every call of a run."""
        for key, task in self._tasks.items():
            if key[0] == run_id:
                task.cancel()

    def unsent(self, run_id: str) -> frozenset[tuple[str, int]]:
        """``(command id, attempt)`` of a run's calls that still wait their turn: nobody has been asked anything."""
        return frozenset((key[1], key[2]) for key in self._unsent if key[0] == run_id)

    def _forget(self, key: Key, task: asyncio.Task[None]) -> None:
        self._unsent.discard(key)
        if self._tasks.get(key) is task:
            del self._tasks[key]

    async def _run(self, key: Key, call: Call) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with self._room:
                self._unsent.discard(key)
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

    async def end(self) -> None:
        """Cancels what is out; nothing is reported any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=LET_GO_S)


def _raised(key: Key, error: BaseException) -> CallFailed:
    message = f"the adapter failed: {type(error).__name__}: {error}"[:500]
    return CallFailed(command_id=key[1], attempt=key[2], cause=Cause.UNKNOWN, message=message, billed=True)
