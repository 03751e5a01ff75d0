"""The memory store beside the contract that it shares: its clock, its planted bugs and its failures on order."""

import pytest

from fabric.runtime.ports.journal import BatchFate, StoreUnavailable
from fabric.stores.errors import StoreBusy
from simulator.stores.memory.journal import MemoryStore
from tests.fabric.stores.journal_worlds import SECOND, Hand, Journal, new_run


def owned(store, *, runs=1):
    store.register("host-1", lease_s=10)
    for _ in range(runs):
        store.create(new_run())
    return [Journal(run.run_id) for run in store.claim("host-1", limit=9, queues=["default"])]


def usurp(store, clock):
    clock.us += 11 * SECOND
    store.register("host-2", lease_s=10)
    (claimed,) = store.claim("host-2", limit=9, queues=["default"])
    return claimed


def test_leases_and_delays_go_by_the_clock_that_was_given():
    clock = Hand()
    store = MemoryStore(clock)
    (journal,) = owned(store)
    store.put_input(journal.run_id, "later", b"", delay_s=5)
    clock.us += 5 * SECOND - 1
    assert [(item.input_id, item.announced) for item in store.inbox("host-1")] == [("start", False), ("later", True)]
    clock.us += 1
    assert [item.input_id for item in store.inbox("host-1")] == ["start", "later"]
    assert store.register("host-2", lease_s=10) is None
    clock.us += 5 * SECOND - 1
    assert store.claim("host-2", limit=9, queues=["default"]) == []
    clock.us += 1
    assert len(store.claim("host-2", limit=9, queues=["default"])) == 1


@pytest.mark.parametrize(
    ("plants", "fate"), [(frozenset(), BatchFate.FENCED), (frozenset({"no_fence"}), BatchFate.COMMITTED)]
)
def test_without_its_fence_a_zombie_writes_over_its_successor(plants, fate):
    clock = Hand()
    store = MemoryStore(clock, plants=plants)
    (zombie,) = owned(store)
    claimed = usurp(store, clock)
    assert (claimed.fence, claimed.taken_over) == (2, True)
    successor = zombie.rival(2)
    assert store.write([successor.batch()]) == [BatchFate.COMMITTED]
    assert store.write([zombie.batch()]) == [fate]
    seqs = [row.seq for row in store.journal(zombie.run_id)]
    assert seqs == ([1] if fate is BatchFate.FENCED else [1, 1])


@pytest.mark.parametrize(("plants", "copies"), [(frozenset(), 1), (frozenset({"no_unique_input"}), 2)])
def test_without_its_unique_key_an_input_comes_twice(plants, copies):
    store = MemoryStore(Hand(), plants=plants)
    (journal,) = owned(store)
    assert store.put_input(journal.run_id, "decision-1", b"")
    assert store.put_input(journal.run_id, "decision-1", b"") is (copies == 2)
    assert [item.input_id for item in store.inbox("host-1")] == ["start", *["decision-1"] * copies]
    consumed = 0
    while store.inbox("host-1"):
        if store.write([journal.batch(consumed=("decision-1",))]) != [BatchFate.COMMITTED]:
            break
        consumed += 1
    assert consumed == copies


def test_a_call_fails_as_it_was_told_and_then_no_more():
    store = MemoryStore(Hand())
    (journal,) = owned(store)
    store.fail_next("away")
    store.fail_next("busy")
    store.fail_next("lost")
    first = journal.batch()
    for kind, unknown in ((StoreUnavailable, False), (StoreBusy, False), (StoreUnavailable, True)):
        with pytest.raises(kind) as caught:
            store.write([first])
        assert caught.value.unknown is unknown
        assert store.journal(journal.run_id) == []
    store.fail_next("landed")
    with pytest.raises(StoreUnavailable) as caught:
        store.write([first])
    assert caught.value.unknown
    assert [row.seq for row in store.journal(journal.run_id)] == [1]
    assert store.write([journal.batch()]) == [BatchFate.COMMITTED]


def test_creations_and_inputs_can_land_unseen_too():
    store = MemoryStore(Hand())
    run = new_run()
    store.fail_next("landed", call="create")
    with pytest.raises(StoreUnavailable):
        store.create(run)
    assert store.create(run) == (run.run_id, False)
    store.fail_next("landed", call="put_input")
    with pytest.raises(StoreUnavailable):
        store.put_input(run.run_id, "decision-1", b"")
    assert not store.put_input(run.run_id, "decision-1", b"")


def test_the_same_calls_give_the_same_answers():
    def play():
        clock = Hand()
        store = MemoryStore(clock)
        for n in range(20):
            store.create(new_run(run_id=f"r{n * 7 % 20}", priority=("low", "high")[n % 2]))
        store.register("host-1", lease_s=10)
        return [run.run_id for run in store.claim("host-1", limit=20, queues=["default"])]

    assert play() == play()
    assert play()[:2] == ["r1", "r11"]
