"""Databases with their tables, made once a process; and the stores on them."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from fabric.stores.writer import JournalWriter
from simulator.installation import database
from simulator.installation.database import clean_environment, temporary_postgresql
from tests.chaos.servers.local import PostgresqlServer
from tests.fabric.stores.grant_worlds import SharedWorld
from tests.fabric.stores.journal_worlds import SEED, MemoryWorld, PostgresqlWorld, SqliteWorld, World
from tests.fabric.stores.memories.memory_worlds import MemoriesWorld
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Gate, Told
from tests.servers.own_server import own_server

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(scope="session")
def sqlite_tables() -> Path:
    """A SQLite file with tables and nothing in them; to be copied."""
    return database.sqlite_tables(clean_environment())


@pytest.fixture(scope="session")
def sqlite_template(sqlite_tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with one workspace, one fabric and one revision; to be copied."""
    template = tmp_path_factory.mktemp("sqlite") / "template.sqlite3"
    shutil.copyfile(sqlite_tables, template)
    connection = sqlite3.connect(template)
    connection.executescript(SEED)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return template


@pytest.fixture(scope="session")
def postgresql_dsn() -> Iterator[str]:
    """A new database on the test server with the same in it; dropped at the end."""
    server = os.environ["TEST_DATABASE_URL"]
    name = f"fabric_adapters_{os.getpid()}"
    with temporary_postgresql(server, name, like=database.postgresql_tables(clean_environment(), server)):
        address = url(server, name)
        with psycopg.connect(address, autocommit=True) as made:
            made.execute(SEED.encode())
        yield address


@pytest.fixture(scope="session")
def own() -> Iterator[PostgresqlServer]:
    """A cluster that tests may stop, with tables and a revision."""
    with own_server() as made:
        with psycopg.connect(made.url(), autocommit=True) as connection:
            connection.execute(SEED.encode())
        yield made


def url(server: str, name: str) -> str:
    """The server's address with another database."""
    given = conninfo_to_dict(server)
    login = f"{given.get('user', '')}:{given.get('password', '')}".rstrip(":")
    return f"postgresql://{login}@{given.get('host', '127.0.0.1')}:{given.get('port', 5432)}/{name}"


@pytest.fixture(params=["memory", "sqlite", POSTGRESQL])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Each of the three stores in turn, empty."""
    made: World
    if request.param == "memory":
        made = MemoryWorld()
    elif request.param == "sqlite":
        made = SqliteWorld(request.getfixturevalue("sqlite_template"), tmp_path)
    else:
        made = PostgresqlWorld(request.getfixturevalue("postgresql_dsn"))
    yield made
    made.close()


@pytest.fixture
def shared(world: World) -> Iterator[SharedWorld]:
    """The stores of shared state beside each of the three, empty."""
    made = SharedWorld(world)
    yield made
    made.close()


@pytest.fixture
def memories(world: World) -> Iterator[MemoriesWorld]:
    """The store of memories beside each of the three, empty."""
    made = MemoriesWorld(world)
    yield made
    made.close()


@pytest.fixture
def shared_postgresql(postgresql_world: PostgresqlWorld) -> Iterator[SharedWorld]:
    made = SharedWorld(postgresql_world)
    yield made
    made.close()


@pytest.fixture
def sqlite_world(sqlite_template: Path, tmp_path: Path) -> Iterator[SqliteWorld]:
    made = SqliteWorld(sqlite_template, tmp_path)
    yield made
    made.close()


@pytest.fixture
def postgresql_world(postgresql_dsn: str) -> Iterator[PostgresqlWorld]:
    made = PostgresqlWorld(postgresql_dsn)
    yield made
    made.close()


@pytest.fixture
def store() -> Gate:
    return Gate()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def writer(store: Gate, told: Told) -> Iterator[JournalWriter]:
    made = JournalWriter(store, told)
    made.start()
    yield made
    store.open.set()
    store.refused.clear()
    assert made.close(WAIT_S)
