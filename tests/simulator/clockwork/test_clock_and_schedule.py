import pytest

from simulator.clockwork.clock import EPOCH_US, Schedule, VirtualClock


def test_the_clock_moves_only_when_it_is_moved():
    clock = VirtualClock()
    assert clock.now() == EPOCH_US
    clock.move_to(EPOCH_US + 5)
    assert clock.now() == EPOCH_US + 5


def test_the_clock_never_goes_back():
    clock = VirtualClock(10)
    with pytest.raises(ValueError, match="3 microseconds"):
        clock.move_to(7)


def test_actions_come_in_the_order_of_their_instants_and_ties_in_the_order_of_scheduling():
    schedule, done = Schedule(), []
    for instant, name in ((3, "c"), (1, "a"), (3, "d"), (2, "b")):
        schedule.call_at(instant, done.append, name)
    assert schedule.next_at() == 1
    while len(schedule):
        _, action, args = schedule.pop()
        action(*args)
    assert done == ["a", "b", "c", "d"]
    assert schedule.next_at() is None
