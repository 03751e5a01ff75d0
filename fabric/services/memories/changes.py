"""Changes of a fabric's memories by people: writing, deleting and exporting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from fabric.core.audit.lines import Act
from fabric.core.conversations.memory import Change, WriteFacts, judge_change, refusal_sentence
from fabric.core.conversations.memory import WriteRefusal as Why
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, holders
from fabric.core.spec.memories import MemorySpec, Verb, parameters
from fabric.core.texts.text import clean, clean_text
from fabric.core.values.units import JSON
from fabric.models import MemoryEntry, new_id
from fabric.policies.schemas.evaluators import compile_schema
from fabric.selectors.contents import holds_mark
from fabric.selectors.database_time import store_now
from fabric.selectors.errors import Code
from fabric.selectors.fabrics.lookup import fabric_get
from fabric.selectors.memories.lookup import ledger_lines, memory_find, memory_rows
from fabric.services.acts import audit_record
from fabric.services.audit.holds import unheld_wanted
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted
from fabric.services.runs.start import REASON_CHARS_MAX
from fabric.stores.memories import lock_name, stored_value

TOLD_AS: Mapping[Why, Code] = {
    Why.CONFLICT: "conflict",
    Why.FULL: "conflict",
    Why.TOO_LARGE: "too_large",
    Why.NOT_THERE: "not_found",
    Why.TOO_LATE: "conflict",
    Why.TAKEN_BACK: "conflict",
}
"""Error code for each refusal of the rules; a test shows that it is total."""


def may_change(actor: Actor) -> bool:
    """Return True if the actor may change a fabric's memories, which every run of it reads."""
    return actor.may(Right.OPERATE)


def memory_write(*, actor: Actor, fabric: str, memory: str, key: str, value: JSON, version: int, reason: str) -> int:
    """Write a value under a key, and return its version. ``version``: the one that the actor saw, 0 for an empty
    key. No run takes it back.

    Raises Refused: forbidden, not_found, invalid (no reason; a key or a value that does not fit), too_large, conflict
    (another version is there by now, or the memory has its largest number of keys).
    """
    why = _check_allowed(actor, "write", reason)
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
        fabric_id, entry = _change_entry(actor, fabric, memory, Change(key=key, value=kept, expected=version), why)
        details = {"memory": memory, "key": key, "version": entry.version, "replaces": version, "reason": why}
        audit_record(actor=actor, act=Act.MEMORY_WRITTEN, subject=fabric_id, **details)
    return entry.version


def memory_delete(*, actor: Actor, fabric: str, memory: str, key: str, version: int, reason: str) -> None:
    """Delete the entry of a key with its value. ``version``: the one that the actor saw. No run takes that back.

    Raises Refused: forbidden, not_found, invalid (no reason), conflict (another version is there by now).
    """
    why = _check_allowed(actor, "delete", reason)
    unheld_wanted(actor, fabric, "deleted")
    seen = memory_find(actor, fabric, memory, key)
    key = seen.key
    with _meanwhile(key), transaction.atomic():
        change = Change(key=key, delete=True, expected=version)
        fabric_id, _ = _change_entry(actor, fabric, memory, change, why)
        MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory, key=key).exclude(value="").update(value="")
        details = {"memory": memory, "key": key, "version": version, "run": seen.run_id, "reason": why}
        audit_record(actor=actor, act=Act.MEMORY_DELETED, subject=fabric_id, **details)


def memory_export(*, actor: Actor, fabric: str, memory: str = "") -> Iterator[bytes]:
    """Return the ledger of a fabric's memories as lines of JSON, of one or of all. The audit stream records it.

    Raises Refused not_found.
    """
    entries, lines = ledger_lines(actor, fabric, memory)
    subject = fabric_get(actor, fabric).id
    audit_record(actor=actor, act=Act.MEMORY_EXPORTED, subject=subject, memory=memory, entries=entries)
    return lines


def _check_allowed(actor: Actor, verb: str, reason: str) -> str:
    """Return the reason as it is stored. Raises Refused: forbidden, invalid."""
    right_wanted(actor, Right.OPERATE, f"{verb} what a fabric remembers")
    why = clean_text(reason)[0].strip()[:REASON_CHARS_MAX]
    if not why:
        doing = {"write": "writing", "delete": "deleting"}[verb]
        message = f"{doing} what a fabric remembers needs a reason: say why, it is kept in the audit stream"
        raise Refused(message, code="invalid", field="reason")
    return why


def _fits(declared: MemorySpec, key: str, value: JSON) -> None:
    """Raise Refused invalid for a key or a value that breaks the rules for agents."""
    problems = compile_schema(parameters(Verb.WRITE, declared))({"key": key, "value": value})
    if problems:
        field = "key" if "key" in problems[0].partition(":")[0] else "value"
        raise Refused(
            f"the memory {declared.name!r} takes no such entry: {problems[0]}",
            code="invalid",
            field=field,
            problems=tuple(f"the memory {declared.name!r} takes no such entry: {one}" for one in problems),
        )


def _change_entry(actor: Actor, fabric: str, memory: str, change: Change, reason: str) -> tuple[str, MemoryEntry]:
    """Write a change as the stores' ``write`` does, in the caller's transaction; return the fabric's id and the
    entry. Raises Refused.
    """
    fabric_id, declared, rows = memory_rows(actor, fabric, memory)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 7))", [lock_name(fabric_id, memory)])
    held = MemoryEntry.objects.filter(fabric_id=fabric_id, memory=memory, key=change.key)
    found = WriteFacts(
        top=held.aggregate(top=Max("version"))["top"] or 0,
        standing=rows.filter(key=change.key).values_list("version", flat=True).first() or 0,
        keys=rows.count(),
    )
    refused = judge_change(change, found, declared)
    if refused is Why.CONFLICT:
        raise _changed_since(change.key)
    if refused is not None:
        raise Refused(refusal_sentence(refused, change, found, declared), code=TOLD_AS[refused], field="key")
    entry = MemoryEntry.objects.create(
        call_key=f"person:{new_id()}",
        fabric_id=fabric_id,
        memory=memory,
        key=change.key,
        version=found.top + 1,
        replaced=found.standing,
        value="" if change.delete else stored_value(change.value),
        deleted=change.delete,
        actor=actor.name,
        reason=reason,
        at=store_now(),
    )
    return fabric_id, entry


@contextmanager
def _meanwhile(key: str) -> Iterator[None]:
    """Report a version that another user wrote between reading and writing like an earlier one."""
    try:
        yield
    except IntegrityError:
        raise _changed_since(key) from None


def _changed_since(key: str) -> Refused:
    return Refused(f"the value of {key[:100]!r} changed meanwhile; look at it again", code="conflict", field="version")
