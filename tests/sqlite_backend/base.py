"""Django loads this backend: the same as its own, but for the one statement list that empties the tables."""

from typing import Any

from django.db.backends.sqlite3 import base, operations

from tests.servers.unguarded import dropping


class DatabaseOperations(operations.DatabaseOperations):
    """Takes the append-only triggers away while the tables are emptied, in the same transaction."""

    def sql_flush(self, *args: Any, **options: Any) -> list[str]:
        """The statements that empty the tables."""
        before, after = dropping(self.connection)
        return [*before, *super().sql_flush(*args, **options), *after]


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to SQLite."""

    ops_class = DatabaseOperations
