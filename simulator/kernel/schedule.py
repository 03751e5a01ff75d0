"""What is to happen, by virtual time: a heap whose ties go to what was scheduled first, so that a run of the world is one fixed order."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., None]


class Schedule:
    """Actions with their instants, microseconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._number = 0

    def at(self, instant: int, action: Action, *args: Any) -> None:
        """Schedules ``action(*args)``."""
        self._number += 1
        heappush(self._heap, (instant, self._number, action, args))

    def next_at(self) -> int | None:
        """When the next action is due; None: nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[int, Action, tuple[Any, ...]]:
        """Takes the next action out. IndexError when there is none."""
        instant, _, action, args = heappop(self._heap)
        return instant, action, args

    def __len__(self) -> int:
        return len(self._heap)
