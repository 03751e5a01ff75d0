"""Every journal store keeps its contract about runs that were claimed again and again without progress."""

from __future__ import annotations

import random
from itertools import count

import pytest

from fabric.core.events import CallIssued
from fabric.core.values.frozen import replace
from fabric.runtime.quarantine.verdicts import SUSPECT_FROM, count_admitted
from fabric.stores.rows import CLAIM_SPAN
from tests.fabric.stores.journal_worlds import Journal, new_run

LEASE_S = 3600.0
_lives = count(1)


class Fleet:
    """Workers over one store, and runs that were claimed before by others."""

    def __init__(self, world):
        self.world = world

    def worker(self):
        name = f"worker-{next(_lives)}"
        self.world.store.register(name, lease_s=LEASE_S)
        return name

    def runs(self, *claims, **changed):
        """Orphans, in the order of their ids: so many claims without progress, the last by one who is dead."""
        dead = self.worker()
        self.world.store.retire(dead)
        made = [self.world.store.create(new_run(**changed))[0] for _ in claims]
        for run_id, number in zip(made, claims, strict=True):
            self.world.set_claims(run_id, number, by=dead)
        return made

    def claim(self, name, limit=1000, **asked):
        return self.world.store.claim(name, limit=limit, queues=["default"], **asked)

    def take(self, name, limit=1000, **asked):
        return [run.run_id for run in self.claim(name, limit, **asked)]


@pytest.fixture
def fleet(world):
    return Fleet(world)


def test_the_runs_of_workers_that_died_twice_are_claimed_one_by_one(fleet):
    runs = [fleet.world.store.create(new_run())[0] for _ in range(40)]
    sizes, worker = [], fleet.worker()
    for _ in range(6):
        taken = fleet.take(worker)
        assert taken == runs[: len(taken)]
        assert fleet.take(worker) == [], "there is no more room for as long as none of them gets on"
        sizes.append(len(taken))
        fleet.world.store.retire(worker)
        worker = fleet.worker()
    assert sizes == [40, 40, 1, 1, 1, 1]
    others = [fleet.take(fleet.worker()) for _ in range(3)]
    assert [len(taken) for taken in others] == [1, 1, 1], "the others go alone as well"


def test_progress_makes_room_and_nothing_else_does(fleet):
    first, second, third = fleet.runs(4, 4, 4)
    worker = fleet.worker()
    (claimed,) = fleet.claim(worker)
    journal = Journal(first, claimed.fence)
    issued = journal.batch()
    fleet.world.store.write([replace(issued, rows=(replace(issued.rows[0], kind=CallIssued.kind),))])
    assert fleet.take(worker) == []
    fleet.world.store.write([journal.batch()])
    assert fleet.take(worker) == [second]
    (claimed,) = fleet.claim(fleet.worker())
    assert (claimed.run_id, claimed.claims, claimed.taken_over) == (third, 5, True)


def test_one_that_is_given_back_makes_room_and_keeps_its_claims(fleet):
    first, second = fleet.runs(4, 4)
    worker = fleet.worker()
    (claimed,) = fleet.claim(worker)
    fleet.world.store.write([Journal(first, claimed.fence).batch(0, consumed=("start",), release=True, columns=None)])
    assert fleet.take(worker) == [second]
    assert fleet.world.claims(first) == 5


def test_others_are_neither_counted_nor_held_up(fleet):
    suspects = fleet.runs(*[4] * 12, priority="critical")
    healthy = fleet.runs(*[1] * 5, priority="low")
    worker = fleet.worker()
    assert fleet.take(worker, limit=4) == [suspects[0], *healthy[:3]], "suspects take no other run's place"
    fresh = fleet.world.store.create(new_run())[0]
    assert fleet.take(worker) == [fresh, *healthy[3:]]


def test_a_suspect_waits_while_the_worker_owns_another_one(fleet):
    first, second = fleet.runs(2, 3)
    worker = fleet.worker()
    assert fleet.take(worker) == [first]
    assert fleet.take(worker) == []
    assert fleet.take(fleet.worker()) == [second]


def test_a_workers_own_suspect_comes_first_when_it_is_asked_for_anew(fleet):
    (mine,) = fleet.runs(2)
    worker = fleet.worker()
    assert fleet.take(worker) == [mine]
    (urgent,) = fleet.runs(2, priority="critical")
    assert fleet.take(worker, again=[mine]) == [mine]
    assert fleet.take(worker) == []
    assert fleet.take(fleet.worker()) == [urgent]


def test_one_that_is_asked_for_anew_is_not_in_its_own_way(fleet):
    (mine,) = fleet.runs(3)
    worker = fleet.worker()
    assert fleet.take(worker) == [mine]
    (claimed,) = fleet.claim(worker, again=[mine])
    assert (claimed.run_id, claimed.claims) == (mine, 5)


@pytest.mark.parametrize("seed", range(6))
def test_the_stores_take_as_many_as_the_rule_says(fleet, seed):
    rng, worker = random.Random(seed), fleet.worker()
    owned = 0
    for _ in range(4):
        fleet.runs(*(rng.choice((0, 1, 2, 2, 2, 2, 3, 4, 5, 9)) for _ in range(rng.randrange(1, 9))))
        due = [claims for claims in fleet.world.orphans() if claims >= SUSPECT_FROM]
        taken = [run.claims - 1 for run in fleet.claim(worker)]
        expected = due[: count_admitted(owned)]
        assert [claims for claims in taken if claims >= SUSPECT_FROM] == expected
        owned += len(expected)
        assert not [claims for claims in fleet.world.orphans() if claims < SUSPECT_FROM]


def test_suspects_that_no_worker_may_take_hide_no_run(fleet):
    """More of them than a claim looks at, all due before the others."""
    fleet.runs(4)
    many = [fleet.world.store.create(new_run())[0] for _ in range(CLAIM_SPAN + 2)]
    fleet.world.set_claims("", 4)
    worker = fleet.worker()
    assert len(fleet.take(worker, limit=1)) == 1
    healthy = fleet.world.store.create(new_run())[0]
    assert fleet.take(worker, limit=1) == [healthy]
    assert fleet.world.claims(many[-1]) == 4


def test_suspects_cost_no_statement_more(fleet):
    """A look and a load, of any run that is due."""
    fleet.runs(*[0] * 3)
    store, costs = fleet.world.store, []
    for claims in (1, 4):
        fleet.world.set_claims("", claims)
        worker, before = fleet.worker(), store.statements
        assert len(fleet.take(worker, limit=1)) == 1
        costs.append(store.statements - before)
        store.retire(worker)
    assert costs[0] == costs[1]
