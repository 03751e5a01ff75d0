"""The database of an installation, copied while it is used, and put into an empty one. One function a kind, by Django's name of it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from psycopg.conninfo import make_conninfo

from console.launch.errors import Refused

_LIBPQ = ("host", "port", "user", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout")


def migrations() -> tuple[str, ...]:
    """All that are applied to this database, as ``app.name``."""
    return tuple(sorted(f"{app}.{name}" for app, name in MigrationRecorder(connection).applied_migrations()))


def server() -> str:
    """The version of what this database is kept by."""
    if connection.vendor == "sqlite":
        return sqlite3.sqlite_version
    return ".".join(map(str, connection.get_database_version()))


def is_empty() -> bool:
    """Whether the database has no table of its own; a file that is not there has none."""
    if connection.vendor == "sqlite" and not Path(connection.settings_dict["NAME"]).exists():
        return True
    return not connection.introspection.table_names()


def dump(target: Path) -> None:
    """Write one consistent copy of the database, as it is at one moment, while others go on. Raises Refused, OSError, sqlite3.Error."""
    _DUMPS[connection.vendor](target)


def load(source: Path) -> None:
    """Put a copy into this database, which is empty: whole, or not at all. Raises Refused, OSError."""
    _LOADS[connection.vendor](source)


def _dump_sqlite(target: Path) -> None:
    # SQLite's online backup (sqlite.org/backup.html). The copy is one file, without a write-ahead log.
    with (
        closing(sqlite3.connect(f"file:{connection.settings_dict['NAME']}?mode=ro", uri=True)) as origin,
        closing(sqlite3.connect(target)) as copy,
    ):
        # All in one step: SQLite begins anew whenever others write between two. With a write-ahead log they go on meanwhile.
        origin.backup(copy, pages=-1)
        copy.execute("PRAGMA journal_mode=DELETE")


def _load_sqlite(source: Path) -> None:
    try:
        with closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as copy:
            (said,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise Refused(f"The database in the backup is damaged ({said}): take another copy of it.")
    connection.close()
    source.replace(connection.settings_dict["NAME"])


def _dump_postgresql(target: Path) -> None:
    _run("pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={target}")


def _load_postgresql(source: Path) -> None:
    connection.close()
    _run("pg_restore", "--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction", str(source))


def _run(program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's own programs on this database; the password goes by its environment, never by its arguments."""
    params: Mapping[str, Any] = connection.get_connection_params()
    address = make_conninfo(**{name: params[name] for name in _LIBPQ if params.get(name)})
    environ = os.environ | ({"PGPASSWORD": str(params["password"])} if params.get("password") else {})
    try:
        done = subprocess.run(
            [program, f"--dbname={address}", *arguments], env=environ, check=False, capture_output=True, text=True
        )
    except FileNotFoundError:
        raise Refused(f"There is no {program} here: install PostgreSQL's client, not older than the server.") from None
    if done.returncode:
        said = " ".join((done.stderr.strip().splitlines() or ["nothing"])[0].split())[:300]
        raise Refused(f"{program} ended with exit code {done.returncode}: {said.rstrip('.')}.")


_DUMPS: Mapping[str, Callable[[Path], None]] = {"sqlite": _dump_sqlite, "postgresql": _dump_postgresql}
_LOADS: Mapping[str, Callable[[Path], None]] = {"sqlite": _load_sqlite, "postgresql": _load_postgresql}
