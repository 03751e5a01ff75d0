"""The ledger of memories in SQL: the same statements on every database, each call in one transaction that has the memory to itself.

An entry is written once and changed once at most, when it is taken back; that a call was undone before it came is an entry without a version, so that it finds its
key taken. What a write is judged by is read in the transaction that writes, so that no two get one version, and no cap is passed by two at once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import memory as rules
from fabric.core.memory import Entry, Found, Origin, Refused
from fabric.core.spec_memories import MemorySpec
from fabric.runtime.memory_port import Write, Wrote

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a statement with its values in the order of its question marks."""
COLUMNS = "key, version, value, deleted, run_id, step_id, agent, actor, reason, at, call_key, undone_at, replaced"
"""What is read of an entry."""
_BY_CALL = f"SELECT {COLUMNS} FROM fabric_memory_entry WHERE call_key = ?"  # noqa: S608 - constants, here and below
_TOP = "SELECT coalesce(max(version), 0) FROM fabric_memory_entry WHERE fabric_id = ? AND memory = ? AND key = ?"
# Its index ends with the version: a key's newest entry that stands is the first one of its range, whatever is behind it.
_STANDING = f"""
SELECT {COLUMNS} FROM fabric_memory_entry e
WHERE fabric_id = ? AND memory = ? AND undone_at = 0 AND NOT deleted AND at >= ? AND version = (
  SELECT max(version) FROM fabric_memory_entry n
  WHERE n.fabric_id = e.fabric_id AND n.memory = e.memory AND n.key = e.key AND n.undone_at = 0
)
"""  # noqa: S608
_OF_KEY, _IN_ORDER = " AND key = ?", " ORDER BY key"
_INSERT = """
INSERT INTO fabric_memory_entry (call_key, fabric_id, memory, key, version, value, deleted, run_id, step_id, agent, actor, reason, at, undone_at, replaced)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UNDO = "UPDATE fabric_memory_entry SET undone_at = ? WHERE call_key = ? AND undone_at = 0"


def lock_name(fabric_id: str, memory: str) -> str:
    """What whoever changes a memory locks, where the database has locks by name."""
    return f"memory:{fabric_id}:{memory}"


class SqlMemories(ABC):
    """``memory_port.MemoryStore`` over whatever runs its statements."""

    @abstractmethod
    def _alone(self, fabric_id: str, memory: str) -> AbstractContextManager[tuple[Ask, int]]:
        """A transaction that has the memory to itself, and the database's time in it."""

    @abstractmethod
    def _look(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What a statement that changes nothing finds."""

    @abstractmethod
    def _time(self) -> int:
        """The database's time, in microseconds since the epoch."""

    def write(self, write: Write) -> Wrote:
        """See ``memory_port.MemoryStore``."""
        memory, change = write.memory, write.change
        with self._alone(write.fabric_id, memory.name) as (ask, now):
            if before := ask(_BY_CALL, (write.call_key,)):
                return _again(before[0])
            found = _found(ask, write.fabric_id, memory, change.key, now)
            refused = Refused.TOO_LATE if now >= write.deadline_at else rules.judged(change, found, memory)
            if refused is not None:
                return Wrote(entry=None, refused=refused, found=found)
            origin = Origin(
                run_id=write.origin.run_id,
                step_id=write.origin.step_id,
                agent=write.origin.agent,
                actor=write.origin.actor,
                reason=write.origin.reason,
                at=now,
            )
            entry = Entry(
                key=change.key,
                version=found.top + 1,
                value=None if change.delete else change.value,
                deleted=change.delete,
                origin=origin,
                call_key=write.call_key,
            )
            ask(_INSERT, _values(write.fabric_id, memory.name, entry, found.standing))
            return Wrote(entry=entry, found=found)

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> list[Entry]:
        """See ``memory_port.MemoryStore``."""
        values = [fabric_id, memory.name, rules.since_of(memory, self._time())]
        statement = _STANDING + (_OF_KEY if key is not None else "") + _IN_ORDER
        return [entry_of(row) for row in self._look(statement, values if key is None else [*values, key])]

    def made(self, call_key: str) -> tuple[Entry, int] | None:
        """See ``memory_port.MemoryStore``."""
        found = self._look(_BY_CALL, (call_key,))
        return (entry_of(found[0]), found[0][-1]) if found and found[0][1] else None

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """See ``memory_port.MemoryStore``."""
        with self._alone(fabric_id, memory) as (ask, now):
            before = ask(_BY_CALL, (call_key,))
            if before:
                ask(_UNDO, (now, call_key))
            else:
                never = Entry(key="", version=0, origin=Origin(at=now), call_key=call_key, undone_at=now)
                ask(_INSERT, _values(fabric_id, memory, never, 0))
            return bool(before and before[0][1])


def _again(row: tuple[Any, ...]) -> Wrote:
    """What a call is told that came before, or that was undone."""
    entry = entry_of(row)
    if entry.undone_at:
        return Wrote(entry=None, refused=Refused.TAKEN_BACK, found=Found())
    return Wrote(entry=entry, found=Found(top=entry.version - 1, standing=row[-1]))


def _found(ask: Ask, fabric_id: str, memory: MemorySpec, key: str, now: int) -> Found:
    top = ask(_TOP, (fabric_id, memory.name, key))[0][0]
    stands = ask(_STANDING + _IN_ORDER, (fabric_id, memory.name, rules.since_of(memory, now)))
    version = next((row[1] for row in stands if row[0] == key), 0)
    return Found(top=top, standing=version, keys=len(stands))


def stored(value: Any) -> str:
    """A value as it lies in its column; never empty."""
    return json.dumps(value, ensure_ascii=False)


def entry_of(row: tuple[Any, ...]) -> Entry:
    """The entry of a row of ``COLUMNS``."""
    key, version, held, deleted, run_id, step_id, agent, actor, reason, at, call_key, undone_at, _ = row
    origin = Origin(run_id=run_id, step_id=step_id, agent=agent, actor=actor, reason=reason, at=at)
    return Entry(
        key=key,
        version=version,
        value=json.loads(held) if held else None,
        deleted=bool(deleted),
        origin=origin,
        call_key=call_key,
        undone_at=undone_at,
    )


def _values(fabric_id: str, memory: str, entry: Entry, replaced: int) -> tuple[Any, ...]:
    held = "" if entry.deleted or not entry.version else stored(entry.value)
    by = entry.origin
    origin = (by.run_id, by.step_id, by.agent, by.actor, by.reason, by.at)
    where = (entry.call_key, fabric_id, memory, entry.key, entry.version, held, entry.deleted)
    return (*where, *origin, entry.undone_at, replaced)
