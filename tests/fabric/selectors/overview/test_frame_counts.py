"""Every page's frame shows its counts, in one query each."""

from __future__ import annotations

import time

import pytest

from fabric.core.values.flow import RunState
from fabric.core.values.units import US
from fabric.models import Incarnation, Run, StartStop
from fabric.models.runs.run import LIVE
from fabric.selectors.overview import frame_counts as standing
from fabric.services.runs.start import run_start
from fabric.services.runs.stops import stop_new_runs
from tests.fabric.services.world import ran


def queued(store, nudge, actor, fabric):
    return run_start(store=store, nudge=nudge, actor=actor, fabric=fabric, text="later").run_id


def test_live_runs_are_counted_and_the_count_is_capped(store, nudge, actor, small, stranger, django_assert_num_queries):
    ran(actor, small)
    for _ in range(3):
        queued(store, nudge, actor, small)
    with django_assert_num_queries(1):
        assert standing.runs_live_count(actor, 100) == 3
    assert standing.runs_live_count(actor, 2) == 2
    assert standing.runs_live_count(stranger, 100) == 0


def test_a_run_that_waits_for_a_person_needs_no_worker(store, nudge, actor, small, doubtful):
    ran(actor, doubtful)
    queued(store, nudge, actor, small)
    assert standing.runs_live_count(actor, 100) == 2
    assert standing.runs_ready_count(actor, 100) == 1


@pytest.mark.django_db
def test_a_worker_is_alive_while_its_lease_is():
    now = time.time_ns() // 1_000
    there = standing.workers_alive_count()
    Incarnation.objects.create(name="alive", lease_until=now + 60 * US, started_at=now)
    Incarnation.objects.create(name="lapsed", lease_until=now - 60 * US, started_at=now)
    Incarnation.objects.create(name="retired", lease_until=now + 60 * US, started_at=now, retired_at=now)
    assert standing.workers_alive_count() == there + 1


def test_counts_come_from_the_partial_indexes(actor, small, store, nudge):
    queued(store, nudge, actor, small)
    assert "run_live" in standing.live_runs(actor).values("id")[:101].explain()


def test_live_is_what_the_model_says(actor, small, store, nudge):
    queued(store, nudge, actor, small)
    for state in RunState:
        Run.objects.update(state=state)
        assert standing.live_runs(actor).count() == Run.objects.filter(LIVE).count(), state


def test_a_workspace_has_a_name_and_the_stop_of_its_new_runs_by_one_statement(
    actor, stranger, small, django_assert_num_queries
):
    stop_new_runs(actor=actor, fabric=small, reason="Its tool.")
    assert standing.frame_workspace(actor) == ("default", None)
    stop = stop_new_runs(actor=actor, fabric="", reason="All.", for_s=3_600)
    with django_assert_num_queries(1):
        assert standing.frame_workspace(actor) == ("default", stop)
    assert standing.frame_workspace(stranger) == ("elsewhere", None)
    StartStop.objects.update(until_at=1)
    assert standing.frame_workspace(actor) == ("default", None)


# -- a place in the queue --------------------------------------------------------------------------------------------------


def test_a_place_in_the_queue_is_counted_as_workers_claim(store, nudge, actor, small, stranger):
    ids = [queued(store, nudge, actor, small) for _ in range(5)]
    mine, sooner, later, urgent, elsewhere = ids
    Run.objects.filter(id=mine).update(priority=2, wake_at=100)
    Run.objects.filter(id=sooner).update(priority=2, wake_at=99)
    Run.objects.filter(id=later).update(priority=2, wake_at=101)
    Run.objects.filter(id=urgent).update(priority=1, wake_at=500)
    Run.objects.filter(id=elsewhere).update(priority=0, wake_at=1, queue="gpu")
    place = standing.queue_place(actor, mine, 10)
    assert (place.queue, place.ahead, place.taken) == ("default", 2, False)
    assert standing.queue_place(actor, mine, 1).ahead == 2  # One more than was asked for: there are more.
    Run.objects.filter(id=sooner).update(incarnation="somebody")
    assert standing.queue_place(actor, mine, 10).ahead == 1
    assert standing.queue_place(actor, sooner, 10).taken
    assert standing.queue_place(stranger, mine, 10) is None
