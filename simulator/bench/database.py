"""A database of its own for a benchmark or a test: made, migrated, thrown away."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

ROOT = Path(__file__).resolve().parents[2]
SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"


@contextmanager
def fresh(kind: str) -> Iterator[dict[str, str]]:
    """The environment of a program that shall use a new, migrated database of that kind: ``sqlite`` or ``postgresql``."""
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as folder:
        environment = {**os.environ, "FABRIC_DATA": folder, "DJANGO_SETTINGS_MODULE": "console.settings"}
        environment.pop("DATABASE_URL", None)
        if kind == "sqlite":
            _migrate(environment)
            yield environment
            return
        server = os.environ.get("TEST_DATABASE_URL", SERVER)
        name = f"fabric_bench_{os.getpid()}_{secrets.token_hex(3)}"
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            connection.execute(f'CREATE DATABASE "{name}"')
        try:
            environment["DATABASE_URL"] = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
            _migrate(environment)
            yield environment
        finally:
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _migrate(environment: dict[str, str]) -> None:
    command = [sys.executable, str(ROOT / "manage.py"), "migrate", "--verbosity", "0"]
    subprocess.run(command, env=environment, check=True, cwd=ROOT)
