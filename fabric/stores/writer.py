"""The journal writer: the one writer of a process. The ready batches of all its runs go in one transaction, as soon
as the last one returned.

Group commit without a timer: a lone step waits for nothing, and arrivals during a flush share the next. No submitted
batch is dropped: its callback is called once, with its fate or with the reason why it has none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fabric.runtime.journal.batches import find_fate
from fabric.runtime.ports.journal import Batch, BatchFate, JournalStore, Nudge, StoreUnavailable
from fabric.stores.errors import StoreBusy
from fabric.stores.rows import weight

RUNS_MAX = 256
BYTES_MAX = 1_000_000
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 2.0
LOSSES_MAX = 3
"""Number of lone losses, with successful writes in between, after which the batch is at fault and not the database."""

OnDone = Callable[[BatchFate | Exception], None]
"""Called once, on the writer's thread, after the COMMIT (or after giving up); must return soon."""
_log = logging.getLogger(__name__)


class WriterClosed(RuntimeError):
    """The writer was closed: the process is stopping and writes nothing more."""

    def __init__(self) -> None:
        super().__init__("the journal writer is closed: this process is stopping")


@runtime_checkable
class PausingStore(Protocol):
    """A store that other processes can reach only between two flushes."""

    def pause_s(self) -> float:
        """Return the seconds to wait before the next flush; 0: none."""
        ...


@dataclass(slots=True)
class _Pending:
    batch: Batch
    on_done: OnDone
    weight: int
    not_before: float = 0.0
    tries: int = 0
    company: int = RUNS_MAX
    """Largest group that it may join: half of the one that it was lost in."""
    losses: int = 0
    """Number of losses as the only batch."""
    lost_at: int = 0
    """Number of written flushes at the last loss."""


class _LostCommit(Exception):
    """A commit with a lost answer that left at least one batch (None) unwritten."""

    def __init__(self, fates: Sequence[BatchFate | None], error: StoreUnavailable) -> None:
        super().__init__(str(error))
        self.fates, self.error = fates, StoreUnavailable(str(error))  # None: surely unwritten.


