"""The journal store on PostgreSQL: every call is one statement in a transaction of its own; a claim that took runs loads them by a second.

The statements, with what makes each of them safe, are in ``postgresql_statements``.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import psycopg

from fabric.adapters import postgresql_statements as statements
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
from fabric.adapters.postgresql_arrays import bigints, bools, byteas, texts
from fabric.adapters.postgresql_connection import Connections, translated
from fabric.adapters.postgresql_statements import Statement
from fabric.adapters.store_errors import IncarnationRetired, RowRefused, RunMissing
from fabric.core.fingerprint import ZERO_HASH
from fabric.core.taxonomy import Tier
from fabric.runtime.ports import (
    Batch,
    Claimed,
    Document,
    Head,
    InboxItem,
    NewRun,
    StoredRow,
    Written,
)

LOCK_TIMEOUT_MS = 200
FLUSH_TIMEOUT_MS = 5_000
CALL_TIMEOUT_MS = 30_000
CLAIM_SPAN = 512
"""How far past its limit a claim looks for runs that no other claim is taking at this moment."""

# Every statement here is meant to go through an index, whatever the statistics said when it was planned: a plan made while the tables
# were empty must not last into the day when they are not. Compiling such a plan to machine code would take longer than running it.
_PLANNING = {"plan_cache_mode": "force_generic_plan", "jit": "off"} | {
    f"enable_{way}": "off" for way in ("seqscan", "bitmapscan", "mergejoin")
}


class PostgresqlStore(Counters):
    """``ports.JournalStore`` on PostgreSQL 14 or later. ``notify``: creations, inputs and flushes carry their NOTIFY with them.

    A flush has a connection to itself, on which no lock is waited for longer than 200 ms.
    """

    def __init__(self, dsn: str, *, notify: bool = True) -> None:
        super().__init__()
        self.dsn = dsn
        self._notify = notify
        limits = {"statement_timeout": str(CALL_TIMEOUT_MS)}
        self._calls = Connections(dsn, _PLANNING | limits)
        limits = {"statement_timeout": str(FLUSH_TIMEOUT_MS), "lock_timeout": str(LOCK_TIMEOUT_MS)}
        self._flushes = Connections(dsn, _PLANNING | limits)
        self._lost: dict[str, list[int]] = {}
        """Tickets of claims, by incarnation, whose answer did not arrive whole: the next claim takes their runs again."""
        self._losing = Lock()

    def close(self) -> None:
        """Closes the connections that lie idle."""
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
                    raise translated(error, self.dsn, sent=changes_rows) from error
        except psycopg.Error as error:
            raise translated(error, self.dsn, sent=False) from error

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
            )
        } | {
            "queue": run.queue,
            "requested_by": run.requested_by,
            "deadline_at": run.deadline_at,
            "input_id": run.input_id,
        }
        values |= {
            "tier": run.tier.value,
            "priority": PRIORITIES.index(run.priority),
            "head": ZERO_HASH,
            "body": run.input_body,
        }
        values["names"] = texts([document.name for document in run.documents])
        values["texts"] = texts([document.text for document in run.documents])
        values["notify"] = self._notify
        if self._run(statements.CREATE, values, changes_rows=True):
            self.count(commits=1, statements=1, written=len(run.input_body) + len(values["texts"]))
            return run.run_id, True
        # A creation that ran at the same time may have come first: only a new statement sees it.
        found = self._run(statements.EXISTING, values)
        self.count(statements=2)
        if not found:
            raise RowRefused(f"the run {run.run_id!r} could neither be inserted nor found: start it again")
        return found[0][0], False

    def put_input(self, run_id: str, input_id: str, body: bytes, *, delay_s: float = 0.0) -> bool:
        """See ``ports.JournalStore``. RunMissing when there is no such run; for one that has ended the input is kept, and closed."""
        values = {"run_id": run_id, "input_id": input_id, "body": body, "delay": round(delay_s * SECOND_US)}
        found = self._run(statements.PUT_INPUT, values | {"notify": self._notify}, changes_rows=True)
        inserted = bool(found and found[0][0])
        self.count(commits=int(inserted), statements=1, written=len(body) if inserted else 0)
        if not found:
            raise RunMissing(run_id)
        return inserted

    def withdraw_input(self, run_id: str, input_id: str) -> bool:
        """Takes an inbox row back. False: it was consumed, or was never there."""
        gone = self._run(statements.WITHDRAW, {"run_id": run_id, "input_id": input_id}, changes_rows=True)
        self.count(commits=int(bool(gone)), statements=1)
        return bool(gone)

    # -- ownership -----------------------------------------------------------------------------------------------------

    def register(self, incarnation: str, *, lease_s: float) -> None:
        """See ``ports.JournalStore``. IncarnationRetired for a name that was retired."""
        values = {
            "name": incarnation,
            "lease": round(lease_s * SECOND_US),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        if not self._run(statements.REGISTER, values):
            raise IncarnationRetired(incarnation)

    def beat(self, incarnation: str, *, lease_s: float) -> bool:
        """See ``ports.JournalStore``."""
        return bool(self._run(statements.BEAT, {"name": incarnation, "lease": round(lease_s * SECOND_US)}))

    def retire(self, incarnation: str) -> None:
        """See ``ports.JournalStore``."""
        self._run(statements.RETIRE, {"name": incarnation})

    def claim(self, incarnation: str, *, limit: int, queues: Sequence[str], again: Sequence[str] = ()) -> list[Claimed]:
        """See ``ports.JournalStore``. An incarnation whose own lease has lapsed gets nothing."""
        ticket = secrets.randbits(62)
        with self._losing:
            lost = self._lost.pop(incarnation, [])
        values = {"me": incarnation, "limit": limit, "span": limit + CLAIM_SPAN, "queues": texts(list(queues))}
        values |= {"ticket": ticket, "lost": bigints(lost), "again": texts(list(again))}
        try:
            taken = self._run(statements.CLAIM, values, changes_rows=True)
            self.count(commits=int(bool(taken)), statements=1)
            claimed = self._load(sorted(taken, key=_urgency)) if taken else []
        except BaseException:
            self._lose(incarnation, [*lost, ticket])
            raise
        if lost and len(taken) == limit:
            self._lose(incarnation, lost)
        return claimed

    def _lose(self, incarnation: str, tickets: list[int]) -> None:
        with self._losing:
            self._lost.setdefault(incarnation, []).extend(tickets)

    def _load(self, taken: list[tuple[Any, ...]]) -> list[Claimed]:
        rows: dict[str, list[StoredRow]] = {run[2]: [] for run in taken}
        inbox: dict[str, list[InboxItem]] = {run[2]: [] for run in taken}
        # A statement of its own, since it must see what the owner before wrote up to the moment it lost the fence.
        found = self._run(statements.LOAD, {"runs": texts(list(rows))})
        self.count(statements=1)
        for run_id, seq, kind, version, header, *rest in found:
            if seq is None:
                inbox[run_id].append(InboxItem(run_id, kind, header))
            else:
                rows[run_id].append(StoredRow(seq, kind, version, header, *rest))
        for journal in rows.values():
            journal.sort(key=lambda row: row.seq)
        return [
            Claimed(
                run_id, fence, revision, trace, seed, Tier(tier), tuple(rows[run_id]), tuple(inbox[run_id]), orphaned
            )
            for _, _, run_id, fence, revision, trace, seed, tier, orphaned in taken
        ]

    # -- the owner's ---------------------------------------------------------------------------------------------------

    def inbox(self, incarnation: str) -> list[InboxItem]:
        """See ``ports.JournalStore``."""
        found = self._run(statements.INBOX, {"name": incarnation})
        self.count(statements=1)
        return [InboxItem(*item) for item in found]

    def write(self, batches: Sequence[Batch]) -> list[Written]:
        """See ``ports.JournalStore``: one statement. RowRefused or StoreBusy: nothing was written; fewer batches may pass."""
        if not batches:
            return []
        distinct_runs(batches)
        values = _batch_values(batches)
        statement = statements.write(
            rows=bool(values.get("e_n")),
            consumed="taker" in values,
            taking="takers" in values,
            escalated="s_n" in values,
            told=self._notify,
        )
        refused = self._run(statement, values, changes_rows=True, on=self._flushes)
        self.count(commits=1, statements=1, written=sum(map(weight, batches)))
        fates = [Written.COMMITTED] * len(batches)
        for place, still_owned in refused:
            if place:
                fates[place - 1] = Written.INPUT_GONE if still_owned else Written.FENCED
        return fates

    # -- reads ---------------------------------------------------------------------------------------------------------

    def heads(self, run_ids: Sequence[str]) -> Mapping[str, Head]:
        """See ``ports.JournalStore``; a run that is not there is left out."""
        found = self._run(statements.HEADS, {"runs": texts(list(run_ids))})
        self.count(statements=1)
        return {run_id: Head(fence, last_seq, head) for run_id, fence, last_seq, head in found}

    def journal(self, run_id: str, *, after: int = 0, limit: int | None = None) -> list[StoredRow]:
        """See ``ports.JournalStore``."""
        found = self._run(statements.JOURNAL, {"run_id": run_id, "after": after, "limit": limit})
        self.count(statements=1)
        return [StoredRow(*row) for row in found]

    def documents(self, run_id: str) -> tuple[Document, ...]:
        """See ``ports.JournalStore``."""
        found = self._run(statements.DOCUMENTS, {"run_id": run_id})
        self.count(statements=1)
        return tuple(Document(*document) for document in found)

    def next_due_s(self) -> float | None:
        """See ``ports.JournalStore``."""
        ((due_us,),) = self._run(statements.NEXT_DUE, {})
        self.count(statements=1)
        return None if due_us is None else due_us / SECOND_US


def _urgency(run: tuple[Any, ...]) -> tuple[int, int, str]:
    priority, wake_at, run_id, *_ = run
    return priority, wake_at or 0, run_id


def _batch_values(batches: Sequence[Batch]) -> dict[str, Any]:
    columns = [batch.columns for batch in batches]
    values: dict[str, Any] = {
        "run_id": texts([batch.run_id for batch in batches]),
        "fence": bigints([batch.fence for batch in batches]),
        "last_seq": bigints([batch.last_seq for batch in batches]),
        "new_seq": bigints([batch.new_seq for batch in batches]),
        "head": byteas([batch.head for batch in batches]),
        "state": texts([column.state.value for column in columns]),
        "stage": texts([column.stage for column in columns]),
        "epoch": bigints([column.epoch for column in columns]),
        "cost": bigints([column.cost_usd_micros for column in columns]),
        "tokens": bigints([column.tokens for column in columns]),
        "reason": texts([column.reason for column in columns]),
        "recovered": bools([column.recovered for column in columns]),
        "truncated": bools([column.truncated for column in columns]),
        "started_at": bigints([column.started_at for column in columns]),
        "ended_at": bigints([column.ended_at for column in columns]),
        "deadline_at": bigints([column.deadline_at for column in columns]),
        "wake_at": bigints([wakes_at(batch) for batch in batches]),
        "release": bools([batch.release for batch in batches]),
        "over": bools([is_over(batch) for batch in batches]),
        "progress": bools([progresses(batch) for batch in batches]),
    }
    return values | _row_values(batches) | _inbox_values(batches) | _escalation_values(batches)


def _row_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, row) for place, batch in enumerate(batches, start=1) for row in batch.rows]
    if not placed:
        return {}
    rows = [row for _, row in placed]
    return {
        "e_n": bigints([place for place, _ in placed]),
        "e_at": bigints([row.at for row in rows]),
        "e_seq": bigints([row.seq for row in rows]),
        "e_version": bigints([row.version for row in rows]),
        "e_kind": texts([row.kind for row in rows]),
        "e_header": byteas([row.header for row in rows]),
        "e_payload": byteas([row.payload for row in rows]),
        "e_payload_hash": byteas([row.payload_hash for row in rows]),
        "e_hash": byteas([row.hash for row in rows]),
    }


def _inbox_values(batches: Sequence[Batch]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    consumed = [
        (place, batch.run_id, taken) for place, batch in enumerate(batches, start=1) for taken in batch.consumed
    ]
    if consumed:
        values["taker"] = bigints([place for place, _, _ in consumed])
        values["taker_run"] = texts([run_id for _, run_id, _ in consumed])
        values["input_id"] = texts([input_id for _, _, input_id in consumed])
    takers = [place for place, batch in enumerate(batches, start=1) if batch.consumed or is_over(batch)]
    if takers:
        values["takers"] = bigints(takers)
    return values


def _escalation_values(batches: Sequence[Batch]) -> dict[str, Any]:
    placed = [(place, change) for place, batch in enumerate(batches, start=1) for change in changes(batch)]
    if not placed:
        return {}
    found = [change for _, change in placed]
    return {
        "s_n": bigints([place for place, _ in placed]),
        "s_id": texts([change.escalation_id for change in found]),
        "s_step": texts([change.step_id for change in found]),
        "s_item": texts([change.item for change in found]),
        "s_reason": texts([change.reason for change in found]),
        "s_failure": texts([change.failure_type for change in found]),
        "s_stage": texts([change.stage for change in found]),
        "s_role": texts([change.required_role for change in found]),
        "s_verbs": texts([",".join(change.verbs) for change in found]),
        "s_digest": texts([change.digest for change in found]),
        "s_opened": bigints([change.opened_at for change in found]),
        "s_due": bigints([change.due_at for change in found]),
        "s_content": byteas([change.content for change in found]),
        "s_decided": bigints([change.decided_at for change in found]),
        "s_verb": texts([change.verb for change in found]),
        "s_by": texts([change.decided_by for change in found]),
        "s_system": bools([change.by_system for change in found]),
    }
