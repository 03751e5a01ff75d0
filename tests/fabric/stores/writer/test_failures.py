"""The journal writer when the database refuses, is away, or does not say what became of a commit."""

import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.stores.errors import RowRefused, StoreBusy
from fabric.stores.writer import LOSSES_MAX, JournalWriter, WriterClosed
from fabric.worker.nudges.listener import NullNudge
from tests.fabric.stores.writer.writer_scenes import WAIT_S, Gate, Outcomes, hold, owned

# -- what the database refuses -----------------------------------------------------------------------------------------


def test_a_poisoned_run_stops_no_other(store, writer):
    outcomes = Outcomes()
    journals = owned(store, 16)
    poison = RowRefused("a value it cannot store")
    store.refused[journals[11].run_id] = poison
    hold(store, writer, journals[0], outcomes)
    for journal in journals[1:]:
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
    store.open.set()
    seen = dict(outcomes.wait(16))
    assert seen.pop(journals[11].run_id) is poison
    assert set(seen.values()) == {BatchFate.COMMITTED}
    assert store.flushes[-1] != store.flushes[1]
    assert len(store.flushes) <= 2 + 2 * 4, "found by halving"


def test_what_follows_a_refused_batch_is_refused_too(store, writer):
    outcomes = Outcomes()
    first, second = owned(store, 2)
    store.refused[second.run_id] = RowRefused("a value it cannot store")
    hold(store, writer, first, outcomes)

    def mend(outcome):
        store.refused.clear()
        outcomes.of("first try")(type(outcome))

    writer.submit(second.batch(), mend)
    writer.submit(second.batch(), outcomes.of("second try"))
    store.open.set()
    outcomes.wait(3)
    assert outcomes.seen[1:] == [("first try", RowRefused), ("second try", BatchFate.FENCED)]
    assert store.journal(second.run_id) == []


def test_a_held_row_waits_alone_and_is_written_in_the_end(store, writer):
    outcomes = Outcomes()
    journals = owned(store, 4)
    store.refused[journals[2].run_id] = StoreBusy("another process holds the row")
    hold(store, writer, journals[0], outcomes)
    for journal in journals[1:]:
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
    writer.submit(journals[2].batch(), outcomes.of("its second"))
    store.open.set()
    outcomes.wait(3)
    assert {name for name, _ in outcomes.seen} == {journals[n].run_id for n in (0, 1, 3)}
    before = len(store.flushes)
    for _ in range(5):
        writer.submit(journals[0].batch(), outcomes.of("others"))
        outcomes.wait(1)
    tried = sum(journals[2].run_id in flush for flush in store.flushes[before:])
    assert tried < 5, "it is not tried again with each flush"
    store.refused.clear()
    assert outcomes.wait(2)[8:] == [(journals[2].run_id, BatchFate.COMMITTED), ("its second", BatchFate.COMMITTED)]


# -- a database that is away -------------------------------------------------------------------------------------------


def test_batches_wait_for_a_database_that_is_away(store, writer):
    outcomes = Outcomes()
    first, second = owned(store, 2)
    store.fail_next("away", times=3)
    hold(store, writer, first, outcomes)
    writer.submit(second.batch(), outcomes.of(second.run_id))
    writer.submit(first.batch(), outcomes.of("again"))
    store.open.set()
    outcomes.wait(3)
    assert {outcome for _, outcome in outcomes.seen} == {BatchFate.COMMITTED}
    assert [row.seq for row in store.journal(first.run_id)] == [1, 2]
    assert writer.trouble is None
    assert writer.flushes == len(store.flushes)


def test_what_cannot_be_written_before_closing_is_handed_back(store):
    outcomes = Outcomes()
    first, second = owned(store, 2)
    away = StoreUnavailable("the database does not answer")
    store.refused[first.run_id] = store.refused[second.run_id] = away
    writer = JournalWriter(store, NullNudge())
    writer.submit(first.batch(), outcomes.of("first"))
    writer.submit(first.batch(), outcomes.of("after it"))
    writer.submit(second.batch(), outcomes.of("second"))
    writer.start()
    store.begun.get(timeout=WAIT_S)
    assert writer.close(0.1)
    assert sorted(outcomes.wait(3)) == [("after it", away), ("first", away), ("second", away)]
    with pytest.raises(WriterClosed):
        writer.submit(first.batch(), outcomes.of("too late"))


def test_closing_writes_what_is_queued(store):
    outcomes = Outcomes()
    journals = owned(store, 5)
    writer = JournalWriter(store, NullNudge(), runs_max=2)
    writer.start()
    hold(store, writer, journals[0], outcomes)
    for journal in journals[1:]:
        writer.submit(journal.batch(), outcomes.of(journal.run_id))
    store.open.set()
    assert writer.close(WAIT_S)
    assert [outcome for _, outcome in outcomes.wait(5)] == [BatchFate.COMMITTED] * 5


