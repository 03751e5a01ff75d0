"""One worker process of the virtual world: the second interpreter of ``runtime/driver.py``, the same in meaning as ``fabric/adapters/host.py``.

Whatever the real one does on threads is here an action on the schedule, and at each effect the process may die, or stand still for longer than its lease
and go on as a zombie: nothing that it holds in memory may matter then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fabric.adapters.owned import given_back
from fabric.core.commands import AbortCall, Call, Command
from fabric.core.inputs import Result
from fabric.runtime.driver import RunDriver, merged
from fabric.runtime.fates import fate_of
from fabric.runtime.happenings import (
    Answered,
    Append,
    Arrived,
    Committed,
    Due,
    Effect,
    Happening,
    Perform,
    Refused,
    Release,
    Taken,
    WakeAt,
)
from fabric.runtime.ports import Batch, Claimed, StoreUnavailable, Written
from simulator.kernel.clock import US

if TYPE_CHECKING:
    from simulator.kernel.world import World

LEASE_S, BEAT_S, SWEEP_S = 10.0, 3.0, 2.0
"""design.md 5."""
BACKOFF_S = 0.2


class Died(Exception):
    """The process is gone; unwinds whatever it was doing."""


@dataclass(slots=True)
class Flight:
    """A call that is out."""

    command: Call
    wanted: bool = True


@dataclass(slots=True)
class Owned:
    """One run in this process's memory."""

    driver: RunDriver
    claimed: Claimed
    ready: Batch | None = None
    writing: bool = False
    durable: Batch | None = None
    wake_at: int | None = None
    flights: dict[tuple[str, int], Flight] = field(default_factory=dict)


@dataclass(slots=True)
class Sent:
    """A run's batch on its way to the database."""

    owned: Owned
    batch: Batch
    given_back: bool = False


