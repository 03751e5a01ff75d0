"""The journal writer: what goes together, in which order, and what is told to whom."""

from fabric.runtime.ports.journal import BatchFate
from fabric.stores.errors import RowRefused
from fabric.stores.writer import JournalWriter
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Gate, Outcomes, hold, owned

# -- group commit ------------------------------------------------------------------------------------------------------


def test_what_came_during_a_flush_goes_in_the_next_one_together(store, writer, told):
    outcomes = Outcomes()
    journals = owned(store, 9)
    hold(store, writer, journals[0], outcomes)
    for journal in journals[1:]:
        writer.submit(journal.batch(2), outcomes.of(journal.run_id))
    assert writer.count_waiting() == 8
    store.open.set()
    assert {outcome for _, outcome in outcomes.wait(9)} == {BatchFate.COMMITTED}
    assert store.flushes == [[journals[0].run_id], [journal.run_id for journal in journals[1:]]]
    assert writer.close(WAIT_S)
    assert told.messages == [{journals[0].run_id: 1}, {journal.run_id: 2 for journal in journals[1:]}], "once a flush"


def test_a_lone_batch_does_not_wait(store, writer):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    for _ in range(3):
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
        outcomes.wait(1)
    assert len(store.flushes) == 3


def test_batches_of_one_run_keep_their_order_one_a_flush(store, writer):
    outcomes = Outcomes()
    first, second, third = owned(store, 3)
    hold(store, writer, first, outcomes)
    for n in range(3):
        writer.submit(second.batch(), outcomes.of(f"second-{n}"))
    writer.submit(third.batch(), outcomes.of("third"))
    store.open.set()
    outcomes.wait(5)
    both = [second.run_id, third.run_id]
    assert store.flushes == [[first.run_id], both, [second.run_id], [second.run_id]]
    assert [name for name, _ in outcomes.seen if name.startswith("second")] == ["second-0", "second-1", "second-2"]
    assert [row.seq for row in store.journal(second.run_id)] == [1, 2, 3]


def test_a_flush_has_its_limits(store):
    outcomes = Outcomes()
    by_runs = JournalWriter(store, NullNudge(), runs_max=3)
    by_bytes = JournalWriter(store, NullNudge(), bytes_max=2500)
    journals = owned(store, 8)
    for writer, contents in ((by_runs, b"{}"), (by_bytes, b"x" * 1000)):
        for journal in journals:
            writer.submit(journal.batch(content=contents), outcomes.of(journal.run_id))
        writer.start()
        outcomes.wait(8)
        assert writer.close(WAIT_S)
    assert [len(flush) for flush in store.flushes] == [3, 3, 2, 2, 2, 2, 2]
    heavy = JournalWriter(store, NullNudge(), bytes_max=10)
    heavy.submit(journals[0].batch(), outcomes.of("heavy"))
    heavy.start()
    assert outcomes.wait(1)[-1] == ("heavy", BatchFate.COMMITTED), "one batch always fits"
    heavy.close(WAIT_S)


def test_a_busy_run_does_not_keep_others_from_their_turn(store):
    outcomes = Outcomes()
    busy, other = owned(store, 2)
    writer = JournalWriter(store, NullNudge(), runs_max=1)
    for n in range(3):
        writer.submit(busy.batch(), outcomes.of(f"busy-{n}"))
    writer.submit(other.batch(), outcomes.of("other"))
    writer.start()
    assert [name for name, _ in outcomes.wait(4)] == ["busy-0", "other", "busy-1", "busy-2"]
    writer.close(WAIT_S)


def test_each_run_learns_its_own_fate(store, writer, told):
    outcomes = Outcomes()
    first, second, third = owned(store, 3)
    store.withdraw_input(third.run_id, "start")
    hold(store, writer, first, outcomes)
    writer.submit(second.rival(7).batch(), outcomes.of("fenced"))
    writer.submit(third.batch(consumed=("start",)), outcomes.of("gone"))
    store.open.set()
    outcomes.wait(3)
    assert outcomes.seen[1:] == [("fenced", BatchFate.FENCED), ("gone", BatchFate.INPUT_GONE)]
    assert writer.close(WAIT_S)
    assert told.messages == [{first.run_id: 1}]


def test_a_callback_or_a_nudge_that_raises_stops_nothing(store, caplog):
    class Broken(NullNudge):
        def announce(self, run_seqs):
            raise RuntimeError("broken nudge")

    def broken(outcome):
        raise RuntimeError("broken callback")

    outcomes = Outcomes()
    first, second = owned(store, 2)
    writer = JournalWriter(store, Broken())
    writer.submit(first.batch(), broken)
    writer.submit(second.batch(), outcomes.of("second"))
    writer.start()
    assert outcomes.wait(1) == [("second", BatchFate.COMMITTED)]
    assert writer.close(WAIT_S)
    assert "broken callback" in caplog.text
    assert "broken nudge" in caplog.text


# -- pauses ------------------------------------------------------------------------------------------------------------


class Shared(Gate):
    """A store that others can reach only between two flushes."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses = 0

    def pause_s(self) -> float:
        self.pauses += 1
        return 0.001


def test_a_shared_store_gets_its_pauses_between_flushes_and_not_when_idle():
    store = Shared()
    outcomes = Outcomes()
    journals = owned(store, 6)
    writer = JournalWriter(store, NullNudge(), runs_max=2)
    for journal in journals:
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
    writer.start()
    outcomes.wait(6)
    assert writer.close(WAIT_S)
    assert len(store.flushes) == 3
    assert store.pauses == 2


# -- together ----------------------------------------------------------------------------------------------------------


def test_batches_that_are_handed_over_together_are_one_flush(store, writer):
    outcomes = Outcomes()
    journals = owned(store, 5)
    writer.submit_all([(journal.batch(), outcomes.of(journal.run_id)) for journal in journals])
    outcomes.wait(5)
    assert store.flushes == [[journal.run_id for journal in journals]]


def test_who_collects_the_fates_of_a_flush_is_told_once_after_all_of_them(store, writer):
    outcomes, told = Outcomes(), []
    journals = owned(store, 9)
    hold(store, writer, journals[0], outcomes)
    writer.on_flushed = lambda: told.append(len(outcomes.seen))
    writer.submit_all([(journal.batch(), outcomes.of(journal.run_id)) for journal in journals[1:]])
    store.open.set()
    outcomes.wait(9)
    assert writer.close(WAIT_S)
    assert set(told) == {1, 9}, "after the first flush, and after the second"


def test_fates_that_are_known_do_not_wait_with_those_that_are_not(store, writer):
    """A poisoned run is found by halving, and what was written before the database goes away is told at once."""
    outcomes, told = Outcomes(), []
    journals = owned(store, 4)
    hold(store, writer, journals[0], outcomes)
    writer.on_flushed = lambda: told.append([name for name, _ in outcomes.seen])
    writer.submit_all([(journal.batch(), outcomes.of(journal.run_id)) for journal in journals[1:]])
    store.refused[journals[3].run_id] = RowRefused("a value it cannot store")
    store.open.set()
    outcomes.wait(4)
    assert writer.close(WAIT_S)
    first_half = [journals[0].run_id, journals[1].run_id]
    assert first_half in told


def test_one_that_raises_there_does_not_break_the_pen(store, writer, caplog):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)

    def raises():
        raise RuntimeError("no")

    writer.on_flushed = raises
    for _ in range(2):
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
        outcomes.wait(1)
    assert len(store.journal(journal.run_id)) == 2
    assert writer.close(WAIT_S)
    assert "what is told after a flush" in caplog.text
