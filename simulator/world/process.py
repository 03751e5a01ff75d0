"""One worker process of the virtual world: interprets the effects of ``fabric/runtime/hosting``.

Threads of the real ``fabric/worker/host.py`` become actions on the schedule here. At each effect the process may die.
It may also pause for longer than its lease, and go on as a zombie. Its memory must not matter then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

from fabric.core.events.commands import AbortCall, Call, Command
from fabric.core.events.inputs import CallStreamed, Result
from fabric.core.state.context import CompiledFabric
from fabric.core.values.flow import FORMAT
from fabric.core.values.frozen import replace
from fabric.core.values.units import US
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import (
    Append,
    Arrived,
    CutShort,
    Draining,
    Happening,
    Need,
    OpenBreakers,
    Perform,
    Quarantine,
    Release,
    WakeAt,
)
from fabric.runtime.hosting.machine import DriverFailed, HostEffect, Hosting
from fabric.runtime.hosting.ownership import CallKey, OwnedRun, Revision
from fabric.runtime.hosting.polling import HostConfig, PollAnswer, StorePoll
from fabric.runtime.journal.batches import find_fate
from fabric.runtime.journal.loader import JournalDamage, drop_snapshot, needs_journal
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun, InboxItem, StoreUnavailable
from fabric.runtime.ports.spending import GuardStore
from fabric.runtime.quarantine.verdicts import verdict
from simulator.rules.durability import checks as damage_checks
from simulator.world.actions import SWEEP_S, Died, Flight, SentBatch, VirtualActor
from simulator.world.breakers import SharingWorld, VirtualBreakers, build_shared

CONFIG = HostConfig(sweep_s=SWEEP_S)
CLAIMS_MAX = 2
"""Number of runs of one claim."""
BACKOFF_S, STOP_S = 0.2, 10.0
"""Seconds between two attempts of a write, and seconds that a stopping process waits for its last ones."""


class ProcessWorld(SharingWorld, Protocol):
    """A world as a worker process sees it: it carries out what leaves the process."""

    guards: GuardStore

    def end_process(self, process: Process) -> None:
        """End a process with its memory, and start another one."""

    def pause(self, process: Process) -> None:
        """Pause a process, for longer than its lease."""

    def next_sweep(self, process: Process) -> None:
        """Schedule a sweep for the next known due time."""

    def claim(self, name: str, again: tuple[str, ...], format: int) -> list[ClaimedRun]:
        """Claim runs for a process. Raises StoreUnavailable if the answer is lost, or the database is away."""
        ...

    def write(self, process: Process, sent: list[SentBatch]) -> None:
        """Write batches to the database, even if their process has died."""

    def register_decision(self, run_id: str, batch: Batch) -> None:
        """Register a process's decision before its commit."""

    def call(self, owned: OwnedRun, command: Call) -> Iterator[tuple[float, Result | CallStreamed]]:
        """Execute a call. Yield results with their delays in seconds; of a streamed answer, its calls first."""
        ...

    def record_error(self, run_id: str, happening: Happening, error: Exception) -> None:
        """Record a violation, because a driver must never raise."""


