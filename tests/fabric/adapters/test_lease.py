import threading
from queue import SimpleQueue

import pytest

from fabric.adapters.lease import Lease
from fabric.runtime.ports import StoreUnavailable
from simulator.kernel.memory_store import MemoryStore
from tests.fabric.adapters.journal_worlds import Hand, Journal, new_run

WAIT_S = 20
LEASE_S = 10.0
BEAT_S = 0.01


class Heard(MemoryStore):
    """A store that says who beat, and what came of it."""

    def __init__(self) -> None:
        super().__init__(Hand())
        self.beats: SimpleQueue[tuple[str, object]] = SimpleQueue()

    def beat(self, incarnation, *, lease_s):
        try:
            known = super().beat(incarnation, lease_s=lease_s)
        except Exception as error:
            self.beats.put((incarnation, type(error)))
            raise
        self.beats.put((incarnation, known))
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
    scene.store._incarnations.clear()  # The row was removed behind its back.
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
    assert scene.claim() == []  # Nobody had come first, so the run is still this incarnation's.
    assert scene.store.write([Journal(run.run_id, claimed.fence).batch()]) == ["committed"]
    assert not scene.names_at_loss


def test_what_was_claimed_meanwhile_is_fenced_run_by_run(scene):
    run = new_run()
    scene.store.create(run)
    scene.lease.start()
    (claimed,) = scene.store.claim("host", limit=1, queues=["default"])
    scene.store._clock.us += int(3 * LEASE_S * 1e6)
    with scene.store._guard:  # No beat comes between.
        scene.store._incarnations["host"].lease_until = 0
        assert scene.claim() == [run.run_id]
    scene.store.forget()
    scene.store.until(("host", True))
    assert scene.store.write([Journal(run.run_id, claimed.fence).batch()]) == ["fenced"]


def test_an_error_that_nobody_thought_of_does_not_end_the_beating(scene, monkeypatch):
    scene.lease.start()
    beat, raised = scene.store.beat, threading.Event()

    def broken(name, *, lease_s):
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
