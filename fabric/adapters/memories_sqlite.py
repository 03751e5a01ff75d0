"""Memories on SQLite: each change in one BEGIN IMMEDIATE transaction, which has the whole file to itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fabric.adapters.grants_sqlite import SharedFile
from fabric.adapters.memories import Ask, SqlMemories


class SqliteMemories(SharedFile, SqlMemories):
    """``memory_port.MemoryStore`` on one SQLite file that has its table."""

    @contextmanager
    def _alone(self, fabric_id: str, memory: str) -> Iterator[tuple[Ask, int]]:
        with self.transaction() as db:
            yield lambda statement, values: db.execute(statement, values).fetchall(), self._now()

    def _look(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self.look(statement, values)

    def _time(self) -> int:
        return self._now()
