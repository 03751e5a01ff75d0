"""The same act again and again is two records a window, not one for each: the first at once, and one with the number of the others.

So what a stranger does in vain, or a program that runs away, fills no disk (OWASP ASVS 16.3.1 with 2.4.1). What strangers do has a bound in all:
when a window has ``STRANGERS_MAX`` different ones, further ones are counted together.
"""

from __future__ import annotations

import json
import time
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.db.models import F

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.fingerprint import encode
from fabric.models import AuditFold
from fabric.services.audit import audit_record
from fabric.services.audit_origin import NOBODY
from fabric.services.workspaces import workspace_default

US = 1_000_000
WINDOW_US = 600 * US
STRANGERS_MAX = 100
"""Different strangers with records of their own in one window."""
OTHERS = "others"
FLUSHED = 200


def stranger() -> Actor:
    """The actor of what is done in vain by who is not known, in the default workspace."""
    return Actor(name=NOBODY, workspace_id=workspace_default())


def audit_fold(*, actor: Actor, act: Act, subject: str, at: str = "", now: int | None = None, **more: Any) -> None:
    """Records an act once in a window for the same actor, act, subject and ``at`` (where it comes from); further ones are counted.

    ``more`` is the first one's. ``now`` is in microseconds since the epoch. Called outside of a transaction that may be rolled back.
    """
    now = time.time_ns() // 1_000 if now is None else now
    until = now - now % WINDOW_US + WINDOW_US
    known = actor.name != NOBODY
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
    """Whether a window is over whose records are not made yet."""
    return AuditFold.objects.filter(until__lte=time.time_ns() // 1_000).exists()


def folds_flush(*, now: int | None = None) -> int:
    """Makes the record of what was counted in each window that is over; how many windows."""
    at, total = time.time_ns() // 1_000 if now is None else now, 0
    while rows := list(AuditFold.objects.filter(until__lte=at).order_by("until", "key")[:FLUSHED]):
        total += sum(_flushed(row) for row in rows)
    return total


def _flushed(row: AuditFold) -> bool:
    said = json.loads(bytes(row.line))
    who = Actor(name=said["actor"], workspace_id=row.workspace_id, via=said["via"])
    with transaction.atomic():
        # Whoever deletes the row makes the record: of two who flush at once, one does.
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
