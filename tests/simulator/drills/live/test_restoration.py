"""A live drill puts back what it leaves, and its verdict is an error where it cannot, whatever the run has shown."""

from __future__ import annotations

import time

import pytest

from fabric.composition import engine as wiring
from fabric.models import AuditLine, Fabric, Inbox, Incarnation, Run
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import drills_workspace_ensure
from fabric.services.fabrics.revisions import drilled_publish
from fabric.services.runs.start import run_start
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.live.cells import LiveResult, adapt_fabric
from simulator.drills.live.restoration import PutBack, acting_in, put_back, put_back_what_was_left
from simulator.drills.models.tables import Drill, Status
from simulator.drills.runs.left_behind import list_left_behind
from simulator.drills.runs.names import start_key
from simulator.drills.selectors.drills import drill_get
from simulator.drills.services.drills import drill_ask
from tests.simulator.drills.live.test_conditions import ONE


@pytest.fixture
def left(actor, small):
    """A live drill that was claimed, and its run, which no worker drives: none is there. ``(workspace of drills, drill, run)``."""
    Incarnation.objects.create(name="w", started_at=0, lease_until=time.time_ns() // 1_000 + 3_600_000_000)
    one = drill_claim(drill_ask(actor=actor, fabric=small, cells=(ONE,), mode="live").batch, "h")
    workspace = drills_workspace_ensure(actor.workspace_id)
    acting = acting_in(workspace)
    for cached in (wiring.store, wiring.nudge):
        cached.cache_clear()
    spec = adapt_fabric(revision_get(actor, small).spec, one.id, {})
    drilled_publish(actor=acting, spec=spec)
    run = run_start(
        store=wiring.store(), nudge=wiring.nudge(), actor=acting, fabric=spec.name, text="What?", start_key=start_key(one.id, "during")
    )  # fmt: skip
    return workspace, one, run.run_id


def test_a_run_that_does_not_end_is_not_put_back_and_the_drill_is_an_error_that_says_so(actor, left):
    workspace, one, run = left
    assert list_left_behind() == [], "the drill has not ended"
    assert drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    assert list_left_behind() == [(workspace, one.id)]
    called = []
    assert put_back_what_was_left(lambda: called.append(1), within_s=0.2) == 1
    seen = drill_get(actor, one.id)
    assert (seen.status, seen.verdict) == (Status.COMPLETED, "error")
    assert seen.why == f"run {run} was told to end, and had not within 0.2 s"
    assert seen.body["rollback"] == {"done": False, "said": seen.why}
    assert len(called) > 1, "it goes on holding its duty"
    assert Inbox.objects.filter(run_id=run, input_id="terminate").count() == 1
    assert AuditLine.objects.filter(workspace_id=workspace, kind="terminate_sent", subject=run).exists()


def test_what_has_ended_by_itself_needs_nothing_but_that_its_fabric_is_withdrawn(left):
    workspace, one, run = left
    Run.objects.filter(id=run).update(state="completed")
    assert put_back(workspace, one.id) == PutBack(True, "nothing was left to put back")
    assert not Fabric.objects.filter(workspace_id=workspace, published__isnull=False).exists()
    drill_end(one, "h", status=Status.COMPLETED, verdict="pass")
    assert list_left_behind() == []


@pytest.mark.parametrize("status", [Status.ABORTED, Status.INTERRUPTED, Status.FAILED])
def test_a_drill_whose_process_was_killed_after_its_run_had_ended_is_put_back_and_reported(actor, left, status):
    workspace, one, run = left
    Run.objects.filter(id=run).update(state="aborted")
    assert drill_end(one, "h", status=status)
    assert list_left_behind() == [(workspace, one.id)]
    assert put_back_what_was_left() == 1
    assert drill_get(actor, one.id).body["rollback"] == {"done": True, "said": "nothing was left to put back"}
    assert not Fabric.objects.filter(workspace_id=workspace, published__isnull=False).exists()
    assert list_left_behind() == []


def test_a_drill_that_was_stopped_before_it_began_left_nothing(left):
    _, one, _ = left
    Run.objects.update(state="aborted")
    Drill.objects.filter(id=one.id).update(status=Status.ABORTED, started_at=None, body="{}")
    assert list_left_behind() == []


def test_another_drills_run_is_none_of_its_business(left):
    workspace, _, run = left
    assert put_back(workspace, "another").done
    assert not Inbox.objects.filter(run_id=run, input_id="terminate").exists()


@pytest.mark.parametrize(
    ("status", "verdict", "ends"),
    [
        (Status.COMPLETED, "pass", Status.FAILED),
        (Status.COMPLETED, "deviated", Status.FAILED),
        (Status.ABORTED, "", Status.ABORTED),
    ],
)
def test_a_rollback_that_failed_is_never_a_pass(status, verdict, ends):
    came = LiveResult(body={"runs": {}, "steady": {}}, status=status, verdict=verdict)
    came.put_back(PutBack(True, "run 1 was ended"))
    came.put_back(PutBack(False, "run 2 was told to end, and had not within 30 s"))
    driven = came.build_columns()
    assert (driven.status, driven.verdict) == (ends, "error")
    assert "not everything was put back: run 1 was ended; run 2 was told to end" in driven.why
    assert driven.body["rollback"]["done"] is False


def test_a_drill_that_met_a_cap_has_no_verdict_whatever_it_had_shown():
    came = LiveResult(body={"runs": {}, "steady": {}})
    came.judge("pass", "retry > failed", "")
    came.abort("it has taken 181 s, and stops at 180 s")
    came.put_back(PutBack(True, "nothing was left to put back"))
    driven = came.build_columns()
    assert (driven.status, driven.verdict, driven.body["aborted"]) == (Status.ABORTED, "", driven.why)
