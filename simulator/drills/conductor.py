"""Who has batches drilled: one process of an installation at a time, one batch after the other, each in a process of its own. Virtual ones and live ones
are lanes of their own: a live drill takes the time that its back-offs take, and nobody who asks for a virtual one waits for it.

A drill runs the engine for seconds, on one core. The worker's own interpreter drives real runs, so the drill has another: ``manage.py
drill_batch``. It ends when its batch is stopped, when a cell takes too long, and with the process that started it, whatever ended that.
"""

from __future__ import annotations

import logging
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO

from django.conf import settings
from django.db import connection

from fabric.adapters.duties import AGAIN_S, DutySpec, DutyThread, database_us
from fabric.models import Duty, new_id
from simulator.drills.batches import (
    batch_fail,
    batch_next,
    batch_open,
    drill_overdue,
    drills_interrupt,
    drills_wait,
)
from simulator.drills.models import LIVE, VIRTUAL, Drill
from simulator.drills.recent import drills_prune
from simulator.drills.schedules_due import schedules_duty

log = logging.getLogger(__name__)
LOOK_S = 5.0
"""So much later than it was asked for a batch begins, at most, where no message says that there is one."""
LEASE_S = 15.0
"""After this a process that conducted and says nothing any more is taken for dead, and another goes on."""
POLL_S = 0.25
CELL_S = 60.0
"""A cell takes a second or less; one that takes this long never ends. A live one takes so much more than it may: then it is put back."""
END_S = 5.0
US = 1_000_000
NOT_GIVEN = frozenset(
    [
        "FABRIC_MODEL_KEY",
        "FABRIC_ANTHROPIC_KEY",
        "FABRIC_GOOGLE_KEY",
        "FABRIC_AZURE_KEY",
        "FABRIC_BEDROCK_KEY",
        "FABRIC_VERTEX_KEY",
        "FABRIC_AUDIT_KEY",
        "FABRIC_NOTIFY_WEBHOOKS",
        "FABRIC_WEBHOOK_SECRET",
        "FABRIC_SMTP_PASSWORD",
    ]
)
"""Variables with secrets that a batch has no use for."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Drills of one mode."""

    mode: str
    duty: str
    """The row that says whose turn it is."""
    left: Callable[[Callable[[], None]], object] = lambda _: None
    """Puts back what drills that have ended have left; a live one may leave a run. It calls what it is given while it waits."""
    leaves: Callable[[], bool] = bool
    """Whether there is anything to put back."""


def _put_back(meanwhile: Callable[[], None]) -> int:
    from simulator.drills.putting_back import (
        put_back_what_was_left,
    )  # It loads the ports, which a process that only starts has not.

    return put_back_what_was_left(meanwhile)


def _leaves() -> bool:
    from simulator.drills.putting_back import left_behind

    return bool(left_behind())


DUTY = "drills"
LANES: Mapping[str, Lane] = {
    VIRTUAL: Lane(VIRTUAL, DUTY),
    LIVE: Lane(LIVE, "drills-live", _put_back, _leaves),
}
"""By mode; total, by test."""


