"""Databases with their tables and nothing in them, to be copied: making the tables costs three seconds of processor time, a copy next to nothing.

Made when the first is asked for, once a process, or once for all processes that share a folder (``TABLES``).
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
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

ROOT = Path(__file__).resolve().parents[2]
MANAGE = [sys.executable, *([str(ROOT / "manage.py")] if (ROOT / "manage.py").is_file() else ["-m", "console"])]
"""What runs a command of the product: of the checkout, or of what is installed. In ``ROOT``."""
TABLES = "BENCH_TABLES"
"""Variable that names the folder of those who share: no setting of an installation, so that what is started here may have it too."""
FILE = "fabric.sqlite3"


@cache
def own_folder() -> Path:
    """A folder of this process's, which goes with it, and the databases that were made for it."""
    folder = Path(tempfile.mkdtemp(prefix="fabric-tables-"))
    atexit.register(_forget, folder)
    return folder


def sqlite_tables(environment: Mapping[str, str]) -> Path:
    """The SQLite file. ``environment``: of a program, without an installation's settings. CalledProcessError when the tables cannot be made."""
    with alone() as folder:
        made = folder / "sqlite" / FILE
        if not made.exists():
            # Elsewhere first: one that was cut off half-way must not be taken for one with all tables.
            with tempfile.TemporaryDirectory(dir=folder) as data:
                migrate({**environment, "FABRIC_DATA": data, "DJANGO_SETTINGS_MODULE": "console.settings"})
                made.parent.mkdir(exist_ok=True)
                Path(data, FILE).rename(made)
    return made


def copy_sqlite(environment: Mapping[str, str], data: Path) -> None:
    """Puts a copy into an installation's data directory."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(sqlite_tables(environment), data / FILE)


def postgresql_tables(environment: Mapping[str, str], server: str) -> str:
    """Name of the database on that server, for ``CREATE DATABASE … TEMPLATE``: nobody can connect to it."""
    with alone() as folder:
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
            # Whoever is connected to it, a vacuum too, would keep others from copying it.
            connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        noted.write_text(server)
    return name


def migrate(environment: Mapping[str, str]) -> None:
    """Makes the tables of the installation that the environment names, the way it does."""
    command = [*MANAGE, "migrate", "--verbosity", "0", "--skip-checks"]
    subprocess.run(command, env=dict(environment), check=True, cwd=ROOT)


@contextmanager
def alone() -> Iterator[Path]:
    """The folder, while no other process makes anything in it."""
    folder = Path(os.environ.get(TABLES) or own_folder())
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _forget(folder: Path) -> None:
    for noted in folder.glob("fabric_tables_*"):
        with suppress(psycopg.Error), psycopg.connect(noted.read_text(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{noted.name}" WITH (FORCE)')
    shutil.rmtree(folder, ignore_errors=True)
