"""The audit stream as a file: CSV for spreadsheets, lines of JSON that verify offline.

A line of JSON has everything that its hash is over, and the hash: ``manage.py audit verify FILE`` checks the chain without the database. The order is
that of the chain, the oldest first; records that wait to be sealed are sealed before. The last line says which record is the last.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from fabric.core.actor import Actor
from fabric.core.notifications import rfc3339
from fabric.models import AuditCut
from fabric.selectors.audit_list import AuditFilter, AuditRow, audit_wanted, matching, row_of
from fabric.selectors.list_file import ListLines

JSON = Any
ROWS = 500


class AuditLines(ListLines):
    """The records that a filter asks for. Refused: forbidden, invalid."""

    name = "audit"
    called = "records"
    columns = (
        *("seq", "at", "actor", "via", "came_by", "address", "act", "sentence", "outcome", "subject", "reason"),
        *("times", "more", "request_id", "id", "hash"),
    )

    def __init__(self, actor: Actor, wanted: AuditFilter, form: str) -> None:
        audit_wanted(actor)
        super().__init__(form)
        self._rows = matching(actor, wanted).filter(seq__isnull=False)
        self._workspace, self._whole, self._seq = actor.workspace_id, wanted.empty, 0

    def rows(self) -> tuple[list[dict[str, JSON]], bool]:
        """The next rows, each with the bytes that its hash is over."""
        found = list(self._rows.filter(seq__gt=self._seq).order_by("seq")[:ROWS])
        self._seq = found[-1].seq or 0 if found else self._seq
        raw = [{"body": base64.b64encode(bytes(one.body)).decode(), "at_us": one.at} for one in found]
        return [{**said(row_of(one)), **also} for one, also in zip(found, raw, strict=True)], len(found) == ROWS

    def marks(self) -> Iterable[dict[str, JSON]]:
        """Yields the head of the file, and the markers in place of removed records."""
        yield {"fabric_audit": 1, "workspace": self._workspace, "whole": self._whole}
        for one in AuditCut.objects.filter(workspace_id=self._workspace).order_by("first"):
            yield {"cut": bytes(one.body).decode(), "signature": bytes(one.signature).hex()}

    def end(self) -> dict[str, JSON]:
        """The last record and how many there are: a file that was cut off lacks it."""
        return {"end": self._seq, "records": self.count}


def said(row: AuditRow) -> dict[str, JSON]:
    """A record as a program reads it."""
    return {
        "id": row.id,
        "at": rfc3339(row.at),
        "actor": row.actor,
        "via": row.via,
        "came_by": row.came_by,
        "address": row.address,
        "request_id": row.request_id,
        "act": row.act,
        "sentence": f"{row.actor} {row.sentence}",
        "outcome": row.outcome.value,
        "subject": row.subject,
        "reason": row.reason,
        "times": row.times,
        "more": dict(row.more),
        "seq": row.seq,
        "hash": row.hash,
    }
