"""The journal store in memory: the same contract as the real ones, on a clock that is given.

Some of its rules can be left out (``plants``), so that the simulator can be seen to find out, and its next call can be made to fail as a
database does (``fail_next``). Time passes only in the clock; the same calls give the same answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Literal

from fabric.adapters.journal_rows import (
    PRIORITIES,
    SECOND_US,
    Counters,
    changes,
    closed,
    distinct_runs,
    is_over,
    progresses,
    wakes_at,
    weight,
)
from fabric.adapters.store_errors import IncarnationRetired, RunMissing, StoreBusy
from fabric.core.envelope import Row
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.flow import TERMINAL, RunState
from fabric.runtime.ports import (
    Batch,
    Claimed,
    Clock,
    Document,
    EscalationChange,
    Head,
    InboxItem,
    NewRun,
    RunColumns,
    StoredRow,
    StoreUnavailable,
    Written,
)

Plant = Literal["no_fence", "no_unique_input"]
Failure = Literal["away", "busy", "lost", "landed", "late"]
"""``away``: it does not answer; ``busy``: it refuses for now; ``lost``, ``landed``: the answer is lost, and so was, or was not, the change.

``late``, of a write alone: the answer is lost, and the change is made before the next write, when its fate has been asked for.
"""


@dataclass(slots=True)
class _Input:
    input_id: str
    body: bytes
    visible_at: int
    consumed_seq: int | None = None


@dataclass(slots=True)
class _Run:
    new: NewRun
    rank: int
    order: int
    wake_at: int | None
    columns: RunColumns
    rows: list[Row] = field(default_factory=list)
    inbox: list[_Input] = field(default_factory=list)
    head: bytes = ZERO_HASH
    last_seq: int = 0
    fence: int = 0
    incarnation: str | None = None
    claims: int = 0


@dataclass(slots=True)
class _Incarnation:
    lease_until: int
    retired: bool = False


class MemoryStore(Counters):
    """``ports.JournalStore`` in dicts.

    ``no_fence``: a batch is written whoever owns the run by now. ``no_unique_input``: an input that came before is inserted again.
    """

    def __init__(self, clock: Clock, *, plants: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self._clock = clock
        self._fenced = "no_fence" not in plants
        self._unique = "no_unique_input" not in plants
        self._runs: dict[str, _Run] = {}
        self._live: dict[str, _Run] = {}
        self._start_keys: dict[tuple[str, str], str] = {}
        self._incarnations: dict[str, _Incarnation] = {}
        self._failures: dict[str, list[Failure]] = {}
        self._late: list[Sequence[Batch]] = []
        self._guard = RLock()
        self.escalations: dict[str, tuple[str, EscalationChange]] = {}
        """Every escalation as it stands now, with its run."""

    def fail_next(self, failure: Failure, *, call: str = "write", times: int = 1) -> None:
        """Makes the next calls of that name fail in this way: ``write``, ``claim``, ``heads`` ..."""
        self._failures.setdefault(call, []).extend([failure] * times)

    def _failing(self, call: str) -> Failure | None:
        """Raises what was ordered for this call; ``landed`` or ``late``: the caller makes the change, now or then, and loses its answer."""
        ordered = self._failures.get(call)
        if not ordered:
            return None
        failure = ordered.pop(0)
        if failure in ("landed", "late"):
            return failure
        if failure == "busy":
            raise StoreBusy("the memory store was told to be busy")
        raise StoreUnavailable("the memory store was told not to answer", unknown=failure == "lost")

    @staticmethod
    def _answer_lost() -> StoreUnavailable:
        return StoreUnavailable("the memory store was told to lose its answer", unknown=True)

    # -- from outside --------------------------------------------------------------------------------------------------

    def create(self, run: NewRun) -> tuple[str, bool]:
        """See ``ports.JournalStore``."""
        with self._guard:
            landed = self._failing("create")
            key = (run.workspace_id, run.start_key)
            known = self._start_keys.get(key) if run.start_key else None
            known = known or (run.run_id if run.run_id in self._runs else None)
            self.statements += 1
            if known:
                return known, False
            now = self._clock.now()
            columns = RunColumns(
                state=RunState.QUEUED, stage="", epoch=0, cost_usd_micros=0, tokens=0, deadline_at=run.deadline_at
            )
            made = _Run(run, PRIORITIES.index(run.priority), len(self._runs), now, columns)
            made.inbox.append(_Input(run.input_id, run.input_body, now))
            self._runs[run.run_id] = self._live[run.run_id] = made
            if run.start_key:
                self._start_keys[key] = run.run_id
            self.commits += 1
            if landed:
                raise self._answer_lost()
            return run.run_id, True

    def put_input(self, run_id: str, input_id: str, body: bytes, *, delay_s: float = 0.0) -> bool:
        """See ``ports.JournalStore``. RunMissing when there is no such run; for one that has ended the input is kept, and closed."""
        with self._guard:
            landed = self._failing("put_input")
            run = self._runs.get(run_id)
            if run is None:
                raise RunMissing(run_id)
            self.statements += 1
            if self._unique and any(item.input_id == input_id for item in run.inbox):
                return False
            closed = run.last_seq if run.columns.state in TERMINAL else None
            run.inbox.append(_Input(input_id, body, self._clock.now() + round(delay_s * SECOND_US), closed))
            self.commits += 1
            if landed:
                raise self._answer_lost()
            return True

    def withdraw_input(self, run_id: str, input_id: str) -> bool:
        """Takes an inbox row back. False: it was consumed, or was never there."""
        with self._guard:
            run = self._runs.get(run_id)
            for item in run.inbox if run else ():
                if item.input_id == input_id and item.consumed_seq is None:
                    run.inbox.remove(item)  # type: ignore[union-attr]
                    return True
            return False

    # -- ownership -----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float) -> None:
        """See ``ports.JournalStore``. IncarnationRetired for a name that was retired."""
        with self._guard:
            self._failing("register")
            until = self._clock.now() + round(lease_s * SECOND_US)
            known = self._incarnations.setdefault(incarnation, _Incarnation(until))
            if known.retired:
                raise IncarnationRetired(incarnation)
            known.lease_until = until

    def beat(self, incarnation: str, *, lease_s: float) -> bool:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._failing("beat")
            known = self._incarnations.get(incarnation)
            if known is None or known.retired:
                return False
            known.lease_until = self._clock.now() + round(lease_s * SECOND_US)
            return True

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._failing("retire")
            if incarnation in self._incarnations:
                self._incarnations[incarnation].retired = True

    def _leased(self, incarnation: str | None, now: int) -> bool:
        known = self._incarnations.get(incarnation) if incarnation is not None else None
        return known is not None and not known.retired and known.lease_until > now

    def claim(self, incarnation: str, *, limit: int, queues: Sequence[str], again: Sequence[str] = ()) -> list[Claimed]:
        """See ``ports.JournalStore``. An incarnation whose own lease has lapsed gets nothing."""
        with self._guard:
            self._failing("claim")
            now = self._clock.now()
            self.statements += 1
            if not self._leased(incarnation, now):
                return []
            mine = [run for run_id in again if (run := self._live.get(run_id)) and run.incarnation == incarnation]
            due = [run for run in self._live.values() if run in mine or self._claimable(run, now)]
            due = [run for run in due if run.new.queue in queues]
            due.sort(key=lambda run: (run.rank, run.wake_at or 0, run.order))
            claimed = [self._take(run, incarnation, now) for run in due[:limit]]
            self.commits += bool(claimed)
            return claimed

    def _claimable(self, run: _Run, now: int) -> bool:
        if run.columns.state in TERMINAL:
            return False
        if run.incarnation is not None:
            return not self._leased(run.incarnation, now)
        return (run.wake_at is not None and run.wake_at <= now) or any(
            item.consumed_seq is None and item.visible_at <= now for item in run.inbox
        )

    def _take(self, run: _Run, incarnation: str, now: int) -> Claimed:
        orphaned = run.incarnation is not None
        run.incarnation = incarnation
        run.fence += 1
        run.claims += 1
        new = run.new
        rows, inbox = tuple(map(_stored, run.rows)), tuple(_visible(run, now))
        return Claimed(new.run_id, run.fence, new.revision_id, new.trace_id, new.seed, new.tier, rows, inbox, orphaned)

    # -- the owner's ---------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._failing("inbox")
            now = self._clock.now()
            self.statements += 1
            return [
                item for run in self._live.values() if run.incarnation == incarnation for item in _visible(run, now)
            ]

    def write(self, batches: Sequence[Batch]) -> list[Written]:
        """See ``ports.JournalStore``."""
        with self._guard:
            failure = self._failing("write")
            if failure == "late":
                self._late.append(batches)
                raise self._answer_lost()
            distinct_runs(batches)
            while self._late:
                for batch in self._late.pop(0):
                    self._write(batch)
            fates = [self._write(batch) for batch in batches]
            self.statements += 1
            self.commits += Written.COMMITTED in fates
            if failure:
                raise self._answer_lost()
            return fates

    def _write(self, batch: Batch) -> Written:
        run = self._runs.get(batch.run_id)
        if run is None:
            return Written.FENCED
        mine = run.fence == batch.fence and run.last_seq == batch.last_seq and run.incarnation is not None
        if self._fenced and not mine:
            return Written.FENCED
        taken = []
        for input_id in batch.consumed:
            found = next((item for item in run.inbox if item.input_id == input_id and item.consumed_seq is None), None)
            if found is None:
                return Written.INPUT_GONE
            taken.append(found)
        for item in taken:
            item.consumed_seq = batch.new_seq
        self._apply(run, batch)
        return Written.COMMITTED

    def _apply(self, run: _Run, batch: Batch) -> None:
        run.rows.extend(batch.rows)
        run.last_seq = batch.new_seq
        run.head = batch.head
        run.columns = batch.columns
        if run.claims and progresses(batch):
            run.claims = 0
        for change in changes(batch) if batch.escalations else ():
            self._escalate(batch.run_id, change)
        if batch.release:
            run.incarnation = None
            run.wake_at = wakes_at(batch)
        if is_over(batch):
            self._live.pop(batch.run_id, None)
            for item in run.inbox:
                if item.consumed_seq is None:
                    item.consumed_seq = run.last_seq
        self.bytes_written += weight(batch)

    def _escalate(self, run_id: str, change: EscalationChange) -> None:
        known = self.escalations.get(change.escalation_id)
        if known is not None:
            change = closed(known[1], change)
        self.escalations[change.escalation_id] = (run_id, change)

    # -- reads ---------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; a run that is not there is left out."""
        with self._guard:
            self._failing("heads")
            found = {run_id: self._runs[run_id] for run_id in run_ids if run_id in self._runs}
            return {run_id: Head(run.fence, run.last_seq, run.head) for run_id, run in found.items()}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._failing("journal")
            run = self._runs.get(run_id)
            rows = [_stored(row) for row in run.rows if row.seq > after] if run else []
            return rows[:limit]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        run = self._runs.get(run_id)
        return run.new.documents if run else ()

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        with self._guard:
            self._failing("next_due_s")
            now = self._clock.now()
            due: list[int] = []
            for run in self._live.values():
                released = run.incarnation is None
                if released and run.wake_at is not None:
                    due.append(run.wake_at)
                due += [
                    item.visible_at
                    for item in run.inbox
                    if item.consumed_seq is None and (released or item.visible_at > now)
                ]
            return (min(due) - now) / SECOND_US if due else None

    def rows(self, run_id: str) -> tuple[Row, ...]:
        """A run's journal as it was written, with the instants that ``journal`` leaves in the header."""
        return tuple(self._runs[run_id].rows)

    def columns(self, run_id: str) -> RunColumns:
        """A run's projection as its last batch left it."""
        return self._runs[run_id].columns

    def standing(self, run_id: str) -> tuple[str | None, int, int]:
        """``(owner, fence, claims since it made progress)`` of a run."""
        run = self._runs[run_id]
        return run.incarnation, run.fence, run.claims

    def run_ids(self) -> tuple[str, ...]:
        """Every run, in the order of creation."""
        return tuple(self._runs)


def _visible(run: _Run, now: int) -> list[InboxItem]:
    return [
        InboxItem(run.new.run_id, item.input_id, item.body)
        for item in run.inbox
        if item.consumed_seq is None and item.visible_at <= now
    ]


def _stored(row: Row) -> StoredRow:
    return StoredRow(row.seq, row.kind, row.version, row.header, row.payload, row.payload_hash, row.hash)
