"""What one process at a time does now and then beside its runs: a thread that looks, and a row a duty that says whose turn it is.

The row saves work, no more: whatever a duty does is right when two do it at once. Looking reads; only who finds something to do writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connection

from fabric.models import Duty

log = logging.getLogger(__name__)
US = 1_000_000
AGAIN_S = 60.0
"""Until a duty that failed is looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DutySpec:
    """One duty."""

    name: str
    look_s: float
    """How often a process looks."""
    every_s: float
    """How often it is done at most, whoever does it; 0: whenever there is something."""
    lease_s: float
    """After this, one that has not said that it is done is taken for dead, and another does it."""
    wanted: Callable[[], bool]
    """Whether there is something to do: a cheap read."""
    act: Callable[[], object]


def database_us() -> int:
    """The time on the database's clock, microseconds since the epoch; SQLite's is the machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])


def duty_take(duty: DutySpec, holder: str) -> bool:
    """Takes a duty that is due and nobody's. The update decides between those who ask at once."""
    now = database_us()
    Duty.objects.get_or_create(name=duty.name)
    free = Duty.objects.filter(name=duty.name, due_at__lte=now, held_until__lte=now)
    return bool(free.update(holder=holder, held_until=now + round(duty.lease_s * US)))


def duty_done(duty: DutySpec, holder: str, *, again_s: float) -> None:
    """Gives it back; due again in ``again_s``. One that was taken by another meanwhile is the other's."""
    mine = Duty.objects.filter(name=duty.name, holder=holder)
    mine.update(held_until=0, due_at=database_us() + round(again_s * US))


class DutyThread:
    """Looks at every duty at its own pace until it is stopped."""

    def __init__(self, duties: Sequence[DutySpec], holder: str) -> None:
        self._duties, self._holder = duties, holder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="fabric-duties", daemon=True)

    def start(self) -> None:
        """Starts looking; the first look is at once."""
        self._thread.start()

    def end(self) -> None:
        """Asks it to end, and waits for nothing."""
        self._stop.set()

    def stop(self, timeout_s: float = 5.0) -> None:
        """Asks it to end, and waits so long: a duty that is under way goes on to its next commit, which its successor will find."""
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
        """Looks once, and does what is due. False: it failed, which is said."""
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