class JournalWriter:
    """Writes batches of many runs together, at most ``runs_max`` runs or ``bytes_max`` bytes at once. One batch of a
    run is written at a time.

    1. A run's batches are written in the order of their submission.
    2. A batch that the database refuses is found by halving, so that one run's poison stops no other.
    3. While the database is away, batches wait in their place.
    4. Batches that were lost with their connection are sent again in smaller and smaller groups, so that a batch that
       breaks the connection every time
       ends up alone.
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
        self._pausing = store if isinstance(store, PausingStore) else None
        self._queues: dict[str, deque[_Pending]] = {}
        """Batches by run, in order. The runs are in the order of their first waiting batch."""
        self._changed = threading.Condition()
        self._closing = False
        self._give_up_at = float("inf")
        self._failures = 0
        self._written = 0
        """Number of written flushes."""
        self._moved_at: float | None = None
        self._thread = threading.Thread(target=self._write_until_closed, name=name, daemon=True)
        self.flushes = 0
        """Number of calls of the store's ``write``."""
        self.trouble: StoreUnavailable | None = None
        """Reason why nothing can be written at the moment; None while the database answers."""
        self.on_write: Callable[[], None] = lambda: None
        """Called on the writer's thread right before each ``write``."""
        self.on_flushed: Callable[[], None] | None = None
        """Called on the writer's thread after the callbacks of a flush, so that their collector can process them
        together.
        """

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, batch: Batch, on_done: OnDone) -> None:
        """Queue a batch; never waits. Raises WriterClosed after ``close``."""
        self.submit_all([(batch, on_done)])

    def submit_all(self, ready: Sequence[tuple[Batch, OnDone]]) -> None:
        """Queue batches together, so that one flush takes them all if they fit; never waits. Raises WriterClosed
        after ``close``.
        """
        pending = [_Pending(batch, on_done, weight(batch)) for batch, on_done in ready]
        with self._changed:
            if self._closing:
                raise WriterClosed
            for one in pending:
                self._queues.setdefault(one.batch.run_id, deque()).append(one)
            self._changed.notify()

    def progress(self) -> float | None:
        """Return the time of the present write's last progress, even a refusal (seconds, monotonic); None: there is
        nothing to write.
        """
        return self._moved_at

    def count_waiting(self) -> int:
        """Return the number of queued batches that are not under way."""
        with self._changed:
            return sum(map(len, self._queues.values()))

    def close(self, timeout_s: float) -> bool:
        """Accept nothing more, write the queue, and return True if all of it was settled in time.

        Unwritten batches are handed back: their callbacks get the StoreUnavailable that prevented them.
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
        """Wait for work and take the first batch of as many runs as fit. Empty: the writer is closed, and done or out
        of time.
        """
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
        """Put each before the other batches of its run; the runs before the others, or ``behind`` them."""
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
            self._report_outcome(pending, error)
        self._report_flush()

    def _report_flush(self) -> None:
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
            self._report_flush()  # Written batches do not wait for those that wait now.
            group = groups.pop()
            self._moved_at = time.monotonic()
            try:
                self._settle(group, self._write(group), told)
            except _LostCommit as lost:
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
                        self._report_outcome(pending, error)
                    continue
                self._wait_for_database([pending for left in [group, *reversed(groups)] for pending in left], error)
                break
            except Exception as error:  # noqa: BLE001 - Whatever it is, it may be one run's alone.
                if len(group) > 1:
                    groups += _halves(group)
                else:
                    self._report_outcome(group[0], error)
        self._report_flush()
        if told:
            self._tell(told)

    def _write(self, group: list[_Pending]) -> Sequence[BatchFate | None]:
        """Return the fates in order. Raises _Lost when some were not written after all; StoreUnavailable is
        ``unknown`` only when time is up.
        """
        batches = [pending.batch for pending in group]
        self.flushes += 1
        self.on_write()
        fates: Sequence[BatchFate | None]
        try:
            fates = self._store.write(batches)
        except StoreUnavailable as error:
            if not error.unknown:
                raise
            fates = self._look(batches, error)
            if None in fates:
                raise _LostCommit(fates, error) from error
        self._failures = 0
        self._written += 1
        self.trouble = None
        return fates

    def _look(self, batches: Sequence[Batch], error: StoreUnavailable) -> list[BatchFate | None]:
        """Read from the runs' rows the fates of a commit with a lost answer, until the database answers."""
        while True:
            self._moved_at = time.monotonic()
            try:
                heads = self._store.heads([batch.run_id for batch in batches])
            except StoreUnavailable as still:
                if not self._backs_off(still):
                    # The fate is unknown: neither "written" nor "not written" may be reported.
                    raise StoreUnavailable(
                        f"it is not known whether this was written: {error}", unknown=True
                    ) from still
                continue
            return [find_fate(batch, heads.get(batch.run_id)) for batch in batches]

    def _settle(self, group: list[_Pending], fates: Sequence[BatchFate | None], told: dict[str, int]) -> None:
        for pending, fate in zip(group, fates, strict=True):
            if fate is None:
                continue
            if fate is BatchFate.COMMITTED and pending.batch.rows:
                told[pending.batch.run_id] = pending.batch.new_seq
            self._report_outcome(pending, fate)

    def _report_outcome(self, pending: _Pending, outcome: BatchFate | Exception) -> None:
        try:
            pending.on_done(outcome)
        except Exception:  # noqa: BLE001 - The pen of all runs does not break over one of them.
            _log.exception("a callback of the journal writer raised; run %s", pending.batch.run_id)

    def _tell(self, told: dict[str, int]) -> None:
        try:
            self._nudge.announce(told)
        except Exception:  # noqa: BLE001 - The same.
            _log.exception("a nudge raised; nothing is lost but time")

    # -- waiting -------------------------------------------------------------------------------------------------------

    def _wait_for_row(self, pending: _Pending, error: StoreBusy) -> None:
        """Delay one batch whose run's row is locked; the others go on."""
        pending.tries += 1
        wait_s = _backoff_s(pending.tries)
        _log.warning("run %s is not written for now: %s; again in %.2f s", pending.batch.run_id, error, wait_s)
        self._put_back([pending], wait_s)

    def _wait_after_loss(self, group: Sequence[_Pending], lost: _LostCommit) -> None:
        """Retry after a loss of unclear cause. The database gets time; a faulty batch ends up alone and is given up."""
        again = [pending for pending, fate in zip(group, lost.fates, strict=True) if fate is None]
        if len(group) == 1 and self._given_up(again[0]):
            self._report_outcome(
                again[0], StoreUnavailable(f"the database was lost each time that this was written: {lost.error}")
            )
            return
        for pending in again:
            pending.company = max(1, len(group) // 2)
        self._put_back(again, 0.0, behind=True)
        self._report_flush()
        self._backs_off(lost.error)

    def _given_up(self, pending: _Pending) -> bool:
        pending.losses += pending.lost_at != self._written
        pending.lost_at = self._written
        return pending.losses >= LOSSES_MAX

    def _wait_for_database(self, pending: Sequence[_Pending], error: StoreUnavailable) -> None:
        self._put_back(pending, 0.0)
        self._backs_off(error)

    def _backs_off(self, error: StoreUnavailable) -> bool:
        """Wait, longer each time; return False when the time to close has come."""
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
    """Return the second half first: the last of the list is written next."""
    middle = len(group) // 2
    return [group[middle:], group[:middle]]
