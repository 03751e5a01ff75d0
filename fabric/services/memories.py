"""What people do to a fabric's memories: write, delete and export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from fabric.adapters.evaluators import compile_schema
from fabric.adapters.memories import lock_name, stored
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.memory import Change, Found, judged, said
from fabric.core.memory import Refused as Why
from fabric.core.roles import Right, holders
from fabric.core.spec_memories import MemorySpec, Verb, parameters
from fabric.core.text import clean, clean_text
from fabric.models import MemoryEntry, new_id
from fabric.selectors.contents import holds_mark
from fabric.selectors.errors import Code
from fabric.selectors.fabrics import fabric_get
from fabric.selectors.memories import database_now, memory_find, memory_rows
from fabric.selectors.memory_history import ledger_lines
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.holds import unheld_wanted
from fabric.services.rights import right_wanted
from fabric.services.runs import REASON_CHARS_MAX

JSON = Any
TOLD_AS: Mapping[Why, Code] = {
    Why.CONFLICT: "conflict",
    Why.FULL: "conflict",
    Why.TOO_LARGE: "too_large",
    Why.NOT_THERE: "not_found",
    Why.TOO_LATE: "conflict",
    Why.TAKEN_BACK: "conflict",
}
"""What a refusal of the rules is to a person; total by test."""


def may_change(actor: Actor) -> bool:
    """Whether somebody may change what a fabric remembers: every run of it reads that."""
    return actor.may(Right.OPERATE)


def memory_write(*, actor: Actor, fabric: str, memory: str, key: str, value: JSON, version: int, reason: str) -> int:
    """Writes a value under a key; the version that it has. ``version``: as it was seen, 0 where nothing stood. No run takes it back.

    Raises Refused: forbidden, not_found, invalid (no reason; a key or a value that does not fit), too_large, conflict (another version
    stands there by now, or as many keys as may hold a value already).
    """
    why = _allowed(actor, "write", reason)
    declared = memory_rows(actor, fabric, memory)[1]
    try:
        kept = clean(value)[0]
    except ValueError as error:
        raise Refused(f"the value cannot be kept: {error}", code="invalid", field="value") from None
    if holds_mark(kept):
        message = f"the value holds a mark in place of a credential; write the value itself, or have it revealed ({holders(Right.REVEAL)})"
        raise Refused(message, code="invalid", field="value")
    _fits(declared, key, kept)
    with _meanwhile(key), transaction.atomic():
        fabric_id, entry = _changed(actor, fabric, memory, Change(key=key, value=kept, expected=version), why)
        details = {"memory": memory, "key": key, "version": entry.version, "replaces": version, "reason": why}
        audit_record(actor=actor, act=Act.MEMORY_WRITTEN, subject=fabric_id, **details)
    return entry.version


def memory_delete(*, actor: Actor, fabric: str, memory: str, key: str, version: int, reason: str) -> None:
    """Deletes what stands under a key, value and all. ``version``: as it was seen. No run takes that back.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (another version stands there by now).
    """
    why = _allowed(actor, "delete", reason)
    unheld_wanted(actor, fabric, "deleted")
    seen = memory_find(actor, fabric, memory, key)
    key = seen.key
    with _meanwhile(key), transaction.atomic():
        change = Change(key=key, delete=True, expected=version)
        fabric_id, _ = _changed(actor, fabric, memory, change, why)
        MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory, key=key).exclude(value="").update(value="")
        details = {"memory": memory, "key": key, "version": version, "run": seen.run_id, "reason": why}
        audit_record(actor=actor, act=Act.MEMORY_DELETED, subject=fabric_id, **details)


def memory_export(*, actor: Actor, fabric: str, memory: str = "") -> Iterator[bytes]:
    """The ledger of a fabric's memories as lines of JSON, of one or of all; it is told in the audit stream. Refused not_found."""
    entries, lines = ledger_lines(actor, fabric, memory)
    subject = fabric_get(actor, fabric).id
    audit_record(actor=actor, act=Act.MEMORY_EXPORTED, subject=subject, memory=memory, entries=entries)
    return lines


def _allowed(actor: Actor, verb: str, reason: str) -> str:
    """The reason as it is kept. Refused: forbidden, invalid."""
    right_wanted(actor, Right.OPERATE, f"{verb} what a fabric remembers")
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        doing = {"write": "writing", "delete": "deleting"}[verb]
        message = f"{doing} what a fabric remembers needs a reason: say why, it is kept in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    return why


def _fits(declared: MemorySpec, key: str, value: JSON) -> None:
    """Holds a key and a value to what an agent's are held to. Refused invalid."""
    problems = compile_schema(parameters(Verb.WRITE, declared))({"key": key, "value": value})
    if problems:
        field = "key" if "key" in problems[0].partition(":")[0] else "value"
        raise Refused(
            f"the memory {declared.name!r} takes no such entry: {problems[0]}",
            code="invalid",
            field=field,
            problems=tuple(f"the memory {declared.name!r} takes no such entry: {one}" for one in problems),
        )


def _changed(actor: Actor, fabric: str, memory: str, change: Change, reason: str) -> tuple[str, MemoryEntry]:
    """The same as the stores' ``write``, in the transaction that this is called in: the fabric's id and the entry. Refused."""
    fabric_id, declared, rows = memory_rows(actor, fabric, memory)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", [lock_name(fabric_id, memory)])
    held = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory, key=change.key)
    found = Found(
        top=held.aggregate(top=Max("version"))["top"] or 0,
        standing=rows.filter(key=change.key).values_list("version", flat=True).first() or 0,
        keys=rows.count(),
    )
    refused = judged(change, found, declared)
    if refused is Why.CONFLICT:
        raise _changed_since(change.key)
    if refused is not None:
        raise Refused(said(refused, change, found, declared), code=TOLD_AS[refused], field="key")
    entry = MemoryEntry.objects.create(
        call_key=f"person:{new_id()}",
        fabric_id=fabric_id,
        memory=memory,
        key=change.key,
        version=found.top + 1,
        replaced=found.standing,
        value="" if change.delete else stored(change.value),
        deleted=change.delete,
        actor=actor.name,
        reason=reason,
        at=database_now(),
    )
    return fabric_id, entry


@contextmanager
def _meanwhile(key: str) -> Iterator[None]:
    """Somebody else's version that came between reading and writing is told like one that was there before."""
    try:
        yield
    except IntegrityError:
        raise _changed_since(key) from None


def _changed_since(key: str) -> Refused:
    return Refused(
        f"what stands under {key[:100]!r} changed meanwhile; look at it again", code="conflict", field="version"
    )
