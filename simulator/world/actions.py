"""Executes the actions of a virtual process: now, later, or after a pause; the process may die of them.

Calls and batches on their way must not matter once the process is gone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fabric.core.events.commands import Call
from fabric.core.values.units import US
from fabric.runtime.hosting.ownership import OwnedRun
from fabric.runtime.ports.journal import Batch
from simulator.clockwork.clock import SeenWorld
from simulator.stores.contract import WorldStore
from simulator.swarm.setups import Setup

SWEEP_S = 2.0
"""Seconds between a process's sweeps for due runs (docs/specification/durability.md)."""
Act = tuple[Callable[..., None], tuple[Any, ...]]


class ActorWorld(SeenWorld, Protocol):
    """A world as a process sees it that acts in it."""

    setup: Setup
    store: WorldStore
    sometimes: Counter[str]

    @property
    def processes(self) -> Sequence[VirtualActor]:
        """The processes that live."""
        ...

    def strikes(self, name: str) -> bool:
        """Return True if a fault strikes now."""
        ...

    def skew_us(self, name: str) -> int:
        """Return the offset of a process's clock from the store's, in microseconds."""
        ...


class VirtualActor(ABC):
    """A process of the virtual world, which may die and pause."""

    owned: Mapping[str, OwnedRun]
    """The runs that it drives, by id."""

    def __init__(self, world: ActorWorld, name: str) -> None:
        self.world, self.name = world, name
        self.alive, self.paused = True, False
        self._whole = False
        self._phase = world.rng.randrange(int(SWEEP_S * US))
        self._sweeps: set[int] = set()
        self._put_off: deque[Act] = deque()
        """Actions postponed until the end of the pause."""
        self._left: list[Act] = []
        """Remaining parts of the current action."""

    @abstractmethod
    def sweep(self) -> None:
        """Ask the store for due runs and new inputs."""

    @abstractmethod
    def end_action(self) -> None:
        """Send everything that an action made ready."""

    @abstractmethod
    def die(self) -> None:
        """Leave the world, with all that it remembers."""

    @abstractmethod
    def pause(self) -> None:
        """Stand still for longer than its lease."""

    def now_us(self) -> int:
        """Return the time by the process's own clock."""
        return self.world.clock.now() + self.world.skew_us(self.name)

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedule an action of this process, if it lives and is not paused then."""
        self.world.schedule.call_at(self.world.clock.now() + int(delay_s * US), self.act, action, args)

    def sweep_at(self, instant: int) -> None:
        """Schedule a sweep at the process's first tick from ``instant`` on."""
        period = int(SWEEP_S * US)
        instant = max(instant, self.world.clock.now() + 1)
        tick = instant + (self._phase - instant) % period
        if tick not in self._sweeps:
            self._sweeps.add(tick)
            self.world.schedule.call_at(tick, self.act, self._tick, (tick,))

    def _tick(self, tick: int) -> None:
        self._sweeps.discard(tick)
        self.sweep()

    def act(self, action: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Execute an action, or postpone it while the process is paused."""
        if not self.alive:
            return
        if self.paused:
            self._put_off.append((action, args))
            return
        try:
            action(*args)
            if not self.paused:
                self.end_action()
        except Died:
            self.die()
        # The rest of this action comes before actions that arrived meanwhile.
        self._put_off.extendleft(reversed(self._left))
        self._left.clear()

    def resume(self) -> None:
        """End the pause, and execute all postponed actions in order."""
        if not self.alive:
            return
        self.paused = False
        while self._put_off and self.alive and not self.paused:
            self.act(*self._put_off.popleft())
        if not self.paused:
            self.act(self.sweep, ())

    def do_or_leave(self, action: Callable[..., None], *args: Any) -> None:
        """Execute a part of the current action, or postpone it if the part before paused the process."""
        if self.paused:
            self._left.append((action, args))
        else:
            action(*args)

    def do_in_one_go(self, action: Callable[..., None], *args: Any) -> None:
        """Execute a part without pauses in between, because its caller continues with further parts."""
        self._whole = True
        try:
            action(*args)
        finally:
            self._whole = False

    def pass_point(self, name: str) -> None:
        """Pass a point at which a process may die, or pause."""
        if self.world.strikes("crash"):
            self.world.sometimes[f"crash_at_{name}"] += 1
            raise Died
        if not (self.paused or self._whole) and self.world.strikes("zombie"):
            self.pause()


class Died(Exception):
    """Ends the process, and unwinds its current action."""


@dataclass(slots=True)
class Flight:
    """An open call."""

    run: OwnedRun
    command: Call
    wanted: bool = True
    """False if the process dropped the call, so that nothing is reported for it."""


@dataclass(slots=True)
class SentBatch:
    """A run's batch on its way to the database."""

    run: OwnedRun | None
    """The run in its driver; None if the batch only ends a cooldown or a quarantine."""
    batch: Batch
    damage: str = ""
    """Damage of the journal from which the run was loaded; empty for none."""
