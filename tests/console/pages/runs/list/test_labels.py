"""Labels on pages, without a script: at the start, on a page of their own, in the run's head and in the list."""

from __future__ import annotations

import csv
import io
import json
from html import unescape
from urllib.parse import quote

import pytest

from fabric.composition import engine as wiring
from fabric.models import AuditLine, Run, RunLabel
from fabric.selectors.runs.lookup import run_get
from fabric.services.runs.start import run_start
from tests.console.pages.runs.list.streams import read_stream
from tests.fabric.services.world import HeardNudge
from tests.people import member, signed_in


@pytest.fixture
def run_id(actor, small):
    asked = {"text": "What is owed?", "labels": {"team": "ops", "site": "New York"}}
    return run_start(store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=small, **asked).run_id


def page_of(browser, address):
    return unescape(browser.get(address).content.decode())


def rows_of(**labels):
    return {"label_key": [*labels, "", ""], "label_value": [*labels.values(), "", ""]}


def test_a_run_is_started_with_labels(browser, actor, small):
    page = page_of(browser, "/runs/start")
    assert page.count('name="label_key"') == page.count('name="label_value"') == 16
    assert '<details class="settings">' in page
    answer = browser.post(
        "/runs/start", {"fabric": small, "text": "What?", "start_key": "k", **rows_of(team=" ops ", site="Rome")}
    )
    assert answer.status_code == 302
    assert run_get(actor, Run.objects.get().id).labels == {"site": "Rome", "team": "ops"}


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (rows_of(Team="ops"), "The label key 'Team' is not taken; use lower-case letters, digits, -, _ and ."),
        (rows_of(team=""), "Label team has no value; write team=VALUE, or leave the label out."),
        (
            {"label_key": ["a", "a"], "label_value": ["1", "2"]},
            "Label a stands twice; a run has one value for each key",
        ),
        (
            {"label_key": [f"k{n}" for n in range(17)], "label_value": ["v"] * 17},
            "The run would have 17 labels; at most 16",
        ),
    ],
)
def test_a_label_that_is_not_taken_stands_beside_its_sentence(browser, small, labels, said):
    answer = browser.post("/runs/start", {"fabric": small, "text": "What?", "start_key": "k", **labels})
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert said in page
    assert '<details class="settings" open>' in page
    assert all(f'value="{key}"' in page for key in labels["label_key"] if key), "what was typed is kept"
    assert not Run.objects.exists()


def test_another_run_like_it_begins_with_its_labels(browser, run_id):
    page = page_of(browser, f"/runs/start?from={run_id}")
    assert 'name="label_key" value="site"' in page
    assert 'name="label_value" value="New York"' in page
    assert '<details class="settings" open>' in page


def test_the_head_shows_labels_that_find_other_runs(browser, run_id):
    page = page_of(browser, f"/runs/{run_id}")
    assert f'href="/runs?q={quote("label.team=ops")}"' in page
    term = quote('label.site="New York"')
    assert f'href="/runs?q={term}"' in page
    assert f'href="/runs/{run_id}/labels"' in page


def test_a_row_shows_labels_that_filter(browser, actor, run_id):
    page = page_of(browser, "/runs?q=state:queued&sort=started")
    assert (
        'href="/runs?q=state%3Aqueued+label.team%3Dops&sort=started" title="Show runs with the label team=ops"' in page
    )
    assert "What is owed?" in page_of(browser, "/runs?q=" + quote('label.site="New York"'))
    for n in range(4):
        RunLabel.objects.create(run_id=run_id, workspace_id=actor.workspace_id, key=f"z{n}", value="<b>")
    page = browser.get("/runs").content.decode()
    assert page.count('class="label-chip"') == 3, "the others are one word"
    assert 'title="z1=&lt;b&gt;, z2=&lt;b&gt;, z3=&lt;b&gt;">more</span>' in page


def test_labels_are_changed_on_a_page_of_their_own(browser, actor, run_id):
    page = page_of(browser, f"/runs/{run_id}/labels")
    assert 'name="label_key" value="team"' in page
    answer = browser.post(f"/runs/{run_id}/labels", rows_of(team="it", case="7"), follow=True)
    assert "The labels are saved." in answer.content.decode()
    assert run_get(actor, run_id).labels == {"team": "it", "case": "7"}
    assert AuditLine.objects.filter(kind="run_labelled").count() == 1
    browser.post(f"/runs/{run_id}/labels", rows_of(), follow=True)
    assert run_get(actor, run_id).labels == {}


def test_a_refused_change_keeps_what_was_typed(browser, actor, run_id):
    answer = browser.post(f"/runs/{run_id}/labels", rows_of(Team="it"))
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "The label key 'Team' is not taken" in page
    assert 'name="label_key" value="Team"' in page
    assert len(run_get(actor, run_id).labels) == 2


def test_who_may_not_start_runs_changes_no_label(run_id):
    browser = signed_in(member("vera", "viewer"))
    page = page_of(browser, f"/runs/{run_id}/labels")
    assert "Save the labels" not in page
    assert browser.post(f"/runs/{run_id}/labels", rows_of(team="it")).status_code == 403
    assert not RunLabel.objects.filter(value="it").exists()


def test_a_child_run_sends_to_its_root(browser, run_id):
    child = Run.objects.get()
    child.pk, child.parent_run_id, child.root_run_id = child.pk[:-12] + "0" * 12, run_id, run_id
    child.save(force_insert=True)
    page = page_of(browser, f"/runs/{child.pk}/labels")
    assert f'href="/runs/{run_id}/labels"' in page
    assert browser.post(f"/runs/{child.pk}/labels", rows_of(team="it")).status_code == 409


def test_the_list_is_exported_as_it_is_filtered(browser, run_id):
    page = page_of(browser, "/runs?q=label.team=ops&sort=started")
    for form, read in (("csv", read_table), ("ndjson", read_lines)):
        address = f"/runs/export?q=label.team%3Dops&sort=started&form={form}"
        assert f'href="{address}"' in page
        answer = browser.get(address)
        assert answer.headers["Content-Disposition"] == f'attachment; filename="runs.{form}"'
        assert [row["id"] for row in read(read_stream(answer))] == [run_id]


def read_table(text):
    return csv.DictReader(io.StringIO(text, newline=""))


def read_lines(text):
    return map(json.loads, text.splitlines())


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("q=stat:failed", "Character 1, 'stat'"),
        ("sort=title", "'title' is no order of runs"),
        ("form=xml", "not given as 'xml'"),
    ],
)
def test_an_export_that_cannot_be_made_says_why(browser, run_id, asked, said):
    answer = browser.get(f"/runs/export?{asked}")
    assert answer.status_code == 422
    assert said in unescape(answer.content.decode())


@pytest.mark.parametrize(
    ("cookie", "zone", "found"), [("Europe%2FBerlin", "Europe/Berlin", 1), ("", "UTC", 0), ("Mars", "UTC", 0)]
)
def test_days_of_the_query_are_those_of_the_readers_zone(browser, run_id, cookie, zone, found):
    Run.objects.update(created_at=1_783_290_600_000_000)  # 2026-07-05T22:30Z, half past midnight in Berlin.
    browser.cookies["zone"] = cookie
    page = page_of(browser, "/runs?q=started:2026-07-06")
    assert f"days and hours of the query: {zone}" in page
    assert page.count(">What is owed?</a>") == found
