"""The ledger of a fabric's memories as people look at it: what was ever written under a key and what became of it; and all of it as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery

from fabric.core.actor import Actor
from fabric.core.memory import since_of
from fabric.core.text import clean_text
from fabric.models import MemoryEntry
from fabric.selectors.contents import line_for, may_read
from fabric.selectors.errors import Refused
from fabric.selectors.fabrics import fabric_get, revision_spec
from fabric.selectors.memories import Remembered, database_now, memory_rows, remembered

JSON = Any
ENTRIES_SHOWN = 100
LINES = 200
"""Lines that are made at once."""


class Became(StrEnum):
    """What became of an entry."""

    STANDS = "stands"
    REPLACED = "replaced"
    """A newer one stands over it, or a deletion."""
    TAKEN_BACK = "taken_back"
    """The run that wrote it was undone."""
    EXPIRED = "expired"
    """It is older than its memory keeps values."""
    DELETION = "deletion"
    """It is the newest, and deletes what was before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(Remembered):
    """An entry of the ledger."""

    became: Became
    deleted: bool
    """Whether it is a deletion; then it has no value."""
    reason: str
    """A person's; empty: an agent wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was ever written under a key, the newest first."""

    standing: Remembered | None
    """What a run reads; None: nothing."""
    count: int
    entries: tuple[Written, ...]
    """The newest ``ENTRIES_SHOWN``."""


def memory_history(actor: Actor, fabric: str, memory: str, key: str, *, revealed: int = 0) -> History:
    """Everything that the ledger has of a key. ``revealed``: the version that is shown with what is withheld of it; ``services.reveals`` alone names one.

    Refused not_found where nothing was ever written there.
    """
    fabric_id, declared, standing = memory_rows(actor, fabric, memory)
    key = clean_text(key)[0]
    rows = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=declared.name, key=key, version__gt=0)
    since, reads = since_of(declared, database_now()), may_read(actor, fabric)
    entries = tuple(
        _written(row, since, reads=reads, revealed=row.version == revealed)
        for row in _with_newest(rows).order_by("-version")[:ENTRIES_SHOWN]
    )
    if not entries:
        message = f"nothing was ever written under {key[:100]!r} in the memory {declared.name!r}, as far as its ledger goes back"
        raise Refused(message, code="not_found", field="key")
    stands = standing.filter(key=key).first()
    seen = None if stands is None else remembered(stands, reads=reads, revealed=stands.version == revealed)
    return History(standing=seen, count=rows.count(), entries=entries)


def ledger_lines(actor: Actor, fabric: str, memory: str = "") -> tuple[int, Iterator[bytes]]:
    """How many entries a fabric's ledger has, and each as a line of JSON (``told``) by memory, key and version, some lines at once.

    ``memory``: that one's alone; empty: of all that its published revision declares. Refused not_found.
    """
    view = fabric_get(actor, fabric)
    specs = [one for one in revision_spec(view.revision_id).memories if one.scope == "fabric"]
    if memory:
        specs = [memory_rows(actor, fabric, memory)[1]]
    now = database_now()
    since = {one.name: since_of(one, now) for one in specs}
    rows = MemoryEntry.objects.filter(fabric_id=view.id, memory__in=list(since), version__gt=0)
    return rows.count(), _lines(
        _with_newest(rows).order_by("memory", "key", "version"), since, reads=may_read(actor, view.name)
    )


def _lines(rows: QuerySet[MemoryEntry], since: Mapping[str, int], *, reads: bool) -> Iterator[bytes]:
    lines: list[bytes] = []
    for row in rows.iterator(chunk_size=LINES):
        lines.append(
            json.dumps(told(_written(row, since[row.memory], reads=reads)), ensure_ascii=False).encode() + b"\n"
        )
        if len(lines) == LINES:
            yield b"".join(lines)
            lines.clear()
    yield b"".join(lines)


def told(one: Remembered) -> dict[str, JSON]:
    """An entry as a program reads it; ``at`` in microseconds since the epoch. A value that is withheld says so itself."""
    return {name: value for name, value in asdict(one).items() if name != "unread"}


def _with_newest(rows: QuerySet[MemoryEntry]) -> QuerySet[MemoryEntry]:
    """Each row with the newest version of its key that was not taken back."""
    of_key = MemoryEntry.objects.filter(
        fabric_id=OuterRef("fabric_id"), memory=OuterRef("memory"), key=OuterRef("key"), undone_at=0
    )
    return rows.annotate(newest=Subquery(of_key.order_by("-version").values("version")[:1]))


def _written(row: MemoryEntry, since: int, *, reads: bool, revealed: bool = False) -> Written:
    seen = remembered(row, reads=reads, revealed=revealed)
    return Written(
        **asdict(seen), became=_became(row, since), deleted=row.deleted, reason=line_for(row.reason, reads=reads)
    )


def _became(row: Any, since: int) -> Became:
    if row.undone_at:
        return Became.TAKEN_BACK
    if row.version != row.newest:
        return Became.REPLACED
    if row.deleted:
        return Became.DELETION
    return Became.STANDS if row.at >= since else Became.EXPIRED