class Conductor:
    """A thread that looks for drills of one mode, and has them done while nobody else has."""

    def __init__(self, cell_s: float = CELL_S, look_s: float = LOOK_S, mode: str = VIRTUAL) -> None:
        self.name, self.lane = new_id(), LANES[mode]
        self._cell_s, self._look_s, self._held_at = cell_s, look_s, 0.0
        self._woken, self._ending = threading.Event(), threading.Event()
        self._duty = DutySpec(
            name=self.lane.duty, look_s=look_s, every_s=0.0, lease_s=LEASE_S, wanted=self._wanted, act=self.conduct
        )
        self._looking = DutyThread((), self.name)
        self._thread = threading.Thread(target=self._loop, name=f"fabric-{self.lane.duty}", daemon=True)

    def start(self) -> None:
        """Starts looking; the first look is at once."""
        self._thread.start()

    def wake(self) -> None:
        """Has it look now."""
        self._woken.set()

    def stop(self, timeout_s: float = 2 * END_S) -> None:
        """Ends the drill that is under way, which is interrupted, and waits so long for that."""
        self._ending.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def look(self) -> bool:
        """Looks once, and does what there is. False: it failed, which is said."""
        return self._looking.look(self._duty)

    def _loop(self) -> None:
        while not self._ending.is_set():
            self._woken.clear()
            again_s = self._look_s if self.look() else AGAIN_S
            # No request ever ends on this thread: a connection that was cut would stay so.
            connection.close()
            self._woken.wait(again_s)

    def _wanted(self) -> bool:
        return drills_wait(self.lane.mode) or self.lane.leaves()

    def conduct(self) -> None:
        """Does all batches there are, the first that was asked for first. What ran when its process ended, here or elsewhere, is interrupted."""
        self._clear()
        while not self._ending.is_set() and (batch := batch_next(self.lane.mode)) is not None:
            self._do(batch)
            self._clear()
            drills_prune(batch)

    def _clear(self) -> None:
        """Nobody drives anything now. A process that is to end leaves to the next one what has to be put back: its own worker takes no input any more."""
        drills_interrupt(self.lane.mode)
        if not self._ending.is_set():
            self.lane.left(self._hold)

    def _do(self, batch: str) -> None:
        """Has a process drill a batch, and another the rest of it where a cell took too long."""
        holder = new_id()
        with tempfile.TemporaryFile() as said:
            process = started(batch, holder, said)
            try:
                by_itself = self._watch(process, batch, holder)
            finally:
                _end(process)
            if by_itself and not Drill.objects.filter(holder=holder).exists():
                # It did not come as far as its first cell, and another would not either.
                told = f"the process that drills could not begin: {_last_line(said)}"
                log.error("batch %s of drills: %s", batch, told)
                batch_fail(batch, told)

    def _watch(self, process: subprocess.Popen[bytes], batch: str, holder: str) -> bool:
        """Returns when the process has ended by itself (True), or is to be ended."""
        while process.poll() is None:
            if self._ending.wait(POLL_S) or not batch_open(batch) or drill_overdue(holder, self._cell_s):
                return False
            self._hold()
        return True

    def _hold(self) -> None:
        """Keeps the duty."""
        if time.monotonic() - self._held_at > LEASE_S / 5:
            self._held_at = time.monotonic()
            mine = Duty.objects.filter(name=self.lane.duty, holder=self.name)
            mine.update(held_until=database_us() + round(LEASE_S * US))


def started(batch: str, holder: str, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """The process. It holds the other end of a pipe, by which it sees that this one has ended."""
    command = [*settings.FABRIC_COMMAND, "drill_batch", batch, "--holder", holder]
    return subprocess.Popen(
        command,
        cwd=settings.BASE_DIR,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=said,
    )


def _environment() -> dict[str, str]:
    """What the process is given: it asks no model over HTTP, runs no tool and tells nobody."""
    tools = {one.partition("@")[0] for one in settings.FABRIC_TOOL_VARIABLES}
    return {name: text for name, text in os.environ.items() if name.removesuffix("_FILE") not in NOT_GIVEN | tools}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends it where it has not: it keeps nothing that would have to be put in order first."""
    if process.poll() is None:
        process.kill()
        process.wait(END_S)
    if process.stdin is not None:
        process.stdin.close()


def _last_line(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"


# -- the worker's ------------------------------------------------------------------------------------------------------

_conductors: list[Conductor] = []
_schedules: list[DutyThread] = []


def begin() -> None:
    """Starts this process's conductors, one for each lane; and what asks for drills that are due, which does not wait for those that are driven."""
    if not _conductors:
        _conductors.extend(Conductor(mode=mode) for mode in LANES)
        _schedules.append(DutyThread((schedules_duty(LOOK_S, wake),), _conductors[0].name))
        for conductor in _conductors:
            conductor.start()
        for schedules in _schedules:
            schedules.start()


def wake() -> None:
    """Has them look now, where this process has any."""
    for one in _conductors:
        one.wake()


def end() -> None:
    """Stops them."""
    while _schedules:
        _schedules.pop().stop()
    while _conductors:
        _conductors.pop().stop()
