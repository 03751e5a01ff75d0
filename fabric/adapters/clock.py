"""The real clock."""

from __future__ import annotations

import time


class SystemClock:
    """Wall time in microseconds since the epoch, UTC."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1_000


SYSTEM_CLOCK = SystemClock()
