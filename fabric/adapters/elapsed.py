"""How much time has passed, whatever the process or its machine did meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable

Elapsed = Callable[[], float]
"""Seconds on a clock that only goes on; only differences mean anything."""
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_s() -> float:
    """Seconds that go on while the process is stopped (SIGSTOP) and, where there is such a clock, while the machine is suspended.

    Linux's CLOCK_BOOTTIME counts both; CLOCK_MONOTONIC, taken elsewhere, counts a stopped process but not a suspended machine. A virtual machine
    that is frozen from outside may see neither. (clock_gettime(2))
    """
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)
