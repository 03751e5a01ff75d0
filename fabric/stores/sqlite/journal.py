"""The journal store on SQLite: WAL, synchronous=FULL, every change in one BEGIN IMMEDIATE transaction on one guarded
connection.

One process at a time drives runs on a file (the holder of the directory's lock); others only insert. SQLite has no
queue for its lock, so a writer that flushes back to back starves them: they waited 530 ms, and 4 ms with a gap of 1
ms. They leave a hint next to the file before they lock it, and the journal writer pauses for them (``pause_s``).
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
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from fabric.core.audit.lines import AuditEntry
from fabric.core.values.flow import FORMAT
from fabric.core.values.units import US
from fabric.runtime.ports.batch_parts import Snapshot
from fabric.runtime.ports.journal import (
    Batch,
    BatchFate,
    ClaimedRun,
    Clock,
    Document,
    Head,
    InboxItem,
    InputWithdrawn,
    NewRun,
    StoredRow,
)
from fabric.stores.errors import IncarnationRetired, RunMissing, StartStopped
from fabric.stores.rows import (
    CLAIM_SPAN,
    Counters,
    LoadedRun,
    add_standings,
    audit_values,
    check_batches,
    count_fitting,
    stored_row,
    weight,
)
from fabric.stores.sqlite import statements
from fabric.stores.sqlite.connection import SqliteConnection
from fabric.stores.sqlite.flush import SqliteFlush, creation

BUSY_S = 5.0
PAUSE_S = 0.001
ASKED_WITHIN_S = 1.0
PAUSE_EVERY_S = 0.010


class SqliteStore(Counters):
    """``ports.JournalStore`` on one SQLite file that has its tables. ``clock`` is the machine's unless a test passes
    another.
    """

    def __init__(self, path: Path | str, *, clock: Clock | None = None, busy_s: float = BUSY_S) -> None:
        super().__init__()
        self.path = Path(path)
        self._now = clock.now if clock else _machine_clock
        self._writer = SqliteConnection(self.path, busy_s=busy_s)
        self._reader = SqliteConnection(self.path, busy_s=busy_s)
        self._hint = self.path.with_name(self.path.name + "-asked")
        self._drives = False
        """True once this process has written a batch: the hint is for this one."""
        self._waiting = 0
        self._paused_at = 0.0
        self._lost: dict[str, list[int]] = {}
        self._guard = Lock()

    def close(self) -> None:
        """Close the connections."""
        self._writer.close()
        self._reader.close()

    def pause_s(self) -> float:
        """Return the seconds before the journal writer's next flush, so that others reach the file: mostly 0."""
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
        """Open a transaction of a process other than the journal writer: it leaves the hint first."""
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

    def create(self, run: NewRun, *, audit: AuditEntry | None = None) -> tuple[str, bool]:
        """See ``ports.JournalStore``. Raises RowRefused for an unknown revision, StartStopped."""
        values = creation(run, self._now())
        with self._change() as db:
            found = db.execute(statements.EXISTING, values).fetchone()
            if found:
                self.count(statements=1)
                if found[0] is None:
                    raise StartStopped(run.workspace_id)
                return found[0], False
            db.execute(statements.CREATE, values)
            db.execute(statements.PUT_INPUT, values)
            if audit:
                db.execute(statements.AUDIT, values | audit_values(audit))
            db.executemany(
                statements.ATTACH,
                [
                    (run.run_id, run.workspace_id, n, one.name, one.text, len(one.text.encode()), one.origin)
                    for n, one in enumerate(run.documents, start=1)
                ],
            )
            db.executemany(statements.LABEL, [(run.run_id, run.workspace_id, *label) for label in run.labels])
        written = len(run.input_body) + sum(len(document.text) for document in run.documents)
        statements_run = 3 + (audit is not None) + len(run.documents) + len(run.labels)
        self.count(commits=1, statements=statements_run, written=written)
        return run.run_id, True

    def put_input(
        self,
        run_id: str,
        input_id: str,
        body: bytes,
        *,
        delay_s: float = 0.0,
        format: int = 1,
        wakes: int = 1,
        audit: AuditEntry | None = None,
    ) -> bool:
        """See ``ports.JournalStore``. Raises RunMissing for an unknown run; an ended run keeps the input, closed."""
        values = {"run_id": run_id, "input_id": input_id, "body": body, "delay": round(delay_s * US)}
        values |= {"now": self._now(), "format": format, "wakes": wakes}
        with self._change() as db:
            inserted = db.execute(statements.PUT_INPUT, values).rowcount == 1
            if inserted and audit:
                db.execute(statements.AUDIT, values | audit_values(audit))
            missing = not inserted and db.execute(statements.HAS_RUN, (run_id,)).fetchone() is None
        self.count(commits=int(inserted), statements=2 - (inserted and not audit), written=len(body) if inserted else 0)
        if missing:
            raise RunMissing(run_id)
        return inserted

    def withdraw_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> InputWithdrawn:
        """See ``ports.JournalStore``."""
        if self._change_run(statements.WITHDRAW, run_id, input_id, audit):
            return InputWithdrawn.GONE
        left = self._read(statements.CONSUMED, {"run_id": run_id, "input_id": input_id})
        return InputWithdrawn.TOO_LATE if left else InputWithdrawn.UNKNOWN

    def hasten_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> bool:
        """See ``ports.JournalStore``."""
        return self._change_run(statements.HASTEN, run_id, input_id, audit)

    def _change_run(self, statement: str, run_id: str, input_id: str, audit: AuditEntry | None) -> bool:
        values = {"run_id": run_id, "input_id": input_id, "now": self._now()}
        with self._change() as db:
            changed = db.execute(statement, values).rowcount == 1
            if changed and audit:
                db.execute(statements.AUDIT, values | audit_values(audit))
        self.count(commits=int(changed), statements=1 + (changed and audit is not None))
        return changed

    # -- ownership -----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float, token: int = 0) -> None:
        """See ``ports.JournalStore``. Raises IncarnationRetired for a retired or foreign name."""
        values = {"name": incarnation, "now": self._now(), "lease": round(lease_s * US), "token": token}
        with self._change() as db:
            values |= {"host": socket.gethostname(), "pid": os.getpid()}
            done = db.execute(statements.REGISTER, values).rowcount == 1
        if not done:
            raise IncarnationRetired(incarnation)

    def now(self) -> int:
        """See ``ports.JournalStore``: the machine's clock."""
        return self._now()

    def beat(self, incarnation: str, *, lease_s: float, refused: int = 0) -> int:
        """See ``ports.JournalStore``."""
        with self._change() as db:
            now = self._now()
            until = now + round(lease_s * US)
            return now if db.execute(statements.BEAT, (until, refused, incarnation)).rowcount == 1 else 0

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        with self._change() as db:
            db.execute(statements.RETIRE, {"name": incarnation, "now": self._now()})

    def retire_others(self, incarnation: str) -> None:
        """End the lease of all other incarnations. The caller has the data directory's lock, which proves that they are
        gone.
        """
        with self._change() as db:
            db.execute(statements.RETIRE_OTHERS, {"name": incarnation, "now": self._now()})

    def claim(
        self,
        incarnation: str,
        *,
        limit: int,
        queues: Sequence[str],
        format: int = FORMAT,
        again: Sequence[str] = (),
        steady: bool = True,
        digest: str = "",
    ) -> list[ClaimedRun]:
        """See ``ports.JournalStore``. An incarnation whose own lease has lapsed gets nothing."""
        if not queues:
            return []
        ticket = secrets.randbits(62)
        with self._guard:
            lost = self._lost.pop(incarnation, [])
        values: dict[str, Any] = {"me": incarnation, "now": self._now(), "limit": limit, "span": limit + CLAIM_SPAN}
        values |= {"lost": json.dumps(lost), "again": json.dumps(list(again))}
        values |= {"format": format, "steady": steady, "digest": digest}
        values |= {f"queue{n}": queue for n, queue in enumerate(queues)}
        try:
            taken, cut = self._take(incarnation, ticket, statements.claimable(len(queues)), values)
            claimed = self._load(taken, values["now"], cut) if taken else []
        except BaseException:
            self._lose(incarnation, [*lost, ticket])
            raise
        if lost and taken:  # As many as were asked for, or as many rows: there may be others.
            self._lose(incarnation, lost)
        return claimed

    def _take(
        self, incarnation: str, ticket: int, claimable: str, values: dict[str, Any]
    ) -> tuple[list[tuple[Any, ...]], bool]:
        """Return the claimed rows, and True if others were left because of their size."""
        # Looking first costs no lock; most looks find nothing.
        with self._reader.use() as db:
            found = db.execute(claimable, values).fetchone()
        self.count(statements=1)
        if found is None:
            return [], False
        with self._change() as db:
            due = db.execute(claimable, values).fetchall()
            taken = due[: count_fitting(row[8] - (row[-2] or 0) + (row[-1] or 0) for row in due)]
            db.executemany(statements.TAKE, [(incarnation, ticket, run[0]) for run in taken])
        self.count(commits=int(bool(taken)), statements=1 + len(taken))
        return taken, len(taken) < len(due)

    def _lose(self, incarnation: str, tickets: list[int]) -> None:
        with self._guard:
            self._lost.setdefault(incarnation, []).extend(tickets)

    def _load(self, taken: list[tuple[Any, ...]], now: int, cut: bool) -> list[ClaimedRun]:
        loaded = {run[0]: LoadedRun() for run in taken}
        wanted = json.dumps([(run_id, seq or 0) for run_id, *_, seq, _ in taken])
        names = {"runs": json.dumps(list(loaded)), "now": now}
        with self._reader.use() as db:
            for run_id, *row in db.execute(statements.LOAD_ROWS, (wanted,)):
                loaded[run_id].rows.append(stored_row(*row))
            items = map(_item, db.execute(statements.LOAD_INBOX, names).fetchall())
            for item in add_standings(items, partial(self._holds, db)):
                (loaded[item.run_id].announced if item.announced else loaded[item.run_id].inbox).append(item)
            folded = json.dumps([run_id for run_id, *_, seq, _ in taken if seq])
            if folded != "[]":
                _load_snapshots(db, folded, loaded)
        self.count(statements=2 if folded == "[]" else 4)
        return [loaded[row[0]].build_claim(*row, priority=priority, cut=cut, at=now) for *row, priority, _, _ in taken]

    def owned_by(self, incarnation: str) -> Sequence[str]:
        """See ``ports.JournalStore``."""
        return [run_id for (run_id,) in self._read(statements.OWNED_BY, (incarnation,))]

    # -- the owner's ---------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        found = self._read(statements.INBOX, {"now": self._now(), "name": incarnation})
        with self._reader.use() as db:
            return add_standings(map(_item, found), partial(self._holds, db))

    def _holds(self, db: sqlite3.Connection, asked: Sequence[tuple[str, str]]) -> list[str | None]:
        """See ``rows.Looks``."""
        self.count(statements=len(asked))
        return [db.execute(statements.HOLDS, one).fetchone()[0] for one in asked]

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """See ``ports.JournalStore``. RowRefused: nothing was written; fewer batches may pass."""
        if not batches:
            return []
        check_batches(batches)
        self._drives = True
        with self._writer.transaction() as db:
            flush = SqliteFlush(db, batches, self._now())
            written = [batch for batch, fate in zip(batches, flush.fates, strict=True) if fate is BatchFate.COMMITTED]
            flush.apply(written)
        self.count(commits=int(bool(written)), statements=flush.statements, written=sum(map(weight, written)))
        return flush.fates

    # -- reads ---------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; an unknown run is left out."""
        found = self._read(statements.HEADS, (json.dumps(list(run_ids)),))
        return {run_id: Head(fence, last_seq, head) for run_id, fence, last_seq, head in found}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        return [
            stored_row(*row) for row in self._read(statements.JOURNAL, (run_id, after, -1 if limit is None else limit))
        ]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        return tuple(Document(*document) for document in self._read(statements.DOCUMENTS, (run_id,)))

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        now = self._now()
        ((due,),) = self._read(statements.NEXT_DUE, {"now": now})
        return None if due is None else (due - now) / US

    def _read(self, statement: str, values: Any) -> list[tuple[Any, ...]]:
        with self._reader.use() as db:
            found = db.execute(statement, values).fetchall()
        self.count(statements=1)
        return found


def _item(row: tuple[Any, ...]) -> InboxItem:
    run_id, input_id, body, visible_at, announced, format, sent_at = row
    return InboxItem(run_id, input_id, body, visible_at, bool(announced), format, sent_at=sent_at)


def _load_snapshots(db: sqlite3.Connection, runs: str, loaded: Mapping[str, LoadedRun]) -> None:
    for run_id, seq, digest, head, state, refs in db.execute(statements.LOAD_SNAPSHOTS, (runs,)):
        found = Snapshot(seq=seq, digest=digest, head=head, state=state, refs=tuple(json.loads(refs)))
        loaded[run_id].snapshot = found
    for run_id, *row in db.execute(statements.LOAD_KEPT, (runs,)):
        loaded[run_id].kept.append(stored_row(*row))


def _machine_clock() -> int:
    return time.time_ns() // 1000
