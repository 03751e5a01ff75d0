"""Ways past the append-only triggers, for tests alone: to empty a database, and to do what the triggers refuse and see that it is found.

On PostgreSQL a superuser's session says that it is a replica; on SQLite the triggers are dropped and made again.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from django.db import connection as default

AS_REPLICA = "SET session_replication_role = replica"
AS_ORIGIN = "SET session_replication_role = origin"


@contextmanager
def unguarded(connection: Any = default) -> Iterator[None]:
    """Lets a connection (Django's, or one of ``sqlite3``) change what is append-only, while the block runs."""
    if getattr(connection, "vendor", "sqlite") == "postgresql":
        before, after = [AS_REPLICA], [AS_ORIGIN]
    else:
        before, after = dropping(connection)
    _run(connection, before)
    try:
        yield
    finally:
        _run(connection, after)


def dropping(connection: Any) -> tuple[list[str], list[str]]:
    """Return what drops SQLite's triggers, and what makes them again."""
    with closing(connection.cursor()) as cursor:
        found = cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    return [f'DROP TRIGGER "{name}"' for name, _ in found], [sql for _, sql in found]


def _run(connection: Any, statements: list[str]) -> None:
    with closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)
