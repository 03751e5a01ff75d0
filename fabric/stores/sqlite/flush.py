"""One flush on SQLite: judges the batches by the rows and returns their writes. All of it inside the caller's
transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from fabric.core.events.envelope import JournalRow
from fabric.core.values.units import US
from fabric.packing.rows import pack
from fabric.runtime.journal.batches import is_over
from fabric.runtime.journal.progress import progresses
from fabric.runtime.ports.batch_parts import COLUMNS, FamilyCaps, ReviewChange, RunColumns, RunMark, Send
from fabric.runtime.ports.journal import Batch, BatchFate, NewRun
from fabric.stores.rows import changes, refs_text, run_values, wakes_at
from fabric.stores.sqlite import statements
from fabric.stores.sqlite.grants import entry_fates, write_entries


def creation(run: NewRun, now: int) -> dict[str, Any]:
    """Return the parameters of ``CREATE``, and of ``PUT_INPUT`` for the run's first input."""
    return run_values(run) | {"delay": 0, "wakes": 1, "now": now}


class SqliteFlush:
    """Batches on their way: ``fates`` decides which of them hold; ``apply`` writes those."""

    def __init__(self, db: sqlite3.Connection, batches: Sequence[Batch], now: int) -> None:
        self._db, self._now = db, now
        self.statements = 2
        names = json.dumps([batch.run_id for batch in batches])
        self._rows = {run_id: row for run_id, *row in db.execute(statements.STANDING, (names,))}
        """By run: fence, last_seq, True if it is owned, workspace, and the root of its family for a child run."""
        self._waiting: set[tuple[str, str]] = set()
        if any(batch.consumed for batch in batches):
            self._waiting.update(db.execute(statements.WAITING, (names,)))
        self._fallen: set[str] = set()
        """Runs whose answers were judged by roles that their people no longer have."""
        for batch in batches:
            for _, standing in batch.standings:
                ((holds,),) = db.execute(statements.HOLDS, (batch.run_id, standing.name)).fetchall()
                self._fallen.update([batch.run_id] if holds != standing.roles else ())
                self.statements += 1
        spawning = [batch for batch in batches if batch.children]
        self._families: dict[str, tuple[int, int, FamilyCaps]] = {}
        self._known: set[str] = set()
        if spawning:
            self._look_at_families(spawning)
        self._grantless: set[str] = set()
        if reserving := [batch for batch in batches if batch.reserved]:
            found = entry_fates(db, [batch.entries for batch in reserving])
            self._grantless = {
                batch.run_id for batch, fate in zip(reserving, found, strict=True) if fate is BatchFate.GRANT_GONE
            }
            self.statements += 1
        self.fates = [self._fate(batch) for batch in batches]

    def _look_at_families(self, spawning: Sequence[Batch]) -> None:
        children = [child for batch in spawning for child in batch.children]
        roots = json.dumps([child.root_run_id for child in children])
        for root, alive, spawned, cap_alive, cap_spawned in self._db.execute(statements.FAMILIES, (roots,)):
            self._families[root] = (alive, spawned, FamilyCaps(alive=cap_alive, spawned=cap_spawned))
        names = json.dumps([child.run_id for child in children])
        self._known.update(run_id for (run_id,) in self._db.execute(statements.KNOWN, (names,)))
        self.statements += 2

    def _fate(self, batch: Batch) -> BatchFate:
        row = self._rows.get(batch.run_id)
        if row is None or row[:3] != [batch.fence, batch.last_seq, 1]:
            return BatchFate.FENCED
        if any((batch.run_id, input_id) not in self._waiting for input_id in batch.consumed):
            return BatchFate.INPUT_GONE
        if batch.run_id in self._fallen:
            return BatchFate.INPUT_GONE
        if batch.run_id in self._grantless:
            return BatchFate.GRANT_GONE
        if batch.children and not self._fits(batch):
            return BatchFate.FAMILY_FULL
        return BatchFate.COMMITTED

    def _fits(self, batch: Batch) -> bool:
        root, caps = batch.children[0].root_run_id, batch.caps
        assert root is not None
        assert caps is not None
        alive, spawned, caps = self._families.get(root, (0, 0, caps))
        kids = sum(child.run_id not in self._known for child in batch.children)
        fits = alive + kids <= caps.alive and spawned + kids <= caps.spawned
        if fits:
            self._families[root] = (alive + kids, spawned + kids, caps)
        return fits

    # -- writing ------------------------------------------------------------------------------------------------------

    def apply(self, batches: Sequence[Batch]) -> None:
        """Write the batches whose conditions hold."""
        workspaces = {run_id: row[3] for run_id, row in self._rows.items()}
        work = _list_run_writes(batches, workspaces)
        roots = [root for batch in batches if is_over(batch) and (root := self._rows[batch.run_id][4])]
        for batch in batches:
            work += self._list_openers(batch)
        work.append((statements.SHRINK, [(root,) for root in roots]))
        # Last, so that a run that ends in this flush is given nothing and one that begins in it is.
        work.append((statements.SEND, [_send(send, self._now) for batch in batches for send in batch.sends]))
        for statement, values in work:
            if values:
                self._db.executemany(statement, values)
        self.statements += sum(len(values) for _, values in work)
        entries = [batch.entries for batch in batches if batch.reserved or batch.settled]
        write_entries(self._db, entries, self._now)
        self.statements += sum(len(one.reserved) + len(one.settled) for one in entries)

    def _list_openers(self, batch: Batch) -> list[tuple[str, Sequence[Any]]]:
        children = [creation(child, self._now) for child in batch.children if child.run_id not in self._known]
        if not children:
            return []
        root, workspace = children[0]["root_run_id"], children[0]["workspace_id"]
        _, _, caps = self._families[root]
        return [
            (statements.GROW, [(root, workspace, len(children), caps.alive, caps.spawned)]),
            (statements.CREATE, children),
            (statements.PUT_INPUT, children),
        ]


