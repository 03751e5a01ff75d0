"""Makes a temporary database with its tables, and removes it.

Migrations take three seconds of processor time, copies hardly any. So an empty database with tables is kept to be
copied. It is made when the first is needed, once a process, or once for all processes that share a folder (``SHARED``).
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"
SETTINGS = ("FABRIC_", "DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL", "DJANGO_SETTINGS_MODULE")
"""Prefixes of the variables that an operator sets."""


def clean_environment() -> dict[str, str]:
    """Return this process's environment without an operator's settings, so that programs reach no real model or
    person.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}


@contextmanager
def temporary_database(kind: str, *, migrated: bool = True) -> Iterator[dict[str, str]]:
    """Make a database, ``sqlite`` or ``postgresql``, with or without tables, and remove it.

    Yields the environment of a program that uses it.
    """
    with tempfile.TemporaryDirectory(prefix="fabric-own-") as folder:
        environment = clean_environment() | {"FABRIC_DATA": folder, "DJANGO_SETTINGS_MODULE": "console.settings"}
        if kind == "sqlite":
            if migrated:
                copy_sqlite(clean_environment(), Path(folder))
            yield environment
            return
        server = os.environ.get("TEST_DATABASE_URL", SERVER)
        name = f"fabric_own_{os.getpid()}_{secrets.token_hex(3)}"
        with temporary_postgresql(
            server, name, like=postgresql_tables(clean_environment(), server) if migrated else ""
        ):
            environment["DATABASE_URL"] = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
            yield environment


@contextmanager
def temporary_postgresql(server: str, name: str, *, like: str = "") -> Iterator[None]:
    """Make a database of that name on a server, and remove it.

    ``like``: name of a database to copy, to which no program may be connected.
    """
    template = f' TEMPLATE "{like}"' if like else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"{template}')
    try:
        yield
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


ROOT = Path(__file__).resolve().parents[2]
MANAGE = [sys.executable, *([str(ROOT / "manage.py")] if (ROOT / "manage.py").is_file() else ["-m", "console"])]
"""First words of a command of the product in ``ROOT``: of the checkout, or of the installed distribution."""
SHARED = "TABLES_FOLDER"
"""Variable with the shared folder. It is no setting of an installation, so processes started here have it too."""
FILE = "fabric.sqlite3"


@cache
def own_folder() -> Path:
    """Make a folder of this process, once. It is removed with the process, and so are its databases."""
    folder = Path(tempfile.mkdtemp(prefix="fabric-tables-"))
    atexit.register(_forget, folder)
    return folder


def sqlite_tables(environment: Mapping[str, str]) -> Path:
    """Return the SQLite file. ``environment``: without an operator's settings. Raises CalledProcessError."""
    with lock_folder() as folder:
        made = folder / "sqlite" / FILE
        if not made.exists():
            # Elsewhere first: a file that was cut off half-way must not pass for one with all tables.
            with tempfile.TemporaryDirectory(dir=folder) as data:
                migrate({**environment, "FABRIC_DATA": data, "DJANGO_SETTINGS_MODULE": "console.settings"})
                made.parent.mkdir(exist_ok=True)
                Path(data, FILE).rename(made)
    return made


def copy_sqlite(environment: Mapping[str, str], data: Path) -> None:
    """Copy the SQLite file into the data directory of an installation."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(sqlite_tables(environment), data / FILE)


def postgresql_tables(environment: Mapping[str, str], server: str) -> str:
    """Return the name of a database on that server, for ``CREATE DATABASE … TEMPLATE``. No program can connect to
    it.
    """
    with lock_folder() as folder:
        name = f"fabric_tables_{hashlib.sha256(f'{folder} {server}'.encode()).hexdigest()[:16]}"
        noted = folder / name
        if noted.exists():
            return name
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
            address = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
            settings = {"DATABASE_URL": address, "DJANGO_SETTINGS_MODULE": "console.settings"}
            with tempfile.TemporaryDirectory(dir=folder) as data:
                migrate({**environment, **settings, "FABRIC_DATA": data})
            # A connection, even a vacuum's, would keep other processes from copying it.
            connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        noted.write_text(server)
    return name


def migrate(environment: Mapping[str, str]) -> None:
    """Make the tables of the installation that the environment names, by its own command."""
    command = [*MANAGE, "django", "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, env=dict(environment), check=True, cwd=ROOT)


@contextmanager
def lock_folder() -> Iterator[Path]:
    """Locks the folder of databases against other processes, and yields it."""
    folder = Path(os.environ.get(SHARED) or own_folder())
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _forget(folder: Path) -> None:
    for noted in folder.glob("fabric_tables_*"):
        with suppress(psycopg.Error), psycopg.connect(noted.read_text(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{noted.name}" WITH (FORCE)')
    shutil.rmtree(folder, ignore_errors=True)
