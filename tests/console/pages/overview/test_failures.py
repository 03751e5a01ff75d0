"""Failures by fabric and cause: grouped on the overview, and acknowledged on a page of their own."""

from __future__ import annotations

import html
import re
import time

import pytest

from console.pages.overview import views as overview
from fabric.models import FailureAcknowledgement
from tests.fabric.selectors.rows import MINUTE, NOW, run_row, worker_row
from tests.people import member, signed_in

SHIFT = time.time_ns() // 1_000 - NOW
"""Microseconds from the rows' own time to now."""


@pytest.fixture(autouse=True)
def _nothing_shared():
    for shared in overview._boards.values():
        shared._made.clear()
    overview._waiting._made.clear()


def failed(actor, fabric, ended, **more):
    """A run that ended so many minutes ago."""
    at = NOW + SHIFT - int(ended * MINUTE)
    return run_row(actor, fabric, "failed", **({"cause": "server_error", "reason": "503"} | more), ended_at=at)


def text_of(answer):
    return html.unescape(" ".join(re.sub("<[^>]+>", " ", answer.content.decode()).split()))


def form_of(browser):
    page = browser.get("/overview/failures").content.decode()
    return dict(re.findall(r'name="(fabric|cause|until)" value="([^"]*)"', page))


def test_failures_of_one_cause_are_one_row(browser, actor, small):
    worker_row()
    for ended in (3, 2, 1):
        failed(actor, small, ended)
    failed(actor, small, 5, cause="run_deadline", title="Late")
    said = text_of(browser.get("/"))
    assert "4 runs failed in the last 24 hours" in said
    assert "3 runs of small failed: server error." in said
    assert "first seen" in said
    assert "Late" in said
    assert "more like" not in said


def test_an_acknowledged_group_leaves_the_list_until_a_new_one_comes(browser, actor, small):
    for ended in (3, 2):
        failed(actor, small, ended)
    done = browser.post("/overview/failures", {**form_of(browser), "note": "The provider is down."})
    assert (done.status_code, done.headers["Location"]) == (302, "/")
    said = text_of(browser.get("/"))
    assert "Acknowledged: 2 failures." in said
    assert "2 failures of the last 24 hours are acknowledged" in said
    assert "nothing failed" not in said.lower()
    listed = text_of(browser.get("/overview/failures"))
    assert "No failure of the last 24 hours is new." in listed
    assert "2 failures of small: server error owner" in listed
    assert "The provider is down." in listed
    failed(actor, small, 1, title="Again")
    said = text_of(browser.get("/"))
    assert "one run failed in the last 24 hours" in said.lower()
    assert "Again" in said


def test_a_failure_that_came_after_the_page_is_not_acknowledged_with_it(browser, actor, small):
    failed(actor, small, 3)
    form = form_of(browser)
    failed(actor, small, 1)
    browser.post("/overview/failures", form)
    assert "1 failure" in text_of(browser.get("/overview/failures"))
    assert "Again" not in text_of(browser.get("/"))
    assert "one run failed in the last 24 hours" in text_of(browser.get("/")).lower()


def test_a_note_that_is_too_long_is_refused_and_kept(browser, actor, small):
    failed(actor, small, 3)
    refused = browser.post("/overview/failures", {**form_of(browser), "note": "a" * 1_001})
    assert refused.status_code == 422
    assert "at most 1,000" in text_of(refused)
    assert "a" * 1_001 in refused.content.decode()
    assert not FailureAcknowledgement.objects.exists()


def test_it_is_for_people_who_handle_runs(browser, actor, small):
    failed(actor, small, 3, title="Pay the invoice of Ana")
    vera = signed_in(member("vera", "viewer"))
    page = vera.get("/overview/failures")
    assert "Acknowledging is for editor, operator or owner." in text_of(page)
    assert "Pay the invoice" not in text_of(page)
    assert vera.post("/overview/failures", form_of(browser)).status_code == 403
    assert not FailureAcknowledgement.objects.exists()
