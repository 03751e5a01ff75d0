"""Workers that see each other: who is gone is ended in a second or two, and no healthy worker ever is."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

from fabric.runtime.ports.journal import StoreUnavailable
from fabric.stores.postgresql.connection import connect
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.worker.lease import Lease
from fabric.worker.presence import MissingWorkers, Presence
from tests.fabric.stores.journal_worlds import new_run

WAIT_S = 30
LONG_S = 3_600.0
RESTARTS = int(os.environ.get("PRESENCE_RESTARTS", "8"))
"""Of a cluster of the test's own, about 2 s each."""


# -- the rule ----------------------------------------------------------------------------------------------------------


def test_who_is_missing_for_the_whole_grace_is_gone():
    missing = MissingWorkers(1.0)
    assert missing.record_look(["a"], 10.0, 500 + 10.0) == []
    assert missing.record_look(["a", "b"], 10.9, 500 + 10.9) == []
    assert missing.record_look(["a", "b"], 11.0, 500 + 11.0) == ["a"]
    assert missing.record_look(["a", "b"], 11.9, 500 + 11.9) == ["a", "b"]


def test_who_was_seen_in_between_begins_anew():
    missing = MissingWorkers(1.0)
    missing.record_look(["a"], 10.0, 500 + 10.0)
    missing.record_look([], 10.5, 500 + 10.5)
    assert missing.record_look(["a"], 11.0, 500 + 11.0) == []
    assert missing.record_look(["a"], 11.9, 500 + 11.9) == []


def test_a_broken_session_forgets_what_it_saw():
    missing = MissingWorkers(1.0)
    missing.record_look(["a"], 10.0, 500 + 10.0)
    missing.forget()
    assert not missing
    assert missing.record_look(["a"], 11.5, 500 + 11.5) == []


@pytest.mark.parametrize("jump_s", [15.0, -15.0])
def test_no_worker_is_judged_when_the_servers_clock_was_set(jump_s):
    missing = MissingWorkers(1.0)
    missing.record_look(["a"], 10.0, 510.0)
    assert missing.record_look(["a"], 11.0, 511.0 + jump_s) == []
    assert missing.record_look(["a"], 11.5, 511.5 + jump_s) == []
    assert missing.record_look(["a"], 12.0, 512.0 + jump_s) == ["a"], "its grace began anew"


# -- on a server -------------------------------------------------------------------------------------------------------


class Worker:
    """A lease and a presence, as an engine has them."""

    def __init__(self, dsn, name, *, lease_s=LONG_S, helped=False, session=None):
        self.store = PostgresqlStore(dsn)
        self.lost, self.gone = threading.Semaphore(0), threading.Semaphore(0)
        self.lease = Lease(self.store, name, lease_s, LONG_S, self.lost.release)
        self.lease.start()
        untell = self.store.untell_presence if helped else away
        self.presence = Presence(dsn, self.lease, self.gone.release, untell=untell, session=session)
        self.presence.start()

    def looked(self, times=1):
        """Waits until it has looked that many times more."""
        wanted = self.presence.looks + times
        until(lambda: self.presence.looks >= wanted)

    def die(self):
        """Its session ends without a word: as after kill -9."""
        self.presence.stop()

    def close(self):
        self.presence.stop()
        self.lease.stop()
        self.store.close()


def away(name):
    raise StoreUnavailable("no other connection either")


def until(true):
    give_up = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.fixture
def workers(postgresql_world):
    made = []

    def worker(name, **given):
        made.append(Worker(postgresql_world.dsn, name, **given))
        return made[-1]

    yield worker
    for one in made:
        one.close()


def told(world, name):
    return world.ask(f"SELECT lock_key, retired_at FROM fabric_incarnation WHERE name = '{name}'")[0]


def cut(world, *presences):
    """Ends the sessions that hold these locks."""
    keys = ", ".join(str(presence.key) for presence in presences)
    return world.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 "
        f"AND (classid::bigint << 32) | objid::bigint IN ({keys})"
    )


@pytest.mark.postgresql
def test_what_a_dead_worker_owned_is_free_long_before_its_lease_ends(postgresql_world, workers):
    dead, other = workers("dead"), workers("other")
    run = new_run()
    dead.store.create(run)
    assert dead.store.claim("dead", limit=1, queues=["default"])
    dead.looked()
    assert other.store.claim("other", limit=1, queues=["default"]) == []
    dead.die()
    assert other.gone.acquire(timeout=WAIT_S)
    assert other.presence.ended == ["dead"]
    (claimed,) = other.store.claim("other", limit=1, queues=["default"])
    assert (claimed.run_id, claimed.taken_over) == (run.run_id, True)
    assert not dead.store.beat("dead", lease_s=LONG_S)


