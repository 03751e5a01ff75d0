"""A workspace's audit stream: where its chain ends, and what each line hashes to."""

from __future__ import annotations

from fabric.core.audit import Act, line_hash
from fabric.core.audit_cut import cut_read
from fabric.core.fingerprint import ZERO_HASH
from fabric.models import AuditCut, AuditLine


def stream_end(workspace_id: str) -> tuple[int, bytes]:
    """Seq and hash of the last line that is sealed; ``(0, zeros)`` before the first."""
    sealed = AuditLine.objects.filter(workspace_id=workspace_id, seq__isnull=False).order_by("-seq")
    seq, head = sealed.values_list("seq", "hash").first() or (0, ZERO_HASH)
    cut = AuditCut.objects.filter(workspace_id=workspace_id, last__gt=seq or 0).order_by("-last").first()
    if cut is not None:
        return cut.last, bytes.fromhex(cut_read(bytes(cut.body)).head)
    return seq or 0, bytes(head or ZERO_HASH)


def hash_of(line: AuditLine, seq: int, prev: bytes) -> bytes:
    """The hash that a line has at that place."""
    return line_hash(
        prev,
        seq,
        workspace_id=line.workspace_id,
        line_id=line.id,
        at=line.at,
        actor=line.actor,
        via=line.via,
        act=line.kind,
        subject=line.subject,
        body=bytes(line.body),
    )


def was_erased(workspace_id: str, run_id: str) -> bool:
    """Whether the stream says that a run's contents were erased."""
    return AuditLine.objects.filter(workspace_id=workspace_id, subject=run_id, kind=Act.RUN_ERASED.value).exists()
