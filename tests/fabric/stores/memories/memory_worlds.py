"""The three stores of memories, each on a database of its own, with a clock that can be passed."""

from fabric.stores.postgresql.memories import PostgresqlMemories
from fabric.stores.sqlite.memories import SqliteMemories
from simulator.stores.memory.memories import MemoryMemories
from tests.fabric.stores.journal_worlds import SECOND, MemoryWorld, PostgresqlWorld, SqliteWorld


class MemoriesWorld:
    """A journal store's world with a store of memories beside it."""

    def __init__(self, journal: MemoryWorld | SqliteWorld | PostgresqlWorld) -> None:
        self.journal = journal
        self.opened: list[SqliteMemories | PostgresqlMemories] = []
        if isinstance(journal, PostgresqlWorld):
            journal.ask("TRUNCATE fabric_memory_entry")
        self.store = MemoryMemories(journal.clock) if isinstance(journal, MemoryWorld) else self.another()

    def another(self):
        """The memories as another process has them."""
        if isinstance(self.journal, MemoryWorld):
            return self.store
        if isinstance(self.journal, SqliteWorld):
            self.opened.append(SqliteMemories(self.journal.path, clock=self.journal.clock))
        else:
            self.opened.append(PostgresqlMemories(self.journal.dsn))
        return self.opened[-1]

    def now(self) -> int:
        if isinstance(self.journal, PostgresqlWorld):
            return self.journal.store.now()
        return self.journal.clock.now()

    def pass_time(self, seconds: float) -> None:
        self.journal.pass_time(seconds)
        if isinstance(self.journal, PostgresqlWorld):
            self.journal.ask(f"UPDATE fabric_memory_entry SET at = at - {round(seconds * SECOND)}")

    def close(self) -> None:
        for store in self.opened:
            store.close_connections()
        self.journal.close()
