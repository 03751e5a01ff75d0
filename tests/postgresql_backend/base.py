"""Django loads this backend: the same as its own, but for the statements that empty the tables, and for how the test's database goes."""

from collections.abc import Sequence
from typing import Any

from django.db.backends.postgresql import base, creation, operations

from tests.servers.unguarded import AS_ORIGIN, AS_REPLICA


class DatabaseOperations(operations.DatabaseOperations):
    """Looks past the append-only triggers, and past what refers to what, while the tables are emptied, in one transaction."""

    def sql_flush(self, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        """The statements that empty the tables. Not TRUNCATE, which makes each of them anew: seconds for some eighty that hold little."""
        return [AS_REPLICA, *(f"DELETE FROM {self.quote_name(table)}" for table in tables), AS_ORIGIN]


class DatabaseCreation(creation.DatabaseCreation):
    """The stores have connections of their own, which are open still when the last test has ended."""

    def _destroy_test_db(self, test_database_name: str, verbosity: int) -> None:
        with self._nodb_cursor() as cursor:  # type: ignore[attr-defined]  # The stubs leave it out.
            cursor.execute(f"DROP DATABASE IF EXISTS {self.connection.ops.quote_name(test_database_name)} WITH (FORCE)")


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to PostgreSQL."""

    ops_class = DatabaseOperations
    creation_class = DatabaseCreation
