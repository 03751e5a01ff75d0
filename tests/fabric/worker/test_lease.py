import threading
from queue import SimpleQueue

import pytest

from fabric.runtime.ports.journal import StoreUnavailable
from fabric.worker.lease import Lease
from fabric.worker.process.clock import SteadyClock
from simulator.stores.memory.journal import MemoryStore
from tests.fabric.stores.journal_worlds import Hand, Journal, new_run

WAIT_S = 20
LEASE_S = 10.0
BEAT_S = 0.01


class Heard(MemoryStore):
    """A store that says who beat, and what came of it."""

    def __init__(self) -> None:
        super().__init__(Hand())
        self.beats: SimpleQueue[tuple[str, object]] = SimpleQueue()

    def beat(self, incarnation, *, lease_s, refused=0):
        try:
            known = super().beat(incarnation, lease_s=lease_s, refused=refused)
        except Exception as error:
            self.beats.put((incarnation, type(error)))
            raise
        self.beats.put((incarnation, known > 0))
        return known

    def forget(self) -> None:
        while not self.beats.empty():
            self.beats.get()

    def until(self, wanted) -> None:
        while self.beats.get(timeout=WAIT_S) != wanted:
            pass


class Scene:
    def __init__(self) -> None:
        self.store = Heard()
        self.lost = threading.Semaphore(0)
        self.names_at_loss: list[str] = []
        self.lease = Lease(self.store, "host", LEASE_S, BEAT_S, self._note)

    def _note(self) -> None:
        self.names_at_loss.append(self.lease.name)
        self.lost.release()

    def claim(self, name="rival"):
        self.store.register(name, lease_s=LEASE_S)
        return [claimed.run_id for claimed in self.store.claim(name, limit=10, queues=["default"])]


@pytest.fixture
def scene():
    made = Scene()
    yield made
    made.lease.stop()
    assert not made.lease._thread.is_alive()


def test_beats_renew_the_lease(scene):
    scene.store.create(new_run())
    scene.lease.start()
    (claimed,) = scene.store.claim("host", limit=1, queues=["default"])
    for _ in range(5):
        scene.store._clock.us += int(0.9 * LEASE_S * 1e6)
        scene.store.forget()
        scene.store.until(("host", True))
    assert scene.claim() == []  # After four and a half leases it is still held.
    assert scene.lease.name == "host"
    assert not scene.names_at_loss


def test_without_beats_it_would_lapse(scene):
    scene.lease = Lease(scene.store, "host", LEASE_S, 3600, scene._note)
    run = new_run()
    scene.store.create(run)
    scene.lease.start()
    assert scene.store.claim("host", limit=1, queues=["default"])
    scene.store._clock.us += int(1.1 * LEASE_S * 1e6)
    assert scene.claim() == [run.run_id]


def test_a_retired_incarnation_goes_on_under_a_new_name_and_says_so(scene):
    scene.lease.start()
    scene.store.retire("host")
    assert scene.lost.acquire(timeout=WAIT_S)
    assert scene.names_at_loss == ["host-2"]
    scene.store.until(("host-2", True))
    scene.store.retire("host-2")
    assert scene.lost.acquire(timeout=WAIT_S)
    assert scene.names_at_loss == ["host-2", "host-3"]
    scene.store.create(new_run())
    assert scene.store.claim("host", limit=1, queues=["default"]) == []
    assert scene.store.claim("host-3", limit=1, queues=["default"])


def test_an_unknown_incarnation_as_well(scene):
    scene.lease.start()
    scene.store.tables.incarnations.clear()  # The row was removed behind its back.
    assert scene.lost.acquire(timeout=WAIT_S)
    assert scene.names_at_loss == ["host-2"]


def test_it_is_lost_only_once_the_new_name_is_registered(scene):
    scene.lease.start()
    scene.store.fail_next("away", call="register", times=3)
    scene.store.retire("host")
    assert scene.lost.acquire(timeout=WAIT_S)
    assert len(scene.names_at_loss) == 1
    assert scene.names_at_loss[0] == scene.lease.name != "host"
    assert scene.store.beat(scene.lease.name, lease_s=LEASE_S)


