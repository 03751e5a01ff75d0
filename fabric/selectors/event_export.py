"""A run's journal as lines of JSON, a page of rows in memory at a time.

``journal``: the rows as they are stored, hashes and all. ``header`` and ``payload`` are texts, so that their bytes, and with them the chain
(``core.envelope.verify_chain``), can be had again from the file alone. ``readable``: S3's envelope with the content and the sentence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from fabric.core.actor import Actor
from fabric.core.envelope import from_row
from fabric.core.text import clean_text
from fabric.models import Event, Run
from fabric.selectors.contents import UNREAD, fact_shown, header_for, may_read
from fabric.selectors.display import summary_of
from fabric.selectors.envelopes import told_of
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by

JSON = Any
BYTES = "journal"
"""The form in which nothing is masked."""
PAGE = 200
PAGE_BYTES = 4_000_000
"""Payloads held at once, at most, give or take one."""

_COLUMNS = ("seq", "kind", "version", "at", "header", "payload", "payload_hash", "hash")


class EventLines:
    """The lines of one run, from its first event to the last it had when asked. Refused not_found."""

    def __init__(self, actor: Actor, run_id: str, form: str) -> None:
        row = Run.objects.filter(seen_by(actor, Run), id=clean_text(run_id)[0])
        found = row.values("trace_id", "last_seq", "fabric__name").first()
        if found is None:
            raise Refused(
                f"there is no run {run_id[:80]!r} in this workspace; look at the list of runs",
                code="not_found",
                field="run",
            )
        if form not in FORMS:
            raise Refused(
                f"events are not given as {form[:40]!r}; there are: {', '.join(FORMS)}", code="invalid", field="form"
            )
        self._run_id, self._trace_id, self.last = run_id, str(found["trace_id"]), int(found["last_seq"])
        self._line, self._reads = FORMS[form], may_read(actor, found["fabric__name"])
        self._after = 0

    def next_page(self) -> bytes:
        """The next lines; empty after the last."""
        rows = Event.objects.filter(run_id=self._run_id, seq__gt=self._after, seq__lte=self.last).order_by("seq")
        lines: list[bytes] = []
        size = 0
        for row in rows.values(*_COLUMNS)[:PAGE].iterator(chunk_size=20):
            self._after = row["seq"]
            line = json.dumps(self._line(self._run_id, self._trace_id, row, self._reads), ensure_ascii=False) + "\n"
            lines.append(line.encode())
            size += len(lines[-1])
            if size >= PAGE_BYTES:
                break
        return b"".join(lines)


def _journal(run_id: str, trace_id: str, row: Mapping[str, Any], reads: bool) -> dict[str, JSON]:
    payload = row["payload"]
    return {
        "run_id": run_id,
        "seq": row["seq"],
        "kind": row["kind"],
        "version": row["version"],
        "at": row["at"],
        # Bytes that are no text are damage: the line is not lost for it, and does not have the hash of its row.
        "header": bytes(row["header"]).decode(errors="backslashreplace"),
        "payload": None if payload is None else bytes(payload).decode(errors="backslashreplace"),
        "payload_hash": bytes(row["payload_hash"]).hex(),
        "hash": bytes(row["hash"]).hex(),
    }


def _readable(run_id: str, trace_id: str, row: Mapping[str, Any], reads: bool) -> dict[str, JSON]:
    try:
        event = from_row(row["seq"], row["kind"], row["version"], header_for(row["header"], reads=reads))
    except ValueError as error:
        line = _journal(run_id, trace_id, row, reads)
        return (
            {**line, "problem": str(error)} if reads else {**line, "header": UNREAD, "payload": None, "problem": UNREAD}
        )
    payload = None if row["payload"] is None else bytes(row["payload"])
    shown = told_of(run_id, trace_id, event, payload, reads=reads)
    said = summary_of(row["kind"], fact_shown(event))
    return {**shown, "summary": said, "content_erased": payload is None and bool(row["payload_hash"])}


FORMS: Mapping[str, Callable[[str, str, Mapping[str, Any], bool], dict[str, JSON]]] = {
    "journal": _journal,
    "readable": _readable,
}
"""The two forms of a line."""
