"""Taking hold of runs over the API: terminate, pause, resume, fork."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fabric.management.run_follower import Following
from fabric.models import Inbox, Run
from tests.fabric.services.world import ran

RUNS = "/api/v1/runs"
ASKED = {"fabric": "small", "text": "What do the notes say?"}


@pytest.fixture
def run_id(program, small):
    return program.post(RUNS, ASKED).json()["id"]


def asked(run_id):
    rows = Inbox.objects.filter(run_id=run_id).exclude(input_id__startswith="start:")
    return sorted(rows.values_list("input_id", flat=True))


def test_a_run_is_paused_and_resumed_once_however_often_it_is_asked_for(program, run_id):
    verbs = ("pause", "pause", "resume", "resume")
    told = [program.post(f"{RUNS}/{run_id}/{verb}", {}).json() for verb in verbs]
    assert [one["recorded"] for one in told] == [True, False, True, False]
    assert asked(run_id) == ["pause:1", "resume:1"]


def test_a_paused_run_says_so_and_by_whom(program, actor, run_id):
    program.post(f"{RUNS}/{run_id}/pause", {"reason": "not before noon"})
    Following(actor, run_id).to_rest()
    run = program.get(f"{RUNS}/{run_id}").json()
    assert (run["state"], run["reason"]) == ("paused", "paused by owner: not before noon")
    assert program.get(f"{RUNS}?state=paused").json()["runs"][0]["id"] == run_id


def test_a_termination_needs_a_reason(program, run_id):
    answer = program.post(f"{RUNS}/{run_id}/terminate", {})
    assert (answer.status_code, answer.json()["errors"][0]["path"]) == (422, "reason")
    answer = program.post(f"{RUNS}/{run_id}/terminate", {"reason": " "})
    assert (answer.status_code, asked(run_id)) == (422, [])
    answer = program.post(f"{RUNS}/{run_id}/terminate", {"reason": "wrong customer"})
    assert (answer.status_code, answer.json()["recorded"]) == (202, True)


@pytest.mark.parametrize("verb", ["terminate", "pause", "resume"])
def test_what_has_ended_or_is_not_there_is_not_taken_hold_of(program, actor, small, verb):
    ended, body = ran(actor, small).id, {"reason": "x"} if verb != "resume" else {}
    assert program.post(f"{RUNS}/{ended}/{verb}", body).status_code == 409
    assert program.post(f"{RUNS}/{uuid4()}/{verb}", body).status_code == 404
    assert asked(ended) == []


def test_a_fork_is_a_run_of_its_own_and_the_same_key_is_the_same_fork(program, actor, small):
    origin = ran(actor, small)
    body, key = {"seq": 1, "edit": {"what": "request", "value": "What is the deadline?"}}, {"Idempotency-Key": "f-1"}
    first, second = (program.post(f"{RUNS}/{origin.id}/fork", body, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    fork = first.json()
    assert (fork["title"], fork["state"]) == ("What is the deadline?", "queued")
    assert first.headers["Location"] == second.headers["Location"] == f"{RUNS}/{fork['id']}"
    assert program.post(f"{RUNS}/{origin.id}/fork", {"seq": 2}, headers=key).status_code == 409
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"seq": 0}, 422),
        ({"seq": 9_999}, 422),
        ({"seq": 2**40}, 422),
        ({"seq": 1, "edit": {"what": "finalize", "value": {}}}, 422),
        ({"seq": 1, "edit": {"what": "plan", "value": {}}}, 422),
        ({"seq": 1, "edit": {"what": "request", "value": 3}}, 422),
    ],
)
def test_a_fork_that_cannot_be_is_refused_with_its_reason(program, actor, small, body, status):
    origin = ran(actor, small)
    answer = program.post(f"{RUNS}/{origin.id}/fork", body)
    assert answer.status_code == status
    assert answer.json()["errors"][0]["message"]
    assert Run.objects.count() == 1


def test_a_run_that_is_through_leaves_nothing_to_fork_at_its_end(program, actor, small):
    origin = ran(actor, small)
    answer = program.post(f"{RUNS}/{origin.id}/fork", {"seq": origin.last_seq})
    assert answer.status_code == 409
    assert "nothing is left to do" in answer.json()["detail"]
