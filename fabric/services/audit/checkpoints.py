"""Seals the lines of the audit stream, and signs checkpoints that prove how far stream and journals reached.

1. An acting transaction inserts a line and waits for no other. The sealer gives committed lines their place in their
   workspace's chain, in the order of their time. Lines of transactions that are still open come later, so there are no
   gaps. Only one sealer runs at a time, so there is no fork.
2. Records that a checkpoint covers cannot be cut off, exchanged or rewritten unnoticed without the key. Runs that
   changed are found by their end and by their last event; clocks of workers may differ by ten minutes. A run missed
   because of a larger difference is covered at its next change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from django.db import IntegrityError, connection, transaction

from fabric.core.audit.lines import (
    FIRST_PREV,
    ChainEnd,
    CheckpointBody,
    checkpoint_bytes,
    checkpoint_digest,
    checkpoint_read,
)
from fabric.core.events.envelope import EVENTS_MAX
from fabric.models import AuditLine, Checkpoint, Workspace
from fabric.models.audit import UNSEALED
from fabric.models.runs.run import BAD_STATES, ENDED
from fabric.secrets.signing import Signer
from fabric.selectors.audit.lookup import build_hash, stream_end
from fabric.worker.process.duties import database_us

RUNS_MAX = 10_000
"""Largest number of runs in one checkpoint; more make several."""
CLOCKS_US = 600 * 1_000_000
"""Largest difference between the clocks of two workers, in microseconds."""
Covered = tuple[str, int, str]

_STATES = {"ended": ", ".join(f"'{state}'" for state in ENDED), "bad": ", ".join(f"'{state}'" for state in BAD_STATES)}
# The conditions in the words of their indexes.
_ENDED = """
SELECT id, last_seq, head_hash FROM fabric_run WHERE workspace_id = %s AND {condition} AND ended_at > %s
"""
_LIVE = """
SELECT r.id, r.last_seq, r.head_hash FROM fabric_run r
JOIN fabric_event e ON e.run_id = r.id AND e.seq > r.last_seq - {events_max} AND e.seq + e.more = r.last_seq
WHERE r.workspace_id = %s AND NOT (r.state IN ({ended})) AND e.at > %s
"""
_CHANGED = (
    _ENDED.format(condition="state = 'completed'"),
    _ENDED.format(condition="state IN ({bad})".format(**_STATES)),
    _LIVE.format(events_max=EVENTS_MAX, **_STATES),
)
_NAMED = "SELECT id, last_seq, head_hash FROM fabric_run WHERE workspace_id = %s AND id = %s AND last_seq > 0"


def checkpoints_make(*, signer: Signer, folder: Path | None = None) -> int:
    """Make checkpoints of every changed workspace, and return their number. ``folder``: place of further copies."""
    made = 0
    for workspace in Workspace.objects.order_by("id"):
        # Drills' runs are deleted whole later: only an export checkpoints one, and their workspace's checkpoints
        # cover its stream.
        covers_runs = workspace.drills_of_id is None
        made += len(checkpoint_make(workspace_id=workspace.id, signer=signer, folder=folder, covers_runs=covers_runs))
    return made


def checkpoint_make(
    *,
    workspace_id: str,
    signer: Signer,
    folder: Path | None = None,
    only: Sequence[str] = (),
    covers_runs: bool = True,
) -> list[Checkpoint]:
    """Make a workspace's next checkpoint, or several; none without changes.

    ``only``: covers these runs alone, changed or not. ``covers_runs`` False: covers the audit stream alone. If two
    are made at once, one stands and the other makes none.
    """
    at = database_us()
    last, since, said = _read_last(workspace_id)
    changed: Iterator[Covered]
    if only:
        changed = (one for run_id in only for one in _rows(_NAMED, workspace_id, run_id))
    elif not covers_runs:
        changed = iter(())
    else:
        changed = (one for one in _find_changed_runs(workspace_id, since) if said.get(one[0]) != one[1])
    found: list[Covered] = []
    seq, head = stream_end(workspace_id)
    stream = ChainEnd(seq, head.hex())
    made: list[Checkpoint] = []
    while True:
        found += islice(changed, RUNS_MAX - len(found) + 1)
        covered, found = tuple(found[:RUNS_MAX]), found[RUNS_MAX:]
        if not covered and not only and (made or (last and checkpoint_read(bytes(last.body)).stream == stream)):
            return made
        body = CheckpointBody(
            workspace=workspace_id,
            number=last.number + 1 if last else 1,
            at=at,
            prev=checkpoint_digest(bytes(last.body)) if last else FIRST_PREV,
            key=signer.public,
            stream=stream,
            runs=covered,
            whole=not found and not only,
        )
        last = _store_checkpoint(body, signer)
        if last is None:
            return made
        made.append(last)
        if folder is not None:
            _append(folder, last)
        if not found:
            return made


def _read_last(workspace_id: str) -> tuple[Checkpoint | None, int, dict[str, int]]:
    """Return the last checkpoint, the time since which runs may not be covered, and the runs in later checkpoints."""
    newest = Checkpoint.objects.filter(workspace_id=workspace_id).order_by("-number")
    last, since, said = None, None, dict[str, int]()
    for checkpoint in newest.iterator(chunk_size=1):
        last = last or checkpoint
        if since is not None and checkpoint.at <= since:
            break
        body = checkpoint_read(bytes(checkpoint.body))
        for run_id, seq, _ in body.runs:
            said.setdefault(run_id, seq)
        if since is None and body.whole:
            since = body.at - CLOCKS_US
    return last, since or 0, said


def _find_changed_runs(workspace_id: str, since: int) -> Iterator[Covered]:
    for statement in _CHANGED:
        yield from _rows(statement, workspace_id, since)


def _rows(statement: str, *values: str | int) -> Iterator[Covered]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for run_id, seq, head in cursor.fetchall():
            yield run_id, seq, bytes(head).hex()


def _store_checkpoint(body: CheckpointBody, signer: Signer) -> Checkpoint | None:
    raw = checkpoint_bytes(body)
    try:
        with transaction.atomic():
            return Checkpoint.objects.create(
                workspace_id=body.workspace, number=body.number, at=body.at, body=raw, signature=signer.sign(raw)
            )
    except IntegrityError:
        return None


def _append(folder: Path, checkpoint: Checkpoint) -> None:
    """Append one line to the workspace's file outside the database; it is on the disk before this returns."""
    line = json.dumps({"body": bytes(checkpoint.body).decode(), "signature": bytes(checkpoint.signature).hex()}) + "\n"
    path = folder / f"checkpoints-{checkpoint.workspace_id}.ndjson"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LINES = 1_000
