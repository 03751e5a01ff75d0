"""One worker process of the virtual world: the second interpreter of ``runtime/driver.py``, the same in meaning as ``fabric/adapters/host.py``.

What the real one does on threads is an action on the schedule here. At each effect the process may die. It may also stand still for longer than its
lease, and go on as a zombie. Nothing that it has in memory may matter then.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from fabric.adapters.owned import given_back, makes_room
from fabric.core.commands import AbortCall, Command
from fabric.core.flow import FORMAT
from fabric.core.frozen import replace
from fabric.core.inputs import CallStreamed, Result
from fabric.runtime.batches import merged
from fabric.runtime.fates import fate_of
from fabric.runtime.happenings import (
    Answered,
    Append,
    Arrived,
    Committed,
    CutShort,
    Draining,
    Due,
    Effect,
    Happening,
    Need,
    OpenBreakers,
    Perform,
    Quarantine,
    Refused,
    Release,
    Streamed,
    Taken,
    WakeAt,
)
from fabric.runtime.loading import Damage, from_journal, needs_journal, slim
from fabric.runtime.ports import Batch, Claimed, StoreUnavailable, Written
from fabric.runtime.quarantine import verdict
from fabric.runtime.waking import wants_look
from simulator.kernel import damage_checks
from simulator.kernel.acting import SWEEP_S, Acting
from simulator.kernel.breakers import VirtualBreakers
from simulator.kernel.clock import US
from simulator.kernel.orphan_looks import OrphanLooks
from simulator.kernel.process_memory import Died, Flight, Owned, Sent
from simulator.kernel.sharing import shared_of

if TYPE_CHECKING:
    from simulator.kernel.world import World

LEASE_S, BEAT_S = 10.0, 3.0
"""design.md 5."""
BACKOFF_S, STOP_S = 0.2, 10.0
"""Between two tries of a write; how long a stopping process waits for its last ones."""


class Process(Acting):
    """A worker incarnation: owns runs, steps their drivers, carries out what they ask for."""

    def __init__(self, world: World, name: str, *, newer: bool = False) -> None:
        self._program = damage_checks.program(newer)
        self.newer = newer
        """Whether it runs the next version of the program, which reads inputs that this one does not."""
        self.world, self.name, self._lives = world, name, 1
        self.alive = True
        self.paused = self._whole = False
        self.stopping = False
        self.owned: dict[str, Owned] = {}
        self.next_beat = self.lease_until = self.deaf_until = 0
        self._phase = world.rng.randrange(int(SWEEP_S * US))
        self._sweeps: set[int] = set()
        self._writing = False
        self._returns: list[Sent] = []
        self._orphans = OrphanLooks(world.clock.now, self.sweep_at)
        self._put_off = deque()
        self._left = []
        self.shared = shared_of(self)
        self.breakers = VirtualBreakers(world.guards, world.grants, world.watch.probes.over)
        self._register()

    def _register(self) -> None:
        now = self.world.clock.now()
        self.next_beat, self.lease_until = now + int(BEAT_S * US), now + int(LEASE_S * US)
        self.world.store.register(self.name, lease_s=LEASE_S)
        self.later(0.0, self.sweep)

    # -- being a process -----------------------------------------------------------------------------------------------

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

    def stop(self, grace_s: float) -> None:
        """Asked to stop: claims and issues nothing more, lets calls finish within ``grace_s``, and goes."""
        self.stopping = True
        for owned in list(self.owned.values()):
            self._now(self.step, owned, Draining())
        self.later(grace_s, self._end)

    def _end(self) -> None:
        for owned in list(self.owned.values()):
            self.world.sometimes["cut_short"] += 1
            self._now(self.step, owned, CutShort())
        self.later(STOP_S, self._leave)

    def _leave(self) -> None:
        self.shared.stop()
        self.world.store.retire(self.name)
        raise Died

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
        self.shared.lost()
        self._returns.clear()
        self._orphans.found.clear()
        self._lives += 1
        self.name = f"{self.name.partition('+')[0]}+{self._lives}"
        self._register()

    # -- claiming ------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Claims what is due, then looks for inputs of the runs it owns."""
        world = self.world
        if self.stopping:
            self.look()
            return
        if world.strikes("claim_away"):
            world.store.fail_next("away", call="claim")
        again = self._orphans.found.due(world.clock.now())
        try:
            format = damage_checks.NEXT if self.newer else FORMAT
            claims = world.claim(self.name, again, format)
        except StoreUnavailable:
            self.later(SWEEP_S, self.sweep)
            self._orphans.soon()
            return
        for run_id in again if len(claims) < 2 else ():
            self._orphans.found.not_given(run_id)
        if len(claims) < len(again):
            self._orphans.soon()  # One that is a suspect may have to wait.
        for claimed in claims:
            self._orphans.found.claimed(claimed.run_id)
            world.watch.claimed(claimed, self.name, beside=[one.run_id for one in claims])
        if claims:
            self._point("claim")
        for claimed in claims:
            world.sometimes["taken_over"] += claimed.taken_over
            world.sometimes["taken_anew"] += claimed.run_id in again
            self._now(self._take, claimed)
        if len(claims) == 2:
            self.later(0.0, self.sweep)
        self._now(self.look)
        self._now(self._orphans.look, lambda: world.store.owned_by(self.name), self._knows)
        world.next_sweep(self)
        if self.lease_until <= world.clock.now():
            self.sweep_at(world.clock.now() + 1)  # Who has no lease gets nothing, and asks again.

    def _knows(self, run_id: str) -> bool:
        return run_id in self.owned or any(one.batch.run_id == run_id for one in self._returns)

    def _take(self, claimed: Claimed) -> None:
        world, compiled, damage = self.world, self.world.setup.compiled_at(self.world.clock.now()), ""
        away = verdict(claimed, world.clock.now(), compiled=compiled, **self._program)
        if away is not None:
            self._put_away(Owned(self.shared.driver(compiled), claimed), away)
            return
        if world.strikes("damage"):
            claimed, damage = damage_checks.damaged(world.rng, claimed)
        if needs_journal(claimed):
            world.sometimes["snapshot_unsound"] += 1
            claimed = from_journal(claimed, world.store.journal(claimed.run_id))
        if compiled.spec.gates.reads_sources:
            claimed = replace(claimed, documents=world.store.documents(claimed.run_id))
        world.sometimes["from_snapshot"] += claimed.snapshot is not None
        driver = self.shared.driver(compiled, damage_checks.cadence(world.setup.seed), **self._program)
        owned = self.owned[claimed.run_id] = Owned(driver, slim(claimed), damage=damage)
        self.step(owned, Taken(claimed, self.name, self._orphans.found.is_crowded(claimed.run_id)))

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
            effects = owned.driver.step(happening, self._now_us())
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            self.world.raised(owned.claimed.run_id, happening, error)
            return
        if owned.damage:
            self.world.watch.found("damage_is_named", owned.claimed.run_id, damage_checks.named(owned.damage, effects))
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
                self.shared.decided(batch)
                self.world.deciding(owned.claimed.run_id, batch)
            case Need(wants):
                for want in wants:
                    # The book tells several runs in one turn, and looks at what is left: each has spent its part before the next is told.
                    self.shared.need(owned, want, partial(self._in_one_go, self.step, owned))
            case Perform(command):
                self._perform(owned, command)
            case WakeAt(at):
                owned.wake_at = at
                if at is not None:
                    due = max(at - self.world.skew_us(self.name), self.world.clock.now())
                    self.world.schedule.at(due, self.act, self._due, (owned, at))
            case Release():
                self._drop(owned)
            case OpenBreakers(gates, judged):
                self.breakers.opens(owned.claimed.run_id, gates, judged)
            case Quarantine(damage, claimed):
                self._damaged(owned, damage, claimed)

    def _damaged(self, owned: Owned, damage: Damage, claimed: Claimed | None) -> None:
        """The run cannot be read: it is put away where that can be written, else given back as it was."""
        run_id = owned.claimed.run_id
        self.world.sometimes[f"damage_{damage.what}"] += 1
        said = "" if owned.damage else f"called {damage.what}: {damage.sentence}"
        self.world.watch.found("undamaged_is_read", run_id, said)
        self._drop(owned)
        if claimed is None:
            return self._give_back(owned)
        return self._put_away(owned, damage_checks.away(claimed, self.world.clock.now(), damage, self._program))

    def _drop(self, owned: Owned) -> None:
        """What was not sent of it never will be."""
        self.owned.pop(owned.claimed.run_id, None)
        self.shared.unwritten(owned.ready)
        owned.ready = None

    def _put_away(self, owned: Owned, away: Batch) -> None:
        self.world.sometimes["quarantined"] += any(row.kind == "run_quarantined" for row in away.rows)
        self._returns.append(Sent(owned, away, given_back=True))

    def _due(self, owned: Owned, at: int) -> None:
        if owned.wake_at == at and wants_look(at, self._now_us(), owned.driver.run):
            self.world.sometimes["woke_late"] += 1
            self._now(self.look)
        self._now(self._wake, owned, at)

    def _wake(self, owned: Owned, at: int) -> None:
        if owned.wake_at == at:
            owned.wake_at = None
            self.step(owned, Due())

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _perform(self, owned: Owned, command: Command) -> None:
        key = (command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            flight = owned.flights.pop(key, None)
            self.breakers.dropped((owned.claimed.run_id, *key))
            if flight is not None and not self.world.strikes("late_result"):
                flight.wanted = False
            return
        self.shared.performs(owned, command)
        flight = owned.flights[key] = Flight(command)
        refused = self.breakers.passes(owned.claimed.fabric_id, owned.driver, command, self.world.clock.now())
        if refused is not None:
            self.world.sometimes[f"breaker_refused_{refused.cause}"] += 1
            self.later(0.0, self._answer, owned, flight, refused)
            return
        self.world.watch.passed(owned, command, self.breakers.past(owned.driver, command))
        for delay_s, result in self.world.call(owned, command):
            self.later(delay_s, self._answer, owned, flight, result)
        self._point("performed")

    def _answer(self, owned: Owned, flight: Flight, result: Result | CallStreamed) -> None:
        if isinstance(result, CallStreamed):
            self.step(owned, Streamed(result))
        elif flight.wanted:
            owned.flights.pop(key := (flight.command.command_id, flight.command.attempt), None)
            noted = self.breakers.noted(owned.claimed.fabric_id, owned.driver, flight.command, result)
            self.step(owned, Answered(noted))
            self.breakers.answered((owned.claimed.run_id, *key), result, owned.driver)

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
        self.shared.written(one.batch, fate)
        if fate is Written.COMMITTED:
            one.owned.durable = one.batch
            if one.given_back or makes_room(one.batch, one.owned.claimed):
                self.later(0.0, self.sweep)
            self.step(one.owned, Committed(one.batch.new_seq))
            if one.batch.release:
                self.world.next_sweep(self)  # It may be due at an instant that nobody knew of before.
            return
        self.world.sometimes[f"write_{fate}"] += 1
        mine, later = self.owned.get(one.batch.run_id) is one.owned, self.world.clock.now() + int(SWEEP_S * US)
        self.step(one.owned, Refused(fate))
        if fate in (Written.FENCED, Written.FAMILY_FULL):
            self._orphans.refused(one.batch.run_id, later, fate)
            self.sweep_at(later)
        elif mine:
            self._give_back(one.owned)
        else:  # What was to be put away is still this process's.
            self._orphans.soon()

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
        owned.voided()
        released = given_back(owned.claimed, owned.durable, self.world.clock.now())
        self._returns.append(Sent(owned, released, given_back=True))
