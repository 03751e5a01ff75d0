"""Planted bugs of memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fabric.core import run_memory
from fabric.core.frozen import replace
from fabric.core.memory import Entry
from fabric.core.work import Work
from simulator.kernel.memory_memories import MemoryMemories


@contextmanager
def _swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


def _says_so_only(self: MemoryMemories, fabric_id: str, memory: str, call_key: str) -> bool:
    return True


def _whenever(kept: Callable[..., Any]) -> Callable[..., Any]:
    """A write lands whatever its deadline is, and whatever was taken back before it came."""

    def writes(self: MemoryMemories, write: Any) -> Any:
        return kept(self, replace(write, deadline_at=1 << 62))

    return writes


def _undone_too(kept: Callable[..., Iterator[Entry]]) -> Callable[..., Iterator[Entry]]:
    def entries(work: Work, memory: Any) -> Iterator[Entry]:
        return (replace(one, undone_at=0) for one in kept(work, memory))

    return entries


MEMORY_PLANTS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "memory_not_restored": lambda: _swapped(MemoryMemories, "take_back", _says_so_only),
    "memory_after_deadline": lambda: _swapped(MemoryMemories, "write", _whenever(MemoryMemories.write)),
    "run_memory_keeps_undone": lambda: _swapped(run_memory, "entries", _undone_too(run_memory.entries)),
}
"""By name."""
