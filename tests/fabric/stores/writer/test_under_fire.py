"""The journal writer over real databases that refuse, stall, lose answers, restart and fill up: nothing that was acknowledged is lost, and nothing stands twice."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing, contextmanager

import psycopg
import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.stores.errors import RowRefused
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from tests.fabric.stores.journal_worlds import columns
from tests.fabric.stores.writer.fire_scenes import Pen, Stream, Wire, stands
from tests.fabric.stores.writer.writer_scenes import WAIT_S, owned

MANY = 256
"""A whole batch (``writer.RUNS_MAX``)."""
POISON = {
    "SqliteWorld": (columns(tokens=2**80), OverflowError),
    "PostgresqlWorld": (columns(reason="a\x00b"), RowRefused),
}
"""By database: what it does not store, and how that is said."""


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def there(request):
    """Each of the two databases in turn."""
    return request.getfixturevalue(f"{request.param}_world")


def taken(store, journals):
    """These runs, in the hands of another worker; the journals given go on as if they were not."""
    for journal in journals:
        store.write([journal.batch(0, release=True)])
    store.register("host-2", lease_s=3_600)
    claims = store.claim("host-2", limit=len(journals), queues=["default"])
    assert {claim.run_id for claim in claims} == {journal.run_id for journal in journals}
    return [journal.rival(claim.fence) for journal, claim in zip(journals, claims, strict=True)]


def until(true):
    give_up = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.005)


# -- what the database refuses -----------------------------------------------------------------------------------------


def test_lost_fences_in_a_batch_of_many_runs_drop_out_alone(there):
    journals = sorted(owned(there.store, MANY), key=lambda one: one.run_id)
    lost, kept = journals[::36], [one for n, one in enumerate(journals) if n % 36]
    theirs = taken(there.store, lost)
    with Pen(there.store) as pen:
        pen.write(journals, rows=2)
        fates = dict(pen.outcomes.wait(MANY))
    assert {run_id for run_id, fate in fates.items() if fate is BatchFate.FENCED} == {one.run_id for one in lost}
    assert set(fates.values()) == {BatchFate.FENCED, BatchFate.COMMITTED}
    assert pen.writer.flushes == 1, "who is fenced costs the others no second write"
    stands(there.store, [*kept, *theirs])
    assert there.store.write([theirs[0].batch()]) == [BatchFate.COMMITTED], "the run's owner was not in the way of it"


def test_a_poison_run_in_a_whole_batch_is_found_by_halving(there):
    journals = owned(there.store, MANY)
    poison = journals.pop(171)
    given, refusal = POISON[type(there).__name__]
    commits = there.store.commits
    with Pen(there.store) as pen:
        ready = [(one.batch(), pen.outcomes.of(one.run_id)) for one in journals]
        ready.insert(171, (poison.batch(columns=given), pen.outcomes.of(poison.run_id)))
        pen.writer.submit_all(ready)
        fates = dict(pen.outcomes.wait(MANY))
    assert isinstance(fates.pop(poison.run_id), refusal)
    assert set(fates.values()) == {BatchFate.COMMITTED}
    # 256, 128, 64 ... 1 of them with the poison, which fail, and the other half of each.
    assert pen.writer.flushes == 17
    assert there.store.commits - commits == 8
    stands(there.store, journals)
    assert there.store.journal(poison.run_id) == []


# -- what stalls -------------------------------------------------------------------------------------------------------


@contextmanager
def held(dsn, run_id):
    """Another connection's lock on a run's row."""
    with psycopg.connect(dsn) as rival:
        rival.execute("SELECT 1 FROM fabric_run WHERE id = %s FOR UPDATE", [run_id])
        yield
        rival.rollback()


@pytest.mark.postgresql
def test_a_locked_row_waits_alone(postgresql_world):
    store = postgresql_world.store
    journals = owned(store, 8)
    with Pen(store) as pen:
        with held(postgresql_world.dsn, journals[5].run_id):
            pen.write(journals)
            fates = dict(pen.outcomes.wait(7))
            assert journals[5].run_id not in fates
            assert pen.writer.trouble is None, "the database is there"
            stands(store, [one for n, one in enumerate(journals) if n != 5])
        fates = dict(pen.outcomes.wait(1))
    assert set(fates.values()) == {BatchFate.COMMITTED}
    stands(store, journals)


SLOW = """
CREATE FUNCTION too_slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$;
CREATE TRIGGER too_slow BEFORE INSERT ON fabric_event FOR EACH ROW WHEN (NEW.run_id = '{run_id}') EXECUTE FUNCTION too_slow();
"""


@contextmanager
def slow(world, run_id):
    """A minute for each event of this run."""
    world.ask(SLOW.format(run_id=run_id))
    try:
        yield
    finally:
        world.ask("DROP FUNCTION too_slow() CASCADE")


@pytest.mark.postgresql
def test_a_statement_that_takes_too_long_is_given_up_and_its_run_waits_alone(postgresql_world):
    store = PostgresqlStore(postgresql_world.dsn, flush_timeout_ms=300)
    postgresql_world.stores.append(store)
    journals = owned(store, 8)
    with Pen(store) as pen:
        with slow(postgresql_world, journals[3].run_id):
            pen.write(journals)
            assert journals[3].run_id not in dict(pen.outcomes.wait(7))
        assert set(dict(pen.outcomes.wait(1)).values()) == {BatchFate.COMMITTED}
    stands(store, journals)


def test_a_locked_file_is_waited_for(sqlite_world):
    store = SqliteStore(sqlite_world.path, busy_s=0.05)
    sqlite_world.stores.append(store)
    journals = owned(store, 4)
    with Pen(store) as pen:
        with closing(sqlite3.connect(sqlite_world.path, isolation_level=None)) as rival:
            rival.execute("BEGIN IMMEDIATE")
            pen.write(journals)
            until(lambda: pen.writer.trouble is not None)
            assert "held by another process" in str(pen.writer.trouble)
            assert pen.outcomes.seen == []
            rival.execute("ROLLBACK")
        assert set(dict(pen.outcomes.wait(4)).values()) == {BatchFate.COMMITTED}
    stands(store, journals)


# -- what no worker knows ----------------------------------------------------------------------------------------------


@pytest.fixture
def wired(postgresql_world):
    """A store over a wire that can lose what crosses it."""
    ((port,),) = postgresql_world.ask("SELECT inet_server_port()")
    wire = Wire(port)
    store = PostgresqlStore(dsn_at(postgresql_world.dsn, wire.port))
    postgresql_world.stores.append(store)
    yield store, wire
    wire.close()


def dsn_at(dsn, port):
    return psycopg.conninfo.make_conninfo(dsn, port=port, host="127.0.0.1")


@pytest.mark.postgresql
@pytest.mark.parametrize(("lost", "landed"), [("answer", True), ("request", False)])
def test_a_commit_whose_answer_is_lost_has_one_of_two_fates(postgresql_world, wired, lost, landed):
    store, wire = wired
    journals = owned(store, 32)
    with Pen(store) as pen:
        wire.lose(lost, journals[7].run_id)
        pen.write(journals, rows=2, consumed=("start",))
        pen.write(journals)
        fates = pen.outcomes.wait(64)
    assert [fate for _, fate in fates] == [BatchFate.COMMITTED] * 64
    stands(store, journals)
    assert postgresql_world.ask("SELECT count(*) FROM fabric_inbox WHERE consumed_seq = 2") == [(32,)]
    assert pen.writer.flushes == (2 if landed else 4), (
        "what landed is not written again, and what did not is, in two halves"
    )


@pytest.mark.postgresql
def test_a_commit_that_lands_after_its_fate_was_asked_for_stands_once(postgresql_world, wired):
    """No worker waits for the server's answer any more when it gets the lock that it waited for."""
    store, wire = wired
    (journal,) = owned(store, 1)
    with Pen(store) as pen:
        with held(postgresql_world.dsn, journal.run_id):
            wire.lose("connection", journal.run_id)
            pen.write([journal])
            assert wire.losses.acquire(timeout=WAIT_S)
            until(lambda: pen.writer.flushes > 1)  # It was not written, said its row.
        ((_, fate),) = pen.outcomes.wait(1)
    assert fate in (BatchFate.COMMITTED, BatchFate.FENCED)
    stands(store, [journal])


