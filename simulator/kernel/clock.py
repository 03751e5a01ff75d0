"""The virtual clock: the time is what the world says it is."""

from __future__ import annotations

EPOCH_US = 1_767_225_600_000_000
"""Where virtual time starts, microseconds since the epoch: 2026-01-01T00:00:00Z."""
US = 1_000_000
"""Microseconds in a second."""
SKEWS_US = (0, 0, 0, -US, US, -US // 5, US // 5)
"""How far clocks of processes lie off, one of these each."""
CLOCKS_APART_US = max(SKEWS_US) - min(SKEWS_US)
"""How far two of them lie apart at most."""


class VirtualClock:
    """``ports.Clock`` on virtual time. Only moves when it is moved, and never back."""

    def __init__(self, start: int = EPOCH_US) -> None:
        self._now = start

    def now(self) -> int:
        """Microseconds since the epoch, UTC."""
        return self._now

    def move_to(self, instant: int) -> None:
        """Sets the time. ValueError when that would go back."""
        if instant < self._now:
            raise ValueError(f"virtual time would go back by {self._now - instant} microseconds")
        self._now = instant
