"""The sans-I/O machine of one worker: it decides which runs are claimed, driven, kept, released and asked for again.

It knows no clock, no thread and no store. Its interpreter calls a method for each event and carries out the effects
that it returns; the rules stand in ``hosting/__init__.py``. Two interpreters run it: ``worker/host.py`` (real) and
``simulator/world/process.py`` (virtual).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from fabric.core.events.inputs import INBOX, CallStreamed, InboxInput, Result
from fabric.core.state.context import CompiledFabric
from fabric.core.values.flow import FORMAT
from fabric.core.values.frozen import value
from fabric.core.values.units import US
from fabric.runtime.driver import RunDriver
from fabric.runtime.happenings import (
    Append,
    BatchRefused,
    Committed,
    Due,
    Effect,
    Happening,
    PortAnswered,
    Quarantine,
    Release,
    Streamed,
    Taken,
    WakeAt,
)
from fabric.runtime.hosting.ownership import CallKey, OwnedRun, Revision
from fabric.runtime.hosting.polling import UNCOVERED_US, HostConfig, HostCounters, PollAnswer, StorePoll, StorePolling
from fabric.runtime.hosting.release import (
    AfterWrite,
    Orphans,
    RunsOnCooldown,
    choose_act,
    makes_runs_due,
    releasing_batch,
)
from fabric.runtime.hosting.timers import LateTimers, Timers
from fabric.runtime.journal.batches import merge_batches
from fabric.runtime.journal.loader import slim
from fabric.runtime.ports.journal import Batch, BatchFate, ClaimedRun
from fabric.runtime.quarantine.verdicts import verdict


@value()
class DriverFailed:
    """The driver raised: its journal is whole up to the last commit. The run was dropped, as with ``Release``."""

    happening: Happening
    error: Exception


HostEffect = Effect | DriverFailed
"""The effects of a step, in order. ``Append`` and ``WakeAt`` are carried out already.

