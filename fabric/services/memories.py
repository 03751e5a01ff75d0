"""What people do to a fabric's memories, and what is erased of them."""

from __future__ import annotations

from django.db import IntegrityError, connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet

from fabric.adapters.memories import lock_name
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.memory import since_of
from fabric.core.text import clean_text
from fabric.models import Fabric, MemoryEntry, Run, new_id
from fabric.models.runs import ENDED
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.memories import database_now, memory_find, memory_rows
from fabric.services.audit import audit_record
from fabric.services.breakers import OPERATORS
from fabric.services.errors import Refused
from fabric.services.runs import REASON_CHARS_MAX


def may_delete(actor: Actor) -> bool:
    """Whether somebody may delete what a fabric remembers: every run of it reads that."""
    return bool(OPERATORS & actor.roles)


def memory_delete(*, actor: Actor, fabric: str, memory: str, key: str, version: int, reason: str) -> None:
    """Deletes what stands under a key, value and all. ``version``: as it was seen. No run takes that back.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (another version stands there by now).
    """
    if not may_delete(actor):
        allowed = " or ".join(sorted(OPERATORS))
        message = f"{actor.name} may look at what a fabric remembers and not delete it: that is for {allowed}"
        raise Refused(message, code="forbidden", field="actor")
    seen = memory_find(actor, fabric, memory, key)
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        message = "deleting what a fabric remembers needs a reason: say why, it is kept in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    try:
        with transaction.atomic():
            fabric_id = _deleted(actor, fabric, memory, key, version, why)
            told = {"memory": memory, "key": key, "version": version, "run": seen.run_id, "reason": why}
            audit_record(actor=actor, act=Act.MEMORY_DELETED, subject=fabric_id, **told)
    except IntegrityError:
        raise _meanwhile(key) from None


def _deleted(actor: Actor, fabric: str, memory: str, key: str, version: int, reason: str) -> str:
    """The same as the stores' ``write``, in the transaction that this is called in; and the values of the key's entries are erased."""
    fabric_id, _, rows = memory_rows(actor, fabric, memory)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", [lock_name(fabric_id, memory)])
    if not rows.filter(key=key, version=version).exists():
        raise _meanwhile(key)
    held = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory, key=key)
    MemoryEntry.objects.create(
        call_key=f"person:{new_id()}",
        fabric_id=fabric_id,
        memory=memory,
        key=key,
        version=(held.aggregate(top=Max("version"))["top"] or 0) + 1,
        replaced=version,
        deleted=True,
        actor=actor.name,
        reason=reason,
        at=database_now(),
    )
    held.exclude(value="").update(value="")
    return fabric_id


def _meanwhile(key: str) -> Refused:
    return Refused(
        f"what stands under {key[:100]!r} changed meanwhile; look at it again", code="conflict", field="version"
    )


# -- what is erased ----------------------------------------------------------------------------------------------------


def values_erase(run_id: str) -> int:
    """Erases what an ended run wrote and what does not stand any more. How many values. What stands is the fabric's, and stays."""
    wrote = MemoryEntry.objects.filter(run_id=run_id).exclude(value="")
    return wrote.filter(~Q(undone_at=0) | Exists(_over())).update(value="")


def _over() -> QuerySet[MemoryEntry]:
    """Newer entries of the same key that no run takes back any more."""
    newer = MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"),
        memory=OuterRef("memory"),
        key=OuterRef("key"),
        version__gt=OuterRef("version"),
        undone_at=0,
    )
    return newer.filter(Q(run_id="") | Exists(Run.objects.filter(id=OuterRef("run_id"), state__in=ENDED)))


def values_held() -> bool:
    """Whether any fabric remembers anything."""
    return MemoryEntry.objects.exclude(value="").exists()


def values_expire(*, now: int | None = None) -> int:
    """Erases the values that are older than their memory's retention, which nobody reads any more. How many. ``now``: microseconds since the epoch."""
    at, done = database_now() if now is None else now, 0
    kept = MemoryEntry.objects.exclude(value="").values_list("fabric_id", flat=True).distinct()
    for fabric in Fabric.objects.filter(id__in=list(kept), published__isnull=False).values(
        revision=F("published_id"), fabric=F("id")
    ):
        for memory in revision_spec(fabric["revision"]).memories:
            if memory.retention_days is not None:
                rows = MemoryEntry.objects.filter(
                    fabric_id=fabric["fabric"], memory=memory.name, at__lt=since_of(memory, at)
                )
                done += rows.exclude(value="").update(value="")
    return done
