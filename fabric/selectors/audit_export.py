"""The audit stream as a file, a page of records in memory at a time: CSV for spreadsheets, lines of JSON that verify offline.

A line of JSON has everything that its hash is over, and the hash: ``manage.py audit verify FILE`` checks the chain without the database. The order is
that of the chain, the oldest first; records that wait to be sealed are sealed before. The last line says which record is the last.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from fabric.core.actor import Actor
from fabric.core.csv_cells import line
from fabric.core.notifications import rfc3339
from fabric.models import AuditCut, AuditLine
from fabric.selectors.audit_list import AuditFilter, AuditRow, audit_wanted, matching, row_of
from fabric.selectors.errors import Refused

JSON = Any
FORMS = {"csv": "text/csv; charset=utf-8", "ndjson": "application/x-ndjson"}
"""The two forms, and their types of content."""
ROWS = 500
COLUMNS = (
    *("seq", "at", "actor", "via", "came_by", "address", "act", "sentence", "outcome", "subject", "reason", "times"),
    *("more", "request_id", "id", "hash"),
)


class AuditLines:
    """The records that a filter asks for. Refused: forbidden, invalid (no such form)."""

    def __init__(self, actor: Actor, wanted: AuditFilter, form: str) -> None:
        audit_wanted(actor)
        if form not in FORMS:
            message = f"the audit stream is not given as {form[:40]!r}; there are: {', '.join(FORMS)}"
            raise Refused(message, code="invalid", field="form")
        self._rows = matching(actor, wanted).filter(seq__isnull=False)
        self._form, self._actor, self._whole = form, actor, wanted.empty
        self._seq, self._more, self._first = 0, True, True
        self.count = 0
        """Records given so far."""

    def next_page(self) -> bytes:
        """The next lines; empty after the last."""
        if not self._more:
            return b""
        found = list(self._rows.filter(seq__gt=self._seq).order_by("seq")[:ROWS])
        self._more = len(found) == ROWS
        text = self._head() + "".join(self._line(one) for one in found)
        self._first, self.count = False, self.count + len(found)
        self._seq = found[-1].seq or 0 if found else self._seq
        return (text + self._end()).encode()

    def pages(self) -> Iterator[bytes]:
        """All of them."""
        while page := self.next_page():
            yield page

    def _head(self) -> str:
        if not self._first:
            return ""
        if self._form == "csv":
            return line(COLUMNS)
        about = {"fabric_audit": 1, "workspace": self._actor.workspace_id, "whole": self._whole}
        cuts = AuditCut.objects.filter(workspace_id=self._actor.workspace_id).order_by("first")
        marks = [{"cut": bytes(one.body).decode(), "signature": bytes(one.signature).hex()} for one in cuts]
        return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in (about, *marks))

    def _end(self) -> str:
        """A file that was cut off lacks it."""
        if self._more or self._form == "csv":
            return ""
        return json.dumps({"end": self._seq, "records": self.count}) + "\n"

    def _line(self, one: AuditLine) -> str:
        row = row_of(one)
        if self._form == "csv":
            told = said(row)
            return line([_flat(told[name]) for name in COLUMNS])
        raw = {"body": base64.b64encode(bytes(one.body)).decode(), "at_us": one.at}
        return json.dumps({**said(row), **raw}, ensure_ascii=False) + "\n"


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


def _flat(value: JSON) -> JSON:
    return json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) else value
