"""Acting on many runs in the browser, without JavaScript: selection, consequences, progress, refusals and stop."""

from __future__ import annotations

import re

import pytest

from console.words.run_jobs import ACTION_WORDS, STATE_WORDS
from fabric.models import JobAction, JobState, RunJob
from fabric.selectors.runs.query.choices import RunChoice
from fabric.services.runs.jobs import steps
from fabric.services.runs.jobs.requests import job_begin
from fabric.services.runs.jobs.steps import job_step, jobs_advance
from tests.fabric.services.runs.jobs.worlds import (
    BERLIN_NIGHT,
    counts,
    make_ports,
    outcomes,
    queue_at_night,
    queue_runs,
    sent,
)
from tests.fabric.services.world import ran
from tests.people import member, signed_in

NEW = "/runs/jobs/new"


def fields(page: str) -> dict[str, list[str]]:
    """The fields that the form of the page sends, as a browser without scripts does."""
    form = page[page.index('<form class="card narrow"') :]
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form):
        found.setdefault(name, []).append(value)
    return found


def test_every_action_and_state_has_its_words():
    assert set(ACTION_WORDS) == set(JobAction)
    assert set(STATE_WORDS) == set(JobState)


def test_selected_runs_are_cancelled_without_a_script(browser, actor, small):
    ids = queue_runs(actor, small, 3)
    listed = browser.get("/runs").content.decode()
    assert [f'name="run" value="{run_id}"' in listed for run_id in ids] == [True] * 3
    asked = browser.get(NEW, {"action": "cancel", "run": ids[:2], "q": ""}).content.decode()
    assert "Cancel 2 selected runs?" in asked
    assert "billed at their maximum" in asked
    begun = browser.post(NEW, fields(asked) | {"reason": "too dear"})
    again = browser.post(NEW, fields(asked) | {"reason": "too dear"})
    assert (begun.status_code, again["Location"]) == (302, begun["Location"]), "a double click begins one job"
    jobs_advance(make_ports())
    assert [sent(run_id) for run_id in ids] == [["cancel"], ["cancel"], []]
    page = browser.get(begun["Location"]).content.decode()
    assert "2 of 2 runs cancelled, 0 refused." in page
    assert "too dear" in page


def test_days_of_the_query_are_those_of_the_reader(browser, actor, small):
    queue_at_night(actor, small)
    asked = {"action": "cancel", "all": "1", "q": BERLIN_NIGHT}
    assert "Cancel 1 matching run?" not in browser.get(NEW, asked).content.decode()
    browser.cookies["zone"] = "Europe/Berlin"
    assert "Cancel 1 matching run?" in browser.get(NEW, asked).content.decode()
    assert browser.post(NEW, asked).status_code == 302


def test_all_that_match_are_fixed_when_the_job_begins(browser, actor, small, doubtful):
    ids = queue_runs(actor, small, 2)
    queue_runs(actor, doubtful, 1)
    asked = browser.get(NEW, {"action": "pause", "all": "1", "q": f"fabric:{small}", "run": ids[0]}).content.decode()
    assert "Pause 2 matching runs?" in asked
    assert "runs that start or match later are not touched" in asked
    begun = browser.post(NEW, fields(asked))
    queue_runs(actor, small, 1)
    job = RunJob.objects.get()
    assert begun["Location"] == f"/runs/jobs/{job.id}"
    assert set(outcomes(job.id)) == set(ids)
    assert "Runs that start or match later are not touched." in browser.get(begun["Location"]).content.decode()


