"""Counts repeated acts: the first is a record at once, the others of its window are one record.

So failed attempts of strangers, or a runaway program, fill no disk (OWASP ASVS 16.3.1 with 2.4.1). Strangers have a
bound in all: after ``STRANGERS_MAX`` different acts in a window, further ones are counted together. Refusals of this
machine's commands are recorded here; the console's entry records those of requests.
"""

from __future__ import annotations

import json
import time
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import F

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.values.fingerprint import encode
from fabric.core.values.units import US
from fabric.models import AuditFold, Workspace
from fabric.selectors.contents import mask_content
from fabric.services.actors import DEFAULT_WORKSPACE, OWNER, workspace_default
from fabric.services.acts import UNKNOWN, audit_record
from fabric.services.errors import Refused

WINDOW_US = 600 * US
STRANGERS_MAX = 100
"""Different strangers with records of their own in one window."""
OTHERS = "others"
FLUSHED = 200


def stranger() -> Actor:
    """Return the actor of failed acts by unknown people, in the default workspace."""
    return Actor(name=UNKNOWN, workspace_id=workspace_default())


def audit_fold(*, actor: Actor, act: Act, subject: str, at: str = "", now: int | None = None, **more: Any) -> None:
    """Record an act once in a window for its actor, subject and ``at`` (its origin), and count its repetitions.

    ``more`` is kept of the first one. ``now`` is in microseconds since the epoch. Call it outside of a transaction
    that may be rolled back.
    """
    now = time.time_ns() // 1_000 if now is None else now
    until = now - now % WINDOW_US + WINDOW_US
    known = actor.name != UNKNOWN
    key = _key(actor, act, subject, at, until)
    if not known and not AuditFold.objects.filter(key=key).exists() and _strangers(until) >= STRANGERS_MAX:
        subject, more, key = OTHERS, {}, _key(actor, act, OTHERS, "", until)
    line = {"actor": actor.name, "via": actor.via, "act": act.value, "subject": subject}
    with transaction.atomic():
        row = AuditFold(key=key, workspace_id=actor.workspace_id, until=until, known=known, times=0, line=encode(line))
        AuditFold.objects.bulk_create([row], ignore_conflicts=True)
        if AuditFold.objects.filter(key=key, times=0).update(times=1):
            audit_record(actor=actor, act=act, subject=subject, **more)
        else:
            AuditFold.objects.filter(key=key).update(times=F("times") + 1)


def folds_wait() -> bool:
    """Return True if a window is over and its records are not written yet."""
    return AuditFold.objects.filter(until__lte=time.time_ns() // 1_000).exists()


def folds_flush(*, now: int | None = None) -> int:
    """Write the counts of each window that is over as records, and return the number of windows."""
    at, total = time.time_ns() // 1_000 if now is None else now, 0
    while rows := list(AuditFold.objects.filter(until__lte=at).order_by("until", "key")[:FLUSHED]):
        total += sum(_flush_fold(row) for row in rows)
    return total


def _flush_fold(row: AuditFold) -> bool:
    said = json.loads(bytes(row.line))
    who = Actor(name=said["actor"], workspace_id=row.workspace_id, via=said["via"])
    with transaction.atomic():
        # The transaction that deletes the row makes the record: of two flushes at once, one does.
        gone, _ = AuditFold.objects.filter(key=row.key, times=row.times).delete()
        if gone and row.times > 1:
            since = row.until - WINDOW_US
            more = {"times": row.times - 1, "since": since, "until": row.until}
            audit_record(actor=who, act=Act(said["act"]), subject=said["subject"], **more)
    return bool(gone)


def _strangers(until: int) -> int:
    return AuditFold.objects.filter(until=until, known=False).count()


def _key(actor: Actor, act: Act, subject: str, at: str, until: int) -> str:
    parts = (actor.workspace_id, actor.name, actor.via, act.value, subject, at, str(until))
    return sha256(
        b"".join(len(raw).to_bytes(4, "big") + raw for raw in (part.encode("utf-8", "surrogatepass") for part in parts))
    ).hexdigest()


SAID_CHARS = 300


def refusal_record(*, command: str, refused: Refused) -> None:
    """Record a command's refusal in the name of the owner, who acts there; do nothing without a workspace."""
    workspace_id = Workspace.objects.filter(name=DEFAULT_WORKSPACE).values_list("id", flat=True).first()
    if workspace_id is None:
        return
    audit_fold(
        actor=Actor(name=OWNER, workspace_id=workspace_id),
        act=Act.REQUEST_REFUSED,
        subject=f"manage.py {command}",
        at=refused.code,
        status=refused.code,
        reason=str(mask_content(refused.message))[:SAID_CHARS],
    )
