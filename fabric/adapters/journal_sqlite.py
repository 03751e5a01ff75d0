"""The journal store on SQLite: WAL, synchronous=FULL, every change in one BEGIN IMMEDIATE transaction on one guarded connection.

One process at a time drives runs on a file (the holder of the directory's lock); others only insert. A writer that flushes back to back
starves them, since SQLite has no queue for its lock (530 ms measured, 4 ms with a gap of 1 ms): they leave a hint beside the file before
they ask, and the journal writer pauses for them (``pause_s``).
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from fabric.adapters import sqlite_statements as statements
from fabric.adapters.journal_rows import (
    PRIORITIES,
    SECOND_US,
    Counters,
    changes,
    distinct_runs,
    is_over,
    progresses,
    wakes_at,
    weight,
)
from fabric.adapters.sqlite_connection import SqliteConnection
from fabric.adapters.store_errors import IncarnationRetired, RunMissing
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import Batch, Claimed, Clock, Document, Head, InboxItem, NewRun, StoredRow, Written

BUSY_S = 5.0
PAUSE_S = 0.001
ASKED_WITHIN_S = 1.0
PAUSE_EVERY_S = 0.010


class SqliteStore(Counters):
    """``ports.JournalStore`` on one SQLite file that has its tables. ``clock`` is the machine's unless a test brings another."""

    def __init__(self, path: Path | str, *, clock: Clock | None = None, busy_s: float = BUSY_S) -> None:
        super().__init__()
        self.path = Path(path)
        self._now = clock.now if clock else _machine_clock
        self._writer = SqliteConnection(self.path, busy_s=busy_s)
        self._reader = SqliteConnection(self.path, busy_s=busy_s)
        self._hint = self.path.with_name(self.path.name + "-asked")
        self._drives = False
        """True once this process has written a batch: it is the one that the hint is for."""
        self._waiting = 0
        self._paused_at = 0.0
        self._lost: dict[str, list[int]] = {}
        self._guard = Lock()

    def close(self) -> None:
        """Closes the connections."""
        self._writer.close()
        self._reader.close()

    def pause_s(self) -> float:
        """How long the journal writer shall wait before its next flush, so that others come to the file: mostly 0."""
        now = time.monotonic()
        if self._waiting or self._asked_lately() or now - self._paused_at >= PAUSE_EVERY_S:
            self._paused_at = now
            return PAUSE_S
        return 0.0

    def _asked_lately(self) -> bool:
        try:
            return time.time() - self._hint.stat().st_mtime < ASKED_WITHIN_S
        except OSError:
            return False

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """A transaction of somebody who is not the journal writer: it says first that it wants one."""
        if not self._drives:
            with suppress(OSError):  # A hint that cannot be left costs time, nothing else.
                self._hint.touch()
        with self._guard:
            self._waiting += 1
        try:
            with self._writer.transaction() as connection:
                yield connection
        finally:
            with self._guard:
                self._waiting -= 1

    # -- from outside --------------------------------------------------------------------------------------------------

    def create(self, run: NewRun) -> tuple[str, bool]:
        """See ``ports.JournalStore``. RowRefused when the revision is not there."""
        values = {
            name: getattr(run, name)
            for name in (
                "run_id",
                "workspace_id",
                "revision_id",
                "session_key",
                "start_key",
                "title",
                "trace_id",
                "seed",
                "queue",
            )
        } | {
            "requested_by": run.requested_by,
            "deadline_at": run.deadline_at,
            "input_id": run.input_id,
            "body": run.input_body,
        }
        values |= {
            "tier": run.tier.value,
            "priority": PRIORITIES.index(run.priority),
            "head": ZERO_HASH,
            "now": self._now(),
        }
        with self._change() as db:
            found = db.execute(statements.EXISTING, values).fetchone()
            if found:
                self.count(statements=1)
                return found[0], False
            db.execute(statements.CREATE, values)
            db.execute(statements.PUT_INPUT, values | {"delay": 0})
            db.executemany(
                statements.ATTACH,
                [
                    (run.run_id, run.workspace_id, place, document.name, document.text, len(document.text.encode()))
                    for place, document in enumerate(run.documents, start=1)
                ],
            )
        written = len(run.input_body) + sum(len(document.text) for document in run.documents)
        self.count(commits=1, statements=3 + len(run.documents), written=written)
        return run.run_id, True

    def put_input(self, run_id: str, input_id: str, body: bytes, *, delay_s: float = 0.0) -> bool:
        """See ``ports.JournalStore``. RunMissing when there is no such run; for one that has ended the input is kept, and closed."""
        values = {
            "run_id": run_id,
            "input_id": input_id,
            "body": body,
            "delay": round(delay_s * SECOND_US),
            "now": self._now(),
        }
        with self._change() as db:
            inserted = db.execute(statements.PUT_INPUT, values).rowcount == 1
            missing = not inserted and db.execute(statements.HAS_RUN, (run_id,)).fetchone() is None
        self.count(commits=int(inserted), statements=2 - inserted, written=len(body) if inserted else 0)
        if missing:
            raise RunMissing(run_id)
        return inserted

    def withdraw_input(self, run_id: str, input_id: str) -> bool:
        """Takes an inbox row back. False: it was consumed, or was never there."""
        with self._change() as db:
            gone = db.execute(statements.WITHDRAW, (run_id, input_id)).rowcount == 1
        self.count(commits=int(gone), statements=1)
        return gone

    # -- ownership -----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float) -> None:
        """See ``ports.JournalStore``. IncarnationRetired for a name that was retired."""
        values = {"name": incarnation, "now": self._now(), "lease": round(lease_s * SECOND_US)}
        with self._change() as db:
            values |= {"host": socket.gethostname(), "pid": os.getpid()}
            done = db.execute(statements.REGISTER, values).rowcount == 1
        if not done:
            raise IncarnationRetired(incarnation)

    def beat(self, incarnation: str, *, lease_s: float) -> bool:
        """See ``ports.JournalStore``."""
        with self._change() as db:
            until = self._now() + round(lease_s * SECOND_US)
            return db.execute(statements.BEAT, (until, incarnation)).rowcount == 1

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        with self._change() as db:
            db.execute(statements.RETIRE, {"name": incarnation, "now": self._now()})

    def retire_others(self, incarnation: str) -> None:
        """Ends the lease of everybody else: for the holder of the data directory's lock, who knows that they are gone."""
        with self._change() as db:
            db.execute(statements.RETIRE_OTHERS, {"name": incarnation, "now": self._now()})

    def claim(self, incarnation: str, *, limit: int, queues: Sequence[str], again: Sequence[str] = ()) -> list[Claimed]:
        """See ``ports.JournalStore``. An incarnation whose own lease has lapsed gets nothing."""
        if not queues:
            return []
        ticket = secrets.randbits(62)
        with self._guard:
            lost = self._lost.pop(incarnation, [])
        values: dict[str, Any] = {"me": incarnation, "now": self._now(), "limit": limit, "lost": json.dumps(lost)}
        values |= {"again": json.dumps(list(again))} | {f"queue{n}": queue for n, queue in enumerate(queues)}
        try:
            taken = self._take(incarnation, ticket, statements.claimable(len(queues)), values)
            claimed = self._load(taken, values["now"]) if taken else []
        except BaseException:
            self._lose(incarnation, [*lost, ticket])
            raise
        if lost and len(taken) == limit:
            self._lose(incarnation, lost)
        return claimed

    def _take(self, incarnation: str, ticket: int, claimable: str, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        # Looking first costs no lock; most looks find nothing.
        with self._reader.use() as db:
            found = db.execute(claimable, values).fetchone()
        self.count(statements=1)
        if found is None:
            return []
        with self._change() as db:
            taken = db.execute(claimable, values).fetchall()
            db.executemany(statements.TAKE, [(incarnation, ticket, run[0]) for run in taken])
        self.count(commits=int(bool(taken)), statements=1 + len(taken))
        return taken

    def _lose(self, incarnation: str, tickets: list[int]) -> None:
        with self._guard:
            self._lost.setdefault(incarnation, []).extend(tickets)

    def _load(self, taken: list[tuple[Any, ...]], now: int) -> list[Claimed]:
        rows: dict[str, list[StoredRow]] = {run[0]: [] for run in taken}
        inbox: dict[str, list[InboxItem]] = {run[0]: [] for run in taken}
        names = json.dumps(list(rows))
        with self._reader.use() as db:
            for run_id, *row in db.execute(statements.LOAD_ROWS, (names,)):
                rows[run_id].append(StoredRow(*row))
            for item in db.execute(statements.LOAD_INBOX, (names, now)):
                inbox[item[0]].append(InboxItem(*item))
        self.count(statements=2)
        return [
            Claimed(
                run_id,
                fence + 1,
                revision,
                trace,
                seed,
                Tier(tier),
                tuple(rows[run_id]),
                tuple(inbox[run_id]),
                bool(orphaned),
            )
            for run_id, fence, revision, trace, seed, tier, orphaned in taken
        ]

    # -- the owner's ---------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        return [InboxItem(*item) for item in self._read(statements.INBOX, (self._now(), incarnation))]

    def write(self, batches: Sequence[Batch]) -> list[Written]:
        """See ``ports.JournalStore``. RowRefused: nothing was written; fewer batches may pass."""
        if not batches:
            return []
        distinct_runs(batches)
        self._drives = True
        names = json.dumps([batch.run_id for batch in batches])
        with self._writer.transaction() as db:
            standing = {
                run_id: (row, workspace) for run_id, *row, workspace in db.execute(statements.STANDING, (names,))
            }
            waiting: set[tuple[str, str]] = set()
            if any(batch.consumed for batch in batches):
                waiting.update(db.execute(statements.WAITING, (names,)))
            fates = [_fate(batch, standing, waiting) for batch in batches]
            written = [batch for batch, fate in zip(batches, fates, strict=True) if fate is Written.COMMITTED]
            sent = _apply(db, written, {run_id: workspace for run_id, (_, workspace) in standing.items()})
        self.count(commits=int(bool(written)), statements=2 + sent, written=sum(map(weight, written)))
        return fates

    # -- reads ---------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; a run that is not there is left out."""
        found = self._read(statements.HEADS, (json.dumps(list(run_ids)),))
        return {run_id: Head(fence, last_seq, head) for run_id, fence, last_seq, head in found}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        return [
            StoredRow(*row) for row in self._read(statements.JOURNAL, (run_id, after, -1 if limit is None else limit))
        ]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        return tuple(Document(*document) for document in self._read(statements.DOCUMENTS, (run_id,)))

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        now = self._now()
        ((due,),) = self._read(statements.NEXT_DUE, {"now": now})
        return None if due is None else (due - now) / SECOND_US

    def _read(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        with self._reader.use() as db:
            found = db.execute(statement, values).fetchall()
        self.count(statements=1)
        return found


def _fate(batch: Batch, standing: Mapping[str, tuple[list[Any], str]], waiting: set[tuple[str, str]]) -> Written:
    row, _ = standing.get(batch.run_id, (None, ""))
    if row != [batch.fence, batch.last_seq, 1]:
        return Written.FENCED
    if any((batch.run_id, input_id) not in waiting for input_id in batch.consumed):
        return Written.INPUT_GONE
    return Written.COMMITTED


def _apply(db: sqlite3.Connection, batches: Sequence[Batch], workspaces: Mapping[str, str]) -> int:
    """Writes the batches whose conditions hold; returns how many statements that took."""
    work: list[tuple[str, list[tuple[Any, ...]]]] = [
        (statements.UPDATE_RUN, [_run_values(batch) for batch in batches]),
        (statements.PROGRESS, [(batch.run_id,) for batch in batches if progresses(batch)]),
        (
            statements.APPEND,
            [
                (
                    row.at,
                    row.seq,
                    row.version,
                    row.kind,
                    row.header,
                    row.payload,
                    row.payload_hash,
                    row.hash,
                    batch.run_id,
                    workspace,
                )
                for batch in batches
                for workspace in (workspaces[batch.run_id],)
                for row in batch.rows
            ],
        ),
        (statements.CONSUME, [(batch.new_seq, batch.run_id, taken) for batch in batches for taken in batch.consumed]),
        (statements.RELEASE, [(wakes_at(batch), batch.run_id) for batch in batches if batch.release]),
        (statements.CLOSE_INBOX, [(batch.new_seq, batch.run_id) for batch in batches if is_over(batch)]),
        (
            statements.ESCALATE,
            [_escalation(change, batch, workspaces) for batch in batches for change in changes(batch)],
        ),
    ]
    for statement, values in work:
        if values:
            db.executemany(statement, values)
    return sum(len(values) for _, values in work)


def _run_values(batch: Batch) -> tuple[Any, ...]:
    now = batch.columns
    return (
        *(
            batch.new_seq,
            batch.head,
            now.state.value,
            str(now.stage),
            now.epoch,
            now.cost_usd_micros,
            now.tokens,
            now.reason,
        ),
        *(now.recovered, now.truncated, now.started_at, now.ended_at, now.deadline_at, batch.run_id),
    )


def _escalation(change: Any, batch: Batch, workspaces: Mapping[str, str]) -> tuple[Any, ...]:
    return (
        *(change.escalation_id, workspaces[batch.run_id], batch.run_id, change.step_id, change.item, change.reason),
        *(
            change.failure_type,
            change.stage,
            change.required_role,
            ",".join(change.verbs),
            change.digest,
            change.opened_at,
        ),
        *(change.due_at, change.content, change.decided_at, change.verb, change.decided_by, change.by_system),
    )


def _machine_clock() -> int:
    return time.time_ns() // 1000
