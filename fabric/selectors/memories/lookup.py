"""Reads memories of fabrics for people: the keys of each memory with their value, version and origin.

The ledger has all entries of a key with their fates. The whole ledger is also written as lines of JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from fabric.core.conversations.memory import find_since
from fabric.core.people.actor import Actor
from fabric.core.spec.memories import OFFERED, MemorySpec, tool_name
from fabric.core.texts.text import clean_text
from fabric.core.values.units import JSON
from fabric.models import MemoryEntry
from fabric.selectors.contents import given_content, line_for, mask_content, may_read, unread
from fabric.selectors.database_time import store_now
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics.lookup import fabric_get, revision_spec

KEYS_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentEntry:
    """Present entry of a key."""

    memory: str
    key: str
    version: int
    value: JSON
    """Value with masked credentials until revealed. A reader without the right gets one sentence."""
    withheld: bool
    """True if part of the value is masked."""
    unread: bool
    """The reader lacks the right to read it."""
    erased: bool
    """True if its value was erased; the record of its writing stays."""
    run_id: str
    """Empty: a person wrote it."""
    stage: str
    agent: str
    actor: str
    at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryView:
    """A memory with its present entries."""

    memory: MemorySpec
    users: tuple[tuple[str, tuple[str, ...]], ...]
    """Agents by verb: the verb, then the names of those that may use it."""
    count: int
    """Number of keys with a value; 0 for a run's memory, which is in the journals."""
    entries: tuple[PresentEntry, ...]
    """The first entries by key."""


def list_fabric_memories(actor: Actor, fabric: str) -> list[MemoryView]:
    """Return every memory that the published revision declares. Raises Refused not_found for an unknown fabric."""
    view = fabric_get(actor, fabric)
    spec, reads = revision_spec(view.revision_id), may_read(actor, view.name)
    found = []
    for memory in spec.memories:
        rows = present_rows(view.id, memory) if memory.scope == "fabric" else MemoryEntry.objects.none()
        users = tuple(
            (verb.value, tuple(agent.name for agent in spec.agents if tool_name(verb, memory.name) in agent.tools))
            for verb in OFFERED
        )
        entries = tuple(present_entry(row, reads=reads) for row in rows.order_by("key")[:KEYS_SHOWN])
        found.append(MemoryView(memory=memory, users=users, count=rows.count(), entries=entries))
    return found


def memory_find(actor: Actor, fabric: str, memory: str, key: str) -> PresentEntry:
    """Return the present entry of a key. Raises Refused not_found."""
    _, declared, rows = memory_rows(actor, fabric, memory)
    row = rows.filter(key=clean_text(key)[0]).first()
    if row is None:
        raise Refused(
            f"key {key[:100]!r} has no value in the memory {declared.name!r}; it may have been deleted, or undone with its run",
            code="not_found",
            field="key",
        )
    return present_entry(row, reads=may_read(actor, fabric))


def memory_rows(actor: Actor, fabric: str, memory: str) -> tuple[str, MemorySpec, QuerySet[MemoryEntry]]:
    """Return the fabric's id, the declared memory, and its present rows. Raises Refused not_found."""
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
    return view.id, declared, present_rows(view.id, declared)


def present_rows(fabric_id: str, memory: MemorySpec) -> QuerySet[MemoryEntry]:
    """Return the present row of each key: the newest that was not taken back. It has a value, within its retention."""
    newer = MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"),
        memory=OuterRef("memory"),
        key=OuterRef("key"),
        version__gt=OuterRef("version"),
        undone_at=0,
    )
    rows = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory.name, undone_at=0, deleted=False)
    return rows.filter(~Exists(newer), at__gte=find_since(memory, store_now()))