After ``Release``, ``Quarantine`` and ``DriverFailed`` the run is dropped: abort its calls, and count its pending rows
as not written.
"""
NewDriver = Callable[[CompiledFabric], RunDriver]
NOTHING: Sequence[HostEffect] = ()
NONE_DUE: tuple[Sequence[Batch], Sequence[tuple[OwnedRun, int]]] = ((), ())


class TakenRun(NamedTuple):
    """A claim that was taken in."""

    run: OwnedRun | None
    """The run to carry the effects out for; None: it is not driven."""
    effects: Sequence[HostEffect]
    before: OwnedRun | None
    """The dropped predecessor of this run in this worker; None: none."""


class Hosting:
    """All runs of one worker. Every ``now`` is in microseconds since the epoch."""

    def __init__(
        self,
        config: HostConfig,
        new_driver: NewDriver,
        *,
        reads: Callable[[bytes], InboxInput] = INBOX.validate_json,
        format: int = FORMAT,
    ) -> None:
        """Make the machine. ``reads`` and ``format`` belong to the program, as in ``driver.RunDriver``."""
        self._config, self._new_driver, self._reads, self._format = config, new_driver, reads, format
        self._hold_us, self._sweep_us = int(config.hold_s * US), int(config.sweep_s * US)
        self.counters = HostCounters()
        self.owned: dict[str, OwnedRun] = {}
        self.stopping = False
        self.timers = Timers()
        self.cooldown = RunsOnCooldown(self.timers)
        self.orphans = Orphans()
        self.polling = StorePolling(config)
        self._late = LateTimers(self.timers)
        self._touched: dict[str, None] = {}
        """Runs that may have rows for the writer."""

    # -- hints, stopping, the lease ------------------------------------------------------------------------------------

    def note_hint(self, run_id: str = "") -> None:
        """Note that something may be due, of that run if it is named, so that the store is polled. The row is the
        truth, so a needless hint costs one poll.
        """
        polling = self.polling
        if run_id not in self.owned:
            polling.claims_wanted = True
        if not run_id or run_id in self.owned:
            polling.inputs_wanted = True

    def stop(self) -> list[OwnedRun]:
        """Stop claiming. Returns the runs to step with ``Draining`` now, and with ``CutShort`` when the time for
        that is over.
        """
        self.stopping = True
        return list(self.owned.values())

    def lose(self) -> list[OwnedRun]:
        """Drop all runs, since the incarnation was retired. Returns the runs that were dropped."""
        self.cooldown.clear()
        self.orphans.clear()
        dropped = list(self.owned.values())
        self.owned.clear()
        self._touched.clear()
        self.polling.want_all()
        return dropped

    # -- asking the store ----------------------------------------------------------------------------------------------

    def poll(self, now: int, incarnation: str, term: int, *, covered: bool, inflight: int = 0) -> StorePoll | None:
        """Return what to ask the store for now; None: nothing. Call it where ``polling.wants``; ``take_answer``
        follows.
        """
        owned = len(self.owned)
        self.timers.trim(owned + len(self.cooldown), self._list_awaited)
        asked = self.polling.begin(
            now, room=self.polling.room(owned, inflight), owned=owned, stopping=self.stopping, covered=covered
        )
        if asked is None:
            return None
        room, inbox, look = asked
        return StorePoll(incarnation, room, inbox, self.orphans.due(now), term, look, now)

    def take_answer(self, answer: PollAnswer, incarnation: str) -> PollAnswer | None:
        """Take in the store's answer, and return the part to take over. ``claim`` follows for each claim, ``step`` with
        ``Arrived`` for each input, then ``end_answer``. None for an answer to an earlier life of this worker. While it
        stops, the claims are left alone, and freed with the end of their lease.
        """
        self.polling.end(more=answer.more)
        if answer.claimed and not answer.more:
            for run_id in answer.poll.again:
                self.orphans.note_not_given(run_id)
        self.counters.faults += answer.fault
        if answer.poll.incarnation != incarnation:
            return None
        return replace(answer, claims=()) if self.stopping and answer.claims else answer

    def end_answer(self, answer: PollAnswer, now: int) -> None:
        """Finish a poll once its claims and inputs were taken in: late timers fire, and orphans show."""
        if answer.heard:
            self._late.note_look(answer.poll.at)
        if answer.owned is not None:
            self.orphans.compare(answer.owned, self.knows, now)

    def knows(self, run_id: str) -> bool:
        """Return True for a run that is driven or on cooldown."""
        return run_id in self.owned or run_id in self.cooldown

    def claim(self, claimed: ClaimedRun, revision: Revision | None, poll: StorePoll, now: int) -> TakenRun:
        """Take over a run that was claimed with that poll.

        It is not driven, but put into quarantine or answered there, where ``quarantine.verdict`` says so. Where its
        ``revision`` cannot be loaded (None), it cools down.
        """
        run_id = claimed.run_id
        self.counters.claimed += 1
        self.orphans.note_claimed(run_id)
        self.cooldown.forget(run_id)
        before = self._drop(run_id)
        away = self._verdict(claimed, now, compiled=None if revision is None else revision.compiled)
        if away is not None or revision is None:
            self._cool_down(claimed, None, now, away)
            return TakenRun(None, NOTHING, before)
        run = OwnedRun(self._new_driver(revision.compiled), slim(claimed), revision.offers, term=poll.term)
        self.owned[run_id] = run
        taken = Taken(claimed, poll.incarnation, self.orphans.take_crowded(run_id))
        return TakenRun(run, self.step(run, taken, now), before)

    # -- stepping ------------------------------------------------------------------------------------------------------

    def step(self, run: OwnedRun, happening: Happening, now: int) -> Sequence[HostEffect]:
        """Step a run, if this worker still drives it. Returns the effects for the interpreter."""
        run_id = run.claimed.run_id
        if self.owned.get(run_id) is not run:
            return NOTHING
        try:
            effects = run.driver.step(happening, now)
        except Exception as error:  # noqa: BLE001 - the journal is whole up to the last commit, so the run is tried again later
            self._let_go(run, now)
            return (DriverFailed(happening, error),)
        for effect in effects:
            match effect:
                case Append(batch):
                    run.ready = batch if run.ready is None else merge_batches(run.ready, batch)
                    self._touched[run_id] = None
                case WakeAt(at):
                    run.wake_at = at
                    if at is not None:
                        self.timers.set(at, run_id)
                case Release(reason):
                    self.counters.released += 1
                    self.counters.refused += reason != "released"
                    self._drop(run_id)
                case Quarantine(damage, claimed):
                    what = damage.sentence.rstrip(".")
                    self._let_go(run, now, None if claimed is None else self._verdict(claimed, now, damage=what))
        return effects

    def answer_call(self, run: OwnedRun, key: CallKey, result: Result, now: int) -> Sequence[HostEffect]:
        """Step a run with a port's answer. ``run``: the one that is driven under the call's run id now; an answer to
        an owner before it is journaled as late.
        """
        run.out.discard(key)
        return self.step(run, PortAnswered(result), now)

    def stream_call(self, run: OwnedRun, key: CallKey, given: CallStreamed, now: int) -> Sequence[HostEffect]:
        """Step the run with a call of an answer that is still streaming in. An aborted answer's call has no effects."""
        return self.step(run, Streamed(given), now) if key in run.out else NOTHING

    # -- timers --------------------------------------------------------------------------------------------------------

    def due(self, now: int) -> tuple[Sequence[Batch], Sequence[tuple[OwnedRun, int]]]:
        """Return the batches that end a cooldown by now, to be written, and the runs with a due timer. ``wake`` follows
        for each run.
        """
        first = self.timers.next_at()
        if first is None or first > now:
            return NONE_DUE
        releases: list[Batch] = []
        runs: list[tuple[OwnedRun, int]] = []
        for at, run_id in self.timers.due(now):
            if (batch := self.cooldown.take_due(run_id, at)) is not None:
                releases.append(batch)
            run = self.owned.get(run_id)
            if run is not None and run.wake_at == at:
                runs.append((run, at))
        return releases, runs

    def wake(self, run: OwnedRun, at: int, now: int) -> Sequence[HostEffect]:
        """Step a run whose timer, set to ``at``, has come. One that waits for a look at the inbox comes again after
        that.
        """
        if run.wake_at != at:
            return NOTHING
        if self._late.holds(at, run.driver.run, now):
            self.polling.inputs_wanted = True
            return NOTHING
        run.wake_at = None
        return self.step(run, Due(), now)

    def _list_awaited(self) -> Iterator[tuple[int | None, str]]:
        return chain(((run.wake_at, run_id) for run_id, run in self.owned.items()), self.cooldown.instants())

    def wanted_at(self, now: int, *, covered: bool) -> int | None:
        """Return the instant at which a timer, or a poll that is due already, wants a turn; None: neither does."""
        polling, at = self.polling, self.timers.next_at()
        if polling.under_way:
            return at
        if polling.inputs_wanted and self.owned:
            return now
        if polling.claims_wanted and not self.stopping:
            wanted = now if covered else now + UNCOVERED_US
            return wanted if at is None else min(at, wanted)
        return at

    def next_at(self, now: int, *, covered: bool) -> int:
        """Return the instant of the next turn, if nothing happens before: ``wanted_at``, or the next sweep.
        ``covered``: as for ``poll``.
        """
        at, sweep_at = self.wanted_at(now, covered=covered), self.polling.sweep_at
        return sweep_at if at is None or sweep_at < at else at

    # -- writing -------------------------------------------------------------------------------------------------------

    def hand_over(self, *, all_of_it: bool = False) -> Sequence[tuple[OwnedRun, Batch]]:
        """Return the batches that go to the writer now; ``end_write`` follows for each. A run whose batch is being
        written keeps collecting, except at the end (``all_of_it``).
        """
        if not self._touched:
            return ()
        ready: list[tuple[OwnedRun, Batch]] = []
        for run_id in list(self._touched):
            run = self.owned.get(run_id)
            if run is None or run.ready is None:
                del self._touched[run_id]
            elif run.writing is None or all_of_it:
                batch, run.ready = run.ready, None
                run.writing = batch
                del self._touched[run_id]
                ready.append((run, batch))
        return ready

    def end_write(
        self, run: OwnedRun, batch: Batch, fate: BatchFate | Exception, now: int, *, term: int = 0
    ) -> Sequence[HostEffect]:
        """Take in the fate of a batch. ``term``: the lease's when the write began; a run that committed was owned in
        it.
        """
        run.writing = None
        if fate is BatchFate.COMMITTED:
            run.durable, run.term = batch, max(run.term, term)
            if makes_runs_due(batch, run.claimed):
                self.polling.want_all()
        elif fate is BatchFate.FENCED:
            self.counters.stale_refused += 1
        if self.owned.get(batch.run_id) is not run:
            if run.leaving:
                self._give_up(run, fate, now)
            return NOTHING
        if fate is not BatchFate.COMMITTED:
            effects = self.step(run, BatchRefused(str(fate)), now)
            self._give_up(run, fate, now)
            return effects
        if run.ready is not None:
            self._touched[batch.run_id] = None
        return self.step(run, Committed(batch.new_seq), now)

    def end_release(self, run_id: str, fate: BatchFate | Exception, now: int) -> None:
        """Take in the fate of a batch that ended a cooldown. If it was not written, the run is claimed by name a
        sweep later.
        """
        self.counters.stale_refused += fate is BatchFate.FENCED
        if fate is BatchFate.COMMITTED:
            self.note_hint(run_id)
        else:
            self._ask_for(run_id, now)

    # -- letting go ----------------------------------------------------------------------------------------------------

    def _drop(self, run_id: str) -> OwnedRun | None:
        """Forget a run: its row is free, another worker's, or about to be released."""
        self._touched.pop(run_id, None)
        return self.owned.pop(run_id, None)

    def _let_go(self, run: OwnedRun, now: int, away: Batch | None = None) -> None:
        """Drop a run that cannot go on here. Its row is released once the fate of the batch being written is known.
        ``away``: the batch that releases it.
        """
        self._drop(run.claimed.run_id)
        run.leaving = run.writing is not None
        if not run.leaving:
            self._cool_down(run.claimed, run.durable, now, away)

    def _give_up(self, run: OwnedRun, fate: BatchFate | Exception, now: int) -> None:
        """Release a run that was dropped, as ``AFTER_WRITE`` says of the fate of its last batch."""
        match choose_act(fate, leaving=run.leaving):
            case AfterWrite.ASK:
                if fate is BatchFate.FAMILY_FULL:
                    self.orphans.note_crowded(run.claimed.run_id)
                self._ask_for(run.claimed.run_id, now)
            case AfterWrite.RELEASE:
                self.cooldown.keep(releasing_batch(run.claimed, run.durable, now), now)
            case _:
                self._cool_down(run.claimed, run.durable, now)

    def _cool_down(self, claimed: ClaimedRun, durable: Batch | None, now: int, away: Batch | None = None) -> None:
        """Put a run that cannot go on here on cooldown for ``hold_s``. With a verdict in ``away`` it is released at
        once.
        """
        if away is not None:
            self.counters.quarantined += 1
            self.cooldown.keep(away, now)
            return
        self.counters.faults += 1
        until = now + self._hold_us
        self.cooldown.keep(releasing_batch(claimed, durable, until), until)

    def _ask_for(self, run_id: str, now: int) -> None:
        """Claim a run by name a sweep later, since its row may name this worker."""
        if run_id not in self.owned:
            self.orphans.suspect(run_id, now + self._sweep_us)
        self.note_hint(run_id)

    def _verdict(
        self, claimed: ClaimedRun, now: int, *, damage: str = "", compiled: CompiledFabric | None = None
    ) -> Batch | None:
        return verdict(claimed, now, damage=damage, compiled=compiled, reads=self._reads, format=self._format)
