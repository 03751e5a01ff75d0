"""Signed checkpoints: how far a workspace's audit stream and journals reached, said so that nobody without the key can say otherwise.

What a checkpoint covers cannot be cut off, exchanged or written anew without its being found. Runs that changed are found by when they ended
and by when their last event happened: clocks of workers may lie ten minutes apart. What is missed by more is covered at the run's next change.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from django.db import IntegrityError, connection, transaction

from fabric.adapters.duties import database_us
from fabric.adapters.signing import Signer
from fabric.core.audit import FIRST_PREV, CheckpointBody, Reach, checkpoint_bytes, checkpoint_digest, checkpoint_read
from fabric.models import Checkpoint, Workspace
from fabric.models.runs import BAD_STATES, ENDED
from fabric.selectors.audit import stream_end

RUNS_MAX = 10_000
"""In one checkpoint; more make several."""
CLOCKS_US = 600 * 1_000_000
"""How far apart the clocks of workers may be."""
Covered = tuple[str, int, str]

_STATES = {"ended": ", ".join(f"'{state}'" for state in ENDED), "bad": ", ".join(f"'{state}'" for state in BAD_STATES)}
# The conditions in the words of their indexes.
_ENDED = """
SELECT id, last_seq, head_hash FROM fabric_run WHERE workspace_id = %s AND {condition} AND ended_at > %s
"""
_LIVE = """
SELECT r.id, r.last_seq, r.head_hash FROM fabric_run r JOIN fabric_event e ON e.run_id = r.id AND e.seq = r.last_seq
WHERE r.workspace_id = %s AND NOT (r.state IN ({ended})) AND e.at > %s
"""
_CHANGED = (
    _ENDED.format(condition="state = 'completed'"),
    _ENDED.format(condition="state IN ({bad})".format(**_STATES)),
    _LIVE.format(**_STATES),
)
_NAMED = "SELECT id, last_seq, head_hash FROM fabric_run WHERE workspace_id = %s AND id = %s AND last_seq > 0"


def checkpoints_make(*, signer: Signer, folder: Path | None = None) -> int:
    """Makes the checkpoints of every workspace in which something changed; how many. ``folder``: where they are written as well."""
    made = 0
    for workspace in Workspace.objects.order_by("id"):
        # What runs in it is erased whole after a while: a checkpoint has such a run where it is exported, and reaches its stream.
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
    """Makes a workspace's next checkpoint, or several; none where nothing changed. ``only``: of these runs alone, whether they changed or not.
    ``covers_runs`` False: of the audit stream alone.

    Of two that are made at once, one stands; the other makes none.
    """
    at = database_us()
    last, since, said = _before(workspace_id)
    changed: Iterator[Covered]
    if only:
        changed = (one for run_id in only for one in _rows(_NAMED, workspace_id, run_id))
    elif not covers_runs:
        changed = iter(())
    else:
        changed = (one for one in _changed(workspace_id, since) if said.get(one[0]) != one[1])
    found: list[Covered] = []
    seq, head = stream_end(workspace_id)
    stream = Reach(seq, head.hex())
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
        last = _stored(body, signer)
        if last is None:
            return made
        made.append(last)
        if folder is not None:
            _append(folder, last)
        if not found:
            return made


def _before(workspace_id: str) -> tuple[Checkpoint | None, int, dict[str, int]]:
    """The last checkpoint, since when runs may not be covered, and what the checkpoints since then say of them."""
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


def _changed(workspace_id: str, since: int) -> Iterator[Covered]:
    for statement in _CHANGED:
        yield from _rows(statement, workspace_id, since)


def _rows(statement: str, *values: str | int) -> Iterator[Covered]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        for run_id, seq, head in cursor.fetchall():
            yield run_id, seq, bytes(head).hex()


def _stored(body: CheckpointBody, signer: Signer) -> Checkpoint | None:
    raw = checkpoint_bytes(body)
    try:
        with transaction.atomic():
            return Checkpoint.objects.create(
                workspace_id=body.workspace, number=body.number, at=body.at, body=raw, signature=signer.sign(raw)
            )
    except IntegrityError:
        return None


def _append(folder: Path, checkpoint: Checkpoint) -> None:
    """One line more in the workspace's file outside the database, on the disk before this returns."""
    line = json.dumps({"body": bytes(checkpoint.body).decode(), "signature": bytes(checkpoint.signature).hex()}) + "\n"
    path = folder / f"checkpoints-{checkpoint.workspace_id}.ndjson"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
