import threading

import pytest

from fabric.worker.process.turn_thread import TurnThread

WAIT_S = 20.0


class Turns:
    """Counts turns; each can be held until it is let go."""

    def __init__(self, pause_s):
        self.pause_s, self.taken = pause_s, 0
        self.took, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = TurnThread("turns", self.turn)

    def turn(self):
        self.taken += 1
        self.took.release()
        self.go.acquire(timeout=WAIT_S)
        return self.pause_s


@pytest.fixture
def turns():
    made = Turns(3600.0)
    yield made
    made.go.release(1000)
    made.thread.stop()
    assert not made.thread.alive


def test_the_first_turn_follows_the_start_and_the_next_a_ring(turns):
    turns.thread.start()
    assert turns.took.acquire(timeout=WAIT_S)
    turns.go.release()
    turns.thread.ring()
    assert turns.took.acquire(timeout=WAIT_S)
    assert turns.taken == 2


def test_a_ring_during_a_turn_is_not_lost_and_several_are_one(turns):
    turns.thread.start()
    assert turns.took.acquire(timeout=WAIT_S)
    for _ in range(5):
        turns.thread.ring()
    turns.go.release()
    assert turns.took.acquire(timeout=WAIT_S)
    turns.go.release()
    turns.thread.ring()
    assert turns.took.acquire(timeout=WAIT_S)
    assert turns.taken == 3


def test_the_next_turn_comes_by_itself_when_its_time_has_come(turns):
    turns.pause_s = 0.0
    turns.go.release(3)
    turns.thread.start()
    for _ in range(4):
        assert turns.took.acquire(timeout=WAIT_S)


def test_it_ends_after_the_turn_under_way_and_one_that_never_began_ends_too():
    made = Turns(3600.0)
    made.thread.stop()
    assert not made.thread.alive
    made.go.release()
    made.thread.start()
    assert made.took.acquire(timeout=WAIT_S)
    made.thread.stop()
    assert not made.thread.alive
    assert made.taken == 1
