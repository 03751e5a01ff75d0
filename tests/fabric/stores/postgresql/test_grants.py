"""PostgreSQL alone can get these wrong: a snapshot that is older than the lock, and the database's own checks."""

import threading
import time

import psycopg
import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.runtime.ports.spending import Budget, Grant, ReaperWork
from fabric.stores.errors import StoreBusy
from fabric.stores.postgresql.statements import Statement
from fabric.stores.postgresql.statements import grants as statements
from tests.fabric.stores.grant_worlds import FABRIC, Holding, entries, reserving, settling

pytestmark = pytest.mark.postgresql
HOLD = "SELECT 1 FROM fabric_grant WHERE id = 'grant-1' AND state = 'open' FOR SHARE"
RESERVE = """
INSERT INTO fabric_reservation (run_id, command_id, attempt, grant_id, amount, reason, reserved_at) VALUES ('run-1', 'call-1', 1, 'grant-1', 60, '', 0)
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def capped(shared_postgresql):
    shared_postgresql.live("host-1", "host-2")
    shared_postgresql.cap(1_000)
    shared_postgresql.grants.take("host-1", FABRIC, grant_id="grant-1", enough=100, chunk=100)
    return shared_postgresql


@pytest.fixture
def hold(capped):
    """Opens transactions in other sessions; what a test leaves open is rolled back, so that the next one waits for none."""
    held = []

    def opened():
        held.append(Holding(capped.journal.dsn))
        return held[-1]

    yield opened
    for one in held:
        one.connection.close()


def until_one_waits(shared):
    """Returns when a session of this database waits for a lock; fails when none ever does."""
    give_up = time.monotonic() + 20
    while not shared.journal.ask(WAITING)[0][0]:
        assert time.monotonic() < give_up, "no thread waits for a lock"


def beside(call, *given):
    """A call on a thread of its own, and what it gave."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call(*given)), daemon=True)
    thread.start()
    return thread, found


def test_closing_waits_for_a_flush_that_holds_the_grant_and_counts_what_it_reserved(capped, hold):
    flush = hold()
    flush.ask(HOLD)
    flush.ask(RESERVE)
    closing, found = beside(capped.another().close, "host-1", ["grant-1"])
    until_one_waits(capped)
    flush.commit()
    closing.join()
    assert found == [[]]
    assert capped.stands() == (0, 100, 0)
    capped.grants.reserve([entries(settling(7))])
    assert capped.grants.close("host-1", ["grant-1"]) == ["grant-1"]
    assert capped.stands() == (7, 0, 0)


def test_the_reaper_leaves_a_grant_that_a_flush_holds_to_its_next_look(capped, hold):
    flush = hold()
    flush.ask(HOLD)
    flush.ask(RESERVE)
    capped.dies("host-1")
    assert capped.grants.reap() == ReaperWork(0, 0)
    assert capped.stands() == (0, 100, 0)
    flush.commit()
    assert capped.grants.reap() == ReaperWork(1, 1)
    assert capped.stands() == (60, 0, 0)


def test_a_flush_that_waited_for_a_grant_to_be_closed_is_refused(capped, hold):
    closer = hold()
    closer.ask("UPDATE fabric_grant SET state = 'closing' WHERE id = 'grant-1'")
    flush, found = beside(capped.another().reserve, [entries(reserving("grant-1", 10))])
    until_one_waits(capped)
    closer.commit()
    flush.join()
    assert found == [[BatchFate.GRANT_GONE]]
    assert capped.grants.list_reservations("grant-1") == []


def test_a_reservation_that_is_settled_while_the_reaper_settles_it_is_counted_as_it_stands(capped, hold):
    capped.grants.reserve([entries(reserving("grant-1", 60))])
    capped.dies("host-1")
    owner = hold()
    owner.ask("UPDATE fabric_reservation SET settled = 9, reason = 'answered' WHERE run_id = 'run-1'")
    reaper, found = beside(capped.another().reap)
    until_one_waits(capped)
    owner.commit()
    reaper.join()
    assert found == [ReaperWork(1, 0)]
    assert capped.stands() == (9, 0, 0)