@pytest.mark.postgresql
def test_cut_sessions_steal_no_healthy_run(postgresql_world, workers):
    """Thirty times the session that holds the lock is cut, with that of the watcher and alone."""
    one, other = workers("one"), workers("other")
    for number in range(30):
        sessions = one.presence.sessions, other.presence.sessions
        until(lambda: one.presence._told and other.presence._told)
        both = number % 2
        cut(postgresql_world, one.presence, *([other.presence] if both else []))
        until(lambda before=sessions: one.presence.sessions > before[0])
        until(lambda before=sessions, both=both: other.presence.sessions > before[1] or not both)
    one.looked(2)
    other.looked(4)
    assert one.presence.ended == other.presence.ended == []
    assert told(postgresql_world, "one") == (one.presence.key, None)


@pytest.mark.postgresql
def test_a_worker_that_cannot_take_its_lock_again_is_not_missed(postgresql_world, workers):
    """There may be no room for its session when the server comes back: it says by another connection that its lease is to be asked."""
    attempts = []

    def full_later():
        attempts.append(1)
        if len(attempts) > 2:  # The session, and the one that proves it.
            raise psycopg.OperationalError("too many clients already")
        return connect(postgresql_world.dsn, {})

    one, other = workers("one", helped=True, session=full_later), workers("other")
    one.looked()
    other.looked()
    cut(postgresql_world, one.presence)
    until(lambda: told(postgresql_world, "one")[0] is None)
    other.looked(4)
    assert other.presence.ended == []
    assert told(postgresql_world, "one") == (None, None)


@pytest.mark.postgresql
def test_a_worker_whose_lease_lapsed_is_not_ended_by_a_look_but_by_a_claim(postgresql_world, workers):
    """One that stands still keeps its session: its lock is there, so that only the lease speaks."""
    still, other = workers("still", lease_s=2), workers("other")
    run = new_run()
    still.store.create(run)
    assert still.store.claim("still", limit=1, queues=["default"])
    until(lambda: other.store.claim("other", limit=1, queues=["default"]))
    other.looked(2)
    assert other.presence.ended == []


@pytest.mark.postgresql
def test_a_retired_worker_finds_out_at_once_and_shows_its_lock_under_its_new_name(postgresql_world, workers):
    one = workers("one")
    one.looked()
    one.store.retire("one")
    cut(postgresql_world, one.presence)
    assert one.lost.acquire(timeout=WAIT_S)
    assert one.lease.name == "one-2"
    until(lambda: told(postgresql_world, "one-2") == (one.presence.key, None))


@pytest.mark.postgresql
def test_behind_a_transaction_pooler_the_lease_alone_decides(postgresql_world, workers, caplog):
    one = workers("one", session=Pooler(postgresql_world.dsn))
    one.presence._thread.join(WAIT_S)
    assert not one.presence._thread.is_alive()
    assert told(postgresql_world, "one") == (None, None)
    assert "through a pooler that lends a connection for one transaction" in caplog.text
    assert one.presence.looks == 0


class Pooler:
    """Lends one of its connections for each transaction, the one that was used last first, as poolers do."""

    def __init__(self, dsn):
        self._dsn, self._idle = dsn, []

    def __call__(self):
        return Pooled(self)

    @contextmanager
    def lend(self):
        connection = self._idle.pop() if self._idle else connect(self._dsn, {})
        yield connection
        self._idle.append(connection)


class Pooled:
    """A client behind a pooler."""

    def __init__(self, pooler):
        self._pooler, self._held = pooler, None

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        pass

    @contextmanager
    def transaction(self):
        with self._pooler.lend() as self._held:
            yield
        self._held = None

    def execute(self, statement):
        return self._held.execute(statement)

    def run(self, statement, values):
        with self._pooler.lend() as connection:
            return connection.run(statement, values)


@pytest.mark.postgresql
def test_an_idle_worker_looks_once_a_second_and_commits_nothing(postgresql_world, workers):
    one = workers("one")
    one.looked()
    commits = told(postgresql_world, "one")
    xmin = postgresql_world.ask("SELECT xmin FROM fabric_incarnation WHERE name = 'one'")
    began, looks = time.monotonic(), one.presence.looks
    one.looked(2)
    assert one.presence.looks - looks <= time.monotonic() - began + 1
    assert told(postgresql_world, "one") == commits
    assert postgresql_world.ask("SELECT xmin FROM fabric_incarnation WHERE name = 'one'") == xmin


@pytest.mark.postgresql
def test_restarts_of_the_server_steal_no_healthy_run(own):
    """Each takes all locks at once; no worker is ended for it, with nothing but the grace between them."""
    made = [Worker(own.url(), f"worker-{number}") for number in range(3)]
    for _ in range(RESTARTS):
        sessions = [worker.presence.sessions for worker in made]
        own.restart()
        for worker, before in zip(made, sessions, strict=True):
            until(lambda worker=worker, before=before: worker.presence.sessions > before and worker.presence._told)
    for worker in made:
        worker.looked(4)
    with psycopg.connect(own.url()) as connection:
        retired = connection.execute("SELECT name FROM fabric_incarnation WHERE retired_at IS NOT NULL").fetchall()
    assert retired == []
    assert [worker.presence.ended for worker in made] == [[], [], []]
    for worker in made:
        worker.close()
