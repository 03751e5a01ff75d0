"""Keeps the virtual clock, and the actions that wait for it.

The future actions are a heap by simulated time, in which ties go to the first scheduled, so that the order is fixed.
The protocols of the world's parts, for its actors and rules, stand here, below the world, which builds the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Protocol

from fabric.core.values.units import US

EPOCH_US = 1_767_225_600_000_000
"""Start of simulated time, microseconds since the epoch: 2026-01-01T00:00:00Z."""
SKEWS_US = (0, 0, 0, -US, US, -US // 5, US // 5)
"""Possible offsets of a process's clock, in microseconds."""
CLOCKS_APART_US = max(SKEWS_US) - min(SKEWS_US)
"""Largest difference of two clocks, in microseconds."""


class VirtualClock:
    """``ports.Clock`` on simulated time. Only moves when it is moved, and never back."""

    def __init__(self, start: int = EPOCH_US) -> None:
        self._now = start

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._now

    def move_to(self, instant: int) -> None:
        """Set the time. Raises ValueError if it is in the past."""
        if instant < self._now:
            raise ValueError(f"simulated time would go back by {self._now - instant} microseconds")
        self._now = instant


Action = Callable[..., None]


class Schedule:
    """Actions with their instants, microseconds since the epoch."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._number = 0

    def call_at(self, instant: int, action: Action, *args: Any) -> None:
        """Schedule ``action(*args)``."""
        self._number += 1
        heappush(self._heap, (instant, self._number, action, args))

    def next_at(self) -> int | None:
        """Return the instant of the next action; None if nothing is scheduled."""
        return self._heap[0][0] if self._heap else None

    def pop(self) -> tuple[int, Action, tuple[Any, ...]]:
        """Remove and return the next action. Raises IndexError if there is none."""
        instant, _, action, args = heappop(self._heap)
        return instant, action, args

    def __len__(self) -> int:
        return len(self._heap)


class SeenWorld(Protocol):
    """A world as actors and rules see it: its clock, its draws, its stores and its processes."""

    clock: VirtualClock
    schedule: Schedule
    rng: Random
    setup: Any
    store: Any
    grants: Any
    memories: Any
    sometimes: Any
    mixed: bool

    @property
    def processes(self) -> Any:
        """The processes that live."""

    def trace(self, *what: Any) -> None:
        """Write one line of the world's trace."""
