"""Chaos disturbs with a schedule, the proxy and the servers; the database's own eye sees who writes."""

import os
import shutil
import socket
from itertools import islice

import psycopg
import pytest

from tests.chaos import campaign
from tests.chaos.campaign import Order
from tests.chaos.faults.nemesis import KINDS, schedule
from tests.chaos.installation import Plan
from tests.chaos.rows import WATCH
from tests.chaos.servers.local import RedisServer
from tests.chaos.servers.proxy import Proxies
from tests.chaos.test_chaos import PLANS
from tests.console.launch.started_processes import PATIENCE_S

# -- the schedule --


def first(seed, names, count=200):
    return list(islice(schedule(seed, names), count))


def test_a_seed_is_always_the_same_schedule_and_another_is_another():
    assert first(1, list(KINDS)) == first(1, list(KINDS))
    assert first(1, list(KINDS)) != first(2, list(KINDS))


def test_strikes_come_in_order_and_as_far_apart_as_their_kind_says():
    found = first(3, list(KINDS), 2_000)
    assert found == sorted(found)
    for name, kind in KINDS.items():
        own = [strike.at_s for strike in found if strike.name == name]
        apart = [later - earlier for earlier, later in zip([0.0, *own], own, strict=False)]
        assert own
        assert all(kind.apart_s[0] <= one <= kind.apart_s[1] for one in apart)
        assert len(own) == 1 or not kind.once


def test_leaving_a_kind_out_changes_nothing_for_the_others():
    some = [strike for strike in first(4, list(KINDS), 2_000) if strike.name in ("kill", "cut")]
    assert some[:50] == first(4, ["kill", "cut"], 50)


def test_what_makes_sense_where():
    everything = campaign.names([])

    def on(plan):
        return set(Order(plan, 60, None, everything, 0).names)

    assert on(Plan()) == {"kill", "failpoint", "grants", "lock"}
    assert on(Plan(small_disk=True)) == {"kill", "failpoint", "grants", "lock", "disk_full"}
    assert on(PLANS["postgresql-redis"]) == set(KINDS) - {"lock", "disk_full"}


def test_a_strike_that_there_is_not_is_told():
    with pytest.raises(ValueError, match="there is no strike 'flood'; there are: kill, failpoint"):
        campaign.names(["kill", "flood"])


def test_how_many_kills_a_run_needs_to_count():
    def needs(seconds, kills, only=()):
        return Order(Plan(), seconds, kills, campaign.names(only), 0).least_between

    assert needs(60, None) == 5
    assert needs(60, 500) == needs(3_600, None) == 200
    assert needs(3_600, None, ["restarts", "cut"]) == 0


# -- the proxy --


@pytest.fixture
def line():
    """A proxy, and a function that opens a connection through it and gives both of its ends."""
    with socket.create_server(("127.0.0.1", 0)) as server, Proxies() as proxies:
        server.settimeout(PATIENCE_S)
        proxy = proxies.to(server.getsockname()[1])
        opened = []

        def connect():
            near = socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE_S)
            far = server.accept()[0]
            far.settimeout(PATIENCE_S)
            opened.extend((near, far))
            return near, far

        yield proxy, connect
        for one in opened:
            one.close()


def gone(end):
    try:
        return end.recv(10) == b""
    except ConnectionResetError:
        return True


def test_a_proxy_passes_both_ways(line):
    _, connect = line
    near, far = connect()
    near.sendall(b"ping")
    assert far.recv(10) == b"ping"
    far.sendall(b"pong")
    assert near.recv(10) == b"pong"
    near.close()
    assert gone(far)


def test_a_cut_ends_what_is_open_and_lets_new_ones_in(line):
    proxy, connect = line
    near, far = connect()
    proxy.cut()
    assert gone(near)
    assert gone(far)
    near, far = connect()
    near.sendall(b"again")
    assert far.recv(10) == b"again"


def test_what_is_swallowed_never_comes_and_the_line_is_cut_in_the_end(line):
    proxy, connect = line
    near, far = connect()
    proxy.mode = "blackhole"
    near.sendall(b"lost")
    assert proxy.swallowed.wait(PATIENCE_S)
    proxy.heal()
    assert gone(far)
    assert gone(near)


def test_what_is_delayed_comes(line):
    proxy, connect = line
    near, far = connect()
    proxy.mode = "delay"
    near.sendall(b"late")
    assert far.recv(10) == b"late"


def test_a_server_that_is_away_is_a_connection_that_ends():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        Proxies() as proxies,
        socket.create_connection(("127.0.0.1", proxies.to(port).port), timeout=PATIENCE_S) as near,
    ):
        assert gone(near)


# -- who writes --


@pytest.fixture
def table(postgresql):
    """A table like that of the runs, looked at by the database."""
    postgresql.execute("CREATE TABLE fabric_run (id text, fence bigint, last_seq bigint, incarnation text)")
    postgresql.execute(WATCH.encode())
    return postgresql


@pytest.fixture
def postgresql():
    """A schema of its own on the tests' server."""
    with psycopg.connect(os.environ["TEST_DATABASE_URL"], autocommit=True) as connection:
        connection.execute("CREATE SCHEMA chaos_test")
        try:
            connection.execute("SET search_path TO chaos_test")
            yield connection
        finally:
            connection.execute("DROP SCHEMA chaos_test CASCADE")


@pytest.mark.postgresql
@pytest.mark.parametrize(
    ("owner", "writer", "moved", "stale"),
    [
        ("here-12-abcdef01", "here-12-abcdef01", 1, False),
        ("here-12-abcdef01-2", "here-12-abcdef01", 1, False),  # The same process, in its second life.
        ("here-12-abcdef01", "here-13-abcdef02", 1, True),
        ("here-12-12345678", "here-12-12345679", 1, True),
        (None, "here-12-abcdef01", 1, True),
        ("here-12-abcdef01", "fabric-flow", 1, True),
        ("here-12-abcdef01", "here-13-abcdef02", 0, False),  # A claim moves no event.
    ],
)
def test_the_database_notes_a_write_by_one_who_does_not_own_the_row(table, owner, writer, moved, stale):
    table.execute("INSERT INTO fabric_run VALUES ('r1', 4, 7, %s)", [owner])
    table.execute("SELECT set_config('application_name', %s, false)", [writer])
    table.execute("UPDATE fabric_run SET last_seq = last_seq + %s, fence = fence", [moved])
    found = table.execute("SELECT run_id, fence, last_seq, owner, writer FROM chaos_stale").fetchall()
    assert found == ([("r1", 4, 8, owner, writer)] if stale else [])
    assert table.execute("SELECT is_called FROM chaos_writes").fetchone() == (bool(moved),)


# -- servers --


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_a_redis_of_its_own_forgets_and_comes_back(tmp_path):
    server = RedisServer(tmp_path)
    server.start()
    try:
        server.flush()
        server.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
        server.start()
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S).close()
    finally:
        server.close()