def test_who_waited_for_the_budget_judges_by_what_it_is_then(capped, hold):
    other = hold()
    other.ask("UPDATE fabric_budget SET granted = granted + 850")
    taking, found = beside(lambda: capped.another().take("host-2", FABRIC, grant_id="grant-2", enough=51, chunk=51))
    until_one_waits(capped)
    other.commit()
    taking.join()
    assert isinstance(found[0], Budget)
    assert (found[0].granted, found[0].grantable) == (950, 50)


@pytest.mark.parametrize("change", ["granted = 1001", "spent = 901", "spent = -1", "granted = -1", "cap = 99"])
def test_the_database_itself_refuses_what_would_break_the_promise(capped, change):
    with pytest.raises(psycopg.errors.CheckViolation):
        capped.journal.ask(f"UPDATE fabric_budget SET {change}")


def test_a_statement_that_granted_more_than_there_is_would_be_refused_by_the_database(capped):
    """Its own judgement taken out: what is left is the table's check."""
    judged = "AND amount <= free AND"
    text = statements.TAKE.sql.decode()
    assert judged in text
    capped.grants.run(statements.TAKE, TAKEN | {"grant_id": "grant-2", "enough": 900, "chunk": 900})
    with capped.grants._connections.use() as connection:
        values = [TAKEN[name] for name in statements.TAKE._names]
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(text.replace(judged, "AND").encode(), values)
    assert capped.stands() == (0, 1_000, 0)


def test_a_take_whose_first_try_still_runs_is_refused_and_may_be_asked_again(capped, hold):
    first = hold()
    first.ask("UPDATE fabric_budget SET granted = granted + 50")
    first.ask(
        "INSERT INTO fabric_grant (id, incarnation, scope, state, amount, used, opened_at) VALUES ('grant-2', 'host-1', 'fabric:one', 'open', 50, 0, 0)"
    )
    failed = []

    def again():
        try:
            capped.another().take("host-1", FABRIC, grant_id="grant-2", enough=50, chunk=50)
        except Exception as error:  # noqa: BLE001 - looked at below
            failed.append(error)

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    until_one_waits(capped)
    first.commit()
    thread.join()
    assert "duplicate key" in str(failed[0])
    assert capped.stands() == (0, 150, 0)
    again_asked = capped.grants.take("host-1", FABRIC, grant_id="grant-2", enough=50, chunk=50)
    assert again_asked == Grant("grant-2", FABRIC, 50)
    assert capped.stands() == (0, 150, 0)


def test_a_database_that_is_away_says_whether_a_change_may_stand(capped, hold):
    waiting = capped.another()
    other = hold()
    other.ask("UPDATE fabric_budget SET granted = granted")
    failed = []

    def take():
        try:
            waiting.take("host-1", FABRIC, grant_id="grant-2", enough=50, chunk=50)
        except StoreUnavailable as error:
            failed.append(error)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    until_one_waits(capped)
    capped.journal.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    thread.join()
    other.commit()
    assert not isinstance(failed[0], StoreBusy)
    assert failed[0].unknown


TAKEN = {"scope": FABRIC, "incarnation": "host-1", "grant_id": "grant-3", "enough": 1, "chunk": 1}
PLANS = ("fabric_budget", "fabric_grant", "fabric_reservation", "fabric_budget_window")


def test_no_statement_reads_a_whole_table(capped):
    """With the settings of these connections a sequential scan means that there is no index to use."""
    capped.grants.reserve([entries(reserving("grant-1", 10))])
    connections = capped.grants._connections
    looked = 0
    with connections.use() as connection:
        for name, statement in vars(statements).items():
            if not isinstance(statement, Statement):
                continue
            nulls = ", ".join(["NULL"] * len(statement._names))
            connection.execute(b"PREPARE looked AS " + statement.sql)
            plan = connection.execute(f"EXPLAIN EXECUTE looked({nulls})" if nulls else "EXPLAIN EXECUTE looked")
            text = "\n".join(row[0] for row in plan)
            connection.execute("DEALLOCATE looked")
            for table in PLANS:
                assert f"Seq Scan on {table}" not in text, (name, text)
            looked += 1
    assert looked >= 12
