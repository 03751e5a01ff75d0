"""Schedules of drills in the console, without a script: the list, making, changing, pausing, running and deleting them."""

from __future__ import annotations

import re

import pytest

from fabric.worker.process.duties import database_us
from simulator.drills.batches.batch import drill_claim, drill_end
from simulator.drills.models.tables import Drill, Schedule, Status
from simulator.drills.schedules.services import SCHEDULES_MAX, schedule_create, schedule_pause, schedules_ask
from simulator.scenarios.spec.collection import library
from tests.console.pages.drills.test_views import text, vera

__all__ = ["vera"]
PAGE = "/drills/schedules"
GOOD = {"fabric": "small", "what": "stale", "cron": "0 3 * * 1-5", "reason": "Each night."}


def made(actor, **more):
    return schedule_create(actor=actor, **{"fabric": "small", "cron": "0 3 * * *", **more})


def test_without_a_fabric_and_without_a_schedule_the_page_says_what_would_give_one(browser, actor):
    assert "There is nothing to drill: no fabric is published yet" in text(browser.get(PAGE))


def test_the_first_one_is_made_by_the_form(browser, actor, small):
    page = browser.get(PAGE)
    assert "No drill runs automatically." in text(page)
    assert 'id="tab-drills-schedules" href="/drills/schedules" aria-current="page"' in page.content.decode()
    answer = browser.post(PAGE, GOOD, follow=True)
    assert answer.redirect_chain == [(PAGE, 302)]
    shown = text(answer)
    assert "The schedule is made: at 03:00 UTC on Mon to Fri." in shown
    assert "small stale cells" in shown
    assert "not run yet" in shown
    assert "1 of at most 50" in shown


@pytest.mark.parametrize(
    ("sent", "field", "said"),
    [
        ({"cron": "0 25 * * *"}, "cron", "The field hour, '25', cannot be read"),
        ({"cron": "*/5 * * * *"}, "cron", "drills are asked for at most once an hour"),
        ({"cron": ""}, "cron", "Say when, in five fields"),
        ({"fabric": "nosuch"}, "fabric", "No fabric is named 'nosuch'"),
        ({"what": "some"}, "what", "'some' is no choice of cells"),
        ({"what": "scenario:nosuch"}, "what", "There is no scenario 'nosuch'"),
    ],
)
def test_what_cannot_be_taken_is_said_beside_its_field_and_nothing_is_lost(browser, actor, small, sent, field, said):
    answer = browser.post(PAGE, {**GOOD, **sent})
    assert answer.status_code == 422
    page = answer.content.decode()
    errors = re.search(rf'<div class="errors" id="e-{field}">(.*?)</div>', page, flags=re.DOTALL)
    assert errors, "it stands beside its field"
    assert said in text(answer)
    assert re.search(rf'id="{field}"[^>]* aria-invalid="true"', page)
    assert 'value="Each night."' in page
    assert not Schedule.objects.exists()


def test_a_scenario_is_picked_and_shown(browser, actor, small):
    name = next(iter(library()))
    assert browser.post(PAGE, {**GOOD, "what": f"scenario:{name}"}).status_code == 302
    one = Schedule.objects.get()
    assert one.scenario == name
    assert f"scenario {name}" in text(browser.get(PAGE))
    assert f'<option value="scenario:{name}" selected>' in browser.get(f"{PAGE}/{one.id}").content.decode()


def test_the_last_result_leads_to_the_coverage(browser, actor, small):
    made(actor, cells="stale")
    Schedule.objects.update(next_at=database_us() - 1)
    schedules_ask()
    batch = Drill.objects.first().batch
    for verdict in ["deviated", *["pass"] * 23]:
        drill_end(drill_claim(batch, "h"), "h", status=Status.COMPLETED, verdict=verdict)
    page = browser.get(PAGE)
    found = re.search(r'<a class="plain came"[^>]* href="([^"]+)">(.*?)</a>', page.content.decode(), flags=re.DOTALL)
    assert found[1] == "/drills/coverage?fabric=small"
    assert re.sub("<[^>]+>", " ", found[2]).split() == ["23", "pass", "1", "deviated"]
    Schedule.objects.update(next_at=database_us() - 1)
    schedules_ask()
    assert "No cell is stale: each has a verdict" in text(browser.get(PAGE))


