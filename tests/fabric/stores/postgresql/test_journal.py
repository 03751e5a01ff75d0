"""PostgreSQL alone has these: one statement a flush, what its errors mean, and notifications."""

import os
import resource
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from fabric.core.values.flow import RunState
from fabric.runtime.ports.journal import BatchFate, Document, StoreUnavailable
from fabric.stores.errors import RowRefused, StoreBusy
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.worker.nudges.listener import ReceivedNudge
from fabric.worker.nudges.postgresql import PostgresqlListener
from tests.fabric.stores.journal_worlds import Journal, PostgresqlWorld, columns, migrate, new_run, review

pytestmark = pytest.mark.postgresql


def owned(world, runs=1, store=None):
    store = store or world.store
    store.register("host-1", lease_s=3600)
    for _ in range(runs):
        store.create(new_run())
    return [Journal(run.run_id, run.fence) for run in store.claim("host-1", limit=1000, queues=["default"])]


def spent(store):
    return store.commits, store.statements


def test_a_flush_is_one_statement_and_one_commit(postgresql_world):
    world = postgresql_world
    journals = owned(world, 64)
    before = spent(world.store)
    batches = [
        journal.batch(4, consumed=("start",), reviews=(review(f"review-{n}"),)) for n, journal in enumerate(journals)
    ]
    ended = columns(RunState.FAILED)
    batches[7] = journals[7].batch(0, columns=ended, release=True)
    before_bytes = world.store.bytes_written
    assert world.store.write(batches).count(BatchFate.COMMITTED) == 63
    assert spent(world.store) == (before[0] + 1, before[1] + 1)
    assert world.store.bytes_written - before_bytes > 63 * 4 * 100


def test_the_server_saw_one_transaction_a_flush(postgresql_world):
    """The counters count what the program does; a row's ``xmin`` is the number of the transaction that the server wrote it in."""
    world = postgresql_world
    journals = owned(world, 8)
    for _ in range(5):
        world.store.write([journal.batch(2) for journal in journals])
    assert world.ask("SELECT count(*), count(DISTINCT xmin::text) FROM fabric_event") == [(80, 5)]


def test_creation_and_claim_have_their_statements(postgresql_world):
    store = postgresql_world.store
    store.register("host-1", lease_s=3600)
    for n in range(3):
        store.create(new_run(documents=(Document("a", "text"),), start_key=f"key-{n}"))
    assert spent(store) == (3, 3)
    assert len(store.claim("host-1", limit=9, queues=["default"])) == 3
    assert spent(store) == (4, 5)
    assert store.claim("host-1", limit=9, queues=["default"]) == []
    assert spent(store) == (4, 6), "a claim that finds nothing is one statement and no commit"
    store.beat("host-1", lease_s=3600)
    assert spent(store) == (4, 6), "heartbeats are not counted"


def test_a_locked_row_makes_the_flush_busy_soon(postgresql_world):
    world = postgresql_world
    (journal,) = owned(world)
    with psycopg.connect(world.dsn) as other:
        other.execute("SELECT 1 FROM fabric_run FOR UPDATE")
        with pytest.raises(StoreBusy, match="is busy: canceling statement due to lock timeout") as caught:
            world.store.write([journal.batch()])
        assert not caught.value.unknown
        other.rollback()
    assert world.store.journal(journal.run_id) == []


def test_a_run_that_is_taken_while_the_flush_waits_for_its_row_is_fenced(postgresql_world):
    """The row that the statement began with still was the owner's: no input was gone for that."""
    world = postgresql_world
    (journal,) = owned(world)
    world.store.write([journal.batch()])  # Its connection is there, and its statement prepared.
    for consumed in ((), ("start",)):
        fates = None
        for _ in range(
            20
        ):  # The lock is waited for no longer than 200 ms: on a slow machine it may be given back too late.
            fates = taken_in_flush(world, journal.rival(journal.fence), consumed)
            if fates is not None:
                break
        assert fates == [BatchFate.FENCED]


def taken_in_flush(world, journal, consumed):
    """Return what a flush was told that waited for the row while another took the run; None when it did not wait that long."""
    with world.store._flushes.use() as connection:
        pid = connection.info.backend_pid
    told = []

    def write():
        try:
            told.extend(world.store.write([journal.batch(consumed=consumed)]))
        except StoreBusy:
            return

    ((fence,),) = world.ask("SELECT fence FROM fabric_run")
    with psycopg.connect(world.dsn) as other:
        other.execute("UPDATE fabric_run SET fence = fence + 1")
        thread = threading.Thread(target=write)
        thread.start()
        waiting = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
        while thread.is_alive() and not world.ask(waiting):
            pass
        other.commit()
        thread.join()
    world.ask(f"UPDATE fabric_run SET fence = {fence}")
    return told or None


