"""Beginning and stopping run jobs: what is fixed, what is refused, and what the audit stream says."""

from zoneinfo import ZoneInfo

import pytest

from fabric.core.people.actor import Actor
from fabric.models import AuditLine, JobAction, Run, RunJob, RunJobItem
from fabric.selectors.runs.query import choices
from fabric.selectors.runs.query.choices import RunChoice
from fabric.services.errors import Refused
from fabric.services.runs.jobs import requests
from fabric.services.runs.jobs.requests import DOING, job_begin, job_stop
from fabric.services.runs.jobs.steps import job_step
from tests.fabric.services.runs.jobs.worlds import (
    BERLIN_NIGHT,
    counts,
    make_ports,
    outcomes,
    queue_at_night,
    queue_runs,
)


def test_every_action_has_its_words():
    assert set(DOING) == set(JobAction)


def test_a_job_has_the_runs_that_match_when_it_begins_and_no_later_one(actor, small):
    old = queue_runs(actor, small, 2)
    begun = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice(f"fabric:{small}"), reason=" too dear\0 ")
    (later,) = queue_runs(actor, small, 1)
    assert begun.created
    assert (begun.job.total, begun.job.left, begun.job.reason) == (2, 2, "too dear�")
    assert set(outcomes(begun.job.id)) == set(old)
    assert later not in outcomes(begun.job.id)


def test_days_of_a_query_are_those_of_its_zone(actor, small):
    run_id = queue_at_night(actor, small)
    with pytest.raises(Refused, match="no run matches"):
        job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice(BERLIN_NIGHT))
    choice = RunChoice(BERLIN_NIGHT, zone=ZoneInfo("Europe/Berlin"))
    assert set(outcomes(job_begin(actor=actor, action=JobAction.CANCEL, choice=choice).job.id)) == {run_id}


def test_named_runs_are_taken_and_no_other(actor, small):
    ids = queue_runs(actor, small, 3)
    begun = job_begin(actor=actor, action=JobAction.PAUSE, choice=RunChoice(ids=tuple(ids[:2])))
    assert (begun.job.by_ids, begun.job.total) == (True, 2)
    assert set(outcomes(begun.job.id)) == set(ids[:2])


def test_a_repeated_request_is_the_same_job_and_another_one_under_its_key_is_refused(actor, small):
    queue_runs(actor, small, 1)
    asked = {"actor": actor, "action": JobAction.CANCEL, "choice": RunChoice(), "start_key": "k"}
    first, again = job_begin(**asked), job_begin(**asked)
    assert (first.created, again.created, again.job.id) == (True, False, first.job.id)
    with pytest.raises(Refused, match="was used for another job") as caught:
        job_begin(**asked | {"action": JobAction.PAUSE})
    assert caught.value.code == "conflict"
    assert RunJob.objects.count() == 1


@pytest.mark.parametrize(
    ("given", "code", "says"),
    [
        ({"choice": RunChoice("state:nowhere")}, "invalid", "at character 7 of the query"),
        ({"choice": RunChoice("state:failed")}, "invalid", "no run matches, so there is nothing to cancel"),
        ({"choice": RunChoice("fabric:nothing")}, "invalid", "no fabric|no run matches"),
        ({"choice": RunChoice(ids=("01a2",))}, "not_found", "there is no run '01a2'"),
        ({"action": JobAction.TERMINATE, "reason": " \t"}, "invalid", "needs a reason"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_keeps_nothing(actor, small, given, code, says):
    queue_runs(actor, small, 1)
    with pytest.raises(Refused, match=says) as caught:
        job_begin(**{"actor": actor, "action": JobAction.CANCEL, "choice": RunChoice()} | given)
    assert caught.value.code == code
    assert not RunJob.objects.exists()
    assert not RunJobItem.objects.exists()


def test_too_many_runs_are_refused_in_one_sentence(actor, small, monkeypatch):
    ids = queue_runs(actor, small, 3)
    monkeypatch.setattr(requests, "RUNS_MAX", 2)
    with pytest.raises(Refused, match="more than 2 runs match, and a job acts on at most 2"):
        job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice())
    monkeypatch.setattr(choices, "NAMED_MAX", 2)
    with pytest.raises(Refused, match="3 runs are named; at most 2"):
        job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice(ids=tuple(ids)))
    assert not RunJob.objects.exists()


def test_who_may_not_control_runs_begins_and_stops_nothing(actor, small):
    queue_runs(actor, small, 1)
    viewer = Actor("vera", actor.workspace_id, roles=frozenset({"viewer"}))
    for action in JobAction:
        with pytest.raises(Refused, match=f"vera may not {DOING[action]}") as caught:
            job_begin(actor=viewer, action=action, choice=RunChoice(), reason="why")
        assert caught.value.code == "forbidden"
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    with pytest.raises(Refused, match="vera may not stop run jobs"):
        job_stop(actor=viewer, job_id=job.id)
    assert counts(job.id) == ("running", 1, 0, 0)


def test_an_operator_of_one_fabric_chooses_its_runs_alone_and_sees_no_other_job(actor, small, doubtful):
    mine, _ = queue_runs(actor, small, 1), queue_runs(actor, doubtful, 1)
    placed = Actor("ona", actor.workspace_id, roles=frozenset({f"operator@{small}"}))
    job = job_begin(actor=placed, action=JobAction.CANCEL, choice=RunChoice()).job
    assert set(outcomes(job.id)) == set(mine)
    others = job_begin(actor=actor, action=JobAction.PAUSE, choice=RunChoice()).job
    with pytest.raises(Refused, match="there is no run job"):
        job_stop(actor=placed, job_id=others.id)
    assert job_stop(actor=placed, job_id=job.id)


def test_a_stranger_sees_no_job_and_no_run(actor, stranger, small):
    (run_id,) = queue_runs(actor, small, 1)
    with pytest.raises(Refused) as caught:
        job_begin(actor=stranger, action=JobAction.CANCEL, choice=RunChoice(ids=(run_id,)))
    assert caught.value.code == "not_found"
    with pytest.raises(Refused, match="no run matches"):
        job_begin(actor=stranger, action=JobAction.CANCEL, choice=RunChoice())
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    with pytest.raises(Refused, match="there is no run job"):
        job_stop(actor=stranger, job_id=job.id)


def test_a_job_is_stopped_once_and_an_ended_one_not_at_all(actor, small):
    queue_runs(actor, small, 1)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    assert job_stop(actor=actor, job_id=job.id) is True
    assert job_stop(actor=actor, job_id=job.id) is False
    other = job_begin(actor=actor, action=JobAction.PAUSE, choice=RunChoice()).job
    for _ in range(2):
        job_step(make_ports(), other.id)
    with pytest.raises(Refused, match="this job has ended"):
        job_stop(actor=actor, job_id=other.id)


def test_the_audit_stream_has_the_begin_the_stop_and_the_end(actor, small):
    queue_runs(actor, small, 2)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    job_stop(actor=actor, job_id=job.id)
    job_step(make_ports(), job.id)
    lines = AuditLine.objects.filter(subject=job.id).order_by("at", "id")
    assert [(line.kind, line.actor) for line in lines] == [
        ("run_job_begun", "owner"),
        ("run_job_stopped", "owner"),
        ("run_job_ended", "system"),
    ]
    assert b'"left":2' in bytes(lines[2].body)
    assert Run.objects.filter(state="queued").count() == 2
