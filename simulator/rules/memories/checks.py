"""Checks memories in the simulator. Has planted bugs too.

The ledger is compared with the facts of all runs, counted anew (``rules/facts/spending.py``), and not with the engine's
own fold.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from fabric.core.conversations import memory as run_memory
from fabric.core.conversations.memory import Entry
from fabric.core.decision.work import Work
from fabric.core.events.envelope import from_row, split_rows
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.memories import Verb
from fabric.core.values.frozen import replace
from fabric.core.values.units import JSON
from fabric.runtime.ports.memories import MemoryWrote, Write
from simulator.clockwork.clock import SeenWorld
from simulator.rules import planting
from simulator.rules.facts.journals import WatchedRun
from simulator.stores.memory.memories import MemoryMemories

UNDONE = "compensation_answered"
Found = tuple[str, str]


def truth(world: SeenWorld, seen: Iterable[WatchedRun]) -> Iterator[Found]:
    """Yield violations at the end of a world: the invariant's name and a sentence."""
    runs = list(seen)
    spec, fabric_id = world.setup.fabric.compiled.spec, world.setup.fabric.revision_id
    shared = [memory for memory in spec.memories if memory.scope == "fabric"]
    said = _journaled_states(runs, spec)
    known: set[str] = set()
    for memory in shared:
        entries = world.memories.ledger(fabric_id, memory.name)
        known |= {one.call_key for one in entries}
        yield from _once(entries)
        yield from _as_told(entries, said)
        expected = _select_standing(
            one for one in entries if UNDONE not in said.get(one.call_key, ()) and not one.undone_at
        )
        stands = {one.key: one.version for one in world.memories.entries(fabric_id, memory)}
        if stands != expected:
            yield ("memory_is_what_was_written", f"{memory.name} holds {stands}, and the journals say {expected}")
    for key, statuses in said.items():
        if "executed" in statuses and key not in known:
            yield ("memory_is_what_was_written", f"a journal says that {key} was written, and no memory has it")
    for run in runs:
        yield from reads(world, run, spec)


def _journaled_states(runs: Iterable[WatchedRun], spec: FabricSpec) -> dict[str, set[str]]:
    """Return the states of each writing call to a memory of the fabric, by key. A parent may undo its child's
    writes.
    """
    said: dict[str, set[str]] = {}
    for run in runs:
        for key, change in run.changes.by_key.items():
            if spec.memory_of(change.tool) is not None and not spec.in_journal(change.tool):
                said.setdefault(key, set()).update({change.status} - {"handed_up"})
    return said


def _once(entries: Iterable[Entry]) -> Iterator[Found]:
    calls: set[str] = set()
    versions: set[tuple[str, int]] = set()
    for one in entries:
        if one.call_key in calls or (one.version and (one.key, one.version) in versions):
            yield ("memory_written_once", f"{one.call_key} stands twice, or version {one.version} of {one.key!r} does")
        calls.add(one.call_key)
        versions.add((one.key, one.version))


def _as_told(entries: Iterable[Entry], said: dict[str, set[str]]) -> Iterator[Found]:
    for one in entries:
        statuses = said.get(one.call_key)
        if statuses is None:
            yield ("memory_is_what_was_written", f"{one.call_key} was written, and no journal has its intent")
        elif UNDONE in statuses and not one.undone_at:
            yield ("memory_restored", f"a journal says that {one.call_key} is undone, and it stands")
        elif statuses == {"executed"} and one.undone_at:
            yield ("memory_restored", f"{one.call_key} was undone, and no journal says so")
        elif statuses == {"not_executed"} and one.version and not one.undone_at:
            yield ("memory_is_what_was_written", f"{one.call_key} was written, and its journal says that it was not")


def _select_standing(entries: Iterable[Entry]) -> dict[str, int]:
    newest: dict[str, Entry] = {}
    for one in sorted(entries, key=lambda one: one.version):
        if one.version:
            newest[one.key] = one
    return {key: one.version for key, one in newest.items() if not one.deleted}


