"""Sends the sealed audit stream to receivers, in the order of the chain and at least once. The database has the place
of the last taken record.

A receiver that fails is tried again after a wait that doubles; its records wait in the stream, and no request waits
for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from django.conf import settings
from django.db.models import F, QuerySet

from fabric.adapters.audit import NotTaken
from fabric.adapters.audit.otlp import Otlp
from fabric.adapters.audit.syslog import Syslog
from fabric.core.values.units import US
from fabric.models import AuditForward, AuditLine, Workspace
from fabric.selectors.audit.files import record_json
from fabric.selectors.audit.forwarding import OTLP, SYSLOG, receivers
from fabric.selectors.audit.lookup import build_row, stream_end

BATCH = 200
"""Records that go out at once."""
BATCHES_MAX = 50
"""Largest number of batches of one workspace in one turn of the duty; the next turn sends the rest."""
FIRST_WAIT_S, WAIT_MAX_S = 5, 600
SAID_CHARS = 300
FORGOTTEN_US = 7 * 86_400 * US
"""Time without a record after which a receiver that is no longer named is forgotten, in microseconds."""


class Receiver(Protocol):
    """Receiver of the audit records."""

    def send(self, records: Sequence[Mapping[str, Any]]) -> str:
        """Send records in order; return a warning about the delivery, or "". Raises NotTaken if it fails."""
        ...


def build_receiver(target: str, address: str) -> Receiver:
    """Return the operator's receiver."""
    makers: dict[str, Callable[[], Receiver]] = {
        SYSLOG: lambda: Syslog(address),
        OTLP: lambda: Otlp(address, settings.FABRIC_AUDIT_OTLP_KEY),
    }
    return makers[target]()


def is_forwarding_due(target: str) -> bool:
    """Return True where a receiver lacks records, or the state of an unnamed one is to be deleted."""
    if target not in receivers():
        return _query_forgotten(target).exists()
    now = _now()
    rows = {row.workspace_id: row for row in AuditForward.objects.filter(target=target)}
    return any(_is_due(rows.get(workspace_id), end, now) for workspace_id, end in _ends().items())


def forward(target: str, make: Callable[[str, str], Receiver] = build_receiver) -> int:
    """Send a receiver its missing records, and return the number that it took. An unnamed receiver loses its place."""
    address = receivers().get(target)
    if address is None:
        _query_forgotten(target).delete()
        return 0
    total = 0
    for workspace_id in _ends():
        row, _ = AuditForward.objects.get_or_create(target=target, workspace_id=workspace_id)
        if row.next_at <= _now():
            total += _send_lines(row, make(target, address))
    return total


def _query_forgotten(target: str) -> QuerySet[AuditForward]:
    """Return a receiver's rows without a record for a week: replaced workers may know other receivers."""
    return AuditForward.objects.filter(target=target, sent_at__lt=_now() - FORGOTTEN_US, next_at__lt=_now())


def _send_lines(row: AuditForward, receiver: Receiver) -> int:
    total = 0
    for _ in range(BATCHES_MAX):
        lines = AuditLine.objects.filter(workspace_id=row.workspace_id, seq__gt=row.seq)
        found = list(lines.order_by("seq")[:BATCH])
        if not found:
            break
        mine = AuditForward.objects.filter(id=row.id, seq=row.seq)
        try:
            noted = receiver.send([_record(line) for line in found])
        except NotTaken as error:
            wait_s = max(min(FIRST_WAIT_S << min(row.failures, 10), WAIT_MAX_S), min(error.retry_after_s, WAIT_MAX_S))
            mine.update(failures=F("failures") + 1, next_at=_now() + round(wait_s * US), said=str(error)[:SAID_CHARS])
            break
        last = found[-1].seq or 0
        # Another worker sent these lines at the same time and recorded it: the records came twice, and none is lost.
        if not mine.update(seq=last, sent_at=_now(), failures=0, next_at=0, said=noted[:SAID_CHARS]):
            break
        total, row.seq, row.failures = total + len(found), last, 0
    return total


def _record(line: AuditLine) -> dict[str, Any]:
    return {**record_json(build_row(line)), "workspace": line.workspace_id, "at_us": line.at}


def _ends() -> dict[str, int]:
    """Return the place of the last sealed line of each workspace."""
    ends = {one: stream_end(one)[0] for one in Workspace.objects.order_by("id").values_list("id", flat=True)}
    return {workspace_id: end for workspace_id, end in ends.items() if end}


def _is_due(row: AuditForward | None, end: int, now: int) -> bool:
    return row is None or (row.seq < end and row.next_at <= now)


def _now() -> int:
    return time.time_ns() // 1_000