def test_a_connection_cut_in_a_flush_leaves_its_fate_unknown(postgresql_world):
    world = postgresql_world
    (journal,) = owned(world)
    world.store.write([journal.batch()])
    caught = None
    for _ in range(20):  # The lock is waited for no longer than 200 ms: on a slow machine the cut may come too late.
        caught = cut_in_flush(world, journal.rival(1))
        if caught.unknown:
            break
        assert isinstance(caught, StoreBusy)
    assert caught.unknown
    assert "does not answer" in str(caught)
    assert world.store.write([journal.batch()]) == [BatchFate.COMMITTED], "the next flush has a new connection"


def cut_in_flush(world, journal):
    with world.store._flushes.use() as connection:
        pid = connection.info.backend_pid
    errors = []

    def write():
        try:
            world.store.write([journal.batch()])
        except StoreUnavailable as error:
            errors.append(error)

    with psycopg.connect(world.dsn) as other:
        other.execute("SELECT 1 FROM fabric_run FOR UPDATE")
        thread = threading.Thread(target=write)
        thread.start()
        waiting = f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'"
        while thread.is_alive() and not world.ask(waiting):
            pass
        world.ask(f"SELECT pg_terminate_backend({pid})")
        thread.join()
        other.rollback()
    return errors[0]


def test_after_a_restart_of_the_server_the_first_call_succeeds(postgresql_world):
    world = postgresql_world
    (journal,) = owned(world)
    world.store.write([journal.batch()])
    cut = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    assert len(world.ask(cut)) >= 2
    assert len(world.store.journal(journal.run_id)) == 1
    assert world.store.write([journal.batch()]) == [BatchFate.COMMITTED]


def test_a_server_that_is_not_there_is_told_in_a_sentence():
    store = PostgresqlStore("postgresql://ada:secret@127.0.0.1:1/nowhere")
    with pytest.raises(
        StoreUnavailable, match=r"the PostgreSQL database nowhere at 127\.0\.0\.1:1 does not answer: "
    ) as caught:
        store.write([Journal("run-1").batch()])
    assert not caught.value.unknown
    assert "secret" not in str(caught.value)


def test_a_server_without_the_tables_says_what_to_do(postgresql_world):
    world = postgresql_world
    world.ask("DROP SCHEMA IF EXISTS empty; CREATE SCHEMA empty")
    store = PostgresqlStore(world.dsn + "?options=-csearch_path%3Dempty")
    with pytest.raises(StoreUnavailable, match=r"run python3 manage\.py django migrate"):
        store.next_due_s()
    store.close()


def test_a_read_only_server_is_told(postgresql_world):
    world = postgresql_world
    store = PostgresqlStore(world.dsn + "?options=-cdefault_transaction_read_only%3Don")
    with pytest.raises(StoreUnavailable, match="is read-only") as caught:
        store.create(new_run())
    assert not caught.value.unknown
    store.close()


@pytest.mark.parametrize("changed", [{"title": "a\0b"}, {"revision_id": "never-published"}, {"seed": 2**70}])
def test_a_row_that_cannot_be_stored_is_refused_by_name(postgresql_world, changed):
    with pytest.raises(RowRefused, match="refused the row: "):
        postgresql_world.store.create(new_run(**changed))
    assert postgresql_world.ask("SELECT count(*) FROM fabric_run") == [(0,)]


def test_a_poisoned_batch_refuses_the_flush_and_nothing_is_written(postgresql_world):
    world = postgresql_world
    first, second = owned(world, 2)
    with pytest.raises(RowRefused):
        world.store.write([first.batch(), second.batch(columns=columns(reason="a\0b"))])
    assert world.store.journal(first.run_id) == []


class Forgetful(PostgresqlStore):
    """Loses the answer of a claim after the runs were taken."""

    def _load(self, taken, digest):
        self._load = super()._load
        raise StoreUnavailable("the answer was lost", unknown=True)


@pytest.mark.parametrize(("number", "claims"), [(3, 0), (1, 3)])
def test_runs_of_a_claim_whose_answer_was_lost_are_claimed_again(postgresql_world, number, claims):
    """A suspect that would have to be alone too: it is not in its own way."""
    store = Forgetful(postgresql_world.dsn)
    store.register("host-1", lease_s=3600)
    runs = {store.create(new_run())[0] for _ in range(number)}
    postgresql_world.set_claims("", claims)
    with pytest.raises(StoreUnavailable):
        store.claim("host-1", limit=9, queues=["default"])
    taken = store.claim("host-1", limit=2, queues=["default"])
    taken += store.claim("host-1", limit=9, queues=["default"])
    assert {(run.run_id, run.fence) for run in taken} == {(run, 2) for run in runs}
    assert store.claim("host-1", limit=9, queues=["default"]) == []
    store.close()