@pytest.mark.parametrize("failure", ["away", "lost", "busy"])
def test_a_database_that_is_away_for_longer_than_the_lease_costs_nothing_that_is_in_memory(scene, failure):
    run = new_run()
    scene.store.create(run)
    scene.lease.start()
    (claimed,) = scene.store.claim("host", limit=1, queues=["default"])
    scene.store.fail_next(failure, call="beat", times=3)
    scene.store._clock.us += int(3 * LEASE_S * 1e6)
    scene.store.forget()
    scene.store.until(("host", True))
    assert scene.claim() == []  # No other had come first, so the run is still this incarnation's.
    assert scene.store.write([Journal(run.run_id, claimed.fence).batch()]) == ["committed"]
    assert not scene.names_at_loss


def test_what_was_claimed_meanwhile_is_fenced_run_by_run(scene):
    run = new_run()
    scene.store.create(run)
    scene.lease.start()
    (claimed,) = scene.store.claim("host", limit=1, queues=["default"])
    scene.store._clock.us += int(3 * LEASE_S * 1e6)
    with scene.store._guard:  # No beat comes between.
        scene.store.tables.incarnations["host"].lease_until = 0
        assert scene.claim() == [run.run_id]
    scene.store.forget()
    scene.store.until(("host", True))
    assert scene.store.write([Journal(run.run_id, claimed.fence).batch()]) == ["fenced"]


def test_an_unforeseen_error_does_not_end_the_beating(scene, monkeypatch):
    scene.lease.start()
    beat, raised = scene.store.beat, threading.Event()

    def broken(name, **given):
        raised.set()
        raise KeyError("a bug")

    monkeypatch.setattr(scene.store, "beat", broken)
    assert raised.wait(WAIT_S)
    monkeypatch.setattr(scene.store, "beat", beat)
    scene.store.forget()
    scene.store.until(("host", True))


def test_stopping_gives_the_lease_back_at_once(scene):
    run = new_run()
    scene.store.create(run)
    scene.lease.start()
    assert scene.store.claim("host", limit=1, queues=["default"])
    scene.lease.stop()
    assert scene.claim() == [run.run_id]
    scene.store.forget()
    assert scene.store.beats.empty()


def test_stopping_while_the_database_is_away_ends_all_the_same(scene):
    scene.lease.start()
    scene.store.fail_next("away", call="retire")
    scene.lease.stop()
    assert not scene.lease._thread.is_alive()


def test_starting_while_the_database_is_away_is_an_error(scene):
    scene.store.fail_next("away", call="register")
    with pytest.raises(StoreUnavailable):
        scene.lease.start()
    scene.lease.start()


def test_a_name_that_another_process_goes_by_is_left_to_it(scene):
    """With one lease for two, the end of either would free the other's runs."""
    other = Lease(scene.store, "host", LEASE_S, 3600, scene._note)
    other.start()
    run = new_run()
    scene.store.create(run)
    assert scene.store.claim("host", limit=1, queues=["default"])
    scene.lease.start()
    assert (other.name, scene.lease.name) == ("host", "host-2")
    scene.lease.stop()
    assert scene.claim() == []  # The other's run is its own still.
    other.stop()
    assert scene.claim("another rival") == [run.run_id]


def test_an_announcement_whose_answer_was_lost_is_made_again_under_the_same_name(scene):
    register, tried = scene.store.register, []

    def landed(name, **given):
        register(name, **given)
        tried.append(name)
        if len(tried) == 1:
            raise StoreUnavailable("the answer was lost", unknown=True)

    scene.store.register = landed
    with pytest.raises(StoreUnavailable):
        scene.lease.start()
    scene.lease.start()
    assert scene.lease.name == "host"


# -- what it covers --


class Elapsed:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def passed(scene):
    """The time of a lease that beats when it is asked to."""
    time = Elapsed()
    scene.lease = Lease(scene.store, "host", LEASE_S, 3600, scene._note, elapsed=time)
    return time


def beaten(scene):
    """One beat, confirmed."""
    before = scene.lease._held
    scene.lease.beat_soon()
    scene.store.until(("host", True))
    while scene.lease._held is before:
        assert scene.lease._thread.is_alive()


def test_a_lease_that_was_never_had_covers_nothing(scene, passed):
    assert not scene.lease.covers(scene.lease.term)
    scene.lease.start()
    assert scene.lease.covers(scene.lease.term)


