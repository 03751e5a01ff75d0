"""What fabrics remember, as people look at it: by memory its keys, each with its value, version and origin."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet

from fabric.core.actor import Actor
from fabric.core.memory import since_of
from fabric.core.spec_memories import OFFERED, MemorySpec, tool_name
from fabric.core.text import clean_text
from fabric.models import MemoryEntry
from fabric.selectors.contents import given_content, may_read, shown, unread
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabric_get, revision_spec

JSON = Any
KEYS_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """What stands under a key."""

    memory: str
    key: str
    version: int
    value: JSON
    """Credentials in it are masked until revealed. A reader without the right gets one sentence."""
    withheld: bool
    """Whether something of the value is masked."""
    unread: bool
    """The reader lacks the right to read it."""
    erased: bool
    """Its value was erased; that it was written stays."""
    run_id: str
    """Empty: a person wrote it."""
    stage: str
    agent: str
    actor: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """A memory with what stands in it."""

    memory: MemorySpec
    users: tuple[tuple[str, tuple[str, ...]], ...]
    """Which agents may do what: the verb, then their names."""
    count: int
    """Keys that hold a value; 0 of a run's memory, which is in the journals."""
    entries: tuple[Remembered, ...]
    """The first ones by key."""


def memories_of(actor: Actor, fabric: str) -> list[MemoryView]:
    """Every memory that the published revision declares. Refused not_found where no fabric is named so."""
    view = fabric_get(actor, fabric)
    spec, reads = revision_spec(view.revision_id), may_read(actor, view.name)
    found = []
    for memory in spec.memories:
        rows = standing(view.id, memory) if memory.scope == "fabric" else MemoryEntry.objects.none()
        users = tuple(
            (verb.value, tuple(agent.name for agent in spec.agents if tool_name(verb, memory.name) in agent.tools))
            for verb in OFFERED
        )
        entries = tuple(remembered(row, reads=reads) for row in rows.order_by("key")[:KEYS_SHOWN])
        found.append(MemoryView(memory=memory, users=users, count=rows.count(), entries=entries))
    return found


def memory_find(actor: Actor, fabric: str, memory: str, key: str) -> Remembered:
    """What stands under a key. Refused not_found, with what there is."""
    _, declared, rows = memory_rows(actor, fabric, memory)
    row = rows.filter(key=clean_text(key)[0]).first()
    if row is None:
        raise Refused(
            f"nothing stands under {key[:100]!r} in the memory {declared.name!r}; it may have been deleted, or undone with its run",
            code="not_found",
            field="key",
        )
    return remembered(row, reads=may_read(actor, fabric))


def memory_rows(actor: Actor, fabric: str, memory: str) -> tuple[str, MemorySpec, QuerySet[MemoryEntry]]:
    """The fabric's id, the memory as it is declared, and the rows that stand in it. Refused not_found."""
    view = fabric_get(actor, fabric)
    shared = [one for one in revision_spec(view.revision_id).memories if one.scope == "fabric"]
    declared = next((one for one in shared if one.name == memory), None)
    if declared is None:
        known = ", ".join(one.name for one in shared) or "none"
        raise Refused(
            f"fabric {view.name!r} has no memory {memory[:80]!r} that outlives its runs; it has: {known}",
            code="not_found",
            field="memory",
        )
    return view.id, declared, standing(view.id, declared)


def standing(fabric_id: str, memory: MemorySpec) -> QuerySet[MemoryEntry]:
    """The rows that stand: of each key the newest that was not taken back, where it is a value that is still read."""
    newer = MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"),
        memory=OuterRef("memory"),
        key=OuterRef("key"),
        version__gt=OuterRef("version"),
        undone_at=0,
    )
    rows = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory.name, undone_at=0, deleted=False)
    return rows.filter(~Exists(newer), at__gte=since_of(memory, database_now()))


def database_now() -> int:
    """Microseconds since the epoch on the clock that entries are written by: the database's; on SQLite that is this machine's."""
    if connection.vendor != "postgresql":
        return time.time_ns() // 1_000
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return int(cursor.fetchone()[0])


def remembered(row: MemoryEntry, *, reads: bool, revealed: bool = False) -> Remembered:
    """An entry as it is looked at. ``reads``: by who may read its value. ``revealed``: with what is withheld of it; ``services.reveals`` alone asks for it."""
    given = given_content(row.value.encode()) if row.value else None
    if row.value and not reads:
        given = unread(len(row.value.encode()))
    value = given if revealed else shown(given)
    return Remembered(
        memory=row.memory,
        key=row.key,
        version=row.version,
        value=value,
        withheld=value != given,
        unread=bool(row.value) and not reads,
        erased=not row.value and not row.deleted,
        run_id=row.run_id,
        stage=row.step_id.partition(".")[0],
        agent=row.agent,
        actor=row.actor,
        at=row.at,
    )
