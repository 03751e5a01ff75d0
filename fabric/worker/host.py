"""Owns runs: carries out the effects of ``fabric/runtime/hosting`` with threads, a clock and a database.

One loop thread owns all runs, steps their drivers and has all their calls in flight; one writer thread commits; one
polls the store; one keeps the lease. A run that waits for a model, a retry or a person occupies no thread. Steps of one
turn of the loop, or those during the write of a run's batch, go out as one batch (docs/design.md). The fates of a flush
reach the loop in one message, so that its runs continue in one turn. The rules are in the machine, which the simulator
runs too (``simulator/world/process.py``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from fabric.core.events.commands import AbortCall, Command
from fabric.core.events.inputs import CallStreamed, Result
from fabric.core.values.units import US
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
from fabric.runtime.hosting.ownership import OwnedRun, revision_pin
from fabric.runtime.hosting.polling import HostConfig, HostCounters, PollAnswer
from fabric.runtime.ports.calls import Ending
from fabric.runtime.ports.journal import Batch, BatchFate
from fabric.stores.writer import OnDone
from fabric.worker.calls import Calls, Key, make_call
from fabric.worker.claimer import Claimer
from fabric.worker.host_ports import Ports
from fabric.worker.lease import Lease
from fabric.worker.process.loop_thread import LoopThread, Message
from fabric.worker.spending.process_share import ProcessShare, find_desk, find_guards

__all__ = ["Fates", "FlushFates", "HostConfig", "HostCounters", "Ports", "RunHost"]


Fates = list[tuple[OwnedRun, Batch, BatchFate | Exception]]


class FlushFates:
    """Fates of the flush under way; only the writer's thread uses them. ``put`` takes a message to the loop;
    ``term`` returns the lease's present term.
    """

    def __init__(self, put: Callable[[Message], None], term: Callable[[], int]) -> None:
        self._put, self._term = put, term
        self._begun_in = 0
        self._fates: Fates = []

    def bind_batch(self, run: OwnedRun, batch: Batch) -> OnDone:
        """Return the callback that records the fate of a run's batch."""
        return partial(self._note, run, batch)

    def begin_flush(self) -> None:
        """Record that the store is about to write. A run that it commits for was owned in this term of the lease, or
        later.
        """
        self._begun_in = self._term()

    def of_release(self, batch: Batch) -> OnDone:
        """Returns the callback that takes the fate of a releasing batch to the loop."""
        return lambda fate: self._put(("released", batch, fate))

    def _note(self, run: OwnedRun, batch: Batch, fate: BatchFate | Exception) -> None:
        self._fates.append((run, batch, fate))

    def send_fates(self) -> None:
        """Send the fates of the finished flush."""
        if self._fates:
            fates, self._fates = self._fates, []
            self._put(("written", fates, self._begun_in))


log = logging.getLogger(__name__)
NEVER_S = 86_400.0


