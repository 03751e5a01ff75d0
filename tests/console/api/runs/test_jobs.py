"""Run jobs over the API: begin, read, list and stop."""

from __future__ import annotations

from typing import get_args
from uuid import uuid4

import pytest

from console.api.runs.jobs import ActionName
from fabric.models import JobAction, RunJob
from fabric.services.runs.jobs.steps import jobs_advance
from tests.fabric.services.runs.jobs.worlds import BERLIN_NIGHT, make_ports, queue_at_night, queue_runs, sent
from tests.fabric.services.world import ran

JOBS = "/api/v1/runs/jobs"


def test_the_named_actions_are_all_there_are():
    assert set(get_args(ActionName)) == set(JobAction)


def test_a_job_is_begun_and_followed_to_its_end(program, actor, small):
    ended, ids = ran(actor, small), queue_runs(actor, small, 2)
    begun = program.post(JOBS, {"action": "cancel", "query": f"fabric:{small}", "reason": "too dear"})
    assert (begun.status_code, begun.json()["total"], begun.json()["left"]) == (201, 3, 3)
    jobs_advance(make_ports())
    job = program.get(begun["Location"]).json()
    assert {name: job[name] for name in ("state", "done", "refused", "left", "reason", "next_cursor")} == {
        "state": "ended", "done": 2, "refused": 1, "left": 0, "reason": "too dear", "next_cursor": None,
    }  # fmt: skip
    assert [(one["run_id"], "has already ended" in one["message"]) for one in job["refusals"]] == [(ended.id, True)]
    assert [sent(run_id) for run_id in ids] == [["cancel"]] * 2
    assert [one["id"] for one in program.get(JOBS).json()["jobs"]] == [job["id"]]


def test_days_of_the_query_are_those_of_the_zone(program, actor, small):
    queue_at_night(actor, small)
    body = {"action": "cancel", "query": BERLIN_NIGHT}
    assert program.post(JOBS, body).status_code == 422
    assert program.post(JOBS, body | {"zone": "Europe/Berlin"}).json()["total"] == 1
    refused = program.post(JOBS, body | {"zone": "Europe/Bonn"})
    assert (refused.status_code, refused.json()["errors"][0]["path"]) == (422, "zone")


def test_the_same_key_is_the_same_job(program, actor, small):
    (run_id,) = queue_runs(actor, small, 1)
    body, key = {"action": "pause", "runs": [run_id]}, {"Idempotency-Key": "k"}
    first, again = (program.post(JOBS, body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    assert first.json()["query"] is None
    assert program.post(JOBS, body | {"action": "cancel"}, headers=key).status_code == 409


def test_a_job_is_stopped(program, actor, small):
    queue_runs(actor, small, 1)
    job = program.post(JOBS, {"action": "cancel", "query": ""}).json()
    told = [program.post(f"{JOBS}/{job['id']}/stop", {}) for _ in range(2)]
    assert [(one.status_code, one.json()["recorded"]) for one in told] == [(202, True), (202, False)]
    jobs_advance(make_ports())
    assert program.get(f"{JOBS}/{job['id']}").json()["state"] == "stopped"
    assert program.get(f"{JOBS}/{uuid4()}").status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"action": "cancel"},
        {"action": "cancel", "query": "", "runs": [str(uuid4())]},
        {"action": "paint", "query": ""},
        {"action": "cancel", "query": "state:x"},
        {"action": "terminate", "query": ""},
    ],
)
def test_a_wrong_request_begins_nothing(program, actor, small, body):
    queue_runs(actor, small, 1)
    assert program.post(JOBS, body).status_code == 422
    assert not RunJob.objects.exists()
