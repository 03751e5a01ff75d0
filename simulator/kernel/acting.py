"""How a virtual process acts: now, later, or once it no longer stands still; and it may die of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from simulator.kernel.clock import US
from simulator.kernel.process_memory import Died

if TYPE_CHECKING:
    from simulator.kernel.process import Process
    from simulator.kernel.world import World

SWEEP_S = 2.0
"""How often a process looks for what is due (design.md 5)."""
Act = tuple[Callable[..., None], tuple[Any, ...]]


class Acting:
    """A part of ``process.Process``, whose fields these are."""

    world: World
    name: str
    _phase: int
    _sweeps: set[int]
    alive: bool
    paused: bool
    _whole: bool
    _put_off: deque[Act]
    _left: list[Act]

    def _flush(self) -> None:
        raise NotImplementedError

    def sweep(self) -> None:
        """Claims what is due, then looks for inputs."""
        raise NotImplementedError

    def _now_us(self) -> int:
        return self.world.clock.now() + self.world.skew_us(self.name)

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedules something that this process will do, if it lives and is not standing still."""
        self.world.schedule.at(self.world.clock.now() + int(delay_s * US), self.act, action, args)

    def sweep_at(self, instant: int) -> None:
        """Sees to it that there is a sweep at the process's first tick from ``instant`` on."""
        period = int(SWEEP_S * US)
        instant = max(instant, self.world.clock.now() + 1)
        tick = instant + (self._phase - instant) % period
        if tick not in self._sweeps:
            self._sweeps.add(tick)
            self.world.schedule.at(tick, self.act, self._tick, (tick,))

    def _tick(self, tick: int) -> None:
        self._sweeps.discard(tick)
        self.sweep()

    def act(self, action: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Does it now; puts it off while the process stands still."""
        if not self.alive:
            return
        if self.paused:
            self._put_off.append((action, args))
            return
        try:
            action(*args)
            if not self.paused:
                self._flush()
        except Died:
            self.world.died(cast("Process", self))
        # What this action had left to do comes before whatever arrived meanwhile.
        self._put_off.extendleft(reversed(self._left))
        self._left.clear()

    def _now(self, action: Callable[..., None], *args: Any) -> None:
        """Does a part of the current action, or leaves it for later when the process stands still since the part before."""
        if self.paused:
            self._left.append((action, args))
        else:
            action(*args)

    def _in_one_go(self, action: Callable[..., None], *args: Any) -> None:
        """Does it without standing still in between: for a part that something else called, which goes on to others right after."""
        self._whole = True
        try:
            action(*args)
        finally:
            self._whole = False

    def _point(self, name: str) -> None:
        """A place where a process may die, or stand still."""
        if self.world.strikes("crash"):
            self.world.sometimes[f"crash_at_{name}"] += 1
            raise Died
        if not (self.paused or self._whole) and self.world.strikes("pause"):
            self.world.pause(cast("Process", self))
