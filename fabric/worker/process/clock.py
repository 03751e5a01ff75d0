"""Tells the time: the store's clock, continued by a monotonic clock of the machine.

Deadlines are instants that one process fixes and another one judges, and machines' clocks differ and jump. So all of
them go by the database's clock: read with each heartbeat, or now and then by processes without one, and continued from
there. A reading is not adopted at once: the shown time never goes back and is never more than a tenth faster or slower
than real time, so a jump of the database's clock alone moves no deadline. Elapsed time is measured through any pause of
the process or its machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from fabric.core.values.units import US
from fabric.runtime.ports.journal import StoreUnavailable

Elapsed = Callable[[], float]
"""Seconds on a clock that only goes on; only differences mean anything."""
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


def elapsed_s() -> float:
    """Return seconds that continue while the process is stopped (SIGSTOP). Where such a clock exists, they also
    continue while the machine is suspended.

    Linux's CLOCK_BOOTTIME counts both; CLOCK_MONOTONIC, used elsewhere, counts a stopped process but not a suspended
    machine. A virtual machine that is frozen from outside may see neither. (clock_gettime(2))
    """
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


SLEW = 0.1
"""Largest deviation of the shown time's speed from real time."""
ROUND_TRIP_S = 1.0
"""Seconds after which an answer is too late to show the time."""
JUMP_S = 1.0
"""Seconds by which two clocks may differ between two readings."""
UNSTEADY_S = 10.0
"""Seconds after a jump in which leases are not judged. They are as long as a lease, so that every live worker has
renewed its own.
"""
FRESH_S = 30.0
"""Seconds for which a process without a heartbeat uses one reading."""


class SystemClock:
    """Wall time in microseconds since the epoch, UTC."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        return time.time_ns() // 1_000


SYSTEM_CLOCK = SystemClock()


def moved_alone(moved_s: float, passed_s: float) -> bool:
    """Return True if a clock that moved by ``moved_s`` in ``passed_s`` seconds was set. It moved more than twice as
    far, or back.
    """
    return moved_s > 2 * passed_s + JUMP_S or moved_s < -JUMP_S


@runtime_checkable
class MeasuredClock(Protocol):
    """A clock that is fed with the store's time."""

    def record_measurement(self, us: int, asked_s: float, answered_s: float) -> None:
        """Record that the store's clock was ``us`` for a question asked and answered at those seconds
        (``elapsed_s``).
        """
        ...

    def steady(self) -> bool:
        """Return True unless the store's clock was set lately: only then does a lapsed lease prove anything."""
        ...


class SteadyClock:
    """The time as a process shows it, on any thread; until the first reading it is the machine's."""

    def __init__(self, elapsed: Elapsed = elapsed_s, wall: Callable[[], int] = SYSTEM_CLOCK.now) -> None:
        self._elapsed, self._wall = elapsed, wall
        self._guard = threading.Lock()
        self._read: tuple[int, float] | None = None
        """Last reading of the store's clock, and its time."""
        self._shown: tuple[int, float] | None = None
        """Last shown time, and the moment of it."""
        self._unsteady_until = float("-inf")

    def now(self) -> int:
        """Return microseconds since the epoch; never less than before."""
        with self._guard:
            return self._show(self._elapsed())

    def record_measurement(self, us: int, asked_s: float, answered_s: float) -> None:
        """See ``MeasuredClock``."""
        with self._guard:
            at = (asked_s + answered_s) / 2
            if self._read is not None:
                read_us, read_at = self._read
                if answered_s - asked_s > ROUND_TRIP_S or at <= read_at:
                    return
                if moved_alone((us - read_us) / US, at - read_at):
                    self._unsteady_until = answered_s + UNSTEADY_S
            first, self._read = self._read is None, (us, at)
            if first:
                self._shown = (us + round((answered_s - at) * US), answered_s)
            else:
                self._show(answered_s)

    def steady(self) -> bool:
        """See ``MeasuredClock``."""
        with self._guard:
            return self._elapsed() >= self._unsteady_until

    def age_s(self) -> float:
        """Return the seconds since the last reading; infinite before the first."""
        with self._guard:
            return float("inf") if self._read is None else self._elapsed() - self._read[1]

    def _show(self, at: float) -> int:
        if self._read is None:
            return self._wall()
        assert self._shown is not None
        shown_us, shown_at = self._shown
        passed = max(0.0, at - shown_at)
        due = self._read[0] + (at - self._read[1]) * US
        most, least = shown_us + passed * US * (1 + SLEW), shown_us + passed * US * (1 - SLEW)
        shown = max(shown_us, int(min(max(due, least), most)))
        self._shown = (shown, shown_at + passed)
        return shown


class AskingClock:
    """The store's clock for a process without a heartbeat: reads the store itself, at most twice a minute."""

    def __init__(self, ask: Callable[[], int], steady: SteadyClock | None = None) -> None:
        self._ask, self._steady = ask, steady or SteadyClock()
        self._asking = threading.Lock()

    def now(self) -> int:
        """Return microseconds since the epoch; while the store is away, continued from its last reading, or the
        machine's.
        """
        if self._steady.age_s() > FRESH_S and self._asking.acquire(blocking=False):
            try:
                asked = elapsed_s()
                self._steady.record_measurement(self._ask(), asked, elapsed_s())
            except StoreUnavailable:
                pass  # The caller is about to use the store, and gets the error then.
            finally:
                self._asking.release()
        return self._steady.now()
