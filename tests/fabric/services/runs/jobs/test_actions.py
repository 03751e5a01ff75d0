"""The table of actions agrees with the services of the single actions."""

import pytest

from fabric.core.values.flow import RunState
from fabric.models import JobAction, Run
from fabric.selectors.runs.query.choices import RunChoice
from fabric.selectors.runs.query.jobs import job_refusals
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.jobs.actions import ACTIONS
from fabric.services.runs.jobs.requests import job_begin
from fabric.services.runs.jobs.steps import job_step
from fabric.services.runs.stops import stop_new_runs
from tests.fabric.services.runs.jobs.worlds import counts, make_ports, outcomes, queue_runs, sent
from tests.fabric.services.world import GIVEN_UP, ran


def test_the_table_is_total():
    assert set(ACTIONS) == set(JobAction)
    assert {action for action, rule in ACTIONS.items() if rule.reason == "needed"} == {JobAction.TERMINATE}


@pytest.mark.parametrize(
    ("action", "input_id"),
    [(JobAction.CANCEL, "cancel"), (JobAction.TERMINATE, "terminate"), (JobAction.PAUSE, "pause:1")],
)
def test_each_run_is_sent_the_action_with_its_reason(actor, small, action, input_id):
    ids = queue_runs(actor, small, 2)
    job = job_begin(actor=actor, action=action, choice=RunChoice(), reason="too dear").job
    job_step(make_ports(), job.id)
    assert [sent(run_id) for run_id in ids] == [[input_id]] * 2
    assert counts(job.id) == ("running", 2, 2, 0)


def test_paused_runs_are_resumed_and_others_refused(actor, small):
    paused, queued = queue_runs(actor, small, 2)
    job_step(make_ports(), job_begin(actor=actor, action=JobAction.PAUSE, choice=RunChoice(ids=(paused,))).job.id)
    job = job_begin(actor=actor, action=JobAction.RESUME, choice=RunChoice()).job
    job_step(make_ports(), job.id)
    assert outcomes(job.id) == {paused: "done", queued: "refused"}
    assert sent(paused) == ["pause:1", "resume:1"]


def test_no_run_is_tried_again_while_new_runs_are_stopped(actor, small):
    failed = ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    stop_new_runs(actor=actor, fabric="", reason="the endpoint bills twice")
    job = job_begin(actor=actor, action=JobAction.RETRY, choice=RunChoice(ids=(failed.id,))).job
    job_step(make_ports(), job.id)
    assert outcomes(job.id) == {failed.id: "refused"}
    (refusal,), _ = job_refusals(actor, job.id)
    assert "new runs are stopped since" in refusal.says.lower()
    assert "the endpoint bills twice" in refusal.says


def test_a_failed_run_is_tried_again_once_and_others_are_refused(actor, small):
    failed = ran(actor, fabric_publish(actor=actor, source=GIVEN_UP).name)
    completed = ran(actor, small)
    assert failed.state is RunState.ABORTED
    job = job_begin(actor=actor, action=JobAction.RETRY, choice=RunChoice()).job
    job_step(make_ports(), job.id)
    assert outcomes(job.id) == {failed.id: "done", completed.id: "refused"}
    assert Run.objects.filter(origin_run_id=failed.id).count() == 1
