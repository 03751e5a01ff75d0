"""Every store of guard rows keeps its contract about instants (``Count.until``): all three are asked."""

from concurrent.futures import ThreadPoolExecutor

from fabric.core.values.units import US
from tests.fabric.worker.spending.test_guards_contract import KEY, change, counted, permit, row


def until(seconds, generation=0, **changed):
    return counted("retry_at", round(seconds * US), generation, until=True, **changed)


def left_s(shared):
    found = row(shared)
    return (found.counts["retry_at"] - found.asked_at) / US


def test_of_instants_the_latest_counts_from_any_process_and_generation(shared):
    shared.guards.tell([until(100), counted("failed", 3)])
    assert 99 < left_s(shared) <= 100
    shared.another_guards().tell([until(900), until(20)])
    assert 899 < left_s(shared) <= 900
    change(shared, 0, "open")
    assert 899 < left_s(shared) <= 900
    assert set(row(shared).counts) == {"retry_at"}
    shared.guards.tell([until(1_000, generation=0), counted("failed", 1, generation=0)])
    assert 999 < left_s(shared) <= 1_000
    assert set(row(shared).counts) == {"retry_at"}
    shared.guards.tell([until(1_100, generation=0), until(1_200, generation=1)])
    assert 1_199 < left_s(shared) <= 1_200


def test_an_instant_is_forgotten_in_the_rows_own_generation_alone(shared):
    shared.guards.tell([until(100)])
    shared.guards.tell([until(0, reset=True)])
    assert row(shared).counts == {"retry_at": 0}
    shared.guards.tell([until(100)])
    change(shared, 0, "open")
    shared.guards.tell([until(0, reset=True)])
    assert left_s(shared) > 99
    shared.guards.tell([until(10, generation=1, reset=True)])
    assert 9 < left_s(shared) <= 10, "it begins anew"


def test_until_an_instant_no_call_gets_a_permit_and_from_then_on_one_does(shared):
    change(shared, 0, "half_open")
    shared.guards.tell([until(50, generation=1)])
    shared.guards.guards([KEY])
    assert not permit(shared, 1, "early")
    assert row(shared).permits == {}
    shared.pass_time(40)
    assert not shared.another_guards().permit(*KEY, generation=1, holder="early", for_s=10.0)
    shared.pass_time(11)
    assert permit(shared, 1, "prober")
    shared.guards.change("provider:other", KEY[1], generation=0, state="half_open")
    shared.guards.tell([until(50, generation=1)])
    assert shared.guards.permit("provider:other", KEY[1], generation=1, holder="theirs", for_s=10.0)


def test_of_many_instants_at_once_the_latest_stands_and_no_contender_gets_past_it(shared):
    stores = [shared.another_guards() for _ in range(4)]
    change(shared, 0, "half_open")
    shared.guards.tell([until(30, generation=1)])
    with ThreadPoolExecutor(16) as pool:
        told = [pool.submit(stores[n % 4].tell, [until(30 + n, generation=1)]) for n in range(16)]
        asked = [
            pool.submit(stores[n % 4].permit, *KEY, generation=1, holder=f"p{n}", for_s=5.0, most=16) for n in range(16)
        ]
        assert [one.result() for one in asked] == [False] * 16
        assert [one.result() for one in told] == [None] * 16
    assert 44 < left_s(shared) <= 45