class Process:
    """A worker incarnation: owns runs, steps their drivers, carries out what they ask for."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name, self._lives = world, name, 1
        self.alive = True
        self.paused = False
        self.owned: dict[str, Owned] = {}
        self.next_beat = self.lease_until = 0
        self.deaf_until = 0
        self._phase = world.rng.randrange(int(SWEEP_S * US))
        self._sweeps: set[int] = set()
        self._writing = False
        self._returns: list[Sent] = []
        self._put_off: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._left: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self._register()

    def _register(self) -> None:
        now = self.world.clock.now()
        self.next_beat, self.lease_until = now + int(BEAT_S * US), now + int(LEASE_S * US)
        self.world.store.register(self.name, lease_s=LEASE_S)
        self.later(0.0, self.sweep)

    # -- being a process -----------------------------------------------------------------------------------------------

    def later(self, delay_s: float, action: Callable[..., None], *args: Any) -> None:
        """Schedules something that this process will do, if it lives and is not standing still."""
        self.world.schedule.at(self.world.clock.now() + int(delay_s * US), self.act, action, args)

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
            self.world.died(self)
        # What this action had left to do comes before whatever arrived meanwhile.
        self._put_off.extendleft(reversed(self._left))
        self._left.clear()

    def _now(self, action: Callable[..., None], *args: Any) -> None:
        """Does a part of the current action, or leaves it for later when the process stands still since the part before."""
        if self.paused:
            self._left.append((action, args))
        else:
            action(*args)

    def resume(self) -> None:
        """Goes on after standing still: everything that was put off happens now, in order."""
        if not self.alive:
            return
        self.paused = False
        self.next_beat = self.world.clock.now()
        while self._put_off and self.alive and not self.paused:
            self.act(*self._put_off.popleft())
        if not self.paused:
            self.act(self.sweep, ())

    def beat_until(self, instant: int) -> None:
        """The heartbeats that fall between the last one and ``instant``: only the newest matters."""
        if self.paused or instant < self.deaf_until:
            return
        last = max(self.next_beat, instant - (instant - self.next_beat) % int(BEAT_S * US))
        self.next_beat = last + int(BEAT_S * US)
        self.lease_until = last + int(LEASE_S * US)
        known = self.world.store.beat(self.name, lease_s=(self.lease_until - self.world.clock.now()) / US)
        if not known:
            self._begin_again()

    def _begin_again(self) -> None:
        """The incarnation was retired: everything is let go of, and life begins anew under another name."""
        self.world.sometimes["noticed_retired"] += 1
        self.owned.clear()
        self._returns.clear()
        self._lives += 1
        self.name = f"{self.name.partition('+')[0]}+{self._lives}"
        self._register()

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

    # -- claiming ------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Claims what is due, then looks for inputs of the runs it owns."""
        world = self.world
        if world.strikes("claim_away"):
            world.store.fail_next("away", call="claim")
        try:
            claims = world.store.claim(self.name, limit=2, queues=("default",))
        except StoreUnavailable:
            self.later(SWEEP_S, self.sweep)
            return
        for claimed in claims:
            world.watch.claimed(claimed, self.name)
        if claims:
            self._point("claim")
        for claimed in claims:
            world.sometimes["taken_over"] += claimed.taken_over
            self._now(self._take, claimed)
        if len(claims) == 2:
            self.later(0.0, self.sweep)
        self._now(self.look)
        world.next_sweep(self)

    def _take(self, claimed: Claimed) -> None:
        owned = Owned(RunDriver(self.world.setup.fabric.compiled), claimed)
        self.owned[claimed.run_id] = owned
        self.step(owned, Taken(claimed, self.name))

    def look(self) -> None:
        """Hands every visible input to the run it is for."""
        for item in self.world.store.inbox(self.name) if self.owned else ():
            owned = self.owned.get(item.run_id)
            if owned is not None:
                self._now(self.step, owned, Arrived(item))

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, owned: Owned, happening: Happening) -> None:
        """Steps a driver and carries out its effects."""
        if self.owned.get(owned.claimed.run_id) is not owned:
            return
        try:
            effects = owned.driver.step(happening, self.world.clock.now())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.world.raised(owned.claimed.run_id, happening, error)
            return
        self._carry_out(owned, effects)

    def _carry_out(self, owned: Owned, effects: list[Effect]) -> None:
        for number, effect in enumerate(effects):
            self._point(type(effect).__name__.lower())
            if self.paused:
                self._left.append((self._carry_out, (owned, effects[number:])))
                return
            self._interpret(owned, effect)

    def _interpret(self, owned: Owned, effect: Effect) -> None:
        match effect:
            case Append(batch):
                owned.ready = batch if owned.ready is None else merged(owned.ready, batch)
                self.world.deciding(owned.claimed.run_id, batch)
            case Perform(command):
                self._perform(owned, command)
            case WakeAt(at):
                owned.wake_at = at
                if at is not None:
                    self.world.schedule.at(max(at, self.world.clock.now()), self.act, self._due, (owned, at))
            case Release():
                self.owned.pop(owned.claimed.run_id, None)

    def _due(self, owned: Owned, at: int) -> None:
        if owned.wake_at == at:
            owned.wake_at = None
            self.step(owned, Due())

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _perform(self, owned: Owned, command: Command) -> None:
        key = (command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            flight = owned.flights.pop(key, None)
            if flight is not None and not self.world.strikes("late_result"):
                flight.wanted = False
            return
        flight = owned.flights[key] = Flight(command)
        for delay_s, result in self.world.call(owned, command):
            self.later(delay_s, self._answer, owned, flight, result)
        self._point("performed")

    def _answer(self, owned: Owned, flight: Flight, result: Result) -> None:
        if flight.wanted:
            owned.flights.pop((flight.command.command_id, flight.command.attempt), None)
            self.step(owned, Answered(result))

    # -- writing -------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Sends what is ready, one batch a run, as soon as the write before has come back."""
        if self._writing:
            return
        sent = [one for one in self._returns if one.batch.run_id not in self.owned]
        self._returns.clear()
        for owned in self.owned.values():
            if owned.ready is not None and not owned.writing:
                sent.append(Sent(owned, owned.ready))
                owned.ready, owned.writing = None, True
        if sent:
            self._writing = True
            self._send(sent)

    def _send(self, sent: list[Sent]) -> None:
        self._point("before_commit")
        self._now(self._put_on_the_wire, sent)

    def _put_on_the_wire(self, sent: list[Sent]) -> None:
        delay_s = 3.0 if self.world.strikes("slow_commit") else 0.001 + 0.01 * self.world.rng.random()
        self.world.schedule.at(self.world.clock.now() + int(delay_s * US), self.world.write, self, sent)

    def written(self, sent: list[Sent], fates: list[Written]) -> None:
        """The database answered."""
        self._writing = False
        self._point("after_commit")
        for one, fate in zip(sent, fates, strict=True):
            self._now(self._settle, one, fate)

    def _settle(self, one: Sent, fate: Written) -> None:
        one.owned.writing = False
        if fate is Written.COMMITTED:
            one.owned.durable = one.batch
            if one.given_back:
                self.later(0.0, self.sweep)
            self.step(one.owned, Committed(one.batch.new_seq))
            return
        self.world.sometimes[f"write_{fate}"] += 1
        mine = self.owned.get(one.batch.run_id) is one.owned
        self.step(one.owned, Refused(fate))
        if mine and fate is Written.INPUT_GONE:
            self._give_back(one.owned)

    def unwritten(self, sent: list[Sent]) -> None:
        """The database did not take it: once more, later."""
        self.later(BACKOFF_S, self._send, sent)

    def unknown(self, sent: list[Sent]) -> None:
        """The answer was lost: learns from the runs' rows what became of it."""
        self.later(BACKOFF_S, self._learn, sent)

    def _learn(self, sent: list[Sent]) -> None:
        heads = self.world.store.heads([one.batch.run_id for one in sent])
        again = []
        for one in sent:
            fate = fate_of(one.batch, heads.get(one.batch.run_id))
            if fate is None:
                again.append(one)
            else:
                self._now(self._settle, one, fate)
        if again:
            self._now(self._send, again)
        else:
            self._writing = False

    def _give_back(self, owned: Owned) -> None:
        """The run is still this process's, and what it held of it is void: its row is released where its journal ends."""
        for flight in owned.flights.values():
            flight.wanted = False
        batch = given_back(owned.claimed, owned.durable, self.world.clock.now())
        self._returns.append(Sent(owned, batch, given_back=True))

    # -- dying ---------------------------------------------------------------------------------------------------------

    def _point(self, name: str) -> None:
        """A place where a process may die, or stand still."""
        world = self.world
        if world.strikes("crash"):
            world.sometimes[f"crash_at_{name}"] += 1
            raise Died
        if not self.paused and world.strikes("pause"):
            world.pause(self)
