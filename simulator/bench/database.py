"""A database of its own for a benchmark or a test: made, migrated, thrown away."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis

from simulator.bench import tables

ROOT = tables.ROOT
MANAGE = tables.MANAGE
SERVER = "postgresql://postgres@127.0.0.1:5432/postgres"
REDIS = "redis://127.0.0.1:6379/15"
MARK = "fabric-bench"
"""Whoever sets this key in an empty Redis database has it."""
MARK_S = 86_400
SETTINGS = ("FABRIC_", "DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL", "DJANGO_SETTINGS_MODULE")
"""How the names of what an operator sets begin."""


def inherited() -> dict[str, str]:
    """What the environment holds without the settings of an installation: what is made here asks none of its models and tells none of its people."""
    return {name: value for name, value in os.environ.items() if not name.startswith(SETTINGS)}


@contextmanager
def fresh(kind: str, *, migrated: bool = True) -> Iterator[dict[str, str]]:
    """The environment of a program that shall use a new database of that kind, ``sqlite`` or ``postgresql``: with its tables, or empty."""
    with tempfile.TemporaryDirectory(prefix="fabric-bench-") as folder:
        environment = inherited() | {"FABRIC_DATA": folder, "DJANGO_SETTINGS_MODULE": "console.settings"}
        if kind == "sqlite":
            if migrated:
                tables.copy_sqlite(inherited(), Path(folder))
            yield environment
            return
        server = os.environ.get("TEST_DATABASE_URL", SERVER)
        name = f"fabric_bench_{os.getpid()}_{secrets.token_hex(3)}"
        with empty(server, name, like=tables.postgresql_tables(inherited(), server) if migrated else ""):
            environment["DATABASE_URL"] = urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
            yield environment


@contextmanager
def empty(server: str, name: str, *, like: str = "") -> Iterator[None]:
    """A new database of that name on a server, while the block runs; ``like``: a copy of that one, which nobody may be connected to."""
    template = f' TEMPLATE "{like}"' if like else ""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        connection.execute(f'CREATE DATABASE "{name}"{template}')
    try:
        yield
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def empty_redis(server: str) -> Iterator[str]:
    """The address of a Redis database that held nothing, and is emptied when the block ends. RuntimeError when there is none.

    Neither the one that ``server`` names, which others use, nor 0, which anybody uses.
    """
    parts = urlsplit(server)
    with redis.Redis.from_url(server) as client:
        numbers = range(1, int(client.config_get("databases")["databases"]))
    for number in reversed(numbers):
        address = urlunsplit(parts._replace(path=f"/{number}"))
        if parts.path == f"/{number}":
            continue
        with redis.Redis.from_url(address) as client:
            if client.dbsize() or not client.set(MARK, "", nx=True, ex=MARK_S):
                continue
            try:
                yield address
            finally:
                client.flushdb()
            return
    raise RuntimeError(f"every database of the Redis server at {parts.hostname} holds something: empty one")
