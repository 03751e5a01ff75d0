"""Real outages for the tests of pages: the database's file is gone, one table is gone, a stored row is damaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.db import connection


@contextmanager
def database_away() -> Iterator[None]:
    """The file is gone, and who opens it finds a directory."""
    connection.close()
    file = Path(connection.settings_dict["NAME"])
    kept = file.rename(file.with_name(f"away-{file.name}"))
    file.mkdir()
    try:
        yield
    finally:
        connection.close()
        file.rmdir()
        kept.rename(file)


@contextmanager
def table_away(name: str) -> Iterator[None]:
    """One table is gone; the rest of the database answers."""
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER TABLE "{name}" RENAME TO "{name}_away"')
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER TABLE "{name}_away" RENAME TO "{name}"')


def damage(run_id: str) -> None:
    """A stored run holds what no program wrote."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE fabric_run SET created_at = 'yesterday' WHERE id = %s", [run_id])
