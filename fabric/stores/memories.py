"""Stores the ledger of memories in SQL, with one set of statements for every database. Each call is one transaction
that locks the memory.

An entry is written once and changed at most once, when it is taken back. A call that was undone before it came has an
entry without a version, so that its key is taken. The writing transaction reads the facts that judge a write, so that
no two writes get one version or pass a cap together.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from fabric.core.conversations import memory as rules
from fabric.core.conversations.memory import Entry, Origin, WriteFacts, WriteRefusal
from fabric.core.spec.memories import MemorySpec
from fabric.runtime.ports.memories import MemoryWrote, Write

Ask = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs a statement with its values in the order of its question marks."""
COLUMNS = "key, version, value, deleted, run_id, step_id, agent, actor, reason, at, call_key, undone_at, replaced"
"""Columns of an entry that are read."""
_BY_CALL = f"SELECT {COLUMNS} FROM fabric_memory_entry WHERE call_key = ?"  # noqa: S608 - constants, here and below
_TOP = "SELECT coalesce(max(version), 0) FROM fabric_memory_entry WHERE fabric_id = ? AND memory = ? AND key = ?"
# Its index ends with the version: a key's newest valid entry is the first one of its range, whatever follows.
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
    """Return the name of a memory's lock, for databases with locks by name."""
    return f"memory:{fabric_id}:{memory}"


class SqlMemories(ABC):
    """``ports.memories.MemoryStore`` over any runner of its statements."""

    @abstractmethod
    def _alone(self, fabric_id: str, memory: str) -> AbstractContextManager[tuple[Ask, int]]:
        """Open a transaction that locks the memory, with the database's time."""

    @abstractmethod
    def _look(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return the rows of a reading statement."""

    @abstractmethod
    def _time(self) -> int:
        """Return the database's time, in microseconds since the epoch."""

    def write(self, write: Write) -> MemoryWrote:
        """See ``ports.memories.MemoryStore``."""
        memory, change = write.memory, write.change
        with self._alone(write.fabric_id, memory.name) as (ask, now):
            if before := ask(_BY_CALL, (write.call_key,)):
                return _again(before[0])
            found = _find_entry_state(ask, write.fabric_id, memory, change.key, now)
            refused = WriteRefusal.TOO_LATE if now >= write.deadline_at else rules.judge_change(change, found, memory)
            if refused is not None:
                return MemoryWrote(entry=None, refused=refused, found=found)
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
            return MemoryWrote(entry=entry, found=found)

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> list[Entry]:
        """See ``ports.memories.MemoryStore``."""
        values = [fabric_id, memory.name, rules.find_since(memory, self._time())]
        statement = _STANDING + (_OF_KEY if key is not None else "") + _IN_ORDER
        return [build_entry(row) for row in self._look(statement, values if key is None else [*values, key])]

    def find_made(self, call_key: str) -> tuple[Entry, int] | None:
        """See ``ports.memories.MemoryStore``."""
        found = self._look(_BY_CALL, (call_key,))
        return (build_entry(found[0]), found[0][-1]) if found and found[0][1] else None

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """See ``ports.memories.MemoryStore``."""
        with self._alone(fabric_id, memory) as (ask, now):
            before = ask(_BY_CALL, (call_key,))
            if before:
                ask(_UNDO, (now, call_key))
            else:
                never = Entry(key="", version=0, origin=Origin(at=now), call_key=call_key, undone_at=now)
                ask(_INSERT, _values(fabric_id, memory, never, 0))
            return bool(before and before[0][1])


def _again(row: tuple[Any, ...]) -> MemoryWrote:
    """Return the answer to a repeated or undone call."""
    entry = build_entry(row)
    if entry.undone_at:
        return MemoryWrote(entry=None, refused=WriteRefusal.TAKEN_BACK, found=WriteFacts())
    return MemoryWrote(entry=entry, found=WriteFacts(top=entry.version - 1, standing=row[-1]))


def _find_entry_state(ask: Ask, fabric_id: str, memory: MemorySpec, key: str, now: int) -> WriteFacts:
    top = ask(_TOP, (fabric_id, memory.name, key))[0][0]
    stands = ask(_STANDING + _IN_ORDER, (fabric_id, memory.name, rules.find_since(memory, now)))
    version = next((row[1] for row in stands if row[0] == key), 0)
    return WriteFacts(top=top, standing=version, keys=len(stands))


def stored_value(value: Any) -> str:
    """Return a value as its column stores it; never empty."""
    return json.dumps(value, ensure_ascii=False)


def build_entry(row: tuple[Any, ...]) -> Entry:
    """Return the entry of a row of ``COLUMNS``."""
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
    held = "" if entry.deleted or not entry.version else stored_value(entry.value)
    by = entry.origin
    origin = (by.run_id, by.step_id, by.agent, by.actor, by.reason, by.at)
    where = (entry.call_key, fabric_id, memory, entry.key, entry.version, held, entry.deleted)
    return (*where, *origin, entry.undone_at, replaced)
