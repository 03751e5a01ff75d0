"""One thread with one asyncio loop; messages for its owner are handed over together.

A host steps its runs on the loop of their calls. Both need the interpreter, so two threads would not make them
faster: they would only add a switch of threads to every answer, which costs more than the step that follows from it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import uvloop

Message = tuple[Any, ...]
Turn = Callable[[list[Message]], float]
"""Takes all arrived messages, in order; returns the seconds until it wants another turn in any case."""
ENDING_S = 10.0
"""Seconds that the loop's last coroutine may take."""


class LoopThread:
    """Runs ``turn`` on its thread: soon after a message was put, and at the time that the last turn returned."""

    def __init__(self, name: str, turn: Turn) -> None:
        self.asyncio: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._turn = turn
        self._messages: deque[Message] = deque()
        self._rung = False
        self._waits_since: float | None = None
        self._timer: asyncio.Handle | None = None
        self._due = 0.0
        """Time at which the timer rings. uvloop's own handle does not have it. For less than a millisecond it is a
        plain one.
        """
        self._thread = threading.Thread(target=self.asyncio.run_forever, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread; the first turn follows at once."""
        self._thread.start()
        self._ring()

    @property
    def alive(self) -> bool:
        """Return True while the thread runs."""
        return self._thread.is_alive()

    def progress(self) -> float | None:
        """Return the time since which a turn is awaited or under way (seconds, monotonic); None: the last one is
        over.

        It requests a turn, so that a dead loop shows.
        """
        since = self._waits_since
        self.put(("look",))
        return since

    def here(self) -> bool:
        """Return True on the loop's thread."""
        return threading.get_ident() == self._thread.ident

    def put(self, message: Message) -> None:
        """Leave a message, from any thread; the turn that takes it follows soon. None follows after ``stop``."""
        self._messages.append(message)
        self._ring()

    def _ring(self) -> None:
        # Set before the queue is emptied and read after it was filled: a message is never left lying.
        if not self._rung:
            self._rung = True
            if self._waits_since is None:
                self._waits_since = time.monotonic()
            if self.here():
                self.asyncio.call_soon(self._take_turn)
            else:
                with suppress(RuntimeError):  # The loop is closed: no turn takes messages any more.
                    self.asyncio.call_soon_threadsafe(self._take_turn)

    def _take_turn(self) -> None:
        self._rung = False
        found: list[Message] = []
        while self._messages:
            found.append(self._messages.popleft())
        due = self.asyncio.time() + self._turn(found)
        self._waits_since = time.monotonic() if self._rung else None
        # A timer that comes too early costs a turn; a new one after every turn would cost more.
        if self._timer is None or self._due > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer, self._due = self.asyncio.call_at(due, self._on_time), due

    def _on_time(self) -> None:
        self._timer = None
        self._ring()

    def stop(self, ending: Coroutine[Any, Any, None]) -> None:
        """Run ``ending`` on the loop, then end the thread and close the loop. Once, from another thread."""
        asyncio.run_coroutine_threadsafe(self._end(ending), self.asyncio)
        self._thread.join(timeout=ENDING_S + 1)
        if not self._thread.is_alive():
            self.asyncio.close()

    async def _end(self, ending: Coroutine[Any, Any, None]) -> None:
        try:
            await asyncio.wait_for(ending, ENDING_S)
            await self.asyncio.shutdown_asyncgens()
        finally:
            self.asyncio.stop()