def _list_run_writes(batches: Sequence[Batch], workspaces: Mapping[str, str]) -> list[tuple[str, Sequence[Any]]]:
    """Return the writes of the batches to their own runs, statement by statement."""
    rows = [(batch, workspaces[batch.run_id], row) for batch in batches for row in batch.rows]
    return [
        (statements.UPDATE_RUN, [_columns(one, one.columns) for one in batches if isinstance(one.columns, RunColumns)]),
        (statements.MARK_RUN, [_mark(one, one.columns) for one in batches if not isinstance(one.columns, RunColumns)]),
        (statements.RAISE, [(batch.format, batch.run_id) for batch in batches if batch.format]),
        (statements.PROGRESS, [(batch.run_id,) for batch in batches if progresses(batch)]),
        (
            statements.APPEND,
            [(*_event(row), batch.run_id, workspace) for batch, workspace, row in rows],
        ),
        (statements.CONSUME, [(batch.new_seq, batch.run_id, taken) for batch in batches for taken in batch.consumed]),
        (statements.RELEASE, [(wakes_at(batch), batch.run_id) for batch in batches if batch.release]),
        (statements.CLOSE_INBOX, [(batch.new_seq, batch.run_id) for batch in batches if is_over(batch)]),
        (
            statements.WRITE_REVIEW,
            [_review(change, batch, workspaces) for batch in batches for change in changes(batch)],
        ),
        (statements.SNAP, [_snapshot(batch, workspaces) for batch in batches if batch.snapshot is not None]),
    ]


def _event(row: JournalRow) -> tuple[Any, ...]:
    payload = None if row.payload is None else pack(row.payload)
    more = row.last_seq - row.seq
    return (row.at, row.seq, row.version, more, row.kind, pack(row.header), payload, row.payload_hash, row.hash)


def _columns(batch: Batch, now: RunColumns) -> tuple[Any, ...]:
    return (
        *(batch.new_seq, batch.head, now.state.value, str(now.stage), now.epoch, now.cost_usd_micros, now.tokens),
        *(now.reason, now.recovered, now.truncated, now.cause, now.failure, now.fired, now.breakers),
        *(now.unconfirmed_usd_micros, now.spent_on),
        *(now.started_at, now.ended_at, now.deadline_at, batch.run_id),
    )


def _mark(batch: Batch, mark: RunMark | None) -> tuple[Any, ...]:
    if mark is None:
        return (batch.new_seq, batch.head, *(None,) * 6, 0, 0, batch.run_id)
    said = (mark.state.value, mark.reason, mark.ended_at, mark.recovered, mark.truncated, mark.spent_on)
    return (batch.new_seq, batch.head, *said, mark.charged_usd_micros, mark.charged_tokens, batch.run_id)


def _send(send: Send, now: int) -> dict[str, Any]:
    return {
        "run_id": send.run_id,
        "input_id": send.input_id,
        "body": send.body,
        "delay": round(send.delay_s * US),
        "wakes": send.wakes,
        "format": send.format,
        "now": now,
    }


def _snapshot(batch: Batch, workspaces: Mapping[str, str]) -> tuple[Any, ...]:
    kept = batch.snapshot
    assert kept is not None
    return (
        *(batch.run_id, workspaces[batch.run_id], kept.seq, kept.digest, kept.head, kept.state),
        refs_text(kept.refs),
    )


def _review(change: ReviewChange, batch: Batch, workspaces: Mapping[str, str]) -> tuple[Any, ...]:
    row = change.row
    return (change.review_id, workspaces[batch.run_id], batch.run_id, *(row[name] for name in COLUMNS))
