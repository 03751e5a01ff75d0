"""The process that owns runs: the real interpreter of ``runtime/driver.py``. Kept tiny: it is the part that the simulator does not run.

One loop thread owns all runs, steps their drivers and has all their calls in flight; one writer thread commits; one asks the store; one keeps the
lease. A run that waits for a model, a retry or a person occupies no thread. What became ready in one turn of the loop, or while a run's batch was being
written, goes out as one batch (design.md 4.3-4.7).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from fabric.adapters.asking import Asking
from fabric.adapters.calls import Calls, Key
from fabric.adapters.claimer import Claimer, Found
from fabric.adapters.flush_fates import FlushFates
from fabric.adapters.held import Held
from fabric.adapters.host_config import HostConfig, HostCounters
from fabric.adapters.lease import Lease
from fabric.adapters.letting_go import LettingGo
from fabric.adapters.loop_thread import LoopThread, Message
from fabric.adapters.orphans import Orphans
from fabric.adapters.owned import Owned, Ports, called, pin_of, stirs
from fabric.adapters.shared import Shared, desk_of, guards_of
from fabric.adapters.timers import LateTimers, Timers
from fabric.adapters.writer import OnDone
from fabric.core.commands import AbortCall, Command
from fabric.core.inputs import CallStreamed, Result
from fabric.runtime.batches import merged
from fabric.runtime.call_ports import Ending
from fabric.runtime.happenings import (
    Answered,
    Append,
    Arrived,
    Committed,
    CutShort,
    Draining,
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
from fabric.runtime.loading import slim
from fabric.runtime.ports import Batch, Written
from fabric.runtime.quarantine import verdict

__all__ = ["HostConfig", "HostCounters", "Ports", "RunHost"]

log = logging.getLogger(__name__)
US, NEVER_S = 1_000_000, 86_400.0
AT_ONCE = (Written.INPUT_GONE, Written.GRANT_GONE)
"""Fates after which a run is loaded again at once: what it went by is not there any more, and nothing is wrong with it."""


class RunHost(Asking, LettingGo):
    """Owns runs. ``start``, then ``offer`` run ids as hints; ``stop`` gives everything back."""

    def __init__(
        self,
        ports: Ports,
        incarnation: str,
        config: HostConfig | None = None,
        on_released: Callable[[str], None] | None = None,
    ) -> None:
        self.ports = ports
        self._on_released = on_released
        """Told on the loop's thread which run was given back: ended, waiting, or lost."""
        self.config = config or HostConfig()
        self.counters = HostCounters()
        self.owned: dict[str, Owned] = {}
        self.loop = LoopThread("fabric-host", self._on_messages)
        self.calls = Calls(
            self.loop.asyncio, lambda results: self.loop.put(("results", results)), limit=self.config.max_inflight_calls
        )
        self._touched: dict[str, None] = {}
        self._timers = Timers()
        self._late = LateTimers(self._timers)
        self._held = Held(self._timers)
        self._orphans = Orphans()
        self._claim_wanted = self._inbox_wanted = True
        self._asking = self._full = False
        self._last_sweep = self._last_look = 0
        self._stopping = False
        self._idle, self._ended = threading.Event(), threading.Event()
        lost, lease_s, beat_s = partial(self.loop.put, ("lost",)), self.config.lease_s, self.config.beat_s
        self.lease = Lease(ports.store, incarnation, lease_s, beat_s, lost, ports.clock, elapsed=ports.elapsed)
        self._fates = FlushFates(self.loop.put, lambda: self.lease.term)
        ports.writer.on_write, ports.writer.on_flushed = self._fates.begun, self._fates.flushed
        desk = desk_of(ports.grants, ports.buckets, lambda: self.lease.name, self._post)
        self.shared = Shared(desk, post=self._post, clock=ports.clock, guards=guards_of(ports, self._post))
        self.claimer = Claimer(ports, self.config.queues, lambda found: self.loop.put(("found", found)))

    # -- from other threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Registers the incarnation and starts the threads. Raises StoreUnavailable when the database is away."""
        self.lease.start()
        self.ports.writer.start()
        self.claimer.start()
        self.loop.start()

    def _post(self, do: Callable[[], None]) -> None:
        """Has something called on the loop."""
        self.loop.put(("do", do))

    def offer(self, run_id: str = "") -> None:
        """A hint that something is due. The row is the truth: a refused or repeated offer costs nothing."""
        self.loop.put(("offer", run_id))

    def stop(self, grace_s: float = 30.0) -> None:
        """Stops claiming, lets calls finish within ``grace_s`` seconds, journals the rest as interrupted, gives all runs back, ends the threads."""
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
        """One turn with everything that has arrived; gives back in how many seconds the next is due."""
        for message in messages:
            if not self._ended.is_set():
                self._guarded(_MESSAGES[message[0]], self, *message[1:])
        if self._ended.is_set():
            return NEVER_S
        self._guarded(self._turn)
        return self._pause_s()

    def _turn(self) -> None:
        self._fire_timers()
        self._sweep()
        self._hand_over()
        if self._stopping and not self.owned:
            self._idle.set()

    def _guarded(self, do: Callable[..., None], *args: Any) -> None:
        """The loop owns every run of the process: no error of one of them, and none of its own, may end it."""
        try:
            do(*args)
        except Exception:
            log.exception("the host goes on after an error of its own")
            self.counters.faults += 1

    def _answered(self, results: Iterable[tuple[Key, Result | None]]) -> None:
        unsent: dict[str, set[tuple[str, int]]] = {}
        for key, result in results:
            if (owned := self.owned.get(key[0])) is not None:
                owned.out.discard(key)
            if result is None:
                unsent.setdefault(key[0], set()).add((key[1], key[2]))
            else:
                self._step(key[0], Answered(result))
            self.shared.breakers.answered(key, result, owned)
        for run_id, kept in unsent.items():  # It may be another's by now: that is found out by giving it back.
            self.counters.uncovered += len(kept)
            self._step(run_id, CutShort(self.calls.unsent(run_id) | kept))

    def _streamed(self, owned: Owned, key: Key, given: CallStreamed) -> None:
        """A call of an answer that is still coming in, unless the answer was let go of, or its run is somebody else's."""
        if self.owned.get(key[0]) is owned and key in owned.out:
            self._step(key[0], Streamed(given))

    def _all_written(self, fates: Iterable[tuple[Owned, Batch, Written | Exception]]) -> None:
        for owned, batch, fate in fates:
            self._written(owned, batch, fate)

    def _begin_stopping(self) -> None:
        self._stopping = True
        for run_id in list(self.owned):
            self._step(run_id, Draining())

    def _end(self) -> None:
        try:
            for run_id in list(self.owned):
                self._step(run_id, CutShort(self.calls.unsent(run_id)))
            self._hand_over(all_of_it=True)
        finally:
            self._ended.set()

    def _begin_again(self) -> None:
        """The incarnation was retired: nothing that is in memory counts any more."""
        self._held.clear()
        self._orphans.clear()
        for run_id in list(self.owned):
            self._drop(run_id)
        self.shared.lost()
        self._claim_wanted = self._inbox_wanted = True

    def _given_back(self, run_id: str, fate: Written | Exception) -> None:
        self._count_stale(fate)
        if isinstance(fate, Exception):
            log.error("run %s could not be given back: %s", run_id, fate)
        self._offered(run_id, stray=fate is not Written.COMMITTED)

    def _offered(self, run_id: str, stray: bool = False) -> None:
        if stray and run_id not in self.owned:
            self._orphans.suspect(run_id, self.ports.clock.now() + int(self.config.sweep_s * US))
        self._claim_wanted = self._claim_wanted or run_id not in self.owned
        self._inbox_wanted = self._inbox_wanted or not run_id or run_id in self.owned

    def _take(self, found: Found) -> None:
        """Takes over what was claimed. Claims of an earlier life of this process, or of one that stops, are freed by the end of its lease."""
        self._asking, self._claim_wanted = False, self._claim_wanted or found.more
        for run_id in found.question.again if found.claimed and not found.more else ():
            self._orphans.not_given(run_id)
        self.counters.faults += found.fault
        if self._stopping or found.question.incarnation != self.lease.name:
            return
        for (scope, kind), state in found.known.items():
            self.shared.learn(kind, scope, state)
        for claimed in found.claims:
            self.counters.claimed += 1
            self._orphans.claimed(claimed.run_id)
            self._drop(claimed.run_id)
            revision = found.revisions[pin_of(claimed)]
            away = verdict(claimed, self.ports.clock.now(), compiled=revision.compiled if revision else None)
            if away is not None or revision is None:
                self._give_back(claimed, None, self.config.hold_s if away is None else 0.0, away)
                continue
            driver, term = self.shared.driver(revision.compiled), found.question.term
            self.owned[claimed.run_id] = Owned(driver, slim(claimed), revision.offers, term=term)
            self._step(claimed.run_id, Taken(claimed, self.lease.name, self._orphans.is_crowded(claimed.run_id)))
        for item in found.items:
            self._step(item.run_id, Arrived(item))
        if found.heard:
            self._late.heard(found.question.at)
        if found.owned is not None:
            self._orphans.looked(found.owned, self._knows, self.ports.clock.now())

    def _knows(self, run_id: str) -> bool:
        return run_id in self.owned or run_id in self._held

    # -- stepping ------------------------------------------------------------------------------------------------------

    def _step(self, run_id: str, happening: Happening) -> None:
        owned = self.owned.get(run_id)
        if owned is None:
            return
        try:
            effects = owned.driver.step(happening, self.ports.clock.now())
        except Exception:
            # A bug: the journal is whole up to the last commit, so the run is let go and tried again later.
            log.exception("run %s could not be stepped with %s", run_id, type(happening).__name__)
            self._let_go(run_id, owned)
            return
        for effect in effects:
            self._interpret(run_id, owned, effect)

    def _told(self, owned: Owned, answer: Happening) -> None:
        """What a run wanted of what runs share is there, or refused; unless it is somebody else's, or anew this process's, by now."""
        if self.owned.get(owned.claimed.run_id) is owned:
            self._step(owned.claimed.run_id, answer)

    def _interpret(self, run_id: str, owned: Owned, effect: Effect) -> None:
        match effect:
            case Append(batch):
                owned.ready = batch if owned.ready is None else merged(owned.ready, batch)
                self._touched[run_id] = None
                self.shared.decided(batch)
            case Need(wants):
                for want in wants:
                    self.shared.need(owned, want, partial(self._told, owned))
            case Perform(command):
                self._perform(owned, command)
            case WakeAt(at):
                owned.wake_at = at
                if at is not None:
                    self._timers.set(at, run_id)
            case Release(reason):
                self.counters.released += 1
                if reason != "released":
                    self.counters.refused += 1
                self._drop(run_id)
                if self._on_released is not None:
                    self._on_released(run_id)
            case OpenBreakers(gates, judged):
                self.shared.breakers.opens(run_id, gates, judged)
            case Quarantine(damage, claimed):
                log.error("run %s cannot go on: %s (%s)", run_id, damage.sentence, damage.what)
                now, what = self.ports.clock.now(), damage.sentence.rstrip(".")
                self._let_go(run_id, owned, None if claimed is None else verdict(claimed, now, damage=what))

    def _perform(self, owned: Owned, command: Command) -> None:
        run_id = owned.claimed.run_id
        key = (run_id, command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            owned.out.discard(key)
            self.calls.abort(key)
            self.shared.breakers.dropped((key,))
            return
        owned.out.add(key)
        self.shared.performs(owned, command)

        def streamed(given: CallStreamed) -> None:
            self.loop.put(("streamed", owned, key, given))

        self.calls.begin(key, partial(called, owned, command, self.ports, self.lease, self.shared.breakers, streamed))

    # -- writing -------------------------------------------------------------------------------------------------------

    def _hand_over(self, *, all_of_it: bool = False) -> None:
        """Gives the writer every touched run's batch. A run whose batch is being written keeps collecting, but at the end (``all_of_it``)."""
        ready: list[tuple[Batch, OnDone]] = []
        for run_id in list(self._touched):
            owned = self.owned.get(run_id)
            if owned is None or owned.ready is None:
                del self._touched[run_id]
            elif owned.writing is None or all_of_it:
                batch, owned.ready = owned.ready, None
                owned.writing = batch
                del self._touched[run_id]
                ready.append((batch, self._fates.of(owned, batch)))
        if ready:
            self.ports.writer.submit_all(ready)

    def _written(self, owned: Owned, batch: Batch, fate: Written | Exception) -> None:
        run_id, owned.writing = batch.run_id, None
        self._count_stale(fate)
        self.shared.written(batch, fate)
        if fate is Written.COMMITTED:
            owned.durable = batch
            if stirs(batch, owned.claimed):
                self._claim_wanted = self._inbox_wanted = True
        elif isinstance(fate, Exception):
            log.error("run %s could not be written: %s", run_id, fate)
        if self.owned.get(run_id) is not owned:
            if owned.broken:
                self._return(owned, fate, self.config.hold_s)
        elif fate is Written.COMMITTED:
            if owned.ready is not None:
                self._touched[run_id] = None
            self._step(run_id, Committed(batch.new_seq))
        else:
            self._step(run_id, Refused(str(fate)))
            self._return(owned, fate, 0.0 if fate in AT_ONCE else self.config.hold_s)


_MESSAGES: Mapping[str, Callable[..., None]] = {
    "offer": RunHost._offered,
    "found": RunHost._take,
    "results": RunHost._answered,
    "streamed": RunHost._streamed,
    "written": RunHost._all_written,
    "freed": RunHost._given_back,
    "stop": RunHost._begin_stopping,
    "end": RunHost._end,
    "lost": RunHost._begin_again,
    "look": lambda host: None,
    "do": lambda host, do: do(),
}
"""What the loop takes in, by the first word of a message."""