def test_it_is_paused_resumed_run_changed_and_deleted(browser, actor, small):
    one = made(actor)
    page = f"{PAGE}/{one.id}"
    assert "All 24 cells of small, every day at 03:00 UTC" in text(browser.get(page))
    answer = browser.post(page, {"act": "pause", "version": 1}, follow=True)
    assert "The schedule is paused" in text(answer)
    assert "Paused by owner" in text(answer)
    answer = browser.post(page, {"act": "resume", "version": 2}, follow=True)
    assert "The schedule resumes at its next time." in text(answer)
    answer = browser.post(page, {"act": "run", "version": 3}, follow=True)
    assert "24 drills are started now; the schedule keeps its next time." in text(answer)
    assert browser.post(page, {"act": "run", "version": 3}).status_code == 409
    answer = browser.post(page, {"act": "change", "version": 3, **GOOD}, follow=True)
    assert "The schedule is changed." in text(answer)
    assert "at 03:00 UTC on Mon to Fri" in text(answer)
    wrong = browser.post(page, {"act": "change", "version": 4, **GOOD, "cron": "0 3 * * caturday"})
    assert wrong.status_code == 422
    assert "The field day of week, 'caturday', cannot be read" in text(wrong)
    assert 'value="0 3 * * caturday"' in wrong.content.decode()
    late = browser.post(page, {"act": "change", "version": 3, **GOOD})
    assert late.status_code == 409
    assert "The schedule changed meanwhile: look at it again." in text(late)
    assert browser.post(page, {"act": "delete", "version": 3}).status_code == 409
    answer = browser.post(page, {"act": "delete", "version": 4}, follow=True)
    assert "The schedule is deleted. Its drills stay." in text(answer)
    assert browser.get(page).status_code == 404
    assert Drill.objects.count() == 24


@pytest.mark.parametrize(
    "sent", [{}, {"act": "pause"}, {"act": "paint", "version": 1}, {"act": "pause", "version": "x"}]
)
def test_a_form_that_is_not_whole_changes_nothing(browser, actor, small, sent):
    one = made(actor)
    answer = browser.post(f"{PAGE}/{one.id}", sent)
    assert answer.status_code == 422
    assert "Nothing was changed: load the page again." in text(answer)
    assert Schedule.objects.get().version == 1


def test_who_is_no_operator_looks_on(vera, actor, small):
    one = made(actor)
    assert 'value="run"' not in vera.get(PAGE).content.decode()
    page = vera.get(f"{PAGE}/{one.id}")
    assert "Only operators and owners can change it." in text(page)
    for act in ("pause", "delete", "run"):
        answer = vera.post(f"{PAGE}/{one.id}", {"act": act, "version": 1})
        assert answer.status_code == 403, act
        assert "Vera may not do this: that is for operator or owner" in text(answer)


def test_the_pages_cost_does_not_grow_with_what_is_there(browser, actor, small, django_assert_max_num_queries):
    one = made(actor)
    schedule_pause(actor=actor, schedule=one.id, version=1)
    row = Schedule.objects.get()
    for _ in range(SCHEDULES_MAX - 1):
        Schedule.objects.create(
            workspace_id=row.workspace_id,
            fabric_id=row.fabric_id,
            cron="0 3 * * *",
            made_by="owner",
            made_at=1,
            next_at=1,
        )
    with django_assert_max_num_queries(20):
        assert "50 of at most 50" in text(browser.get(PAGE))
    full = browser.post(PAGE, GOOD)
    assert full.status_code == 409
    assert "There are 50 schedules already: delete one first." in text(full)
