"""A campaign that is short of the kills that count: it goes on, and strikes where they come from."""

import os
import time

import psycopg
import pytest

from tests.chaos.campaign import LONG_S, PATIENCE_S, SPARE, Campaign, Order
from tests.chaos.faults.failpoints import GRANT_PLACES, PLACES, ticket
from tests.chaos.faults.nemesis import KINDS, Strikes
from tests.chaos.installation import Installation, Plan
from tests.chaos.rows import ChaosRows

COUNTS = {"effect.after"}
"""Where something has happened outside and nothing was written of it yet."""


@pytest.fixture
def campaign(tmp_path):
    """A function that makes one which has struck nothing yet, and killed no process."""

    def made(seconds, only=tuple(KINDS)):
        order = Order(Plan(), seconds, None, only, 1)
        return Campaign(order, Installation(Plan(), tmp_path, {}, ChaosRows(tmp_path)), lambda said: None)

    return made


def tickets(one, name, number=0):
    """The tickets that lie there after a strike, taken away again."""
    one._strike(Strikes(0.0, name, f"1/{name}/{number}"))
    found = {place for place in PLACES if ticket(one.made.folder, place).exists()}
    for place in found:
        ticket(one.made.folder, place).unlink()
    return found


def test_while_it_is_short_every_ticket_lies_where_the_kills_that_count_come_from(campaign):
    short = campaign(10.0)
    assert [tickets(short, "failpoint", number) for number in range(20)] == 20 * [COUNTS]
    assert short.done == {"failpoint": 20}


def test_while_it_is_short_only_the_first_of_the_other_kinds_that_kill_is_what_it_says(campaign):
    short = campaign(10.0)
    assert tickets(short, "grants") <= set(GRANT_PLACES)
    assert tickets(short, "grants", 1) == COUNTS
    assert short.done == {"grants": 1, "failpoint": 1}


@pytest.mark.parametrize("seconds", [10.0, LONG_S])
def test_one_that_has_its_kills_and_a_long_one_strike_at_every_place(campaign, seconds):
    one = campaign(seconds)
    if seconds < LONG_S:
        one._between = (0, one.order.least_between + SPARE)
    found = [tickets(one, "failpoint", number) for number in range(60)]
    assert len(set.union(*found)) > 5
    assert [tickets(one, "grants", number) & COUNTS for number in range(20)] == 20 * [set()]


@pytest.mark.parametrize(
    ("seconds", "only", "passed", "over"),
    [
        (10.0, tuple(KINDS), 9.0, False),
        (10.0, tuple(KINDS), 31.0, False),  # A slow machine: it is short after three times its time too.
        (10.0, tuple(KINDS), PATIENCE_S + 1, True),
        (10.0, ("lock",), 11.0, True),  # It kills no process.
        (LONG_S, tuple(KINDS), 2 * LONG_S, False),
        (LONG_S, tuple(KINDS), 3 * LONG_S + 1, True),
    ],
)
def test_it_goes_on_until_it_has_its_kills_and_not_for_ever(campaign, seconds, only, passed, over):
    one = campaign(seconds, only)
    one._begun = time.monotonic() - passed
    assert one._over() is over
    one._between = (0, one.order.least_between + SPARE)
    assert one._over() is (passed >= seconds)


def test_what_is_due_within_its_time_comes_however_late(campaign):
    one = campaign(10.0, ("failpoint",))
    one._between = (0, one.order.least_between + SPARE)
    one._begun = time.monotonic() - 20.0  # Whatever came before has taken long.
    strikes = iter([Strikes(at, "failpoint", f"1/failpoint/{at}") for at in (0.0, 0.01, 10.01)])
    left = one._disturb(strikes, next(strikes), time.monotonic() + 60.0)
    assert (one.done, left.at_s) == ({"failpoint": 2}, 10.01)


@pytest.mark.postgresql
def test_the_holder_of_a_connection_reads_on_when_the_database_has_ended_it():
    rows = ChaosRows(os.environ["TEST_DATABASE_URL"], keep=True)
    try:
        assert rows.read("SELECT 1") == [(1,)]
        (backend,) = rows.backends
        assert rows.read("SELECT pg_backend_pid()") == [(backend,)]
        with psycopg.connect(os.environ["TEST_DATABASE_URL"], autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [backend])
        assert rows.read("SELECT 1") == [(1,)]
        assert backend not in rows.backends
        assert len(rows.backends) == 1
    finally:
        rows.close()
