"""How the two databases keep headers and payloads: packed, beside what lay there unpacked before; and damage stays where it is."""

import sqlite3
from contextlib import closing

import psycopg
import pytest

from fabric.packing.rows import MAGIC
from fabric.runtime.journal.loader import JournalDamage, LoadedRun, load
from tests.fabric.conftest import POSTGRESQL
from tests.fabric.stores.journal_worlds import Journal, PostgresqlWorld, new_run
from tests.servers.unguarded import AS_REPLICA, unguarded

CONTENT = b'{"output":{"citations":[],"text":"' + b"The quick brown fox jumps over the lazy dog. " * 20 + b'"}}'
PLACE = "run_id = ? AND seq = ?"


@pytest.fixture(params=["sqlite_world", pytest.param("postgresql_world", marks=POSTGRESQL.marks)])
def world(request):
    return request.getfixturevalue(request.param)


def written(world, runs=1):
    """Runs of one owner with three events each."""
    world.store.register("host-1", lease_s=3600.0)
    for _ in range(runs):
        world.store.create(new_run())
    journals = [Journal(run.run_id, run.fence) for run in world.store.claim("host-1", limit=100, queues=["default"])]
    world.store.write([journal.batch(3, content=CONTENT) for journal in journals])
    return journals


def by_hand(world, statement, *values):
    """SQL past the stores and the triggers."""
    if isinstance(world, PostgresqlWorld):
        with psycopg.connect(world.dsn, autocommit=True) as connection:
            connection.execute(AS_REPLICA)
            cursor = connection.execute(statement.replace("?", "%s").encode(), values)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(world.path, isolation_level=None)) as connection, unguarded(connection):
        return connection.execute(statement, values).fetchall()


def stored(world, journal, seq):
    ((header, payload),) = by_hand(
        world, f"SELECT header, payload FROM fabric_event WHERE {PLACE}", journal.run_id, seq
    )
    return {"header": bytes(header), "payload": bytes(payload)}


def store(world, journal, seq, column, value):
    by_hand(world, f"UPDATE fabric_event SET {column} = ? WHERE {PLACE}", value, journal.run_id, seq)


def claimed(world, *journals):
    taken = world.store.claim("host-1", limit=100, queues=["default"], again=[one.run_id for one in journals])
    return {run.run_id: run for run in taken}


def test_headers_and_payloads_lie_packed_in_their_table(world):
    (journal,) = written(world)
    for row in journal.written:
        kept = stored(world, journal, row.seq)
        assert kept["header"].startswith(MAGIC)
        assert kept["payload"].startswith(MAGIC)
        assert len(kept["header"]) < len(row.header)
        assert len(kept["payload"]) < len(CONTENT) / 4


def test_rows_from_before_there_was_packing_are_read_beside_packed_ones(world):
    (journal,) = written(world)
    old = journal.written[1]
    store(world, journal, 2, "header", old.header)
    store(world, journal, 2, "payload", old.payload)
    assert stored(world, journal, 2) == {"header": old.header, "payload": old.payload}
    rows = world.store.journal(journal.run_id)
    assert [(row.header, row.payload) for row in rows] == [(row.header, row.payload) for row in journal.written]
    assert claimed(world, journal)[journal.run_id].rows == tuple(rows)
    assert isinstance(load(claimed(world, journal)[journal.run_id]), LoadedRun)


@pytest.mark.parametrize(("column", "what"), [("header", "changed"), ("payload", "payload")])
@pytest.mark.parametrize("place", [0, 5, 20, -1], ids=lambda place: f"byte {place}")
def test_a_changed_byte_is_the_damage_of_its_run_alone(world, column, what, place):
    journals = written(world, runs=3)
    damaged = journals[1]
    packed = bytearray(stored(world, damaged, 2)[column])
    packed[place] ^= 0x41
    store(world, damaged, 2, column, bytes(packed))
    found = {run_id: load(run) for run_id, run in claimed(world, *journals).items()}
    damage = found.pop(damaged.run_id)
    assert isinstance(damage, JournalDamage)
    assert (damage.what, damage.seq) == (what, 2)
    assert len(found) == 2
    assert all(isinstance(run, LoadedRun) for run in found.values())
