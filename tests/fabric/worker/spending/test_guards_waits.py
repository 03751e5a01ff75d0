"""An endpoint tells one process to wait: the instant stays where it is, however late the others hear of it. Processes write rows together."""

import pytest

from fabric.runtime.ports.journal import StoreUnavailable
from fabric.runtime.ports.spending import SignalCount
from fabric.worker.spending.guards import AWAY_S, FLUSH_S
from tests.fabric.stores.journal_worlds import SECOND, Hand
from tests.fabric.worker.spending.test_guards import KEY, Process, Store, failed


@pytest.fixture
def process():
    clock = Hand()
    return Process(clock, Store(clock))


def told(seconds, generation=0, **changed):
    """An endpoint wants to be left alone for so long."""
    n, named = round(seconds * SECOND), {"generation": generation, "signal": "retry_at", "until": True}
    return SignalCount(scope=KEY[0], kind=KEY[1], n=n, **named, **changed)


def left_s(row):
    return (row.counts["retry_at"] - row.asked_at) / SECOND


def test_an_instant_stays_where_it_is_however_late_it_is_told(process):
    process.seen()
    process.guards.count(told(100))
    assert left_s(process.guards.row(*KEY)) == 100
    process.pass_time(0.9)
    assert left_s(process.guards.row(*KEY)) == pytest.approx(99.1)
    process.store.failures = [StoreUnavailable("away"), StoreUnavailable("away", unknown=True)]
    process.guards.count(told(40))
    for _ in range(2):
        assert process.turn() == AWAY_S
        process.pass_time(10)
    process.turn()
    assert left_s(process.seen()) == pytest.approx(79.1)
    assert left_s(process.store._real.guards([KEY])[0]) == pytest.approx(79.1)


def test_before_a_change_each_member_can_see_how_long_the_endpoint_wants_to_be_left_alone(process):
    process.turn()
    seen = process.seen()
    process.guards.count(failed())
    process.turn()
    process.store.calls.clear()
    process.guards.count(told(100))
    process.guards.change(seen, "open", process.answers.append)
    process.turn()
    assert process.store.calls[:2] == ["tell", "change"]
    assert process.answers == [True]
    (row,) = process.store._real.guards([KEY])
    assert (row.state, left_s(row)) == ("open", 100)


def test_one_that_came_clean_is_told_once_and_not_when_nothing_is_to_be_forgotten(process):
    process.seen()
    process.guards.count(told(0, reset=True))
    process.turn()
    assert "tell" not in process.store.calls
    process.guards.count(told(50))
    process.guards.count(told(0, reset=True))
    process.pass_time(FLUSH_S)
    process.turn()
    assert process.seen().counts == {"retry_at": 0}
    process.guards.count(told(0, reset=True))
    process.pass_time(FLUSH_S)
    process.turn()
    assert process.store.calls.count("tell") == 1


def test_what_was_told_in_a_generation_that_is_over_counts_and_what_came_clean_in_it_does_not(process):
    process.store.change(*KEY, generation=0, state="open")
    process.seen()
    process.guards.count(told(30))
    assert left_s(process.guards.row(*KEY)) == 30
    process.guards.count(told(0, reset=True))
    assert left_s(process.guards.row(*KEY)) == 30


def test_a_row_is_merged_with_what_others_changed_meanwhile(process):
    other = Process(process.clock, process.store)
    states = []

    def mine(state):
        states.append(state)
        if len(states) == 1:
            other.guards.merge(*KEY, lambda seen: f"{seen}b")
            other.turn()
        return f"{state}a"

    process.store.failures = [StoreUnavailable("away")]
    process.guards.merge(*KEY, mine)
    assert process.turn() == AWAY_S
    process.turn()
    assert states == ["", "b"]
    assert process.seen().state == "ba"
    process.guards.merge(*KEY, lambda state: state)
    process.turn()
    assert process.seen().generation == 2
