"""The time: the store's, carried on by a clock of the machine that only goes on.

Deadlines are instants that one process fixes and another one judges, and machines' clocks lie apart and jump. So all of them go by the database's
clock: read with each heartbeat, or by whoever has none now and then, and counted on from there. What was read is not believed at once: the time
shown never goes back and is never more than a tenth faster or slower than time itself, so a jump of the database's clock moves no deadline by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from fabric.adapters.elapsed import Elapsed, elapsed_s
from fabric.runtime.ports import StoreUnavailable

US = 1_000_000
SLEW = 0.1
"""How much faster or slower than time itself the shown time may go."""
ROUND_TRIP_S = 1.0
"""An answer that took longer says too little about when it was true."""
JUMP_S = 1.0
"""By how much two clocks may differ between two readings."""
UNSTEADY_S = 10.0
"""How long after a jump leases are not judged: as long as one, so that every live worker has renewed its own."""
FRESH_S = 30.0
"""How long whoever has no heartbeat goes by one reading."""


class SystemClock:
    """Wall time in microseconds since the epoch, UTC."""

    def now(self) -> int:
        """Microseconds since the epoch."""
        return time.time_ns() // 1_000


SYSTEM_CLOCK = SystemClock()


def moved_alone(moved_s: float, passed_s: float) -> bool:
    """Whether a clock that moved by ``moved_s`` while ``passed_s`` seconds went by was set: more than twice as far, or back."""
    return moved_s > 2 * passed_s + JUMP_S or moved_s < -JUMP_S


@runtime_checkable
class Measured(Protocol):
    """A clock that is told what the store's says."""

    def measured(self, us: int, asked_s: float, answered_s: float) -> None:
        """The store's clock said ``us`` to a question asked and answered at those seconds (``elapsed_s``)."""
        ...

    def steady(self) -> bool:
        """Whether the store's clock has not been set lately: only then does a lease that has lapsed prove anything."""
        ...


class SteadyClock:
    """The time as a process shows it. Any thread may ask; until the first reading it is the machine's."""

    def __init__(self, elapsed: Elapsed = elapsed_s, wall: Callable[[], int] = SYSTEM_CLOCK.now) -> None:
        self._elapsed, self._wall = elapsed, wall
        self._guard = threading.Lock()
        self._read: tuple[int, float] | None = None
        """What the store's clock said last, and when."""
        self._shown: tuple[int, float] | None = None
        """What was shown, and when."""
        self._unsteady_until = float("-inf")

    def now(self) -> int:
        """Microseconds since the epoch; never less than before."""
        with self._guard:
            return self._show(self._elapsed())

    def measured(self, us: int, asked_s: float, answered_s: float) -> None:
        """See ``Measured``."""
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
        """See ``Measured``."""
        with self._guard:
            return self._elapsed() >= self._unsteady_until

    def age_s(self) -> float:
        """Seconds since the last reading; infinite before the first."""
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
    """The same for a process without a heartbeat: it asks by itself, at most twice a minute."""

    def __init__(self, ask: Callable[[], int], steady: SteadyClock | None = None) -> None:
        self._ask, self._steady = ask, steady or SteadyClock()
        self._asking = threading.Lock()

    def now(self) -> int:
        """Microseconds since the epoch; while the store is away, counted on from what it said last, or the machine's."""
        if self._steady.age_s() > FRESH_S and self._asking.acquire(blocking=False):
            try:
                asked = elapsed_s()
                self._steady.measured(self._ask(), asked, elapsed_s())
            except StoreUnavailable:
                pass  # Whoever asks for the time is about to use the store, and is told then.
            finally:
                self._asking.release()
        return self._steady.now()
