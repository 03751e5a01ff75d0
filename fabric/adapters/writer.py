"""The journal writer: the one pen of a process. What all its runs have ready goes in one transaction, as soon as the one before returned.

Group commit without a timer: a lone step waits for nobody, and whatever came while a flush was under way shares the next. Nothing that was
submitted is dropped: each batch's callback is called once, with its fate or with the reason why it has none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fabric.adapters.journal_rows import weight
from fabric.adapters.store_errors import StoreBusy
from fabric.runtime.fates import fate_of
from fabric.runtime.ports import Batch, JournalStore, Nudge, StoreUnavailable, Written

RUNS_MAX = 256
BYTES_MAX = 1_000_000
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 2.0
LOSSES_MAX = 3
"""How often one batch may be lost alone, with others written in between: as often as that it is the batch and not the database."""

OnDone = Callable[[Written | Exception], None]
"""Called once, on the writer's thread, after the COMMIT (or after giving up); must return soon."""
_log = logging.getLogger(__name__)


class WriterClosed(RuntimeError):
    """The writer was closed: the process is stopping and writes nothing more."""

    def __init__(self) -> None:
        super().__init__("the journal writer is closed: this process is stopping")


@runtime_checkable
class Pausing(Protocol):
    """A store that others can reach only between two flushes."""

    def pause_s(self) -> float:
        """How long to wait before the next flush; 0: not at all."""
        ...


@dataclass(slots=True)
class _Pending:
    batch: Batch
    on_done: OnDone
    weight: int
    not_before: float = 0.0
    tries: int = 0
    company: int = RUNS_MAX
    """In how large a group it may go: half of the one that it was lost in."""
    losses: int = 0
    """Of itself alone."""
    lost_at: int = 0
    """How many flushes had been written when it was lost last."""


class _Lost(Exception):
    """A commit whose answer was lost, and that left at least one batch (None) unwritten."""

    def __init__(self, fates: Sequence[Written | None], error: StoreUnavailable) -> None:
        super().__init__(str(error))
        self.fates, self.error = fates, StoreUnavailable(str(error))  # Of those that are None it is known.


