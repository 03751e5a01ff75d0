"""Memories of fabrics in this process: the ledger of ``stores/memories.py`` as a list, under its rules."""

from __future__ import annotations

from fabric.core.conversations import memory as rules
from fabric.core.conversations.memory import Entry, Origin, WriteFacts, WriteRefusal
from fabric.core.spec.memories import MemorySpec
from fabric.core.values.frozen import replace
from fabric.runtime.ports.journal import Clock
from fabric.runtime.ports.memories import MemoryWrote, Write

Ledger = tuple[str, str]
"""Fabric and memory."""


class MemoryMemories:
    """``ports.memories.MemoryStore``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ledgers: dict[Ledger, list[Entry]] = {}
        self._calls: dict[str, tuple[Ledger, int, int]] = {}
        """Ledger, place of the entry, and replaced version, by call."""

    def write(self, write: Write) -> MemoryWrote:
        """See ``ports.memories.MemoryStore``."""
        now, memory, change = self._clock.now(), write.memory, write.change
        if write.call_key in self._calls:
            return self._again(write.call_key)
        held = self.ledgers.get((write.fabric_id, memory.name), [])
        found = rules.find_write_facts(held, change.key, since=rules.find_since(memory, now))
        refused = WriteRefusal.TOO_LATE if now >= write.deadline_at else rules.judge_change(change, found, memory)
        if refused is not None:
            return MemoryWrote(entry=None, refused=refused, found=found)
        entry = Entry(
            key=change.key,
            version=found.top + 1,
            value=None if change.delete else change.value,
            deleted=change.delete,
            origin=replace(write.origin, at=now),
            call_key=write.call_key,
        )
        self._add((write.fabric_id, memory.name), entry, found.standing)
        return MemoryWrote(entry=entry, found=found)

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> list[Entry]:
        """See ``ports.memories.MemoryStore``."""
        held = self.ledgers.get((fabric_id, memory.name), [])
        stands = rules.select_standing(held, since=rules.find_since(memory, self._clock.now()))
        return [one for one in stands.values() if key in (None, one.key)]

    def find_made(self, call_key: str) -> tuple[Entry, int] | None:
        """See ``ports.memories.MemoryStore``."""
        if call_key not in self._calls:
            return None
        ledger, place, replaced = self._calls[call_key]
        entry = self.ledgers[ledger][place]
        return (entry, replaced) if entry.version else None

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """See ``ports.memories.MemoryStore``."""
        now = self._clock.now()
        if call_key not in self._calls:
            never = Entry(key="", version=0, origin=Origin(at=now), call_key=call_key, undone_at=now)
            self._add((fabric_id, memory), never, 0)
            return False
        ledger, place, _ = self._calls[call_key]
        entry = self.ledgers[ledger][place]
        if not entry.undone_at:
            self.ledgers[ledger][place] = replace(entry, undone_at=now)
        return bool(entry.version)

    def ledger(self, fabric_id: str, memory: str) -> list[Entry]:
        """See ``contract.WorldMemories``."""
        return self.ledgers.get((fabric_id, memory), [])

    def _add(self, ledger: Ledger, entry: Entry, replaced: int) -> None:
        held = self.ledgers.setdefault(ledger, [])
        self._calls[entry.call_key] = (ledger, len(held), replaced)
        held.append(entry)

    def _again(self, call_key: str) -> MemoryWrote:
        ledger, place, replaced = self._calls[call_key]
        entry = self.ledgers[ledger][place]
        if entry.undone_at:
            return MemoryWrote(entry=None, refused=WriteRefusal.TAKEN_BACK, found=WriteFacts())
        return MemoryWrote(entry=entry, found=WriteFacts(top=entry.version - 1, standing=replaced))