DEADLY = """
CREATE FUNCTION deadly() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
CREATE TRIGGER deadly BEFORE INSERT ON fabric_event FOR EACH ROW WHEN (NEW.run_id = '{run_id}') EXECUTE FUNCTION deadly();
"""


@pytest.mark.postgresql
def test_a_batch_that_takes_the_connection_with_it_each_time_ends_up_alone_and_is_given_up(postgresql_world):
    store = postgresql_world.store
    journals = owned(store, 32)
    deadly = journals.pop(11)
    postgresql_world.ask(DEADLY.format(run_id=deadly.run_id))
    try:
        with Pen(store) as pen:
            stream = Stream(pen.writer, journals)
            stream.start()
            pen.write([deadly])
            ((_, fate),) = pen.outcomes.wait(1)
            stream.further()
            stream.end()
    finally:
        postgresql_world.ask("DROP FUNCTION deadly() CASCADE")
    assert isinstance(fate, StoreUnavailable)
    assert not fate.unknown
    assert "each time that this was written" in str(fate)
    stands(store, journals)
    assert store.journal(deadly.run_id) == []


# -- what goes away ----------------------------------------------------------------------------------------------------


def immediately(server):
    server.restart()


def fast(server):
    """Every session is told that it is over, and what is under way is rolled back."""
    os.kill(server.postmaster(), signal.SIGINT)
    until(lambda: server.postmaster() is None)
    server.start()


@pytest.fixture
def on_own_server(own):
    store = PostgresqlStore(own.url())
    yield store
    with psycopg.connect(own.url(), autocommit=True) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("TRUNCATE fabric_event, fabric_inbox, fabric_run, fabric_incarnation")
    store.close()


@pytest.mark.postgresql
@pytest.mark.parametrize("restart", [immediately, fast])
def test_a_restart_in_the_middle_loses_nothing_and_doubles_nothing(own, on_own_server, restart):
    store = on_own_server
    with Pen(store) as pen:
        stream = Stream(pen.writer, owned(store, 64))
        stream.start()
        for _ in range(2):
            stream.further()
            restart(own)
            acknowledged = dict(stream.acknowledged)
            assert all(
                head.last_seq >= acknowledged[run_id] for run_id, head in store.heads(list(acknowledged)).items()
            )
        stream.further()
        stream.end()
    stands(store, stream.journals)
    assert pen.writer.trouble is None


@pytest.mark.postgresql
def test_what_is_submitted_while_the_server_is_down_is_written_when_it_is_back(own, on_own_server):
    store = on_own_server
    journals = owned(store, 16)
    with Pen(store) as pen:
        own.stop()
        try:
            pen.write(journals, rows=2)
            until(lambda: pen.writer.trouble is not None)
            assert "does not answer" in str(pen.writer.trouble)
            assert pen.outcomes.seen == []
            assert pen.writer.count_waiting() == 16
        finally:
            own.start()
        assert set(dict(pen.outcomes.wait(16)).values()) == {BatchFate.COMMITTED}
    stands(store, journals)