class JournalWriter:
    """Writes batches of many runs together: at most ``runs_max`` runs or ``bytes_max`` bytes at once, one batch of a run at a time.

    A run's batches are written in the order in which they were submitted. What the database refuses is found by halving, so that one run's
    poison stops no other; a database that is away is waited for, and batches stay where they are. What was lost with its connection is
    sent again in smaller and smaller groups, so that a batch that takes the connection with it every time ends up alone.
    """

    def __init__(
        self,
        store: JournalStore,
        nudge: Nudge,
        *,
        runs_max: int = RUNS_MAX,
        bytes_max: int = BYTES_MAX,
        name: str = "journal-writer",
    ) -> None:
        self._store = store
        self._nudge = nudge
        self._runs_max = runs_max
        self._bytes_max = bytes_max
        self._pausing = store if isinstance(store, Pausing) else None
        self._queues: dict[str, deque[_Pending]] = {}
        """Per run, in order. The runs stand in the order in which they came to have something to write."""
        self._changed = threading.Condition()
        self._closing = False
        self._give_up_at = float("inf")
        self._failures = 0
        self._written = 0
        """Flushes that were written."""
        self._moved_at: float | None = None
        self._thread = threading.Thread(target=self._write_until_closed, name=name, daemon=True)
        self.flushes = 0
        """Calls of the store's ``write``."""
        self.trouble: StoreUnavailable | None = None
        """Why nothing is being written at the moment; None while the database answers."""
        self.on_write: Callable[[], None] = lambda: None
        """Called on the writer's thread right before each ``write``."""
        self.on_flushed: Callable[[], None] | None = None
        """Called on the writer's thread after the callbacks of a flush: whoever collected them can take them in together."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def submit(self, batch: Batch, on_done: OnDone) -> None:
        """Queues a batch; never waits. WriterClosed after ``close``."""
        self.submit_all([(batch, on_done)])

    def submit_all(self, ready: Sequence[tuple[Batch, OnDone]]) -> None:
        """Queues batches together, so that one flush takes them all if they fit; never waits. WriterClosed after ``close``."""
        pending = [_Pending(batch, on_done, weight(batch)) for batch, on_done in ready]
        with self._changed:
            if self._closing:
                raise WriterClosed
            for one in pending:
                self._queues.setdefault(one.batch.run_id, deque()).append(one)
            self._changed.notify()

    def progress(self) -> float | None:
        """When what is being written last got on (seconds, monotonic), be it to a refusal; None: nothing is to be written."""
        return self._moved_at

    def waiting(self) -> int:
        """Batches that are queued and not under way."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    def close(self, timeout_s: float) -> bool:
        """Takes nothing more, writes what is queued, and returns whether all of it was dealt with in that time.

        What could not be written by then is handed back: its callbacks get the StoreUnavailable that stood in the way.
        """
        with self._changed:
            self._closing = True
            self._give_up_at = time.monotonic() + timeout_s
            self._changed.notify()
        if self._thread.ident is None:
            self._hand_back()
            return True
        self._thread.join(timeout_s + BACKOFF_MIN_S)
        return not self._thread.is_alive()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _write_until_closed(self) -> None:
        while True:
            self._moved_at = None
            taken = self._take()
            if not taken:
                self._hand_back()
                return
            self._flush(taken)
            if self._pausing is not None and self._queues:
                pause_s = self._pausing.pause_s()
                if pause_s:
                    time.sleep(pause_s)

    def _take(self) -> list[_Pending]:
        """Waits for work and takes the first batch of as many runs as fit; empty: closed, and done or out of time."""
        with self._changed:
            while True:
                now = time.monotonic()
                if now >= self._give_up_at or (self._closing and not self._queues):
                    return []
                taken, due_at = self._ready(now)
                if taken:
                    return taken
                wait_s = min(due_at, self._give_up_at) - now
                self._changed.wait(wait_s if wait_s < threading.TIMEOUT_MAX else None)

    def _ready(self, now: float) -> tuple[list[_Pending], float]:
        taken: list[_Pending] = []
        total, limit = 0, self._runs_max
        due_at = float("inf")
        for queue in self._queues.values():
            first = queue[0]
            if first.not_before > now:
                due_at = min(due_at, first.not_before)
                continue
            if taken and (len(taken) == limit or total + first.weight > self._bytes_max):
                break
            if len(taken) >= first.company:  # Its turn comes when it stands first.
                continue
            limit = min(limit, first.company)
            taken.append(first)
            total += first.weight
        for pending in taken:
            queue = self._queues.pop(pending.batch.run_id)
            queue.popleft()
            if queue:  # Behind the others: each run gets its turn.
                self._queues[pending.batch.run_id] = queue
        return taken, due_at

    def _put_back(self, pending: Sequence[_Pending], wait_s: float, *, behind: bool = False) -> None:
        """Each before what else there is of its run; the runs before the others, or ``behind`` them."""
        not_before = time.monotonic() + wait_s
        with self._changed:
            back: dict[str, deque[_Pending]] = {}
            for one in pending:
                one.not_before = not_before
                queue = self._queues.pop(one.batch.run_id, None) or deque()
                queue.appendleft(one)
                back[one.batch.run_id] = queue
            self._queues = self._queues | back if behind else back | self._queues

    def _hand_back(self) -> None:
        with self._changed:
            left = [pending for queue in self._queues.values() for pending in queue]
            self._queues.clear()
        error = self.trouble or StoreUnavailable("the process stopped before the database took what was left to write")
        for pending in left:
            self._done(pending, error)
        self._flushed()

    def _flushed(self) -> None:
        try:
            if self.on_flushed is not None:
                self.on_flushed()
        except Exception:  # noqa: BLE001 - The same as for one batch's callback.
            _log.exception("what is told after a flush of the journal writer raised")

    # -- a flush -------------------------------------------------------------------------------------------------------

    def _flush(self, taken: list[_Pending]) -> None:
        told: dict[str, int] = {}
        groups = [taken]
        while groups:
            self._flushed()  # What is written already does not wait for what may wait now.
            group = groups.pop()
            self._moved_at = time.monotonic()
            try:
                self._settle(group, self._write(group), told)
            except _Lost as lost:
                self._settle(group, lost.fates, told)
                self._wait_after_loss(group, lost)
            except StoreUnavailable as error:
                if isinstance(error, StoreBusy) and len(group) > 1:
                    groups += _halves(group)
                    continue
                if isinstance(error, StoreBusy):
                    self._wait_for_row(group[0], error)
                    continue
                if error.unknown:
                    for pending in group:
                        self._done(pending, error)
                    continue
                self._wait_for_database([pending for left in [group, *reversed(groups)] for pending in left], error)
                break
            except Exception as error:  # noqa: BLE001 - Whatever it is, it may be one run's alone.
                if len(group) > 1:
                    groups += _halves(group)
                else:
                    self._done(group[0], error)
        self._flushed()
        if told:
            self._tell(told)

    def _write(self, group: list[_Pending]) -> Sequence[Written | None]:
        """The fates in order. _Lost when some were not written after all; StoreUnavailable is ``unknown`` only when time is up."""
        batches = [pending.batch for pending in group]
        self.flushes += 1
        self.on_write()
        fates: Sequence[Written | None]
        try:
            fates = self._store.write(batches)
        except StoreUnavailable as error:
            if not error.unknown:
                raise
            fates = self._look(batches, error)
            if None in fates:
                raise _Lost(fates, error) from error
        self._failures = 0
        self._written += 1
        self.trouble = None
        return fates

    def _look(self, batches: Sequence[Batch], error: StoreUnavailable) -> list[Written | None]:
        """Learns from the runs' rows what became of a commit whose answer was lost, asking until the database says so."""
        while True:
            self._moved_at = time.monotonic()
            try:
                heads = self._store.heads([batch.run_id for batch in batches])
            except StoreUnavailable as still:
                if not self._backs_off(still):
                    # Nothing is known: neither "written" nor "not written" may be said.
                    raise StoreUnavailable(
                        f"it is not known whether this was written: {error}", unknown=True
                    ) from still
                continue
            return [fate_of(batch, heads.get(batch.run_id)) for batch in batches]

    def _settle(self, group: list[_Pending], fates: Sequence[Written | None], told: dict[str, int]) -> None:
        for pending, fate in zip(group, fates, strict=True):
            if fate is None:
                continue
            if fate is Written.COMMITTED and pending.batch.rows:
                told[pending.batch.run_id] = pending.batch.new_seq
            self._done(pending, fate)

    def _done(self, pending: _Pending, outcome: Written | Exception) -> None:
        try:
            pending.on_done(outcome)
        except Exception:  # noqa: BLE001 - The pen of all runs does not break over one of them.
            _log.exception("a callback of the journal writer raised; run %s", pending.batch.run_id)

    def _tell(self, told: dict[str, int]) -> None:
        try:
            self._nudge.told(told)
        except Exception:  # noqa: BLE001 - The same.
            _log.exception("a nudge raised; nothing is lost but time")

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait_for_row(self, pending: _Pending, error: StoreBusy) -> None:
        """One run's row is held by somebody: it waits alone, the others go on."""
        pending.tries += 1
        wait_s = _backoff_s(pending.tries)
        _log.warning("run %s is not written for now: %s; again in %.2f s", pending.batch.run_id, error, wait_s)
        self._put_back([pending], wait_s)

    def _wait_after_loss(self, group: Sequence[_Pending], lost: _Lost) -> None:
        """Nothing says whose fault it is: the database's, which is given time, or one batch's, which ends up alone and is given up."""
        again = [pending for pending, fate in zip(group, lost.fates, strict=True) if fate is None]
        if len(group) == 1 and self._given_up(again[0]):
            self._done(
                again[0], StoreUnavailable(f"the database was lost each time that this was written: {lost.error}")
            )
            return
        for pending in again:
            pending.company = max(1, len(group) // 2)
        self._put_back(again, 0.0, behind=True)
        self._flushed()
        self._backs_off(lost.error)

    def _given_up(self, pending: _Pending) -> bool:
        pending.losses += pending.lost_at != self._written
        pending.lost_at = self._written
        return pending.losses >= LOSSES_MAX

    def _wait_for_database(self, pending: Sequence[_Pending], error: StoreUnavailable) -> None:
        self._put_back(pending, 0.0)
        self._backs_off(error)

    def _backs_off(self, error: StoreUnavailable) -> bool:
        """Waits, longer each time; False: the time to close has come."""
        self._failures += 1
        if self.trouble is None:
            _log.warning("nothing is written for now: %s", error)
        self.trouble = error
        until = time.monotonic() + _backoff_s(self._failures)
        with self._changed:
            while (now := time.monotonic()) < min(until, self._give_up_at):
                self._changed.wait(min(until, self._give_up_at) - now)
            return now < self._give_up_at


def _backoff_s(tries: int) -> float:
    return float(min(BACKOFF_MIN_S * 2 ** min(tries - 1, 10), BACKOFF_MAX_S))


def _halves(group: list[_Pending]) -> list[list[_Pending]]:
    """The second half first: the last of the list is written next."""
    middle = len(group) // 2
    return [group[middle:], group[:middle]]