# -- the memory of one run ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Own:
    """A run's own memories, rebuilt from its journal."""

    spec: FabricSpec
    proposed: dict[tuple[str, str], JSON] = field(default_factory=dict)
    """Arguments by step and call id."""
    answered: dict[str, str] = field(default_factory=dict)
    """The step whose model answered last, by stage and branch: a stage's first steps have no fact of their own."""
    keys: dict[str, str] = field(default_factory=dict)
    """Idempotency keys by command id."""
    wrote: dict[str, tuple[str, str, int, JSON, bool]] = field(default_factory=dict)
    """Memory, key, version, value and deletion of each write that was not undone, by idempotency key."""

    def take(self, fact: Any, content: JSON) -> str:
        """Proceed to the next fact; return an error about a read."""
        match fact.kind:
            case "step_opened":
                if fact.keeps:
                    before = self.answered.get(f"{fact.stage}.{fact.branch}", "")
                    stood = {call_id: args for (step_id, call_id), args in self.proposed.items() if step_id == before}
                    self.proposed |= {(fact.step_id, call_id): args for call_id, args in stood.items()}
                    self.answered[f"{fact.stage}.{fact.branch}"] = fact.step_id
            case "model_answered":
                self.answered[fact.step_id.rpartition(".e")[0]] = fact.step_id
                for call in content.get("calls", ()):
                    self.proposed[fact.step_id, call["call_id"]] = call.get("args")
            case "mutation_intended":
                self.keys[fact.command_id] = fact.key
            case "compensation_answered":
                self.wrote.pop(fact.of_key, None)
            case "tool_answered" if (
                not fact.error and self.spec.memory_of(fact.tool) and self.spec.in_journal(fact.tool)
            ):
                return self._check_answer(fact, content["result"])
        return ""

    def _check_answer(self, fact: Any, told: JSON) -> str:
        found = self.spec.memory_of(fact.tool)
        assert found is not None
        memory, args = found[0].name, self.proposed[fact.step_id, fact.call_id]
        if found[1] is not Verb.READ:
            deleted = found[1] is Verb.DELETE
            entry = (memory, args["key"], told["version"], args.get("value"), deleted)
            self.wrote[self.keys[fact.command_id]] = entry
            return ""
        stands = self._read_standing(memory)
        if "key" not in args:
            listed = {one["key"]: one["version"] for one in told["keys"]}
            there = {key: version for key, (version, _) in stands.items()}
            return "" if listed == there else f"it was shown {listed} of {memory}, and {there} stands there"
        expected = stands.get(args["key"])
        read = (told["version"], told["data"]) if told["found"] else None
        return "" if read == expected else f"it read {read} under {args['key']!r}, and {expected} stands there"

    def _read_standing(self, memory: str) -> dict[str, tuple[int, JSON]]:
        """Return version and value by key, of the last writes without deleted keys."""
        newest: dict[str, tuple[str, str, int, JSON, bool]] = {}
        for one in sorted((one for one in self.wrote.values() if one[0] == memory), key=lambda one: one[2]):
            newest[one[1]] = one
        return {key: (version, value) for key, (_, _, version, value, deleted) in newest.items() if not deleted}


def reads(world: SeenWorld, seen: WatchedRun, spec: FabricSpec) -> Iterator[Found]:
    """Yield an error for each read of a run's own memory that did not return the last standing write."""
    if seen.damaged or not any(memory.scope == "run" for memory in spec.memories):
        return
    own = _Own(spec)
    for row in split_rows(world.store.rows(seen.run_id)):
        content = json.loads(row.payload) if row.payload else {}
        fact = from_row(row.seq, row.kind, row.version, row.header).fact
        if wrong := own.take(fact, content):
            yield ("memory_reads_what_was_written", f"{seen.run_id}: {wrong}")


NEVER = 1 << 62
"""A deadline that never comes."""


def _says_so_only(self: MemoryMemories, fabric_id: str, memory: str, call_key: str) -> bool:
    return True


def _without_the_newest(kept: Callable[..., Iterator[Entry]]) -> Callable[..., Iterator[Entry]]:
    def entries(work: Work, memory: Any) -> Iterator[Entry]:
        return iter(list(kept(work, memory))[:-1])

    return entries


def _whenever(kept: Callable[..., MemoryWrote]) -> Callable[..., MemoryWrote]:
    def write(self: MemoryMemories, write: Write) -> MemoryWrote:
        return kept(self, replace(write, deadline_at=NEVER))

    return write


MEMORY_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "memory_not_restored": lambda: planting.attribute(MemoryMemories, "take_back", _says_so_only),
    "memory_written_late": lambda: planting.attribute(MemoryMemories, "write", _whenever(MemoryMemories.write)),
    "run_memory_forgets": lambda: planting.attribute(run_memory, "entries", _without_the_newest(run_memory.entries)),
}
"""Plants by name."""
