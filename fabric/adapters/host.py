"""The process that owns runs: the real interpreter of ``runtime/driver.py``. Kept tiny: it is the part that the simulator does not run.

One loop thread owns all runs, steps their drivers and has all their calls in flight; one writer thread commits; one asks the store; one keeps the
lease. A run that waits for a model, a retry or a person occupies no thread. What became ready in one turn of the loop, or while a run's batch was being
written, goes out as one batch (design.md 4.3-4.7).
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fabric.adapters.calls import Calls, Key
from fabric.adapters.claimer import Claimer, Found, Question
from fabric.adapters.lease import Lease
from fabric.adapters.loop_thread import LoopThread, Message
from fabric.adapters.owned import Owned, Ports, called, given_back
from fabric.adapters.writer import OnDone
from fabric.core.commands import AbortCall, Command
from fabric.core.inputs import Result
from fabric.runtime.driver import RunDriver, merged
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
from fabric.runtime.ports import Batch, Claimed, Written

__all__ = ["HostConfig", "HostCounters", "Ports", "RunHost"]

log = logging.getLogger(__name__)
US = 1_000_000
NEVER_S = 86_400.0


@dataclass(frozen=True, slots=True)
class HostConfig:
    """Limits of one host. Seconds and counts."""

    max_owned: int = 1_000
    max_inflight_calls: int = 1_000
    lease_s: float = 10.0
    beat_s: float = 3.0
    sweep_s: float = 2.0
    hold_s: float = 10.0
    """How long a run that could not be loaded, stepped or written is kept from everybody before it may be claimed again."""
    queues: Sequence[str] = ("default",)


@dataclass(slots=True)
class HostCounters:
    """What a host has done since it started."""

    claimed: int = 0
    released: int = 0
    refused: int = 0
    faults: int = 0
    """Runs let go of because they could not be loaded, stepped or written, and errors of the host itself."""


class RunHost:
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
        self.calls = Calls(self.loop.asyncio, self._on_results, limit=self.config.max_inflight_calls)
        self._timers: list[tuple[int, str]] = []
        self._touched: dict[str, None] = {}
        self._held: dict[str, Batch] = {}
        """Runs let go of whose rows will be given back, with the batch that does it."""
        self._strays: dict[str, int] = {}
        """Runs whose write was refused as somebody else's, and when to ask for them: after a commit that came too late they are this process's own."""
        self._fates: list[tuple[Owned, Batch, Written | Exception]] = []
        """Fates of the flush under way; the writer's thread alone touches it."""
        ports.writer.on_flushed = self._flushed
        self._claim_wanted = self._inbox_wanted = True
        self._asking = self._full = False
        self._last_sweep = 0
        self._stopping = False
        self._idle = threading.Event()
        self._ended = threading.Event()
        self.lease = Lease(ports.store, incarnation, self.config.lease_s, self.config.beat_s, self._lost)
        self._claimer = Claimer(ports, self.config.queues, lambda found: self.loop.put(("found", found)))

    # -- from other threads --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Registers the incarnation and starts the threads. Raises StoreUnavailable when the database is away."""
        self.lease.start()
        self.ports.writer.start()
        self._claimer.start()
        self.loop.start()

    def offer(self, run_id: str = "") -> None:
        """A hint that something is due. The row is the truth: a refused or repeated offer costs nothing."""
        self.loop.put(("offer", run_id))

    def stop(self, grace_s: float = 30.0) -> None:
        """Stops claiming, lets calls finish within ``grace_s`` seconds, gives all runs back, ends the threads."""
        self.loop.put(("stop",))
        self._idle.wait(grace_s)
        self.loop.put(("end",))
        self._ended.wait(10.0)
        self._claimer.stop()
        self.loop.stop(self.calls.end())
        self.ports.writer.close(10.0)
        self.lease.stop()

    def _on_results(self, results: list[tuple[Key, Result]]) -> None:
        self.loop.put(("results", results))

    def _lost(self) -> None:
        self.loop.put(("lost",))

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _on_messages(self, messages: list[Message]) -> float:
        """One turn with everything that has arrived; gives back in how many seconds the next is due."""
        for message in messages:
            if not self._ended.is_set():
                self._guarded(self._take_in, message)
        if self._ended.is_set():
            return NEVER_S
        self._guarded(self._turn)
        return self._pause_s()

    def _turn(self) -> None:
        if self._stopping:
            self._let_rest()
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

    def _pause_s(self) -> float:
        if self._claim_wanted and not (self._stopping or self._asking):
            return 0.0001
        now = self.ports.clock.now()
        due = self._last_sweep + int(self.config.sweep_s * US)
        if self._timers:
            due = min(due, self._timers[0][0])
        return max(0.0001, (due - now) / US)

    def _take_in(self, message: tuple[Any, ...]) -> None:
        kind = message[0]
        if kind == "offer":
            self._offered(*message[1:])
        elif kind == "found":
            self._asking = False
            self._take(message[1])
        elif kind == "results":
            for key, result in message[1]:
                if (owned := self.owned.get(key[0])) is not None:
                    owned.out.discard(key)
                self._step(key[0], Answered(result))
        elif kind == "written":
            for owned, batch, fate in message[1]:
                self._written(owned, batch, fate)
        elif kind == "stop":
            self._stopping = True
        elif kind == "end":
            try:
                self._hand_over()
            finally:
                self._ended.set()
        elif kind == "lost":
            self._held.clear()
            self._strays.clear()
            for run_id in list(self.owned):
                self._drop(run_id)
            self._claim_wanted = self._inbox_wanted = True

    def _offered(self, run_id: str, stray: bool = False) -> None:
        if stray and run_id not in self.owned:
            self._strays[run_id] = self.ports.clock.now() + int(self.config.sweep_s * US)
        self._claim_wanted = self._claim_wanted or run_id not in self.owned
        self._inbox_wanted = self._inbox_wanted or not run_id or run_id in self.owned

    def _fire_timers(self) -> None:
        now = self.ports.clock.now()
        while self._timers and self._timers[0][0] <= now:
            at, run_id = heapq.heappop(self._timers)
            held = self._held.get(run_id)
            if held is not None and held.wake_at == at:
                self.ports.writer.submit(self._held.pop(run_id), partial(self._freed, run_id))
            owned = self.owned.get(run_id)
            if owned is not None and owned.wake_at == at:
                owned.wake_at = None
                self._step(run_id, Due())
        if len(self._timers) > 256 + 4 * (len(self.owned) + len(self._held)):
            # Most are of runs that ended or were postponed; deadlines lie hours ahead, so they would pile up.
            live = [(owned.wake_at, run_id) for run_id, owned in self.owned.items()]
            live += [(held.wake_at, run_id) for run_id, held in self._held.items()]
            self._timers = [(at, run_id) for at, run_id in live if at is not None]
            heapq.heapify(self._timers)

    def _sweep(self) -> None:
        """Asks for due runs and new inputs: when something was offered, when room came free, and every ``sweep_s`` as the net."""
        now = self.ports.clock.now()
        if now - self._last_sweep >= int(self.config.sweep_s * US):
            self._claim_wanted = self._inbox_wanted = True
        if self._full and self._room() > self.config.max_owned // 16:
            self._full, self._claim_wanted = False, True
        if self._asking or not (self._claim_wanted or self._inbox_wanted):
            return
        room = 0 if self._stopping or not self._claim_wanted else self._room()
        self._full = self._full or (self._claim_wanted and room <= 0)
        inbox = self._inbox_wanted and bool(self.owned)
        self._claim_wanted = self._inbox_wanted = False
        self._last_sweep = now
        if room > 0 or inbox:
            self._asking = True
            again = tuple(run_id for run_id, at in self._strays.items() if at <= now)
            self._claimer.ask(Question(self.lease.name, max(0, room), inbox, again))

    def _room(self) -> int:
        return min(self.config.max_owned - len(self.owned), self.config.max_inflight_calls - self.calls.inflight)

    def _take(self, found: Found) -> None:
        """Takes over what was claimed. Claims of an earlier life of this process, or of one that stops, are freed by the end of its lease."""
        self._claim_wanted = self._claim_wanted or found.more
        for run_id in found.question.again if found.claimed and not found.more else ():
            self._strays.pop(run_id, None)
        self.counters.faults += found.fault
        if self._stopping or found.question.incarnation != self.lease.name:
            return
        for claimed in found.claims:
            self.counters.claimed += 1
            self._strays.pop(claimed.run_id, None)
            self._drop(claimed.run_id)
            revision = found.revisions[claimed.revision_id]
            if revision is None:
                self._give_back(claimed, None, self.config.hold_s)
                continue
            self.owned[claimed.run_id] = Owned(RunDriver(revision.compiled), claimed, revision.offers)
            self._step(claimed.run_id, Taken(claimed, self.lease.name))
        for item in found.items:
            self._step(item.run_id, Arrived(item))

    # -- stepping ------------------------------------------------------------------------------------------------------

    def _step(self, run_id: str, happening: Happening) -> None:
        owned = self.owned.get(run_id)
        if owned is None:
            return
        try:
            effects = owned.driver.step(happening, self.ports.clock.now())
        except Exception:
            # A bug or an erased content: the journal is whole up to the last commit, so the run is let go and tried again later.
            log.exception("run %s could not be stepped with %s", run_id, type(happening).__name__)
            self._drop(run_id)
            owned.broken = owned.writing is not None
            if not owned.broken:
                self._give_back(owned.claimed, owned.durable, self.config.hold_s)
            return
        for effect in effects:
            self._interpret(run_id, owned, effect)

    def _interpret(self, run_id: str, owned: Owned, effect: Effect) -> None:
        match effect:
            case Append(batch):
                owned.ready = batch if owned.ready is None else merged(owned.ready, batch)
                self._touched[run_id] = None
            case Perform(command):
                self._perform(owned, command)
            case WakeAt(at):
                owned.wake_at = at
                if at is not None:
                    heapq.heappush(self._timers, (at, run_id))
            case Release(reason):
                self.counters.released += 1
                if reason != "released":
                    self.counters.refused += 1
                self._drop(run_id)
                if self._on_released is not None:
                    self._on_released(run_id)

    def _perform(self, owned: Owned, command: Command) -> None:
        run_id = owned.claimed.run_id
        key = (run_id, command.command_id, command.attempt)
        if isinstance(command, AbortCall):
            owned.out.discard(key)
            self.calls.abort(key)
            return
        if self._stopping:  # Whoever claims the run next finds the intent and sends it.
            return
        owned.out.add(key)
        self.calls.begin(key, partial(called, owned, command, self.ports))

    # -- writing -------------------------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        """Gives the writer every touched run's batch; a run whose batch is being written keeps collecting."""
        ready: list[tuple[Batch, OnDone]] = []
        for run_id in list(self._touched):
            owned = self.owned.get(run_id)
            if owned is None or owned.ready is None:
                del self._touched[run_id]
            elif owned.writing is None:
                batch, owned.ready = owned.ready, None
                owned.writing = batch
                del self._touched[run_id]
                ready.append((batch, partial(self._note_fate, owned, batch)))
        if ready:
            self.ports.writer.submit_all(ready)

    def _note_fate(self, owned: Owned, batch: Batch, fate: Written | Exception) -> None:
        self._fates.append((owned, batch, fate))

    def _flushed(self) -> None:
        """On the writer's thread: what one flush wrote is one message, so that all its runs go on in one turn of the loop."""
        if self._fates:
            fates, self._fates = self._fates, []
            self.loop.put(("written", fates))

    def _written(self, owned: Owned, batch: Batch, fate: Written | Exception) -> None:
        run_id, owned.writing = batch.run_id, None
        if fate is Written.COMMITTED:
            owned.durable = batch
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
            self._return(owned, fate, 0.0 if fate is Written.INPUT_GONE else self.config.hold_s)

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _drop(self, run_id: str) -> None:
        """Forgets a run; its row is free or somebody else's, or is about to be given back."""
        owned = self.owned.pop(run_id, None)
        self._touched.pop(run_id, None)
        if owned is not None and owned.out:
            self.calls.abort_run(run_id)

    def _return(self, owned: Owned, fate: Written | Exception, hold_s: float) -> None:
        """What was dropped and not written goes back to the row; where the row says that it is another's, that is looked into."""
        if fate is Written.FENCED:
            self._offered(owned.claimed.run_id, stray=True)
        else:
            self._give_back(owned.claimed, owned.durable, hold_s)

    def _freed(self, run_id: str, fate: Written | Exception) -> None:
        """On the writer's thread: a held run was given back, or was not."""
        self.loop.put(("offer", run_id, fate is Written.FENCED))

    def _give_back(self, claimed: Claimed, durable: Batch | None, hold_s: float) -> None:
        """Releases the row of a run that was dropped. Until ``hold_s`` have passed it stays this process's, so that nobody claims it in a hot loop."""
        self.counters.faults += hold_s > 0
        at = self.ports.clock.now() + int(hold_s * US)
        self._held[claimed.run_id] = given_back(claimed, durable, at)
        heapq.heappush(self._timers, (at, claimed.run_id))

    def _let_rest(self) -> None:
        """While stopping: runs are given back as their calls come in; those of the rest are freed when the incarnation retires."""
        for run_id, owned in list(self.owned.items()):
            if owned.rests:
                self._drop(run_id)
                self._give_back(owned.claimed, owned.durable, 0.0)
