"""Memories on SQLite: each change in one BEGIN IMMEDIATE transaction, which locks the whole file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fabric.stores.memories import Ask, SqlMemories
from fabric.stores.sqlite.grants import SharedFile


class SqliteMemories(SharedFile, SqlMemories):
    """``ports.memories.MemoryStore`` on one SQLite file that has its table."""

    @contextmanager
    def _alone(self, fabric_id: str, memory: str) -> Iterator[tuple[Ask, int]]:
        with self.transaction() as db:
            yield lambda statement, values: db.execute(statement, values).fetchall(), self._now()

    def _look(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.look(statement, values)

    def _time(self) -> int:
        return self._now()