class RunHost:
    """Owns runs. ``start``, then ``offer`` run ids as hints; ``stop`` releases everything."""

    def __init__(
        self,
        ports: Ports,
        incarnation: str,
        config: HostConfig | None = None,
        on_released: Callable[[str], None] | None = None,
    ) -> None:
        self.ports = ports
        self._on_released = on_released
        """Called on the loop's thread with the id of a run that was released: ended, waiting, or lost."""
        self.config = config or HostConfig()
        self.loop = LoopThread("fabric-host", self._on_messages)
        self.calls = Calls(
            self.loop.asyncio, lambda results: self.loop.put(("results", results)), limit=self.config.max_inflight_calls
        )
        self._idle, self._ended = threading.Event(), threading.Event()
        lost, lease_s, beat_s = partial(self.loop.put, ("lost",)), self.config.lease_s, self.config.beat_s
        self.lease = Lease(ports.store, incarnation, lease_s, beat_s, lost, ports.clock, elapsed=ports.elapsed)
        self._fates = FlushFates(self.loop.put, lambda: self.lease.term)
        ports.writer.on_write, ports.writer.on_flushed = self._fates.begin_flush, self._fates.send_fates
        desk = find_desk(ports.grants, ports.buckets, lambda: self.lease.name, self._post)
        self.shared = ProcessShare(desk, post=self._post, clock=ports.clock, guards=find_guards(ports, self._post))
        self.hosting = Hosting(self.config, self.shared.driver)
        self.owned, self.counters = self.hosting.owned, self.hosting.counters
        self.claimer = Claimer(ports, self.config.queues, lambda answer: self.loop.put(("polled", answer)))

    # -- from other threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register the incarnation and start the threads. Raises StoreUnavailable when the database is away."""
        self.lease.start()
        self.ports.writer.start()
        self.claimer.start()
        self.loop.start()

    def _post(self, do: Callable[[], None]) -> None:
        """Call a function on the loop."""
        self.loop.put(("do", do))

    def offer(self, run_id: str = "") -> None:
        """Take a hint that a run is due. The row is the truth: a refused or repeated offer costs nothing."""
        self.loop.put(("offer", run_id))

    def stop(self, grace_s: float = 30.0) -> None:
        """Stop claiming, let calls finish within ``grace_s`` seconds, journal the rest as interrupted, release all
        runs, end the threads.
        """
        self.loop.put(("stop",))
        self._idle.wait(grace_s)
        self.loop.put(("end",))
        self._ended.wait(10.0)
        self.claimer.stop()
        self.loop.stop(self._last())
        self.ports.writer.close(10.0)
        self.shared.stop()
        self.lease.stop()

    async def _last(self) -> None:
        await self.calls.end()
        if isinstance(self.ports.tools, Ending):
            await self.ports.tools.end()

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _on_messages(self, messages: list[Message]) -> float:
        """Take one turn with all arrived messages; return the seconds until the next one."""
        for message in messages:
            if not self._ended.is_set():
                self._guard(_MESSAGES[message[0]], self, *message[1:])
        if self._ended.is_set():
            return NEVER_S
        self._guard(self._turn)
        now, covered = self.ports.clock.now(), not self.hosting.polling.claims_wanted or self._is_covered()
        return max(0.0001, (self.hosting.next_at(now, covered=covered) - now) / US)

    def _guard(self, do: Callable[..., None], *args: Any) -> None:
        """Call ``do`` and log its error: the loop owns every run of the process, so no error may end it."""
        try:
            do(*args)
        except Exception:
            log.exception("the host goes on after an error of its own")
            self.counters.faults += 1

    def _turn(self) -> None:
        now = self.ports.clock.now()
        releases, runs = self.hosting.due(now)
        for batch in releases:
            self.ports.writer.submit(batch, self._fates.of_release(batch))
        for run, at in runs:
            self._carry_out(run, self.hosting.wake(run, at, self.ports.clock.now()))
        self._poll_store(now)
        self._hand_over()
        if self.hosting.stopping and not self.owned:
            self._idle.set()

    def _poll_store(self, now: int) -> None:
        polling, inflight = self.hosting.polling, self.calls.inflight
        if now >= polling.sweep_at:
            polling.want_all()
            self.shared.beat()
        if polling.wants(len(self.owned), inflight):
            name, term = self.lease.name, self.lease.term
            poll = self.hosting.poll(now, name, term, covered=self._is_covered(), inflight=inflight)
            if poll is not None:
                self.claimer.ask(poll)

    def _is_covered(self) -> bool:
        """Returns True where the lease covers calls of runs that are claimed now."""
        return self.lease.covers(self.lease.term)

    def _take_answer(self, answer: PollAnswer) -> None:
        hosting = self.hosting
        taken = hosting.take_answer(answer, self.lease.name)
        if taken is None:
            return
        for (scope, kind), state in taken.known.items():
            self.shared.learn(kind, scope, state)
        for claimed in taken.claims:
            revision = taken.revisions[revision_pin(claimed)]
            taking = hosting.claim(claimed, revision, taken.poll, self.ports.clock.now())
            if taking.before is not None:
                self._forget(taking.before)
            if taking.run is not None:
                self._carry_out(taking.run, taking.effects)
        for item in taken.items:
            self._step(item.run_id, Arrived(item))
        hosting.end_answer(taken, self.ports.clock.now())

    def _take_results(self, results: Iterable[tuple[Key, Result | None]]) -> None:
        unsent: dict[str, set[tuple[str, int]]] = {}
        for key, result in results:
            run = self.owned.get(key[0])
            if result is None:
                if run is not None:
                    run.out.discard(key)
                unsent.setdefault(key[0], set()).add((key[1], key[2]))
            elif run is not None:
                self._carry_out(run, self.hosting.answer_call(run, key, result, self.ports.clock.now()))
            self.shared.breakers.record_answer(key, result, run)
        for run_id, kept in unsent.items():  # It may be another's by now: that is found out by releasing it.
            self.counters.uncovered += len(kept)
            self._step(run_id, CutShort(self.calls.unsent(run_id) | kept))

    def _take_streamed(self, run: OwnedRun, key: Key, given: CallStreamed) -> None:
        self._carry_out(run, self.hosting.stream_call(run, key, given, self.ports.clock.now()))

    def _drain(self) -> None:
        for run in self.hosting.stop():
            self._step(run.claimed.run_id, Draining())

    def _end(self) -> None:
        try:
            for run_id in list(self.owned):
                self._step(run_id, CutShort(self.calls.unsent(run_id)))
            self._hand_over(all_of_it=True)
        finally:
            self._ended.set()

    def _begin_again(self) -> None:
        """Begin again under a new incarnation: the old one was retired."""
        for run in self.hosting.lose():
            self._forget(run)
        self.shared.forget_all()

    # -- effects -------------------------------------------------------------------------------------------------------

    def _step(self, run_id: str, happening: Happening) -> None:
        run = self.owned.get(run_id)
        if run is not None:
            self._carry_out(run, self.hosting.step(run, happening, self.ports.clock.now()))

    def _step_same(self, run: OwnedRun, happening: Happening) -> None:
        """Step a run unless another worker owns it, or this one claimed it anew."""
        self._carry_out(run, self.hosting.step(run, happening, self.ports.clock.now()))

    def _carry_out(self, run: OwnedRun, effects: Sequence[HostEffect]) -> None:
        for effect in effects:
            match effect:
                case Append(batch):
                    self.shared.spend_reservations(batch)
                case Need(wants):
                    for want in wants:
                        self.shared.need(run, want, partial(self._step_same, run))
                case Perform(command):
                    self._perform(run, command)
                case WakeAt():
                    pass
                case OpenBreakers(gates, judged):
                    self.shared.breakers.opens(run.claimed.run_id, gates, judged)
                case Release():
                    self._forget(run)
                    if self._on_released is not None:
                        self._on_released(run.claimed.run_id)
                case Quarantine(damage):
                    log.error("run %s cannot go on: %s (%s)", run.claimed.run_id, damage.sentence, damage.what)
                    self._forget(run)
                case DriverFailed(happening, error):
                    kind = type(happening).__name__
                    log.error("run %s could not be stepped with %s", run.claimed.run_id, kind, exc_info=error)
                    self._forget(run)

    def _forget(self, run: OwnedRun) -> None:
        """Cancel the calls of a dropped run, and free what it reserved."""
        self.shared.unwritten(run.ready)
        run.ready = None
        if run.out:
            self.calls.abort_run(run.claimed.run_id)
            self.shared.breakers.drop_calls(run.out)

    def _perform(self, run: OwnedRun, command: Command) -> None:
        key = (run.claimed.run_id, command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            run.out.discard(key)
            self.calls.abort(key)
            self.shared.breakers.drop_calls((key,))
            return
        run.out.add(key)
        self.shared.performs(run, command)

        def take_streamed(given: CallStreamed) -> None:
            self.loop.put(("streamed", run, key, given))

        self.calls.begin(
            key, partial(make_call, run, command, self.ports, self.lease, self.shared.breakers, take_streamed)
        )

    # -- writing -------------------------------------------------------------------------------------------------------

    def _hand_over(self, *, all_of_it: bool = False) -> None:
        ready = self.hosting.hand_over(all_of_it=all_of_it)
        if ready:
            self.ports.writer.submit_all([(batch, self._fates.bind_batch(run, batch)) for run, batch in ready])

    def _take_fates(self, fates: Fates, term: int) -> None:
        for run, batch, fate in fates:
            self.lease.refused += fate is BatchFate.FENCED
            self.shared.apply_fate(batch, fate)
            if isinstance(fate, Exception):
                log.error("run %s could not be written: %s", batch.run_id, fate)
            self._carry_out(run, self.hosting.end_write(run, batch, fate, self.ports.clock.now(), term=term))

    def _take_release(self, batch: Batch, fate: BatchFate | Exception) -> None:
        self.lease.refused += fate is BatchFate.FENCED
        self.shared.apply_fate(batch, fate)
        if isinstance(fate, Exception):
            log.error("run %s could not be given back: %s", batch.run_id, fate)
        self.hosting.end_release(batch.run_id, fate, self.ports.clock.now())


_MESSAGES: Mapping[str, Callable[..., None]] = {
    "offer": lambda host, run_id: host.hosting.note_hint(run_id),
    "polled": RunHost._take_answer,
    "results": RunHost._take_results,
    "streamed": RunHost._take_streamed,
    "written": RunHost._take_fates,
    "released": RunHost._take_release,
    "stop": RunHost._drain,
    "end": RunHost._end,
    "lost": RunHost._begin_again,
    "look": lambda host: None,
    "do": lambda host, do: do(),
}
"""Handler of each message, by its first word."""
