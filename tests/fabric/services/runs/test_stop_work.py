"""A stop of new runs pauses, cancels or leaves the runs that were started before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fabric.core.events.inputs import INBOX
from fabric.core.values.flow import RunState
from fabric.management.run_follower import Following
from fabric.models import AuditLine, Inbox, StartStop, StoppedRun
from fabric.selectors.runs.stops import RESUME, RunningRuns, stop_get
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs import stop_work
from fabric.services.runs.control import run_pause, run_resume
from fabric.services.runs.start import run_start
from fabric.services.runs.stop_work import LISTS, MOVES, stops_carry_out
from fabric.services.runs.stops import allow_new_runs, are_stops_due, stop_new_runs
from fabric.worker.process.duties import database_us
from tests.fabric.services.world import SMALL, ran


@pytest.fixture
def ports(store, nudge, actor):
    return {"store": store, "nudge": nudge, "actor": actor}


@pytest.fixture
def start(ports, small):
    """Starts runs, which no worker claims."""
    return lambda fabric=small: run_start(**ports, fabric=fabric, text="Why?").run_id


def asked(run_id):
    """The inputs that a run was sent after its start."""
    rows = Inbox.objects.filter(run_id=run_id).exclude(input_id__startswith="start:").order_by("created_at", "input_id")
    return [INBOX.validate_json(bytes(row.body)) for row in rows]


def kinds(run_id):
    return [one.kind for one in asked(run_id)]


def test_the_tables_have_all_that_can_be_left_to_do():
    wanted = {*RunningRuns, RESUME} - {RunningRuns.FINISH}
    assert set(LISTS) == set(MOVES) == wanted


def test_runs_finish_unless_something_else_is_asked_for(ports, store, nudge, actor, small, start):
    run_id = start()
    stop = stop_new_runs(actor=actor, fabric=small, reason="Why.")
    assert not are_stops_due(database_us())
    assert stops_carry_out(store, nudge) == 0
    assert Following(actor, run_id).to_rest().state is RunState.COMPLETED
    assert not StoppedRun.objects.filter(stop_id=stop.id).exists()


def test_the_runs_of_the_fabric_are_paused_and_only_they_are_resumed(ports, store, nudge, actor, small, start):
    other = fabric_publish(actor=actor, source=SMALL.replace("name: small", "name: other")).name
    ended, first, second, theirs, elsewhere = ran(actor, small).id, start(), start(), start(), start(other)
    run_pause(**ports, run_id=theirs, reason="Mine.")
    stop = stop_new_runs(actor=replace(actor, name="ana"), fabric=small, reason="Its tool.", running="pause")
    assert are_stops_due(database_us())
    assert stops_carry_out(store, nudge) == 3
    assert not are_stops_due(database_us())
    assert [kinds(one) for one in (ended, elsewhere)] == [[], []]
    (pause,) = asked(first)
    assert (pause.actor, pause.reason) == ("ana", "new runs were stopped: Its tool.")
    assert stop_get(actor, stop.id).paused == stop_get(actor, stop.id).resumable == 2
    told = AuditLine.objects.get(kind="pause_sent", subject=first)
    assert (told.actor, told.via) == ("ana", f"stop:{stop.id}")

    # A person lets one go on, and pauses it again for a reason of their own.
    run_resume(**ports, run_id=second)
    run_pause(**ports, run_id=second, reason="Mine too.")
    allow_new_runs(actor=actor, stop_id=stop.id, resume=True)
    assert stops_carry_out(store, nudge) == 2
    assert kinds(first) == ["pause_requested", "resume_requested"]
    assert kinds(second) == ["pause_requested", "resume_requested", "pause_requested"]
    assert kinds(theirs) == ["pause_requested"]
    assert asked(first)[-1].actor == "owner", "in whose name it is resumed"
    assert Following(actor, first).to_rest().state is RunState.COMPLETED
    assert stop_get(actor, stop.id).resumable == 0


def test_runs_are_cancelled_by_the_workspaces_stop(store, nudge, actor, start):
    runs = [start(), start()]
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running=RunningRuns.CANCEL)
    assert stops_carry_out(store, nudge) == 2
    assert [kinds(one) for one in runs] == [["cancel_requested"]] * 2
    assert Following(actor, runs[0], wait=True).to_rest().state is RunState.CANCELLED
    assert (stop_get(actor, stop.id).cancelled, stop_get(actor, stop.id).resumable) == (2, 0)


def test_more_runs_than_a_batch_are_all_reached(store, nudge, actor, start, monkeypatch):
    monkeypatch.setattr(stop_work, "BATCH", 2)
    monkeypatch.setattr(stop_work, "BATCHES_MAX", 2)
    runs = [start() for _ in range(5)]
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running="pause")
    assert [stops_carry_out(store, nudge) for _ in range(3)] == [4, 1, 0]
    assert {kind for one in runs for kind in kinds(one)} == {"pause_requested"}
    assert stop_get(actor, stop.id).paused == 5


def test_a_worker_that_died_between_a_pause_and_its_row_leaves_a_pause_that_is_known_again(store, nudge, actor, start):
    run_id = start()
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running="pause")
    stops_carry_out(store, nudge)
    StoppedRun.objects.all().delete()
    StartStop.objects.update(left="pause")
    stops_carry_out(store, nudge)
    assert kinds(run_id) == ["pause_requested"]
    assert stop_get(actor, stop.id).paused == 1


def test_a_stop_that_is_lifted_pauses_no_further_run(store, nudge, actor, start):
    run_id = start()
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running="pause")
    allow_new_runs(actor=actor, stop_id=stop.id)
    assert stops_carry_out(store, nudge) == 0
    assert kinds(run_id) == []


def test_runs_stay_paused_at_its_given_end_and_can_be_resumed_later(store, nudge, actor, start):
    run_id = start()
    stop = stop_new_runs(actor=actor, fabric="", reason="Why.", running="pause", for_s=60)
    stops_carry_out(store, nudge)
    StartStop.objects.update(until_at=database_us() - 1)
    stops_carry_out(store, nudge)
    assert stop_get(actor, stop.id).ended_by == "system"
    assert kinds(run_id) == ["pause_requested"]
    allow_new_runs(actor=actor, stop_id=stop.id, resume=True)
    stops_carry_out(store, nudge)
    assert kinds(run_id) == ["pause_requested", "resume_requested"]
    with pytest.raises(Refused, match="has ended already"):
        allow_new_runs(actor=actor, stop_id=stop.id, resume=True)