def test_a_flush_creates_no_new_version_of_an_index(postgresql_world):
    """Only then does the row stay on its page (a HOT update), which is what half-empty pages are for."""
    world = postgresql_world
    (journal,) = owned(world)
    world.store.write([journal.batch()])
    counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'fabric_run'"
    with world.store._flushes.use() as connection:
        connection.execute("BEGIN")
        ((updated_before, hot_before),) = connection.execute(counted).fetchall()
    for _ in range(5):
        world.store.write([journal.batch(columns=columns(cost_usd_micros=journal.last_seq), wake_at=journal.last_seq)])
    with world.store._flushes.use() as connection:
        ((updated, hot),) = connection.execute(counted).fetchall()
        connection.execute("COMMIT")
    assert (updated - updated_before, hot - hot_before) == (5, 5)


def test_what_changed_is_told_once_a_flush_and_what_is_due_is_woken(postgresql_world):
    world = postgresql_world
    heard: list[ReceivedNudge] = []
    enough = threading.Semaphore(0)

    def hear(message):
        heard.append(message)
        enough.release()

    listener = PostgresqlListener(world.dsn, hear)
    listener.start()
    try:
        journals = owned(world, 2)
        world.store.put_input(journals[0].run_id, "decision-1", b"")
        world.store.put_input(journals[0].run_id, "decision-1", b"")
        world.store.write([journals[0].batch(2), journals[1].batch(), Journal("stranger").batch()])
        world.store.write([journals[1].batch(0, release=True)])
        world.store.write([journals[0].batch()])
        for _ in range(5):
            assert enough.acquire(timeout=10)
    finally:
        listener.stop()
    first, second = (journal.run_id for journal in journals)
    assert [message.run_seqs for message in heard if message.kind == "wake"] == [{first: 0}, {second: 0}, {first: 0}]
    assert [message.run_seqs for message in heard if message.kind == "told"] == [{first: 2, second: 1}, {first: 3}]


def test_a_large_flush_is_told_in_notifications_that_fit(postgresql_world):
    world = postgresql_world
    heard: dict[str, int] = {}
    done = threading.Event()

    def hear(message):
        heard.update(message.run_seqs)
        if len(heard) == 256:
            done.set()

    listener = PostgresqlListener(world.dsn, hear, kinds=("told",))
    listener.start()
    try:
        world.store.register("host-1", lease_s=3600)
        for n in range(256):
            world.store.create(new_run(run_id=f"0190163d-8694-739b-aea5-966c26f8a{n:03x}"))
        journals = [Journal(run.run_id) for run in world.store.claim("host-1", limit=256, queues=["default"])]
        assert set(world.store.write([journal.batch() for journal in journals])) == {BatchFate.COMMITTED}
        assert done.wait(10)
    finally:
        listener.stop()
    assert set(heard.values()) == {1}


def test_a_listener_comes_back_and_says_that_it_missed_something(postgresql_world):
    world = postgresql_world
    heard: list[ReceivedNudge] = []
    missed = threading.Event()
    woken = threading.Event()

    def hear(message):
        heard.append(message)
        (woken if message.run_seqs else missed).set()

    listener = PostgresqlListener(world.dsn, hear, kinds=("wake",))
    listener.start()
    try:
        world.ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
        assert missed.wait(10)
        world.store.create(new_run(run_id="run-after"))
        assert woken.wait(10)
    finally:
        listener.stop()
    assert [(message.kind, dict(message.run_seqs)) for message in heard] == [("wake", {}), ("wake", {"run-after": 0})]


def test_the_tables_are_tuned(postgresql_world, tmp_path: Path):
    world: PostgresqlWorld = postgresql_world
    assert world.ask("SELECT reloptions FROM pg_class WHERE relname = 'fabric_run'") == [(["fillfactor=50"],)]
    hot = "('fabric_run', 'fabric_event', 'fabric_inbox', 'fabric_review', 'fabric_attachment')"
    assert (
        world.ask(f"SELECT conname FROM pg_constraint WHERE contype = 'f' AND conrelid::regclass::text IN {hot}") == []
    )
    assert world.ask(f"SELECT indexname FROM pg_indexes WHERE tablename IN {hot} AND indexname LIKE '%like'") == []
    migrate(tmp_path, DATABASE_URL=world.dsn)  # Again: nothing to do, no error.


def test_a_nul_in_a_text_is_refused_and_not_cut_off(postgresql_world):
    with pytest.raises(RowRefused, match="invalid byte sequence"):
        postgresql_world.store.create(new_run(title="before\x00after"))
    assert postgresql_world.ask("SELECT count(*) FROM fabric_run") == [(0,)]


def test_a_statement_is_prepared_once_a_connection(postgresql_world):
    world = postgresql_world
    for _ in range(3):
        world.store.create(new_run())
    with world.store._calls.use() as connection:
        prepared = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert len([one for (one,) in prepared if "INSERT INTO fabric_run" in one]) == 1


def test_a_process_with_more_descriptors_than_select_takes_still_writes(postgresql_world):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4_096)), hard))
        for _ in range(1_100):
            held.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        store = held.enter_context(closing(PostgresqlStore(postgresql_world.dsn)))
        for _ in range(2):  # The second time on a connection that lay idle.
            store.create(new_run())
    assert postgresql_world.ask("SELECT count(*) FROM fabric_run") == [(2,)]
