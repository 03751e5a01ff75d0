"""Retention of memories: erases old values, and later removes their entries from the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from fabric.core.audit.lines import Act
from fabric.core.conversations.memory import DAY_US, find_since
from fabric.models import Fabric, MemoryEntry, Run
from fabric.models.runs.run import ENDED
from fabric.selectors.audit.holds import fabric_ids_held
from fabric.selectors.database_time import store_now
from fabric.selectors.fabrics.lookup import revision_spec
from fabric.services.actors import system_actor
from fabric.services.acts import audit_record

KEPT_DAYS = 30
"""Least number of days of an entry in the ledger, after its writing and after its run's family's end.

No call may take as long (a day at most), so none can come again and find its key free.
"""
PRUNED_AT_ONCE = 500


def values_erase(run_id: str) -> int:
    """Erase replaced values of an ended run, and return their number. Present values are the fabric's, and stay."""
    wrote = MemoryEntry.objects.filter(run_id=run_id).exclude(value="")
    return wrote.filter(~Q(undone_at=0) | Exists(_query_superseding())).update(value="")


def _query_superseding() -> QuerySet[MemoryEntry]:
    """Return newer entries of the key that no run can take back any more."""
    over = Q(run_id="") | Exists(Run.objects.filter(id=OuterRef("run_id"), state__in=ENDED))
    return _query_key().filter(over, version__gt=OuterRef("version"), undone_at=0)


def _query_key() -> QuerySet[MemoryEntry]:
    return MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"), memory=OuterRef("memory"), key=OuterRef("key"), version__gt=0
    )


def values_held() -> bool:
    """Return True if any fabric has or had a memory."""
    return MemoryEntry.objects.exists()


def memories_tidy(*, now: int | None = None) -> int:
    """Do the daily duty: erase values beyond their memory's retention, and remove unneeded entries. Returns both
    numbers.
    """
    return values_expire(now=now) + sum(entries_prune(now=now).values())


def values_expire(*, now: int | None = None, dry_run: bool = False) -> int:
    """Erase values older than their memory's retention, and return their number. ``now``: microseconds since the
    epoch.
    """
    at, done = store_now() if now is None else now, 0
    kept = MemoryEntry.objects.exclude(value="").values_list("fabric_id", flat=True).distinct()
    for fabric in Fabric.objects.filter(id__in=list(kept), published__isnull=False).values(
        revision=F("published_id"), fabric=F("id")
    ):
        for memory in revision_spec(fabric["revision"]).memories:
            if memory.retention_days is not None:
                rows = MemoryEntry.objects.filter(
                    fabric_id=fabric["fabric"], memory=memory.name, at__lt=find_since(memory, at)
                ).exclude(Q(value="") | fabric_ids_held())
                done += rows.count() if dry_run else rows.update(value="")
    return done


# -- entries that go ---------------------------------------------------------------------------------------------------


def entries_prune(*, now: int | None = None, dry_run: bool = False) -> Mapping[str, int]:
    """Remove unneeded entries with erased values from the ledger, and return their number by fabric id. The audit
    stream records it.

    An entry is needed in these cases:
    1. It is the newest of its key, since its version is never given twice.
    2. It is the newest that was not taken back: it has the present value.
    3. A run could still undo it or one over it, or its call could come again.
    4. It is a deletion, and a value is stored under it.

    A call that was undone before it came has nothing but its key: it stays for ``KEPT_DAYS``.
    """
    until = (store_now() if now is None else now) - KEPT_DAYS * DAY_US
    done: Counter[str] = Counter()
    while True:
        with transaction.atomic():
            rows = list(
                _prunable(until).values_list("call_key", "fabric_id", "memory")[: None if dry_run else PRUNED_AT_ONCE]
            )
            done.update(fabric_id for _, fabric_id, _ in rows)
            if dry_run or not rows:
                return done
            MemoryEntry.objects.filter(call_key__in=[call for call, _, _ in rows]).delete()
            _record_pruning(Counter((fabric_id, memory) for _, fabric_id, memory in rows))


def _record_pruning(pruned: Mapping[tuple[str, str], int]) -> None:
    where = dict(Fabric.objects.filter(id__in={fabric for fabric, _ in pruned}).values_list("id", "workspace_id"))
    for (fabric_id, memory), entries in sorted(pruned.items()):
        actor = system_actor(where[fabric_id])
        audit_record(actor=actor, act=Act.MEMORY_PRUNED, subject=fabric_id, memory=memory, entries=entries)


def _prunable(until: int) -> QuerySet[MemoryEntry]:
    """Return entries that were written before an instant, have no value, and are not needed (``entries_prune``)."""
    newer = _query_key().filter(version__gt=OuterRef("version"))
    # A parent undoes what its child wrote after the child's own end, so the whole family has to be over.
    open_yet = ~Q(state__in=ENDED) | Q(ended_at__gte=until)
    root = Run.objects.filter(open_yet, id=OuterRef("root_run_id"))
    live = Exists(Run.objects.filter(open_yet | Exists(root), id=OuterRef("run_id")))
    undoable = Exists(newer.filter(live, undone_at=0))
    held = Exists(_query_key().filter(version__lt=OuterRef("version")).exclude(value=""))
    covered = Exists(newer) & (~Q(undone_at=0) | Exists(newer.filter(undone_at=0)))
    rows = MemoryEntry.objects.filter(value="", at__lt=until, undone_at__lt=until).exclude(fabric_ids_held())
    return rows.filter(Q(version=0) | (covered & ~live & ~undoable & (Q(deleted=False) | ~held)))
