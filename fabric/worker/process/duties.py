"""Does duties besides runs now and then, each in one process at a time. A thread looks for work, and each duty has a
row with its turn.

The row only saves work: a duty is correct when two processes do it at once. Looking reads; only a process that finds
work writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connection

from fabric.core.values.units import US
from fabric.models import Duty

log = logging.getLogger(__name__)
AGAIN_S = 60.0
"""Seconds until a failed duty is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DutySpec:
    """One duty."""

    name: str
    look_s: float
    """Seconds between two looks of a process."""
    every_s: float
    """Shortest time between two executions by any process, in seconds; 0: whenever there is work."""
    lease_s: float
    """Seconds after which an unfinished holder counts as dead and another process takes over."""
    wanted: Callable[[], bool]
    """Cheap read that returns True if there is work."""
    act: Callable[[], object]


def database_us() -> int:
    """Return the database's clock, microseconds since the epoch; SQLite's is the machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])


def duty_take(duty: DutySpec, holder: str) -> bool:
    """Take a duty that is due and free; return True if it was. The update decides between simultaneous takers."""
    now = database_us()
    Duty.objects.get_or_create(name=duty.name)
    free = Duty.objects.filter(name=duty.name, due_at__lte=now, held_until__lte=now)
    return bool(free.update(holder=holder, held_until=now + round(duty.lease_s * US)))


def duty_done(duty: DutySpec, holder: str, *, again_s: float) -> None:
    """Give a duty back; it is due again in ``again_s``. A duty that another process took meanwhile stays with it."""
    mine = Duty.objects.filter(name=duty.name, holder=holder)
    mine.update(held_until=0, due_at=database_us() + round(again_s * US))


class DutyThread:
    """Looks at every duty at its own pace until it is stopped."""

    def __init__(self, duties: Sequence[DutySpec], holder: str) -> None:
        self._duties, self._holder = duties, holder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="fabric-duties", daemon=True)

    def start(self) -> None:
        """Start looking; the first look is at once."""
        self._thread.start()

    def end(self) -> None:
        """Ask it to end, without waiting."""
        self._stop.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Ask the thread to end, and wait. A duty under way goes on to its next commit, which its successor
        will find.
        """
        self.end()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _loop(self) -> None:
        next_at = {duty.name: time.monotonic() for duty in self._duties}
        while not self._stop.is_set():
            for duty in self._duties:
                if next_at[duty.name] <= time.monotonic() and not self._stop.is_set():
                    next_at[duty.name] = time.monotonic() + (duty.look_s if self.look(duty) else AGAIN_S)
            # No request ever ends on this thread: a connection that was cut would stay so.
            connection.close()
            self._stop.wait(max(0.0, min(next_at.values()) - time.monotonic()))

    def look(self, duty: DutySpec) -> bool:
        """Look once, and do what is due. Returns False after a failure, which is logged."""
        try:
            if duty.wanted() and duty_take(duty, self._holder):
                try:
                    duty.act()
                except BaseException:
                    duty_done(duty, self._holder, again_s=AGAIN_S)
                    raise
                duty_done(duty, self._holder, again_s=duty.every_s)
        except Exception as error:  # noqa: BLE001 - Whatever it is, runs go on, and the next look tries again.
            log.warning("%s was not done, trying again in %g s: %s", duty.name, AGAIN_S, error)
            return False
        return True
