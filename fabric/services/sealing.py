"""The sealer: gives committed audit lines their place in their workspace's chain.

Whoever acts inserts a line and waits for nobody. The sealer takes what has committed, in the order of its time, so lines of transactions that
are still open come later: there are no gaps, and one sealer at a time leaves no fork.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, transaction

from fabric.models import AuditLine
from fabric.models.audit import UNSEALED
from fabric.selectors.audit import hash_of, stream_end

LINES = 1_000
"""Sealed in one transaction, at most."""
_LOCK = 0x0FAB_0A0D
"""PostgreSQL's advisory lock of the sealer, for the length of a transaction."""


def audit_waits() -> bool:
    """Whether there are lines without a place."""
    return AuditLine.objects.filter(UNSEALED).exists()


def audit_seal() -> int:
    """Seals all lines that have committed by now; how many."""
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
        seq, head = seq + 1, hash_of(line, seq + 1, head)
        sealed.append((seq, head, line.id))
    with connection.cursor() as cursor:
        cursor.executemany("UPDATE fabric_audit SET seq = %s, hash = %s WHERE id = %s", sealed)