def present_entry(row: MemoryEntry, *, reads: bool, revealed: bool = False) -> PresentEntry:
    """Return an entry for a reader. ``reads``: True for the right to its value. ``revealed``: unmasked; only
    ``services.reviews.reveals`` sets it.
    """
    given = given_content(row.value.encode()) if row.value else None
    if row.value and not reads:
        given = unread(len(row.value.encode()))
    value = given if revealed else mask_content(given)
    return PresentEntry(
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


ENTRIES_SHOWN = 100
LINES = 200
"""Lines that are made at once."""


class EntryFate(StrEnum):
    """Fate of an entry."""

    STANDS = "stands"
    REPLACED = "replaced"
    """A newer entry, or a deletion, replaced it."""
    TAKEN_BACK = "taken_back"
    """The run that wrote it was undone."""
    EXPIRED = "expired"
    """It is beyond its memory's retention."""
    DELETION = "deletion"
    """It is the newest, and deletes the value before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(PresentEntry):
    """An entry of the ledger."""

    became: EntryFate
    deleted: bool
    """True for a deletion, which has no value."""
    reason: str
    """A person's reason; empty: an agent wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyHistory:
    """Everything ever written under a key, the newest first."""

    standing: PresentEntry | None
    """Value that runs read; None: there is none."""
    count: int
    entries: tuple[LedgerEntry, ...]
    """The newest ``ENTRIES_SHOWN`` entries."""


def memory_history(actor: Actor, fabric: str, memory: str, key: str, *, revealed: int = 0) -> KeyHistory:
    """Return the ledger's entries of a key. ``revealed``: the version to show unmasked; only
    ``services.reviews.reveals`` sets it.

    Raises Refused not_found for a key that was never written.
    """
    fabric_id, declared, standing = memory_rows(actor, fabric, memory)
    key = clean_text(key)[0]
    rows = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=declared.name, key=key, version__gt=0)
    since, reads = find_since(declared, store_now()), may_read(actor, fabric)
    entries = tuple(
        _written_entry(row, since, reads=reads, revealed=row.version == revealed)
        for row in _add_newest(rows).order_by("-version")[:ENTRIES_SHOWN]
    )
    if not entries:
        message = f"nothing was ever written under {key[:100]!r} in the memory {declared.name!r}, as far as its ledger goes back"
        raise Refused(message, code="not_found", field="key")
    stands = standing.filter(key=key).first()
    seen = None if stands is None else present_entry(stands, reads=reads, revealed=stands.version == revealed)
    return KeyHistory(standing=seen, count=rows.count(), entries=entries)


def ledger_lines(actor: Actor, fabric: str, memory: str = "") -> tuple[int, Iterator[bytes]]:
    """Return the number of entries in a fabric's ledger, and each entry as a line of JSON (``entry_json``), in chunks.

    They are ordered by memory, key and version. ``memory``: this one alone; empty: all that its published revision
    declares. Raises Refused not_found.
    """
    view = fabric_get(actor, fabric)
    specs = [one for one in revision_spec(view.revision_id).memories if one.scope == "fabric"]
    if memory:
        specs = [memory_rows(actor, fabric, memory)[1]]
    now = store_now()
    since = {one.name: find_since(one, now) for one in specs}
    rows = MemoryEntry.objects.filter(fabric_id=view.id, memory__in=list(since), version__gt=0)
    return rows.count(), _lines(
        _add_newest(rows).order_by("memory", "key", "version"), since, reads=may_read(actor, view.name)
    )


def _lines(rows: QuerySet[MemoryEntry], since: Mapping[str, int], *, reads: bool) -> Iterator[bytes]:
    lines: list[bytes] = []
    for row in rows.iterator(chunk_size=LINES):
        lines.append(
            json.dumps(entry_json(_written_entry(row, since[row.memory], reads=reads)), ensure_ascii=False).encode()
            + b"\n"
        )
        if len(lines) == LINES:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines)


def entry_json(one: PresentEntry) -> dict[str, JSON]:
    """Return an entry as a program reads it; ``at`` in microseconds since the epoch. A masked value says so itself."""
    return {name: value for name, value in asdict(one).items() if name != "unread"}


def _add_newest(rows: QuerySet[MemoryEntry]) -> QuerySet[MemoryEntry]:
    """Add to each row the newest version of its key that was not taken back."""
    of_key = MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"), memory=OuterRef("memory"), key=OuterRef("key"), undone_at=0
    )
    return rows.annotate(newest=Subquery(of_key.order_by("-version").values("version")[:1]))


def _written_entry(row: MemoryEntry, since: int, *, reads: bool, revealed: bool = False) -> LedgerEntry:
    seen = present_entry(row, reads=reads, revealed=revealed)
    return LedgerEntry(
        **asdict(seen), became=_became(row, since), deleted=row.deleted, reason=line_for(row.reason, reads=reads)
    )


def _became(row: Any, since: int) -> EntryFate:
    if row.undone_at:
        return EntryFate.TAKEN_BACK
    if row.version != row.newest:
        return EntryFate.REPLACED
    if row.deleted:
        return EntryFate.DELETION
    return EntryFate.STANDS if row.at >= since else EntryFate.EXPIRED