def test_a_writer_that_never_started_hands_back_what_it_was_given(store):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    writer = JournalWriter(store, NullNudge())
    writer.submit(journal.batch(), outcomes.of("given"))
    assert writer.close(1)
    assert isinstance(outcomes.wait(1)[0][1], StoreUnavailable)


# -- a commit whose answer is lost -------------------------------------------------------------------------------------


def test_a_commit_that_landed_unseen_is_not_written_again(store, writer, told):
    outcomes = Outcomes()
    first, second = owned(store, 2)
    store.fail_next("landed")
    store.open.clear()
    for journal in (first, second):
        writer.submit(journal.batch(3), outcomes.of(journal.run_id))
    store.open.set()
    assert [outcome for _, outcome in outcomes.wait(2)] == [BatchFate.COMMITTED] * 2
    assert [row.seq for row in store.journal(first.run_id)] == [1, 2, 3]
    assert writer.close(WAIT_S)
    assert sum(first.run_id in flush for flush in store.flushes) == 1
    assert {run: seq for message in told.messages for run, seq in message.items()} == {
        first.run_id: 3,
        second.run_id: 3,
    }


def test_a_commit_that_was_lost_is_sent_again(store, writer):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    store.fail_next("lost")
    writer.submit(journal.batch(2, consumed=("start",)), outcomes.of(journal.run_id))
    writer.submit(journal.batch(), outcomes.of("next"))
    assert [outcome for _, outcome in outcomes.wait(2)] == [BatchFate.COMMITTED] * 2
    assert [row.seq for row in store.journal(journal.run_id)] == [1, 2, 3]


def test_a_database_that_loses_everything_costs_no_batch_its_place(store, writer):
    """A write that is lost again and again with nothing written in between is not the batch's fault."""
    outcomes = Outcomes()
    first, second = owned(store, 2)
    writer.submit(first.batch(), outcomes.of(first.run_id))
    outcomes.wait(1)
    store.fail_next("lost", times=LOSSES_MAX + 1)
    writer.submit(second.batch(), outcomes.of(second.run_id))
    assert outcomes.wait(1)[1:] == [(second.run_id, BatchFate.COMMITTED)]
    assert len(store.flushes) == LOSSES_MAX + 3


class Usurped(Gate):
    """Another worker claims the run in the moment in which the commit's fate is unknown."""

    def heads(self, run_ids):
        self.retire("host-1")
        self.register("host-2", lease_s=3600)
        self.claim("host-2", limit=9, queues=["default"])
        return super().heads(run_ids)


@pytest.mark.parametrize("fate", ["lost", "landed"])
def test_a_run_that_went_to_another_worker_meanwhile_is_let_go(fate):
    store = Usurped()
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    store.fail_next(fate)
    writer = JournalWriter(store, NullNudge())
    writer.start()
    writer.submit(journal.batch(), outcomes.of(journal.run_id))
    assert outcomes.wait(1) == [(journal.run_id, BatchFate.FENCED)]
    assert writer.close(WAIT_S)
    assert len(store.flushes) == 1


def test_a_fate_is_asked_for_until_the_database_answers(store, writer):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    store.fail_next("landed")
    store.fail_next("away", call="heads", times=2)
    writer.submit(journal.batch(), outcomes.of(journal.run_id))
    assert outcomes.wait(1) == [(journal.run_id, BatchFate.COMMITTED)]


def test_a_fate_that_stays_unknown_until_closing_is_called_so(store):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    store.fail_next("landed")
    store.fail_next("away", call="heads", times=1000)
    writer = JournalWriter(store, NullNudge())
    writer.submit(journal.batch(), outcomes.of(journal.run_id))
    writer.start()
    store.begun.get(timeout=WAIT_S)
    assert writer.close(0.1)
    ((_, outcome),) = outcomes.wait(1)
    assert isinstance(outcome, StoreUnavailable)
    assert outcome.unknown
    assert "not known whether this was written" in str(outcome)


def test_a_lost_release_without_rows_is_sent_again_and_lets_go(store, writer):
    outcomes = Outcomes()
    (journal,) = owned(store, 1)
    store.fail_next("landed")
    writer.submit(journal.batch(0, release=True), outcomes.of("released"))
    assert outcomes.wait(1) == [("released", BatchFate.FENCED)], "it is let go either way"
    assert store.read_standing(journal.run_id)[0] is None
