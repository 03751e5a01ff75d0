"""Memories of fabrics in this process: the ledger of ``adapters/memories.py`` as a list, by the same rules."""

from __future__ import annotations

from fabric.core import memory as rules
from fabric.core.frozen import replace
from fabric.core.memory import Entry, Found, Origin, Refused
from fabric.core.spec_memories import MemorySpec
from fabric.runtime.memory_port import Write, Wrote
from fabric.runtime.ports import Clock

Ledger = tuple[str, str]
"""Fabric and memory."""


class MemoryMemories:
    """``memory_port.MemoryStore``."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ledgers: dict[Ledger, list[Entry]] = {}
        self._calls: dict[str, tuple[Ledger, int, int]] = {}
        """By call: its ledger, the place of its entry there, the version that it replaced."""

    def write(self, write: Write) -> Wrote:
        """See ``memory_port.MemoryStore``."""
        now, memory, change = self._clock.now(), write.memory, write.change
        if write.call_key in self._calls:
            return self._again(write.call_key)
        held = self.ledgers.get((write.fabric_id, memory.name), [])
        found = rules.found_in(held, change.key, since=rules.since_of(memory, now))
        refused = Refused.TOO_LATE if now >= write.deadline_at else rules.judged(change, found, memory)
        if refused is not None:
            return Wrote(entry=None, refused=refused, found=found)
        entry = Entry(
            key=change.key,
            version=found.top + 1,
            value=None if change.delete else change.value,
            deleted=change.delete,
            origin=replace(write.origin, at=now),
            call_key=write.call_key,
        )
        self._add((write.fabric_id, memory.name), entry, found.standing)
        return Wrote(entry=entry, found=found)

    def entries(self, fabric_id: str, memory: MemorySpec, key: str | None = None) -> list[Entry]:
        """See ``memory_port.MemoryStore``."""
        held = self.ledgers.get((fabric_id, memory.name), [])
        stands = rules.standing(held, since=rules.since_of(memory, self._clock.now()))
        return [one for one in stands.values() if key in (None, one.key)]

    def made(self, call_key: str) -> tuple[Entry, int] | None:
        """See ``memory_port.MemoryStore``."""
        if call_key not in self._calls:
            return None
        ledger, place, replaced = self._calls[call_key]
        entry = self.ledgers[ledger][place]
        return (entry, replaced) if entry.version else None

    def take_back(self, fabric_id: str, memory: str, call_key: str) -> bool:
        """See ``memory_port.MemoryStore``."""
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
        """See ``world_store.WorldMemories``."""
        return self.ledgers.get((fabric_id, memory), [])

    def _add(self, ledger: Ledger, entry: Entry, replaced: int) -> None:
        held = self.ledgers.setdefault(ledger, [])
        self._calls[entry.call_key] = (ledger, len(held), replaced)
        held.append(entry)

    def _again(self, call_key: str) -> Wrote:
        ledger, place, replaced = self._calls[call_key]
        entry = self.ledgers[ledger][place]
        if entry.undone_at:
            return Wrote(entry=None, refused=Refused.TAKEN_BACK, found=Found())
        return Wrote(entry=entry, found=Found(top=entry.version - 1, standing=replaced))
