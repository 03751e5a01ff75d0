"""Sends the sealed audit stream to receivers: in the order of the chain, at least once, with the place of the last taken record in the database.

A receiver that fails is tried again after a wait that doubles; its records wait in the stream, and no request waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from django.conf import settings
from django.db.models import F, QuerySet

from fabric.adapters.audit_receivers import NotTaken
from fabric.adapters.audit_receivers.otlp import Otlp
from fabric.adapters.audit_receivers.syslog import Syslog
from fabric.models import AuditForward, AuditLine, Workspace
from fabric.selectors.audit import stream_end
from fabric.selectors.audit_export import said
from fabric.selectors.audit_forward import OTLP, SYSLOG, receivers
from fabric.selectors.audit_list import row_of

US = 1_000_000
BATCH = 200
"""Records that go out at once."""
BATCHES_MAX = 50
"""Of one workspace in one turn of the duty; what is left goes in the next."""
FIRST_WAIT_S, WAIT_MAX_S = 5, 600
SAID_CHARS = 300
FORGOTTEN_US = 7 * 86_400 * US
"""After so long without a record a receiver is forgotten that is named no more."""


class Receiver(Protocol):
    """What records are sent to."""

    def send(self, records: Sequence[Mapping[str, Any]]) -> str:
        """Sends them in order; a sentence where not all is well. Raises NotTaken."""
        ...


def receiver_of(target: str, address: str) -> Receiver:
    """The receiver that the operator named."""
    makers: dict[str, Callable[[], Receiver]] = {
        SYSLOG: lambda: Syslog(address),
        OTLP: lambda: Otlp(address, settings.FABRIC_AUDIT_OTLP_KEY),
    }
    return makers[target]()


def forwarding_wanted(target: str) -> bool:
    """Returns True where a receiver has records to get, or an unnamed one has state to forget."""
    if target not in receivers():
        return _forgotten(target).exists()
    now = _now()
    rows = {row.workspace_id: row for row in AuditForward.objects.filter(target=target)}
    return any(_due(rows.get(workspace_id), end, now) for workspace_id, end in _ends().items())


def forward(target: str, make: Callable[[str, str], Receiver] = receiver_of) -> int:
    """Sends what a receiver lacks, as far as it takes it; the count of taken records. Of one that is named no more, it forgets the place."""
    address = receivers().get(target)
    if address is None:
        _forgotten(target).delete()
        return 0
    total = 0
    for workspace_id in _ends():
        row, _ = AuditForward.objects.get_or_create(target=target, workspace_id=workspace_id)
        if row.next_at <= _now():
            total += _sent(row, make(target, address))
    return total


def _forgotten(target: str) -> QuerySet[AuditForward]:
    """A receiver that was not sent to for a week: while workers are replaced, some name one that others do not."""
    return AuditForward.objects.filter(target=target, sent_at__lt=_now() - FORGOTTEN_US, next_at__lt=_now())


def _sent(row: AuditForward, receiver: Receiver) -> int:
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
        # Who sent the same at once has said so before: its records came twice, and none is lost.
        if not mine.update(seq=last, sent_at=_now(), failures=0, next_at=0, said=noted[:SAID_CHARS]):
            break
        total, row.seq, row.failures = total + len(found), last, 0
    return total


def _record(line: AuditLine) -> dict[str, Any]:
    return {**said(row_of(line)), "workspace": line.workspace_id, "at_us": line.at}


def _ends() -> dict[str, int]:
    """The place of the last sealed line of each workspace that has one."""
    ends = {one: stream_end(one)[0] for one in Workspace.objects.order_by("id").values_list("id", flat=True)}
    return {workspace_id: end for workspace_id, end in ends.items() if end}


def _due(row: AuditForward | None, end: int, now: int) -> bool:
    return row is None or (row.seq < end and row.next_at <= now)


def _now() -> int:
    return time.time_ns() // 1_000
