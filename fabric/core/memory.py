"""The rules of a memory: which write stands, which is refused and why, what is told of it. Pure; every store goes by them.

A memory is a ledger: each write and each deletion is an entry with a version of its key, and what stands under a key is the newest entry that was not
taken back. Taking one back restores what stood before with its version, whoever wrote it; a version is never given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from fabric.core.fingerprint import encode
from fabric.core.frozen import value
from fabric.core.spec_memories import MemorySpec

JSON = Any
DAY_US = 86_400_000_000


class Refused(StrEnum):
    """Why nothing was written."""

    CONFLICT = "conflict"
    """Another version stands there than the one that was named."""
    FULL = "full"
    TOO_LARGE = "too_large"
    NOT_THERE = "not_there"
    """A deletion where nothing stands."""
    TOO_LATE = "too_late"
    """Its call's deadline has passed: whoever waited for it has gone on."""
    TAKEN_BACK = "taken_back"
    """What undoes it came first."""


SAID: Mapping[Refused, str] = {
    Refused.CONFLICT: "conflict: version {standing} of {key!r} stands there, not {expected}; read it and decide again",
    Refused.FULL: "full: {keys} keys hold a value, which is as many as may; delete one, or write to one of them",
    Refused.TOO_LARGE: "too_large: the value has {size:,} bytes, and at most {value_bytes:,} are kept; write less",
    Refused.NOT_THERE: "not_there: nothing stands under {key!r}",
    Refused.TOO_LATE: "too_late: the deadline of this call had passed, and nothing was written",
    Refused.TAKEN_BACK: "taken_back: this call was undone before it came, and nothing was written",
}
"""What a model is told; total by test."""


@value(kw_only=True)
class Origin:
    """Who wrote an entry, and when: an agent's step of a run, or a person."""

    run_id: str = ""
    step_id: str = ""
    agent: str = ""
    actor: str = ""
    """The person who wrote it; empty: an agent did."""
    reason: str = ""
    at: int = 0

    def as_json(self) -> JSON:
        """As it is told with what is read."""
        when = datetime.fromtimestamp(self.at // 1_000_000, UTC).isoformat()
        if self.actor:
            return {"person": self.actor, "at": when}
        return {"run": self.run_id, "stage": self.step_id.partition(".")[0], "agent": self.agent, "at": when}


def origin_of(told: Mapping[str, str], step_id: str) -> Origin:
    """An agent's origin as it was told (``Origin.as_json``), of the step that it names."""
    at = round(datetime.fromisoformat(told["at"]).timestamp()) * 1_000_000
    return Origin(run_id=told["run"], step_id=step_id, agent=told["agent"], at=at)


@value(kw_only=True)
class Entry:
    """One write, or one deletion."""

    key: str
    version: int
    value: JSON = None
    deleted: bool = False
    origin: Origin
    call_key: str = ""
    """The idempotency key of the call that wrote it."""
    undone_at: int = 0
    """When it was taken back; 0: it was not."""


@value(kw_only=True)
class Found:
    """What a store found that a write is judged by."""

    top: int = 0
    """The highest version that the key ever had, taken back or not."""
    standing: int = 0
    """The version that stands; 0: none does."""
    keys: int = 0
    """Keys under which something stands."""


@value(kw_only=True)
class Change:
    """A write, or a deletion, as it is asked for."""

    key: str
    value: JSON = None
    delete: bool = False
    expected: int | None = None
    """The version that must stand there; None: whatever does."""

    @property
    def size(self) -> int:
        """Bytes of the value as JSON."""
        return 0 if self.delete else len(encode(self.value))


def change_of(args: Mapping[str, JSON], *, delete: bool) -> Change:
    """What the arguments of a call ask for."""
    return Change(key=args["key"], value=args.get("value"), delete=delete, expected=args.get("version"))


def judged(change: Change, found: Found, memory: MemorySpec) -> Refused | None:
    """Why a change is refused; None: it gets the version after ``found.top``."""
    if change.size > memory.value_bytes:
        return Refused.TOO_LARGE
    if change.expected is not None and change.expected != found.standing:
        return Refused.CONFLICT
    if change.delete:
        return None if found.standing else Refused.NOT_THERE
    return Refused.FULL if not found.standing and found.keys >= memory.keys else None


def said(refused: Refused, change: Change, found: Found, memory: MemorySpec) -> str:
    """The refusal as a sentence."""
    return SAID[refused].format(
        standing=found.standing,
        key=change.key,
        expected=change.expected,
        keys=memory.keys,
        size=change.size,
        value_bytes=memory.value_bytes,
    )


# -- what stands -------------------------------------------------------------------------------------------------------


def standing(entries: Iterable[Entry], *, since: int = 0) -> dict[str, Entry]:
    """By key, what stands: of the entries that were not taken back the newest, where it is a value and no older than ``since``."""
    newest: dict[str, Entry] = {}
    for one in entries:
        if not one.undone_at and (one.key not in newest or newest[one.key].version < one.version):
            newest[one.key] = one
    return {key: one for key, one in sorted(newest.items()) if not one.deleted and one.origin.at >= since}


def found_in(entries: Iterable[Entry], key: str, *, since: int = 0) -> Found:
    """What a write under ``key`` is judged by."""
    held = tuple(entries)
    stands = standing(held, since=since)
    top = max((one.version for one in held if one.key == key), default=0)
    return Found(top=top, standing=stands[key].version if key in stands else 0, keys=len(stands))


def since_of(memory: MemorySpec, now: int) -> int:
    """The instant before which what was written is no longer read."""
    return 0 if memory.retention_days is None else now - memory.retention_days * DAY_US


# -- what is told ------------------------------------------------------------------------------------------------------


def told_write(memory: MemorySpec, entry: Entry, replaces: int) -> JSON:
    """The result of a write or a deletion. ``replaces``: the version that stood there; 0: none did."""
    did = "deleted" if entry.deleted else "written"
    told = {"memory": memory.name, "key": entry.key, did: True, "version": entry.version, "replaces": replaces}
    return {**told, "origin": entry.origin.as_json()}


def told_read(memory: MemorySpec, key: str, entry: Entry | None) -> JSON:
    """The result of reading a key: data, with its version and where it comes from."""
    if entry is None:
        return {"memory": memory.name, "key": key, "found": False}
    told = {"memory": memory.name, "key": key, "found": True, "version": entry.version}
    return {**told, "origin": entry.origin.as_json(), "data": entry.value}


def told_keys(memory: MemorySpec, entries: Iterable[Entry], *, more: bool) -> JSON:
    """The result of reading without a key: what there is, without the values."""
    keys = [{"key": one.key, "version": one.version, "origin": one.origin.as_json()} for one in entries]
    return {"memory": memory.name, "keys": keys, "more": more}
