"""Conducts batches of drills: starts a process for each, one batch after the other.

1. Virtual and live batches have lanes of their own: a live drill takes the time of its back-offs, and virtual ones do
   not wait for it.
2. A drill runs the engine for seconds, on one core, while the worker's own interpreter drives real runs. So the drill
   has another interpreter: ``manage.py drill_batch``.
3. It ends when its batch is stopped, when a cell takes too long, and with the process that started it.
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

from fabric.core.values.units import US
from fabric.models import Duty, new_id
from fabric.worker.process.duties import AGAIN_S, DutySpec, DutyThread, database_us
from simulator.drills.batches.batch import (
    batch_fail,
    batch_next,
    batch_open,
    drill_overdue,
    drills_interrupt,
    drills_wait,
)
from simulator.drills.models.tables import LIVE, VIRTUAL, Drill
from simulator.drills.runs.left_behind import list_left_behind
from simulator.drills.schedules.services import schedules_duty
from simulator.drills.selectors.batches import drills_prune

log = logging.getLogger(__name__)
LOOK_S = 5.0
"""Longest delay of a batch's start without a message, in seconds."""
LEASE_S = 15.0
"""Seconds without a sign of life after which a conducting process counts as dead, and another takes over."""
POLL_S = 0.25
CELL_S = 60.0
"""Longest duration of a cell in seconds; most take a second. Live ones may take their cap in addition; cells above
are ended.
"""
END_S = 5.0
NOT_GIVEN = frozenset(
    [
        "FABRIC_MODEL_KEY",
        "FABRIC_ANTHROPIC_KEY",
        "FABRIC_GOOGLE_KEY",
        "FABRIC_AZURE_KEY",
        "FABRIC_BEDROCK_KEY",
        "FABRIC_VERTEX_KEY",
        "FABRIC_AUDIT_KEY",
        "FABRIC_AUDIT_OTLP_KEY",
        "FABRIC_OIDC_CLIENT_SECRET",
        "FABRIC_NOTIFY_WEBHOOKS",
        "FABRIC_NOTIFY_SLACK",
        "FABRIC_NOTIFY_TEAMS",
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
    """Row of the duty, which decides the conducting process."""
    left: Callable[[Callable[[], None]], object] = lambda _: None
    """Reverts effects of ended drills; a live one may leave a run. It calls its argument while it waits."""
    leaves: Callable[[], bool] = bool
    """Returns True if effects are left to revert."""


def _put_back(meanwhile: Callable[[], None]) -> int:
    from simulator.drills.live.restoration import (
        put_back_what_was_left,  # It loads the ports, which a process that only starts has not.
    )

    return put_back_what_was_left(meanwhile)


def _leaves() -> bool:
    return bool(list_left_behind())


DUTY = "drills"
LANES: Mapping[str, Lane] = {
    VIRTUAL: Lane(VIRTUAL, DUTY),
    LIVE: Lane(LIVE, "drills-live", _put_back, _leaves),
}
"""Lane of each mode; total, by test."""


class Conductor:
    """A thread that looks for drills of one mode, and conducts them if no other process does."""

    def __init__(self, cell_s: float = CELL_S, look_s: float = LOOK_S, mode: str = VIRTUAL) -> None:
        self.name, self.lane = new_id(), LANES[mode]
        self._cell_s, self._look_s, self._held_at = cell_s, look_s, 0.0
        self._woken, self._ending = threading.Event(), threading.Event()
        self._duty = DutySpec(
            name=self.lane.duty, look_s=look_s, every_s=0.0, lease_s=LEASE_S, wanted=self._is_wanted, act=self.conduct
        )
        self._looking = DutyThread((), self.name)
        self._thread = threading.Thread(target=self._loop, name=f"fabric-{self.lane.duty}", daemon=True)

    def start(self) -> None:
        """Start looking; the first look is at once."""
        self._thread.start()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    def stop(self, timeout_s: float = 2 * END_S) -> None:
        """End the current drill, which is interrupted, and wait for that."""
        self._ending.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def look(self) -> bool:
        """Look once, and conduct the waiting batches. Return False after an error, which is logged."""
        return self._looking.look(self._duty)

    def _loop(self) -> None:
        while not self._ending.is_set():
            self._woken.clear()
            again_s = self._look_s if self.look() else AGAIN_S
            # No request ever ends on this thread: a connection that was cut would stay so.
            connection.close()
            self._woken.wait(again_s)

    def _is_wanted(self) -> bool:
        return drills_wait(self.lane.mode) or self.lane.leaves()

    def conduct(self) -> None:
        """Conduct all batches, the oldest first. Drills whose process has ended are marked as interrupted."""
        self._clear()
        while not self._ending.is_set() and (batch := batch_next(self.lane.mode)) is not None:
            self._do(batch)
            self._clear()
            drills_prune(batch)

    def _clear(self) -> None:
        """Interrupt drills without a process, and revert their effects.

        A process that is ending leaves the reverting to the next one, because its worker accepts no more input.
        """
        drills_interrupt(self.lane.mode)
        if not self._ending.is_set():
            self.lane.left(self._hold)

    def _do(self, batch: str) -> None:
        """Start a process for a batch, and another for its rest if a cell took too long."""
        holder = new_id()
        with tempfile.TemporaryFile() as said:
            process = start_process(batch, holder, said)
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
        """Return True when the process has ended by itself, False if it is to be ended."""
        while process.poll() is None:
            if self._ending.wait(POLL_S) or not batch_open(batch) or drill_overdue(holder, self._cell_s):
                return False
            self._hold()
        return True

    def _hold(self) -> None:
        """Renew the duty's lease."""
        if time.monotonic() - self._held_at > LEASE_S / 5:
            self._held_at = time.monotonic()
            mine = Duty.objects.filter(name=self.lane.duty, holder=self.name)
            mine.update(held_until=database_us() + round(LEASE_S * US))


def start_process(batch: str, holder: str, said: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start and return the process. It has the other end of a pipe, by which it sees that this one has ended."""
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
    """Return the environment of the process, without secrets: it calls no model, runs no tool and notifies no
    person.
    """
    tools = {one.partition("@")[0] for one in settings.FABRIC_TOOL_VARIABLES}
    return {name: text for name, text in os.environ.items() if name.removesuffix("_FILE") not in NOT_GIVEN | tools}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process if it runs: it has no state to save."""
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
    """Start this process's conductors, one for each lane, and a separate thread for due schedules."""
    if not _conductors:
        _conductors.extend(Conductor(mode=mode) for mode in LANES)
        _schedules.append(DutyThread((schedules_duty(LOOK_S, wake),), _conductors[0].name))
        for conductor in _conductors:
            conductor.start()
        for schedules in _schedules:
            schedules.start()


def wake() -> None:
    """Let this process's conductors look now, if it has any."""
    for one in _conductors:
        one.wake()


def end() -> None:
    """Stop this process's conductors."""
    while _schedules:
        _schedules.pop().stop()
    while _conductors:
        _conductors.pop().stop()
