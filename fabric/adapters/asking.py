"""When a host has a turn without being told anything: its timers, and its questions to the store for due runs and new inputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fabric.adapters.calls import Calls
from fabric.adapters.claimer import Claimer, Question
from fabric.adapters.flush_fates import FlushFates
from fabric.adapters.held import Held
from fabric.adapters.host_config import HostConfig
from fabric.adapters.lease import Lease
from fabric.adapters.orphans import Orphans
from fabric.adapters.owned import Owned, Ports
from fabric.adapters.shared import Shared
from fabric.adapters.timers import LateTimers, Timers
from fabric.runtime.happenings import Due, Happening

US = 1_000_000
UNCOVERED_US = 200_000
"""How soon a host that may not claim looks whether its lease was confirmed."""


class Asking:
    """A part of ``host.RunHost``, whose fields these are. On the loop thread."""

    ports: Ports
    config: HostConfig
    owned: dict[str, Owned]
    calls: Calls
    claimer: Claimer
    lease: Lease
    shared: Shared
    _fates: FlushFates
    _held: Held
    _late: LateTimers
    _orphans: Orphans
    _timers: Timers
    _claim_wanted: bool
    _inbox_wanted: bool
    _asking: bool
    _full: bool
    _stopping: bool
    _last_sweep: int
    _last_look: int

    def _step(self, run_id: str, happening: Happening) -> None:
        raise NotImplementedError

    def _pause_s(self) -> float:
        now = self.ports.clock.now()
        due = self._last_sweep + int(self.config.sweep_s * US)
        if self._claim_wanted and not (self._stopping or self._asking):
            due = min(due, now if self._covered() else now + UNCOVERED_US)
        if (next_at := self._timers.next_at()) is not None:
            due = min(due, next_at)
        return max(0.0001, (due - now) / US)

    def _fire_timers(self) -> None:
        now = self.ports.clock.now()
        for at, run_id in self._timers.due(now):
            if (batch := self._held.freed(run_id, at)) is not None:
                self.ports.writer.submit(batch, self._fates.freed(run_id))
            owned = self.owned.get(run_id)
            if owned is None or owned.wake_at != at:
                continue
            if self._late.holds(at, owned.driver.run, now):
                self._inbox_wanted = True
            else:
                owned.wake_at = None
                self._step(run_id, Due())
        self._timers.trim(len(self.owned) + len(self._held), self._awaited)

    def _awaited(self) -> Iterator[tuple[int | None, str]]:
        return chain(((owned.wake_at, run_id) for run_id, owned in self.owned.items()), self._held.instants())

    def _sweep(self) -> None:
        """Asks for due runs and new inputs: when something was offered, when room came free, and every ``sweep_s`` as the net."""
        now = self.ports.clock.now()
        if now - self._last_sweep >= int(self.config.sweep_s * US):
            self._claim_wanted = self._inbox_wanted = True
            self.shared.beat()
        if self._full and self._room() > self.config.max_owned // 16:
            self._full, self._claim_wanted = False, True
        if self._asking or not (self._claim_wanted or self._inbox_wanted):
            return
        covered = self._covered()
        room = 0 if self._stopping or not (self._claim_wanted and covered) else self._room()
        self._full = self._full or (self._claim_wanted and covered and room <= 0)
        inbox = self._inbox_wanted and bool(self.owned)
        self._claim_wanted, self._inbox_wanted = self._claim_wanted and not covered, False
        self._last_sweep = now
        if room > 0 or inbox:
            self._asking = True
            look = now - self._last_look >= int(self.config.orphans_s * US)
            self._last_look = now if look else self._last_look
            again, lease = self._orphans.due(now), self.lease
            self.claimer.ask(Question(lease.name, max(0, room), inbox, again, lease.term, look, now))

    def _covered(self) -> bool:
        """Whether it may send anything for what it claims: else a run would be claimed, given back unsent, and claimed again, until it is put away."""
        return self.lease.covers(self.lease.term)

    def _room(self) -> int:
        return min(self.config.max_owned - len(self.owned), self.config.max_inflight_calls - self.calls.inflight)
