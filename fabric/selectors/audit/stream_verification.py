"""Verifies the audit stream's chain, the checkpoints' chain and signatures, and that everything they cover still
exists.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from django.db import connection

from fabric.core.audit.lines import FIRST_PREV, CheckpointBody, checkpoint_digest, checkpoint_read, cut_read
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.models import AuditCut, AuditLine, Checkpoint, Run, Workspace
from fabric.models.audit import UNSEALED
from fabric.selectors.audit.files import StreamCuts, Verified, has_other_address
from fabric.selectors.audit.journal_verification import AuditFault, AuditFinding, VerifiedCounts
from fabric.selectors.audit.lookup import build_hash, was_erased

PAGE = 500
COVERED = 200
"""Runs of a checkpoint in one query."""


def verify_streams(
    counted: VerifiedCounts, *, verified: Verified | None = None, trusted: Collection[str] = ()
) -> Iterator[AuditFinding]:
    """Verify the audit stream of every workspace. It has no gaps except under signed markers, and a chain over
    everything in its lines.

    ``verified`` None: the signatures of markers are not checked. ``trusted``: as for ``verify_checkpoints``.
    """
    counted.unsealed += AuditLine.objects.filter(UNSEALED).count()
    workspace, seq, head = "", 0, ZERO_HASH
    cuts = StreamCuts("", (), None, ())
    for line in _list_sealed():
        if line.workspace_id != workspace:
            workspace, seq, head = line.workspace_id, 0, ZERO_HASH
            marks = AuditCut.objects.filter(workspace_id=workspace).values_list("body", "signature")
            cuts = StreamCuts(
                workspace, [(bytes(body), bytes(signature)) for body, signature in marks], verified, trusted
            )
        counted.lines += 1
        place, hashed = line.seq or 0, bytes(line.hash or b"")
        seq, head = cuts.pass_markers(seq, head, place)
        yield from cuts.list_findings()
        if has_other_address(line):
            sentence = f"audit stream of workspace {workspace}: line {place} has another address in its column than in what was hashed"
            yield AuditFinding(fault=AuditFault.STREAM_CHANGED, seq=place, says=sentence)
        if place != seq + 1:
            gone = f"line {seq + 1} is" if place == seq + 2 else f"lines {seq + 1} to {place - 1} are"
            sentence = f"audit stream of workspace {workspace}: {gone} missing: {place} follows {seq}"
            yield AuditFinding(fault=AuditFault.STREAM_GAP, seq=seq + 1, says=sentence)
        elif build_hash(line, place, head) != hashed:
            sentence = f"audit stream of workspace {workspace}: line {place} ({line.kind[:40]}) does not have the hash of what it says after the line before it: it, or that one, was changed"
            yield AuditFinding(fault=AuditFault.STREAM_CHANGED, seq=place, says=sentence)
        seq, head = place, hashed


def _list_sealed() -> Iterator[AuditLine]:
    """Yield all sealed lines by workspace and seq, a page at a time."""
    at: tuple[str, int] = ("", -(2**63))
    statement = "SELECT * FROM fabric_audit WHERE seq IS NOT NULL AND (workspace_id, seq) > (%s, %s) ORDER BY workspace_id, seq LIMIT %s"
    while page := list(AuditLine.objects.raw(statement, [*at, PAGE])):
        yield from page
        at = (page[-1].workspace_id, page[-1].seq or 0)


def verify_checkpoints(
    counted: VerifiedCounts,
    *,
    verified: Verified,
    trusted: Collection[str],
    run_id: str = "",
    folder: Path | None = None,
) -> Iterator[AuditFinding]:
    """Verify the checkpoints of every workspace with the streams and runs that they cover; ``run_id``: of that run
    alone.

    ``trusted``: the public keys that may have signed. ``folder``: where checkpoints were written outside the
    database.
    """
    drills = dict(Workspace.objects.values_list("id", "drills_of_id"))
    known = set(drills)
    for workspace_id in sorted(known | set(Checkpoint.objects.values_list("workspace_id", flat=True).distinct())):
        number, prev = 0, FIRST_PREV
        for row in Checkpoint.objects.filter(workspace_id=workspace_id).order_by("number").iterator(chunk_size=1):
            counted.checkpoints += 1
            raw = bytes(row.body)
            if row.number != number + 1:
                sentence = (
                    f"checkpoint {number + 1} of workspace {workspace_id} is missing: {row.number} follows {number}"
                )
                yield AuditFinding(fault=AuditFault.CHECKPOINT_MISSING, seq=number + 1, says=sentence)
                prev = ""
            body, problem = _body(row, raw, prev, verified)
            number, prev = row.number, checkpoint_digest(raw)
            if body is None:
                sentence = f"checkpoint {row.number} of workspace {workspace_id} was changed: {problem}"
                yield AuditFinding(fault=AuditFault.CHECKPOINT_CHANGED, seq=row.number, says=sentence)
                continue
            if body.key not in trusted:
                sentence = f"checkpoint {row.number} of workspace {workspace_id} is signed by key {body.key}, which is not this installation's: if it once was, name it with --key"
                yield AuditFinding(fault=AuditFault.UNTRUSTED_KEY, seq=row.number, says=sentence)
            yield from _check_covered(body, run_id, erases=bool(drills.get(workspace_id)))
        if folder is not None:
            yield from _outside(workspace_id, folder)


def _body(row: Checkpoint, raw: bytes, prev: str, verified: Verified) -> tuple[CheckpointBody | None, str]:
    try:
        body = checkpoint_read(raw)
    except ValueError as error:
        return None, str(error)
    if (body.workspace, body.number, body.at) != (row.workspace_id, row.number, row.at):
        return None, "its columns say something else than what was signed"
    if not verified(body.key, bytes(row.signature), raw):
        return None, "its signature is not over what it says"
    if prev and body.prev != prev:
        return None, "it does not follow the checkpoint before it"
    return body, ""


def _check_covered(body: CheckpointBody, run_id: str, *, erases: bool) -> Iterator[AuditFinding]:
    """Yield a finding for everything a checkpoint covers that is missing or changed.

    ``erases``: the workspace deletes old runs as a whole, as those of drills do.
    """
    where = f"checkpoint {body.number} of workspace {body.workspace}"
    if not run_id and body.stream.seq:
        lines = AuditLine.objects.filter(workspace_id=body.workspace, seq=body.stream.seq)
        hashed = lines.values_list("hash", flat=True).first()
        if hashed is None and _is_cut(body):
            pass
        elif hashed is None:
            sentence = f"audit stream of workspace {body.workspace}: line {body.stream.seq} is missing, which {where} covers: its end was cut off"
            yield AuditFinding(fault=AuditFault.COVERED_MISSING, seq=body.stream.seq, says=sentence)
        elif bytes(hashed).hex() != body.stream.head:
            sentence = f"audit stream of workspace {body.workspace}: line {body.stream.seq} is not the one that {where} covers: the stream was rewritten"
            yield AuditFinding(fault=AuditFault.COVERED_CHANGED, seq=body.stream.seq, says=sentence)
    runs = [one for one in body.runs if not run_id or one[0] == run_id]
    for start in range(0, len(runs), COVERED):
        asked = runs[start : start + COVERED]
        there = _hashes(asked)
        for name, seq, head in asked:
            if (name, seq) not in there:
                if erases and was_erased(body.workspace, name) and not Run.objects.filter(id=name).exists():
                    continue
                sentence = f"run {name}: event {seq} is missing, which {where} covers: its end was cut off"
                yield AuditFinding(fault=AuditFault.COVERED_MISSING, run_id=name, seq=seq, says=sentence)
            elif there[name, seq] != head:
                sentence = f"run {name}: event {seq} is not the one that {where} covers: the journal was rewritten"
                yield AuditFinding(fault=AuditFault.COVERED_CHANGED, run_id=name, seq=seq, says=sentence)


def _is_cut(body: CheckpointBody) -> bool:
    """Return True if a marker explains that a checkpoint's line is gone. For the marker's last line the hash
    must fit.
    """
    covers = AuditCut.objects.filter(workspace_id=body.workspace, first__lte=body.stream.seq, last__gte=body.stream.seq)
    cut = covers.first()
    return cut is not None and (cut.last != body.stream.seq or cut_read(bytes(cut.body)).head == body.stream.head)


def _hashes(asked: Sequence[tuple[str, int, str]]) -> dict[tuple[str, int], str]:
    places = ", ".join(["(%s, %s)"] * len(asked))
    statement = f"SELECT run_id, seq, hash FROM fabric_event WHERE (run_id, seq) IN (VALUES {places})"  # noqa: S608 - constants.
    with connection.cursor() as cursor:
        cursor.execute(statement, [value for run_id, seq, _ in asked for value in (run_id, seq)])
        return {(run_id, seq): bytes(hashed).hex() for run_id, seq, hashed in cursor.fetchall()}


def _outside(workspace_id: str, folder: Path) -> Iterator[AuditFinding]:
    """Yield a finding for each checkpoint outside the database that is missing or different inside it."""
    path = folder / f"checkpoints-{workspace_id}.ndjson"
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for n, line in enumerate(lines, start=1):
            try:
                raw = str(json.loads(line)["body"]).encode()
                number = checkpoint_read(raw).number
            except (ValueError, LookupError, TypeError):
                # An interrupted write leaves half a line, which means nothing.
                sentence = f"{path.name}: line {n} is no checkpoint and is skipped; remove the line if a write was interrupted there"
                yield AuditFinding(fault=AuditFault.CHECKPOINT_CHANGED, seq=n, says=sentence)
                continue
            kept = Checkpoint.objects.filter(workspace_id=workspace_id, number=number).values_list("body", flat=True)
            stored = kept.first()
            if stored is None or bytes(stored) != raw:
                how = "is missing in the database" if stored is None else "is another one in the database"
                sentence = f"checkpoint {number} of workspace {workspace_id}, which {path.name} has, {how}"
                yield AuditFinding(fault=AuditFault.CHECKPOINT_MISSING, seq=number, says=sentence)
