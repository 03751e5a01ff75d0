"""What is erased of what fabrics remember, and which entries of its ledger go after that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from fabric.core.audit import Act
from fabric.core.memory import DAY_US, since_of
from fabric.models import Fabric, MemoryEntry, Run
from fabric.models.runs import ENDED
from fabric.selectors.fabrics import revision_spec
from fabric.selectors.holds import fabric_ids_held
from fabric.selectors.memories import database_now
from fabric.services.audit import audit_record
from fabric.services.workspaces import system_actor

KEPT_DAYS = 30
"""An entry stays in the ledger at least so many days after its writing, and after the end of its run's family.
No call may take as long (a day at most), so none can come and find its key free again."""
PRUNED_AT_ONCE = 500


def values_erase(run_id: str) -> int:
    """Erases what an ended run wrote and what does not stand any more. How many values. What stands is the fabric's, and stays."""
    wrote = MemoryEntry.objects.filter(run_id=run_id).exclude(value="")
    return wrote.filter(~Q(undone_at=0) | Exists(_over())).update(value="")


def _over() -> QuerySet[MemoryEntry]:
    """Newer entries of the same key that no run takes back any more."""
    over = Q(run_id="") | Exists(Run.objects.filter(id=OuterRef("run_id"), state__in=ENDED))
    return _of_key().filter(over, version__gt=OuterRef("version"), undone_at=0)


def _of_key() -> QuerySet[MemoryEntry]:
    return MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"), memory=OuterRef("memory"), key=OuterRef("key"), version__gt=0
    )


def values_held() -> bool:
    """Whether any fabric remembers anything, or did."""
    return MemoryEntry.objects.exists()


def memories_tidy(*, now: int | None = None) -> int:
    """The daily duty: what is older than its memory keeps is erased, and the entries that nothing needs any more go. How many of both."""
    return values_expire(now=now) + sum(entries_prune(now=now).values())


def values_expire(*, now: int | None = None, dry_run: bool = False) -> int:
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
                ).exclude(Q(value="") | fabric_ids_held())
                done += rows.count() if dry_run else rows.update(value="")
    return done


# -- entries that go ---------------------------------------------------------------------------------------------------


def entries_prune(*, now: int | None = None, dry_run: bool = False) -> Mapping[str, int]:
    """Takes the entries out of the ledger whose values were erased and that nothing needs any more. How many, by fabric id; told in the audit stream.

    The newest entry of a key is needed, since its version is never given twice. So is the newest that was not taken back: it says what stands.
    An entry is needed while a run could still undo it or one over it, or while its call could come again. A deletion is needed while a value is kept under it.
    A call that was undone before it came has nothing else than its key: it stays for ``KEPT_DAYS``.
    """
    until = (database_now() if now is None else now) - KEPT_DAYS * DAY_US
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
            _told(Counter((fabric_id, memory) for _, fabric_id, memory in rows))


def _told(pruned: Mapping[tuple[str, str], int]) -> None:
    where = dict(Fabric.objects.filter(id__in={fabric for fabric, _ in pruned}).values_list("id", "workspace_id"))
    for (fabric_id, memory), entries in sorted(pruned.items()):
        actor = system_actor(where[fabric_id])
        audit_record(actor=actor, act=Act.MEMORY_PRUNED, subject=fabric_id, memory=memory, entries=entries)


def _prunable(until: int) -> QuerySet[MemoryEntry]:
    """Entries that were written before an instant, have no value, and are not needed (``entries_prune``)."""
    newer = _of_key().filter(version__gt=OuterRef("version"))
    # A parent undoes what its child wrote after the child's own end, so the whole family has to be over.
    open_yet = ~Q(state__in=ENDED) | Q(ended_at__gte=until)
    root = Run.objects.filter(open_yet, id=OuterRef("root_run_id"))
    live = Exists(Run.objects.filter(open_yet | Exists(root), id=OuterRef("run_id")))
    undoable = Exists(newer.filter(live, undone_at=0))
    held = Exists(_of_key().filter(version__lt=OuterRef("version")).exclude(value=""))
    covered = Exists(newer) & (~Q(undone_at=0) | Exists(newer.filter(undone_at=0)))
    rows = MemoryEntry.objects.filter(value="", at__lt=until, undone_at__lt=until).exclude(fabric_ids_held())
    return rows.filter(Q(version=0) | (covered & ~live & ~undoable & (Q(deleted=False) | ~held)))
