"""Stores journals on PostgreSQL. Every call is one statement in a transaction of its own; a claim that took runs loads
them by a second.

``statements`` has the statements, with the reasons for the safety of each.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import psycopg

from fabric.core.audit.lines import AuditEntry
from fabric.core.values.flow import FORMAT
from fabric.core.values.units import US
from fabric.runtime.ports.batch_parts import Snapshot
from fabric.runtime.ports.journal import (
    Batch,
    BatchFate,
    ClaimedRun,
    Document,
    Head,
    InboxItem,
    InputWithdrawn,
    NewRun,
    StoredRow,
)
from fabric.stores.errors import IncarnationRetired, RowRefused, RunMissing, StartStopped
from fabric.stores.postgresql.connection import PLANNING, Connections, bigints, texts, translate_error
from fabric.stores.postgresql.flush_values import build_flush, creation, list_fates
from fabric.stores.postgresql.statements import Statement, arriving, flush, ownership
from fabric.stores.rows import (
    CLAIM_SPAN,
    Counters,
    LoadedRun,
    add_standings,
    audit_values,
    check_batches,
    stored_row,
    weight,
)

LOCK_TIMEOUT_MS = 200
FLUSH_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 30_000


class PostgresqlStore(Counters):
    """``ports.JournalStore`` on PostgreSQL 14 or later. ``notify``: creations, inputs and flushes carry their NOTIFY
    with them.

    A flush has a connection of its own, which waits for a lock at most 200 ms and for a statement at most
    ``flush_timeout_ms``.
    """

    def __init__(self, dsn: str, *, notify: bool = True, flush_timeout_ms: int = FLUSH_TIMEOUT_MS) -> None:
        super().__init__()
        self.dsn = dsn
        self._notify = notify
        limits = {"statement_timeout": str(CALL_TIMEOUT_MS)}
        self._calls = Connections(dsn, PLANNING | limits)
        limits = {"statement_timeout": str(flush_timeout_ms), "lock_timeout": str(LOCK_TIMEOUT_MS)}
        self._flushes = Connections(dsn, PLANNING | limits)
        self._lost: dict[str, list[int]] = {}
        """Tickets of claims with an incomplete answer, by incarnation: the next claim takes their runs again."""
        self._losing = Lock()

    def close(self) -> None:
        """Close idle connections."""
        self._calls.close()
        self._flushes.close()

    def _run(
        self,
        statement: Statement,
        values: Mapping[str, Any],
        *,
        changes_rows: bool = False,
        on: Connections | None = None,
    ) -> list[tuple[Any, ...]]:
        try:
            with (on or self._calls).use() as connection:
                try:
                    return connection.run(statement, values)
                except psycopg.Error as error:
                    raise translate_error(error, self.dsn, sent=changes_rows) from error
        except psycopg.Error as error:
            raise translate_error(error, self.dsn, sent=False) from error

    # -- from outside --------------------------------------------------------------------------------------------------

    def create(self, run: NewRun, *, audit: AuditEntry | None = None) -> tuple[str, bool]:
        """See ``ports.JournalStore``. Raises RowRefused for an unknown revision, StartStopped."""
        values = creation(run) | {"notify": self._notify} | audit_values(audit)
        if self._run(arriving.CREATE_AUDITED if audit else arriving.CREATE, values, changes_rows=True):
            self.count(commits=1, statements=1, written=len(run.input_body) + len(values["texts"]))
            return run.run_id, True
        # A creation that ran at the same time may have come first: only a new statement sees it.
        found = self._run(arriving.EXISTING, values)
        self.count(statements=2)
        if not found:
            raise RowRefused(f"the run {run.run_id!r} could neither be inserted nor found: start it again")
        if found[0][0] is None:
            raise StartStopped(run.workspace_id)
        return found[0][0], False

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
        values |= {"format": format, "wakes": wakes, "notify": self._notify and wakes > 0}
        statement = arriving.PUT_INPUT_AUDITED if audit else arriving.PUT_INPUT
        found = self._run(statement, values | audit_values(audit), changes_rows=True)
        inserted = bool(found and found[0][0])
        self.count(commits=int(inserted), statements=1, written=len(body) if inserted else 0)
        if not found:
            raise RunMissing(run_id)
        return inserted

    def withdraw_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> InputWithdrawn:
        """See ``ports.JournalStore``."""
        statement = arriving.WITHDRAW_AUDITED if audit else arriving.WITHDRAW
        if self._change_run(statement, run_id, input_id, audit, notify=False):
            return InputWithdrawn.GONE
        # Another writer may have come first while this statement waited: only a new one sees the result.
        left = self._run(arriving.CONSUMED, {"run_id": run_id, "input_id": input_id})
        self.count(statements=1)
        return InputWithdrawn.TOO_LATE if left and left[0][0] else InputWithdrawn.UNKNOWN

    def hasten_input(self, run_id: str, input_id: str, *, audit: AuditEntry | None = None) -> bool:
        """See ``ports.JournalStore``."""
        statement = arriving.HASTEN_AUDITED if audit else arriving.HASTEN
        return self._change_run(statement, run_id, input_id, audit, notify=self._notify)

    def _change_run(
        self, statement: Statement, run_id: str, input_id: str, audit: AuditEntry | None, *, notify: bool
    ) -> bool:
        values = {"run_id": run_id, "input_id": input_id, "notify": notify} | audit_values(audit)
        changed = bool(self._run(statement, values, changes_rows=True))
        self.count(commits=int(changed), statements=1)
        return changed

    # -- ownership -----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float, token: int = 0) -> None:
        """See ``ports.JournalStore``; flushes go out under the name from now on. Raises IncarnationRetired for a
        retired or foreign name.
        """
        values = {
            "name": incarnation,
            "lease": round(lease_s * US),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "token": token,
        }
        if not self._run(ownership.REGISTER, values):
            raise IncarnationRetired(incarnation)
        self._flushes.rename(incarnation)

    def now(self) -> int:
        """See ``ports.JournalStore``."""
        return int(self._run(ownership.CLOCK, {})[0][0])

    def beat(self, incarnation: str, *, lease_s: float, refused: int = 0) -> int:
        """See ``ports.JournalStore``."""
        values = {"name": incarnation, "lease": round(lease_s * US), "refused": refused}
        beaten = self._run(ownership.BEAT, values)
        return int(beaten[0][0]) if beaten else 0

    def untell_presence(self, incarnation: str) -> None:
        """Remove the lock's key from an incarnation's row: from then on only its lease shows its life."""
        self._run(ownership.TELL, {"key": None, "name": incarnation})

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        self._run(ownership.RETIRE, {"name": incarnation})

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
        ticket = secrets.randbits(62)
        with self._losing:
            lost = self._lost.pop(incarnation, [])
        values = {"me": incarnation, "limit": limit, "span": limit + CLAIM_SPAN, "queues": texts(list(queues))}
        values |= {"ticket": ticket, "lost": bigints(lost), "again": texts(list(again))}
        values |= {"format": format, "steady": steady, "digest": digest}
        try:
            taken = self._run(ownership.CLAIM, values, changes_rows=True)
            self.count(commits=int(bool(taken)), statements=1)
            claimed = self._load(sorted(taken), digest) if taken else []
        except BaseException:
            self._lose(incarnation, [*lost, ticket])
            raise
        if lost and taken:  # As many as were asked for, or as many rows: there may be others.
            self._lose(incarnation, lost)
        return claimed

    def _lose(self, incarnation: str, tickets: list[int]) -> None:
        with self._losing:
            self._lost.setdefault(incarnation, []).extend(tickets)

    def _load(self, taken: list[tuple[Any, ...]], digest: str) -> list[ClaimedRun]:
        loaded = {run[1]: LoadedRun() for run in taken}
        # A statement of its own, since it must see what the owner before wrote up to the moment it lost the fence.
        values = {"runs": texts(list(loaded)), "digest": digest}
        found = self._run(ownership.LOAD_ON if digest else ownership.LOAD, values)
        self.count(statements=1)
        for what, run_id, *row in found:
            _sort_in(loaded[run_id], what, run_id, row)
        for one in loaded.values():
            one.inbox, one.announced = (add_standings(items, self._holds) for items in (one.inbox, one.announced))
        return [
            loaded[row[0]].build_claim(*row, priority=priority, cut=cut, at=at) for priority, *row, cut, at in taken
        ]

    def owned_by(self, incarnation: str) -> Sequence[str]:
        """See ``ports.JournalStore``."""
        found = self._run(ownership.OWNED_BY, {"name": incarnation})
        self.count(statements=1)
        return [run_id for (run_id,) in found]

    # -- the owner's ---------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        found = self._run(ownership.INBOX, {"name": incarnation})
        self.count(statements=1)
        return add_standings(map(_item, found), self._holds)

    def _holds(self, asked: Sequence[tuple[str, str]]) -> list[str | None]:
        """See ``rows.Looks``."""
        values = {"runs": texts([run_id for run_id, _ in asked]), "names": texts([name for _, name in asked])}
        found = self._run(ownership.HOLDS, values)
        self.count(statements=1)
        return [roles for (roles,) in found]

    def write(self, batches: Sequence[Batch]) -> list[BatchFate]:
        """See ``ports.JournalStore``: one statement. RowRefused or StoreBusy: nothing was written; fewer batches may
        pass.
        """
        if not batches:
            return []
        check_batches(batches)
        shape, values = build_flush(batches, told=self._notify)
        refused = self._run(flush.write(shape), values, changes_rows=True, on=self._flushes)
        self.count(commits=1, statements=1, written=sum(map(weight, batches)))
        return list_fates(batches, refused)

    # -- reads ---------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; an unknown run is left out."""
        found = self._run(ownership.HEADS, {"runs": texts(list(run_ids))})
        self.count(statements=1)
        return {run_id: Head(fence, last_seq, head) for run_id, fence, last_seq, head in found}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        found = self._run(ownership.JOURNAL, {"run_id": run_id, "after": after, "limit": limit})
        self.count(statements=1)
        return [stored_row(*row) for row in found]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        found = self._run(ownership.DOCUMENTS, {"run_id": run_id})
        self.count(statements=1)
        return tuple(Document(*document) for document in found)

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        ((due_us,),) = self._run(ownership.NEXT_DUE, {})
        self.count(statements=1)
        return None if due_us is None else due_us / US


def _item(row: tuple[Any, ...]) -> InboxItem:
    run_id, input_id, body, visible_at, announced, format, sent_at = row
    return InboxItem(run_id, input_id, body, visible_at, announced, format, sent_at=sent_at)


def _sort_in(loaded: LoadedRun, what: int, run_id: str, row: list[Any]) -> None:
    if what == ownership.ROW:
        loaded.rows.append(stored_row(*row))
    elif what == ownership.KEPT:
        loaded.kept.append(stored_row(*row))
    elif what == ownership.SNAPSHOT:
        seq, digest, _, state, refs, head, _ = row
        loaded.snapshot = Snapshot(seq=seq, digest=digest, head=head, state=state, refs=tuple(json.loads(refs)))
    else:
        visible_at, input_id, format, body, sent_at, *_ = row
        announced = what == ownership.ANNOUNCED
        item = InboxItem(
            run_id, input_id, body, visible_at, announced, format, sent_at=int.from_bytes(sent_at, "big", signed=True)
        )
        (loaded.announced if announced else loaded.inbox).append(item)