def test_runs_that_cannot_take_it_are_told_before_and_listed_after(browser, actor, small):
    ended = ran(actor, small)
    queue_runs(actor, small, 1)
    asked = browser.get(NEW, {"action": "cancel", "all": "1"}).content.decode()
    assert "1 of 2 runs can take it now. The other 1 stays as it is;" in asked
    page = browser.get(browser.post(NEW, fields(asked))["Location"])
    job = RunJob.objects.get()
    jobs_advance(make_ports())
    page = browser.get(f"/runs/jobs/{job.id}").content.decode()
    assert "1 of 2 runs cancelled, 1 refused." in page
    assert f'href="/runs/{ended.id}"' in page
    assert "has already ended (completed)" in page
    assert "data-over" in page
    assert "Stop the job" not in page


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"action": "cancel"}, "No run is selected"),
        ({"action": "cancel", "all": "1", "q": "state:x"}, "At character 7 of the query"),
        ({"action": "cancel", "all": "1", "q": "state:failed"}, "No run matches (any more)"),
        ({"action": "cancel", "run": "01a2"}, "There is no run"),
    ],
)
def test_what_cannot_begin_says_so_in_one_sentence(browser, actor, small, given, says):
    queue_runs(actor, small, 1)
    for answer in (browser.get(NEW, given), browser.post(NEW, given)):
        assert answer.status_code in (404, 422)
        assert says in answer.content.decode()
    assert not RunJob.objects.exists()


def test_an_unknown_action_is_refused(browser):
    assert browser.get(NEW, {"action": "paint", "all": "1"}).status_code == 422


def test_a_termination_asks_for_its_reason_and_keeps_what_was_typed(browser, actor, small):
    queue_runs(actor, small, 1)
    asked = browser.get(NEW, {"action": "terminate", "all": "1"}).content.decode()
    answer = browser.post(NEW, fields(asked) | {"reason": " "})
    assert answer.status_code == 422
    assert 'aria-describedby="e-reason"' in answer.content.decode()
    assert not RunJob.objects.exists()


def test_a_job_is_stopped_between_batches(browser, actor, small, monkeypatch):
    monkeypatch.setattr(steps, "BATCH", 1)
    queue_runs(actor, small, 3)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    job_step(make_ports(), job.id)
    assert "Stop the job" in browser.get(f"/runs/jobs/{job.id}").content.decode()
    browser.post(f"/runs/jobs/{job.id}/stop")
    assert "It ends after its present batch." in browser.get(f"/runs/jobs/{job.id}").content.decode()
    jobs_advance(make_ports())
    assert counts(job.id) == ("stopped", 3, 1, 0)
    page = browser.get(f"/runs/jobs/{job.id}").content.decode()
    assert "1 of 3 runs cancelled, 0 refused, 2 not tried." in page
    assert browser.get("/runs/jobs").content.decode().count("2 not tried") == 1


def test_the_changing_part_is_not_sent_twice(browser, actor, small):
    queue_runs(actor, small, 1)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    part = browser.get(f"/runs/jobs/{job.id}/live", HTTP_HX_REQUEST="true")
    assert "0 of 1 run cancelled, 0 refused, 1 left." in part.content.decode()
    same = browser.get(f"/runs/jobs/{job.id}/live", HTTP_HX_REQUEST="true", HTTP_IF_NONE_MATCH=part["ETag"])
    assert same.status_code == 304
    assert browser.get(f"/runs/jobs/{job.id}/live").status_code == 302


def test_a_viewer_gets_no_boxes_and_no_jobs(browser, actor, small):
    queue_runs(actor, small, 1)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    vera = signed_in(member("vera", "viewer"))
    listed = vera.get("/runs").content.decode()
    assert 'name="run"' not in listed
    assert "bulk-bar" not in listed
    assert "disabled" in vera.get(NEW, {"action": "cancel", "all": "1"}).content.decode()
    assert vera.post(NEW, {"action": "cancel", "all": "1"}).status_code == 403
    assert vera.get("/runs/jobs").status_code == 403
    assert vera.get(f"/runs/jobs/{job.id}").status_code == 403
    assert vera.post(f"/runs/jobs/{job.id}/stop").status_code == 403
    assert counts(job.id) == ("running", 1, 0, 0)


def test_an_operator_of_one_fabric_sees_no_job_of_others(browser, actor, small):
    queue_runs(actor, small, 1)
    job = job_begin(actor=actor, action=JobAction.CANCEL, choice=RunChoice()).job
    ona = signed_in(member("ona", f"operator@{small}"))
    assert ona.get(f"/runs/jobs/{job.id}").status_code == 404
    assert job.id not in ona.get("/runs/jobs").content.decode()
