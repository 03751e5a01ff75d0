"""Clocks of a host that a test moves: a clock and a stopwatch that stand, and a store that counts beats."""

from __future__ import annotations

import threading
from typing import Any

from fabric.core.values.units import US
from fabric.runtime.hosting.polling import HostConfig
from fabric.worker.host import RunHost
from fabric.worker.process.clock import SYSTEM_CLOCK
from tests.fabric.worker.host.scenes import WAIT_S, Site, Watched

HOLD_S, SWEEP_S, LEASE_S = HostConfig().hold_s, HostConfig().sweep_s, HostConfig().lease_s


class Standing:
    """A clock that stands where it is set. One that began some time ``ago_s`` postpones runs to what is past for a store on the machine's clock."""

    def __init__(self, ago_s: int = 0) -> None:
        self.at = SYSTEM_CLOCK.now() - ago_s * US

    def now(self) -> int:
        return self.at


def pass_time(site: Site, host: RunHost, seconds: float) -> None:
    """Moves the clock that stands, and has the host look at it."""
    site.clock.at += round(seconds * US)
    host.loop.put(("look",))


class Stopwatch:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


class Beating(Watched):
    """A store that counts the beats that it confirmed."""

    def __init__(self) -> None:
        super().__init__()
        self.beaten = threading.Semaphore(0)

    def beat(self, incarnation: str, **given: Any) -> int:
        known = super().beat(incarnation, **given)
        self.beaten.release()
        return known


def until_new_term(site: Site, host: RunHost) -> None:
    """Waits for one beat that the store confirms, and that begins a new term of the lease."""
    term = host.lease.term
    host.lease.beat_soon()
    assert site.store.beaten.acquire(timeout=WAIT_S)
    while host.lease.term == term or not host.lease.covers(host.lease.term):
        assert host.lease._thread.is_alive()