class Process(VirtualActor):
    """A worker incarnation: owns runs, steps their drivers, carries out their effects."""

    world: ProcessWorld

    def __init__(self, world: ProcessWorld, name: str, *, newer: bool = False) -> None:
        super().__init__(world, name)
        self._program, self._lives = damage_checks.program(newer), 1
        self.newer = newer
        """True if it runs the next version of the program, which reads more kinds of inputs."""
        self.next_beat = self.lease_until = self.deaf_until = 0
        self._turn_at: int | None = None
        """Instant of its next turn, by its own timers and requests."""
        self._writing = False
        self._queue: list[SentBatch] = []
        """Batches that wait for the write before them."""
        self._flights: dict[CallKey, Flight] = {}
        self._damage: dict[str, str] = {}
        """Damage done to the journals of claimed runs, by run."""
        self.shared = build_shared(self, world)
        self.breakers = VirtualBreakers(world.guards, world.grants, world.watch.probes.record_end)
        self.hosting = Hosting(CONFIG, self._new_driver, **self._program)
        self.owned = self.hosting.owned
        self._register()

    def _new_driver(self, compiled: CompiledFabric) -> RunDriver:
        return self.shared.driver(compiled, damage_checks.cadence(self.world.setup.seed), **self._program)

    def _register(self) -> None:
        now = self.world.clock.now()
        self.next_beat, self.lease_until = now + int(CONFIG.beat_s * US), now + int(CONFIG.lease_s * US)
        self.world.store.register(self.name, lease_s=CONFIG.lease_s)
        self.later(0.0, self.sweep)

    # -- being a process -----------------------------------------------------------------------------------------------

    def die(self) -> None:
        """Leave the world, with all that it remembers."""
        self.world.end_process(self)

    def pause(self) -> None:
        """Stand still for longer than its lease."""
        self.world.pause(self)

    def resume(self) -> None:
        """End the pause, with a heartbeat first."""
        self.next_beat = self.world.clock.now()
        super().resume()

    def stop(self, grace_s: float) -> None:
        """Stop: claim and issue nothing more, let calls finish within ``grace_s``, and end."""
        for run in self.hosting.stop():
            self.do_or_leave(self._step, run, Draining())
        self.later(grace_s, self._end)

    def _end(self) -> None:
        for run in list(self.owned.values()):
            self.world.sometimes["cut_short"] += 1
            self.do_or_leave(self._step, run, CutShort())
        self.later(STOP_S, self._leave)

    def _leave(self) -> None:
        self.shared.stop()
        self.world.store.retire(self.name)
        raise Died

    def beat_until(self, instant: int) -> None:
        """Send the heartbeat that is due up to ``instant``: only the newest matters."""
        if self.paused or instant < self.deaf_until:
            return
        beat_us = int(CONFIG.beat_s * US)
        last = max(self.next_beat, instant - (instant - self.next_beat) % beat_us)
        self.next_beat = last + beat_us
        self.lease_until = last + int(CONFIG.lease_s * US)
        known = self.world.store.beat(self.name, lease_s=(self.lease_until - self.world.clock.now()) / US)
        if not known:
            self._begin_again()

    def _begin_again(self) -> None:
        """Begin anew under another name, because the incarnation was retired."""
        self.world.sometimes["noticed_retired"] += 1
        for run in self.hosting.lose():
            self._forget(run)
        self.shared.forget_all()
        self._damage.clear()
        self._lives += 1
        self.name = f"{self.name.partition('+')[0]}+{self._lives}"
        self._register()

    # -- turns ---------------------------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Take a turn that asks the store for due runs and new inputs."""
        self.hosting.polling.want_all()
        self._turn()

    def _turn(self) -> None:
        releases, runs = self.hosting.due(self.now_us())
        self._queue += [SentBatch(None, batch, self._damage.get(batch.run_id, "")) for batch in releases]
        for run, at in runs:
            self.do_or_leave(self._wake, run, at)
        self.do_or_leave(self._poll_store)

    def _wake(self, run: OwnedRun, at: int) -> None:
        effects = self.hosting.wake(run, at, self.now_us())
        self.world.sometimes["woke_late"] += run.wake_at == at and self.hosting.polling.inputs_wanted
        self._carry_out(run, effects)

    def end_action(self) -> None:
        """Send everything that is ready, and schedule the next turn.

        The real process sweeps all the time. Here a sweep is scheduled only if work is due: others would find
        nothing.
        """
        self._flush()
        wanted = self.hosting.wanted_at(self.now_us(), covered=self._is_covered())
        if wanted is not None:
            at = max(wanted - self.world.skew_us(self.name), self.world.clock.now())
            if self._turn_at is None or at < self._turn_at:
                self._turn_at = at
                self.world.schedule.call_at(at, self.act, self._scheduled_turn, (at,))

    def _scheduled_turn(self, at: int) -> None:
        if self._turn_at == at:
            self._turn_at = None
        self._turn()

    def _is_covered(self) -> bool:
        """Return True while its lease surely lasts."""
        return self.world.clock.now() < self.lease_until - int(0.1 * CONFIG.lease_s * US)

    def _look_for_orphans(self) -> None:
        """Schedule a sweep for runs that the process may own without knowing it."""
        self.sweep_at(self.world.clock.now() + int(CONFIG.orphans_s * US))

    # -- asking the store ----------------------------------------------------------------------------------------------

    def _poll_store(self) -> None:
        polling, covered = self.hosting.polling, self._is_covered()
        poll = None
        if polling.wants(len(self.owned), len(self._flights)):
            poll = self.hosting.poll(self.now_us(), self.name, 0, covered=covered, inflight=len(self._flights))
        if poll is not None:
            self._ask(poll)

    def _ask(self, poll: StorePoll) -> None:
        world, again = self.world, tuple(poll.again)
        limit, claims, claimed = min(poll.room, CLAIMS_MAX), list[ClaimedRun](), False
        if limit > 0 and world.strikes("claim_away"):
            world.store.fail_next("away", call="claim")
        try:
            if limit > 0:
                claims = world.claim(self.name, again, damage_checks.NEXT if self.newer else FORMAT)
                claimed = True
        except StoreUnavailable:
            self.hosting.take_answer(PollAnswer(poll), self.name)
            self.later(SWEEP_S, self.sweep)
            self._look_for_orphans()
            return
        for one in claims:
            world.watch.register_claim(one, self.name, beside=[other.run_id for other in claims])
            world.sometimes["taken_over"] += one.taken_over
            world.sometimes["taken_anew"] += one.run_id in again
        if claims:
            self.pass_point("claim")
        answer = PollAnswer(
            poll,
            claims,
            items=world.store.inbox(self.name) if poll.inbox else (),
            more=0 < limit == len(claims),
            claimed=claimed,
            owned=world.store.owned_by(self.name) if poll.owned else None,
            heard=poll.inbox,
        )
        self.do_or_leave(self._take_answer, answer)

    def _take_answer(self, answer: PollAnswer) -> None:
        taken = self.hosting.take_answer(answer, self.name)
        if taken is None:
            return
        for claimed in taken.claims:
            self.do_or_leave(self._take, claimed, taken.poll)
        for item in taken.items:
            self.do_or_leave(self._arrive, item)
        self.do_or_leave(self._end_answer, taken)

    def _end_answer(self, answer: PollAnswer) -> None:
        self.hosting.end_answer(answer, self.now_us())
        if self.hosting.orphans or answer.poll.again:  # One that is a suspect may have to wait.
            self._look_for_orphans()
        if not self.hosting.stopping:
            self.world.next_sweep(self)

    def _arrive(self, item: InboxItem) -> None:
        run = self.owned.get(item.run_id)
        if run is not None:
            self._step(run, Arrived(item))

    def _take(self, claimed: ClaimedRun, poll: StorePoll) -> None:
        world, run_id, damage = self.world, claimed.run_id, ""
        compiled = world.setup.compiled_at(world.clock.now())
        if world.strikes("damage") and verdict(claimed, self.now_us(), compiled=compiled, **self._program) is None:
            claimed, damage = damage_checks.damage_claim(world.rng, claimed)
        self._damage[run_id] = damage
        if needs_journal(claimed):
            world.sometimes["snapshot_unsound"] += 1
            claimed = drop_snapshot(claimed, world.store.journal(run_id))
        if compiled.spec.gates.reads_sources:
            claimed = replace(claimed, documents=world.store.documents(run_id))
        taking = self.hosting.claim(claimed, Revision(compiled, world.setup.fabric.offers), poll, self.now_us())
        if taking.before is not None:
            self._forget(taking.before)
        if taking.run is None:
            return
        world.sometimes["from_snapshot"] += claimed.snapshot is not None
        if damage:
            world.watch.record_finding(
                "damage_is_named", run_id, damage_checks.check_damage_named(damage, taking.effects)
            )
        self._carry_out(taking.run, taking.effects)

    # -- effects -------------------------------------------------------------------------------------------------------

    def _step(self, run: OwnedRun, happening: Happening) -> None:
        self._carry_out(run, self.hosting.step(run, happening, self.now_us()))

    def _carry_out(self, run: OwnedRun, effects: Sequence[HostEffect]) -> None:
        for number, effect in enumerate(effects):
            self.pass_point(type(effect).__name__.lower())
            if self.paused:
                self._left.append((self._carry_out, (run, effects[number:])))
                return
            self._interpret(run, effect)

    def _interpret(self, run: OwnedRun, effect: HostEffect) -> None:
        run_id = run.claimed.run_id
        match effect:
            case Append(batch):
                self.shared.spend_reservations(batch)
                self.world.register_decision(run_id, batch)
            case Need(wants):
                for want in wants:
                    # The book serves several runs in one turn: each has spent its part before the next is served.
                    self.shared.need(run, want, partial(self.do_in_one_go, self._step, run))
            case Perform(command):
                self._perform(run, command)
            case WakeAt():
                pass
            case Release():
                self._forget(run)
            case OpenBreakers(gates, judged):
                self.breakers.opens(run_id, gates, judged)
            case Quarantine(damage):
                self._note_damage(run_id, damage)
                self._forget(run)
            case DriverFailed(happening, error):
                self.world.record_error(run_id, happening, error)
                self._forget(run)

    def _note_damage(self, run_id: str, damage: JournalDamage) -> None:
        self.world.sometimes[f"damage_{damage.what}"] += 1
        said = "" if self._damage.get(run_id) else f"called {damage.what}: {damage.sentence}"
        self.world.watch.record_finding("undamaged_is_read", run_id, said)

    def _forget(self, run: OwnedRun) -> None:
        """Drop the state of a released run: its unsent batch is never sent."""
        self.shared.unwritten(run.ready)
        run.ready = None
        for key in sorted(run.out):
            self._abort(key)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _perform(self, run: OwnedRun, command: Command) -> None:
        key = (run.claimed.run_id, command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            run.out.discard(key)
            self._abort(key)
            return
        run.out.add(key)
        self.shared.performs(run, command)
        flight = self._flights[key] = Flight(run, command)
        refused = self.breakers.passes(run.claimed.fabric_id, run.driver, command, self.world.clock.now())
        if refused is not None:
            self.world.sometimes[f"breaker_refused_{refused.cause}"] += 1
            self.later(0.0, self._answer, key, flight, refused)
            return
        self.world.watch.check_passed(run, command, self.breakers.list_passed(run.driver, command))
        for delay_s, result in self.world.call(run, command):
            self.later(delay_s, self._answer, key, flight, result)
        self.pass_point("performed")

    def _abort(self, key: CallKey) -> None:
        """Drop a call. Its result may have been reported already, and comes late."""
        flight = self._flights.pop(key, None)
        self.breakers.report_drop(key)
        if flight is not None and not self.world.strikes("late_result"):
            flight.wanted = False

    def _answer(self, key: CallKey, flight: Flight, result: Result | CallStreamed) -> None:
        if isinstance(result, CallStreamed):
            self._carry_out(flight.run, self.hosting.stream_call(flight.run, key, result, self.now_us()))
        elif flight.wanted:
            if self._flights.get(key) is flight:
                del self._flights[key]
            noted = self.breakers.note_result(flight.run.claimed.fabric_id, flight.run.driver, flight.command, result)
            run = self.owned.get(key[0])
            if run is not None:
                self._carry_out(run, self.hosting.answer_call(run, key, noted, self.now_us()))
            self.breakers.report_result(key, result, flight.run.driver)

    # -- writing -------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send ready batches, one a run, as soon as the write before has come back."""
        self._queue += [
            SentBatch(run, batch, self._damage.get(batch.run_id, "")) for run, batch in self.hosting.hand_over()
        ]
        if self._writing or not self._queue:
            return
        first = dict[str, SentBatch]()
        for one in self._queue:
            first.setdefault(one.batch.run_id, one)
        self._queue = [one for one in self._queue if first[one.batch.run_id] is not one]
        self._writing = True
        self._send(list(first.values()))

    def _send(self, sent: list[SentBatch]) -> None:
        self.pass_point("before_commit")
        self.do_or_leave(self._put_on_the_wire, sent)

    def _put_on_the_wire(self, sent: list[SentBatch]) -> None:
        delay_s = 3.0 if self.world.strikes("slow_commit") else 0.001 + 0.01 * self.world.rng.random()
        self.world.schedule.call_at(self.world.clock.now() + int(delay_s * US), self.world.write, self, sent)

    def take_fates(self, sent: list[SentBatch], fates: list[BatchFate]) -> None:
        """Handle the database's answer."""
        self._writing = False
        self.pass_point("after_commit")
        for one, fate in zip(sent, fates, strict=True):
            self.do_or_leave(self._take_fate, one, fate)

    def _take_fate(self, one: SentBatch, fate: BatchFate) -> None:
        self.shared.apply_fate(one.batch, fate)
        if one.run is None:
            self.hosting.end_release(one.batch.run_id, fate, self.now_us())
        else:
            self._carry_out(one.run, self.hosting.end_write(one.run, one.batch, fate, self.now_us()))
        if fate is not BatchFate.COMMITTED:
            self.world.sometimes[f"write_{fate}"] += 1
            self.sweep_at(self.world.clock.now() + int(SWEEP_S * US))
        elif one.batch.release:
            self.world.sometimes["quarantined"] += any(row.kind == "run_quarantined" for row in one.batch.rows)
            self.world.next_sweep(self)  # It may be due at an instant that was not known before.

    def unwritten(self, sent: list[SentBatch]) -> None:
        """Send the batches again later, because the database refused them."""
        self.later(BACKOFF_S, self._send, sent)

    def unknown(self, sent: list[SentBatch]) -> None:
        """Look up the fate of the batches later, because the answer was lost."""
        self.later(BACKOFF_S, self._learn, sent)

    def _learn(self, sent: list[SentBatch]) -> None:
        heads = self.world.store.heads([one.batch.run_id for one in sent])
        again = []
        for one in sent:
            fate = find_fate(one.batch, heads.get(one.batch.run_id))
            if fate is None:
                again.append(one)
            else:
                self.do_or_leave(self._take_fate, one, fate)
        if again:
            self.do_or_leave(self._send, again)
        else:
            self._writing = False
