"""Connections that are lent: no more than so many, whatever asks at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from fabric.stores.postgresql import connection as postgresql_connection
from fabric.stores.postgresql.connection import OPEN_MAX, Connections
from tests.servers.ports import free_port

pytestmark = pytest.mark.postgresql
CALLERS = 5 * OPEN_MAX


@pytest.fixture
def lent(postgresql_world):
    connections = Connections(postgresql_world.dsn, {})
    yield connections
    connections.close()


def test_a_crowd_shares_a_few_connections_and_they_are_kept(lent):
    backends, at_once = set(), threading.Barrier(CALLERS)

    def call(_):
        at_once.wait(20)
        for _ in range(5):
            with lent.use() as connection:
                backends.add(connection.info.backend_pid)

    with ThreadPoolExecutor(CALLERS) as callers:
        list(callers.map(call, range(CALLERS)))
    assert 1 <= len(backends) <= OPEN_MAX
    with lent.use() as connection:
        assert connection.info.backend_pid in backends


def test_who_comes_when_all_are_lent_gets_the_first_that_is_given_back(lent):
    got = threading.Event()

    def late():
        with lent.use():
            got.set()

    with ExitStack() as all_of_them:
        for _ in range(OPEN_MAX):
            all_of_them.enter_context(lent.use())
        caller = threading.Thread(target=late)
        caller.start()
        assert not got.wait(0.05)
    assert got.wait(20)
    caller.join(20)


def test_a_caller_does_not_wait_for_ever(lent, monkeypatch):
    monkeypatch.setattr(postgresql_connection, "ROOM_S", 0.01)
    with ExitStack() as all_of_them:
        for _ in range(OPEN_MAX):
            all_of_them.enter_context(lent.use())
        with pytest.raises(psycopg.OperationalError, match=f"none of {OPEN_MAX} connections came free"), lent.use():
            pass
    with lent.use() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_what_cannot_be_opened_takes_no_place():
    nowhere = Connections(f"postgresql://nobody@127.0.0.1:{free_port()}/none", {})
    for _ in range(OPEN_MAX + 1):
        with pytest.raises(psycopg.OperationalError, match="refused"), nowhere.use():
            pass


def test_one_that_was_left_in_the_middle_is_not_lent_again(lent):
    with lent.use() as connection:
        broken = connection.info.backend_pid
        connection.pgconn.send_query(b"SELECT 1")  # And no caller takes the answer.
    with lent.use() as connection:
        assert connection.info.backend_pid != broken
