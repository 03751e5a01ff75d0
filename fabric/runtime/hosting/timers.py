"""Instants at which a worker's runs want a turn."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator

from fabric.core.state.run import Run
from fabric.runtime.arrivals import wants_look

SPARE = 256
"""Timers that may lie about, four a run besides, before those that no run waits for are thrown out."""


class Timers:
    """``(instant, run)`` in order. A postponed run has several; its owner knows which one it still waits for."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, at: int, run_id: str) -> None:
        """Give the run a turn at that instant (microseconds since the epoch)."""
        heapq.heappush(self._heap, (at, run_id))

    def next_at(self) -> int | None:
        """Return the first instant; None: no run waits."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: int) -> Iterator[tuple[int, str]]:
        """Take out the timers that have come by ``now``, in order; more may be set meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            yield heapq.heappop(self._heap)

    def trim(self, runs: int, live: Callable[[], Iterable[tuple[int | None, str]]]) -> None:
        """Keep only ``live`` when there are many more than ``runs``. Deadlines lie hours ahead, and those of ended runs
        would pile up.
        """
        if len(self._heap) > SPARE + 4 * runs:
            self._heap = [(at, run_id) for at, run_id in live() if at is not None]
            heapq.heapify(self._heap)


class LateTimers:
    """Timers that fire late because the worker stood still, and timers with which a review expires. Each waits for a
    look at the inbox that begins after it fired, since an answer may have come in time.
    """

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._since: dict[tuple[int, str], int] = {}
        self._looked: set[tuple[int, str]] = set()

    def holds(self, at: int, run: Run, now: int) -> bool:
        """Return True if a timer of the run, set to ``at`` (microseconds), waits for a look at the inbox."""
        run_id = run.id
        if not wants_look(at, now, run) or (at, run_id) in self._looked:
            return False
        self._since.setdefault((at, run_id), now)
        return True

    def note_look(self, at: int) -> None:
        """Take in that a look which began at that instant was answered. Timers that waited for it fire at the next
        turn.
        """
        self._looked = {timer for timer, since in self._since.items() if since <= at}
        for timer in self._looked:
            del self._since[timer]
            self._timers.set(*timer)