"""Largest number of lines sealed in one transaction."""
_LOCK = 0x0FAB_0A0D
"""PostgreSQL's advisory lock of the sealer, for the length of a transaction."""


def audit_waits() -> bool:
    """Return True if there are lines without a place in the chain."""
    return AuditLine.objects.filter(UNSEALED).exists()


def audit_seal() -> int:
    """Seal all committed lines, and return their number."""
    total = 0
    while sealed := _seal():
        total += sealed
        if sealed < LINES:
            break
    return total


def _seal() -> int:
    with transaction.atomic():
        # SQLite's transactions are IMMEDIATE: there is one at a time anyway.
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        lines = list(AuditLine.objects.filter(UNSEALED).order_by("at", "id")[:LINES])
        for workspace_id in dict.fromkeys(line.workspace_id for line in lines):
            _chain(workspace_id, [line for line in lines if line.workspace_id == workspace_id])
    return len(lines)


def _chain(workspace_id: str, lines: Sequence[AuditLine]) -> None:
    seq, head = stream_end(workspace_id)
    sealed = []
    for line in lines:
        seq, head = seq + 1, build_hash(line, seq + 1, head)
        sealed.append((seq, head, line.id))
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE fabric_audit SET seq = %s, hash = %s WHERE id = %s", sealed)