def test_a_lease_covers_from_the_start_of_a_confirmed_beat_but_for_its_margin(scene, passed):
    scene.lease.start()
    term = scene.lease.term
    passed.s += 0.9 * LEASE_S - 0.01
    assert scene.lease.covers(term)
    passed.s += 0.01
    assert not scene.lease.covers(term)  # A process that was stopped, and woke.


def test_a_beat_in_time_goes_on_with_the_term(scene, passed):
    scene.lease.start()
    term = scene.lease.term
    for _ in range(3):
        passed.s += LEASE_S - 1
        beaten(scene)
    assert scene.lease.covers(term)


def test_a_beat_counts_from_when_it_was_begun_not_from_when_it_was_answered(scene, passed):
    scene.lease.start()
    term = scene.lease.term
    beat = scene.store.beat

    def slow(name, **given):
        passed.s += LEASE_S - 2
        return beat(name, **given)

    scene.store.beat = slow
    beaten(scene)
    assert scene.lease.covers(term)
    passed.s += 1
    assert not scene.lease.covers(term)


@pytest.mark.parametrize("where", ["before the beat", "in the beat"])
def test_what_a_beat_after_the_end_of_the_lease_finds_may_be_anothers(scene, passed, where):
    """It was stopped and woke: the database knows its incarnation still, but runs of it may have been claimed."""
    scene.lease.start()
    before = scene.lease.term
    beat = scene.store.beat
    if where == "before the beat":
        passed.s += LEASE_S
    else:

        def slow(name, **given):
            passed.s += LEASE_S
            scene.store.beat = beat
            return beat(name, **given)

        scene.store.beat = slow
    beaten(scene)
    # It beats once more without being asked: the first may have been over when it was confirmed.
    scene.store.until(("host", True))
    while not scene.lease.covers(scene.lease.term):  # What is claimed, or committed, from now on.
        assert scene.lease._thread.is_alive()
    assert not scene.lease.covers(before)


def test_a_beat_that_failed_covers_nothing_more(scene, passed):
    scene.lease.start()
    term = scene.lease.term
    passed.s += 0.8 * LEASE_S
    scene.store.fail_next("away", call="beat")
    scene.lease.beat_soon()
    scene.store.until(("host", StoreUnavailable))
    passed.s += 0.1 * LEASE_S
    assert not scene.lease.covers(term)


def test_a_new_life_covers_nothing_of_the_one_before(scene, passed):
    scene.lease.start()
    before = scene.lease.term
    scene.store.retire("host")
    scene.lease.beat_soon()
    assert scene.lost.acquire(timeout=WAIT_S)
    assert not scene.lease.covers(before)
    assert scene.lease.covers(scene.lease.term)


def test_refused_writes_are_told_with_the_beats_and_at_the_end(scene, passed):
    scene.lease.start()
    scene.store.forget()
    scene.lease.refused = 2
    beaten(scene)
    assert scene.store.tables.incarnations["host"].refused_writes == 2
    scene.lease.refused = 5
    scene.lease.stop()
    assert scene.store.tables.incarnations["host"].refused_writes == 5


def test_a_new_life_counts_what_was_not_told_before(scene):
    scene.lease.start()
    scene.lease.refused = 2
    scene.store.forget()
    for _ in range(2):
        scene.store.until(("host", True))
    scene.store.retire("host")
    scene.lease.refused = 5
    assert scene.lost.acquire(timeout=WAIT_S)
    scene.store.until(("host-2", True))
    told = {name: row.refused_writes for name, row in scene.store.tables.incarnations.items()}
    assert sum(told.values()) == 5
    assert told["host"] >= 2


def test_it_beats_at_once_when_asked_to(scene):
    scene.lease = Lease(scene.store, "host", LEASE_S, 3600, scene._note)
    scene.lease.start()
    scene.store.retire("host")
    scene.lease.beat_soon()
    assert scene.lost.acquire(timeout=WAIT_S)
    assert scene.lease.name == "host-2"


def test_the_clock_is_the_stores_from_the_beginning_and_with_every_beat():
    store, clock = Heard(), SteadyClock()
    lease = Lease(store, "timed", LEASE_S, BEAT_S, lambda: None, clock)
    lease.start()
    try:
        assert abs(clock.now() - store._clock.us) < WAIT_S * 1_000_000, "before its first beat was due"
        store._clock.us += 3_600_000_000
        store.forget()
        for _ in range(2):
            store.until(("timed", True))
        assert not clock.steady(), "the store's clock was set"
    finally:
        lease.stop()
