"""Journals of scripted runs as a claim brings them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fabric.core.events.envelope import JournalRow
from fabric.core.values.fingerprint import ZERO_HASH, event_hash
from fabric.core.values.frozen import replace
from fabric.runtime.ports.batch_parts import Snapshot
from fabric.runtime.ports.journal import ClaimedRun, StoredRow
from tests.fabric.core.harness import World


def stored(rows: Sequence[JournalRow]) -> tuple[StoredRow, ...]:
    return tuple(StoredRow(r.seq, r.kind, r.version, r.header, r.payload, r.payload_hash, r.hash) for r in rows)


def claimed(world: World, *, snapshot: Snapshot | None = None, rows: Sequence[StoredRow] | None = None) -> ClaimedRun:
    """Return what a claim brings of a world's run; with a snapshot, the rows after it and those that it needs."""
    whole = stored(world.rows)
    after = snapshot.seq if snapshot else 0
    return ClaimedRun(
        run_id="run-1",
        fence=9,
        revision_id="r",
        trace_id="t" * 32,
        seed=world.seed,
        tier=world.tier,
        rows=tuple(row for row in whole if row.seq > after) if rows is None else tuple(rows),
        inbox=(),
        taken_over=False,
        last_seq=whole[-1].last_seq if whole else 0,
        head=whole[-1].hash if whole else ZERO_HASH,
        snapshot=snapshot,
        kept=tuple(row for row in whole if snapshot is not None and row.seq in snapshot.refs),
    )


def rechained(rows: Sequence[StoredRow], change: Callable[[StoredRow], dict[str, Any]]) -> tuple[StoredRow, ...]:
    """The rows changed as a program that hashes would have written them."""
    prev, found = ZERO_HASH, []
    for given in rows:
        row = replace(given, **change(given))
        prev = event_hash(prev, row.seq, row.kind, row.version, row.header, row.payload_hash)
        found.append(replace(row, hash=prev))
    return tuple(found)
