"""Planted bugs of memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from fabric.core import run_memory
from fabric.core.frozen import replace
from fabric.core.memory import Entry
from fabric.core.work import Work
from fabric.runtime.memory_port import Write, Wrote
from simulator.kernel import planting
from simulator.kernel.memory_memories import MemoryMemories

NEVER = 1 << 62
"""A deadline that does not come."""


def _says_so_only(self: MemoryMemories, fabric_id: str, memory: str, call_key: str) -> bool:
    return True


def _without_the_newest(kept: Callable[..., Iterator[Entry]]) -> Callable[..., Iterator[Entry]]:
    def entries(work: Work, memory: Any) -> Iterator[Entry]:
        return iter(list(kept(work, memory))[:-1])

    return entries


def _whenever(kept: Callable[..., Wrote]) -> Callable[..., Wrote]:
    def write(self: MemoryMemories, write: Write) -> Wrote:
        return kept(self, replace(write, deadline_at=NEVER))

    return write


MEMORY_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "memory_not_restored": lambda: planting.attribute(MemoryMemories, "take_back", _says_so_only),
    "memory_written_late": lambda: planting.attribute(MemoryMemories, "write", _whenever(MemoryMemories.write)),
    "run_memory_forgets": lambda: planting.attribute(run_memory, "entries", _without_the_newest(run_memory.entries)),
}
"""By name."""
