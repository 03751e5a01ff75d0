"""Pages of what was not done: one sentence, one next step."""

from __future__ import annotations

import re

import pytest
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import reverse

from console.site.access.actors import AccessMiddleware
from console.site.errors import pages as errors
from fabric.runtime.ports.journal import StoreUnavailable
from tests.console.outage import damage, database_away, table_away
from tests.fabric.services.world import ran

SCRIPTED = {"HX-Request": "true"}


def steps(page: str) -> list[str]:
    """Where the buttons of the state lead."""
    return re.findall(r'<a class="btn" href="([^"]*)">', page.partition('class="state wide"')[2])


@pytest.mark.parametrize("status", sorted(errors.ERROR_LOOKS))
def test_every_status_has_its_words_and_a_way_on(status):
    shown = errors.ERROR_LOOKS[status]
    assert shown.title
    assert shown.word
    assert shown.step
    assert not shown.to or reverse(shown.to)


def test_every_refusal_has_a_page():
    assert set(errors.STATUS.values()) <= set(errors.ERROR_LOOKS)


def test_not_found_within_the_frame(browser):
    answer = browser.get("/nothing/here")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert 'id="nav-links"' in page
    assert "Page not found" in page
    assert steps(page) == ["/search"]


def test_not_found_for_a_stranger(db):
    answer = Client(HTTP_HOST="127.0.0.1").get("/nothing/here")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert "nav-links" not in page
    assert steps(page) == ["/login"]


def test_a_script_gets_the_sentence_alone(browser):
    answer = browser.get("/nothing/here", headers=SCRIPTED)
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.content.startswith(b"Page not found")


@pytest.mark.parametrize("path", ["/runs", "/reviews", "/", "/login", "/nothing"])
@pytest.mark.parametrize("headers", [{}, SCRIPTED], ids=["page", "script"])
def test_more_fields_than_are_read_are_a_page_and_no_failure(browser, path, headers):
    answer = browser.get(f"{path}?" + "&".join(f"f{n}=1" for n in range(1_001)), headers=headers)
    assert answer.status_code in (400, 404)
    assert "failed" not in answer.content.decode()
    form = browser.post("/runs/start", {f"f{n}": "1" for n in range(1_001)}, headers=headers)
    assert form.status_code == 400
    assert "more than 1,000 fields" in form.content.decode()


def test_a_database_that_is_away_is_said(browser, caplog):
    with database_away():
        answer = browser.get("/search?q=costs")
        scripted = browser.get("/search?q=costs", headers=SCRIPTED)
        missing = browser.get("/nothing")
    page = answer.content.decode()
    assert answer.status_code == 503
    assert "The database is away" in page
    assert steps(page) == ["/search?q=costs"]
    assert "style-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "unable to open" not in page
    assert "unable to open database file" in caplog.text
    assert scripted.content.startswith(b"The database does not respond")
    assert missing.status_code == 404
    assert "Page not found" in missing.content.decode()
    assert browser.get("/search?q=costs").status_code == 200


def test_a_database_that_answers_who_looks_and_not_what_they_look_for(browser):
    with table_away("fabric_run"):
        answer = browser.get("/search?q=costs")
    assert answer.status_code == 503
    assert "The database is away" in answer.content.decode()


def test_a_journal_that_is_away_is_said(browser):
    request = RequestFactory().get("/runs")
    answer = AccessMiddleware(lambda _request: HttpResponse()).process_exception(request, StoreUnavailable("gone"))
    assert answer is not None
    assert answer.status_code == 503
    assert "The database is away" in answer.content.decode()


def test_a_view_that_breaks_is_said_without_the_frame(browser, actor, small, caplog):
    run = ran(actor, small)
    damage(run.id)
    browser.raise_request_exception = False
    answer = browser.get("/search?q=notes")
    page = answer.content.decode()
    assert answer.status_code == 500
    assert "runs are not affected" in page
    assert "yesterday" not in page
    assert steps(page) == ["/search?q=notes"]
    assert "nav-links" not in page
    assert "Traceback" in caplog.text


def test_scripts_of_an_error_page_run(browser):
    answer = browser.get("/nothing")
    nonce = re.search(r"'nonce-([^']+)'", answer.headers["Content-Security-Policy"])
    assert nonce
    assert f'nonce="{nonce[1]}"' in answer.content.decode()


def test_trying_again_is_offered_only_where_it_changes_nothing():
    assert errors._here(RequestFactory().get("/runs?state=failed")) == "/runs?state=failed"
    assert errors._here(RequestFactory().post("/runs/start")) == "/"


def test_a_refusal_keeps_its_own_sentence(browser):
    answer = browser.get("/runs/019a1f3c-5d20-7c11-9a5e-4c81d7e20b1f")
    assert answer.status_code == 404
    assert "There is no run" in answer.content.decode()
