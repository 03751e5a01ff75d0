"""Pages of what was not done: one sentence, one next step."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import reverse

from console.views import errors
from fabric.runtime.ports import StoreUnavailable

SCRIPTED = {"HX-Request": "true"}


def steps(page: str) -> list[str]:
    """Where the buttons of the state lead."""
    return re.findall(r'<a class="btn" href="([^"]*)">', page.partition('class="state wide"')[2])


@pytest.mark.parametrize("status", sorted(errors.SHOWN))
def test_every_status_has_its_words_and_a_way_on(status):
    shown = errors.SHOWN[status]
    assert shown.title
    assert shown.word
    assert shown.step
    assert not shown.to or reverse(shown.to)


def test_every_refusal_has_a_page():
    assert set(errors.STATUS.values()) <= set(errors.SHOWN)


def test_not_found_within_the_frame(browser):
    answer = browser.get("/nothing/here")
    page = answer.content.decode()
    assert answer.status_code == 404
    assert 'id="nav-links"' in page
    assert "There is no such page" in page
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
    assert answer.content.startswith(b"There is no such page")


@pytest.mark.parametrize("error", [OperationalError("gone"), StoreUnavailable("gone")])
def test_a_database_that_is_away_is_said(browser, monkeypatch, error, caplog):
    def away(*_args, **_kwargs):
        raise error

    monkeypatch.setattr("console.views.search.search", away)
    answer = browser.get("/search?q=costs")
    page = answer.content.decode()
    assert answer.status_code == 503
    assert "The database is away" in page
    assert steps(page) == ["/search?q=costs"]
    assert "gone" not in page
    assert "gone" in caplog.text
    assert browser.get("/search?q=costs", headers=SCRIPTED).content.startswith(b"The database does not answer")


def test_a_database_that_is_away_when_one_asks_who_looks(browser, monkeypatch):
    def away(*_args, **_kwargs):
        raise OperationalError("gone")

    monkeypatch.setattr("django.contrib.auth.backends.ModelBackend.get_user", away)
    answer = browser.get("/runs")
    assert answer.status_code == 503
    assert "The database is away" in answer.content.decode()
    assert "style-src 'self'" in answer.headers["Content-Security-Policy"]
    missing = browser.get("/nothing")
    assert missing.status_code == 404
    assert "There is no such page" in missing.content.decode()


def test_a_view_that_breaks_is_said_without_the_frame(browser, monkeypatch):
    def broken(*_args, **_kwargs):
        raise RuntimeError("secret")

    monkeypatch.setattr("console.views.search.search", broken)
    browser.raise_request_exception = False
    answer = browser.get("/search?q=costs")
    page = answer.content.decode()
    assert answer.status_code == 500
    assert "runs are not affected" in page
    assert "secret" not in page
    assert steps(page) == ["/search?q=costs"]
    assert "nav-links" not in page


def test_scripts_of_an_error_page_run(browser):
    answer = browser.get("/nothing")
    nonce = re.search(r"'nonce-([^']+)'", answer.headers["Content-Security-Policy"])
    assert nonce
    assert f'nonce="{nonce[1]}"' in answer.content.decode()


def test_trying_again_is_offered_only_where_it_changes_nothing():
    assert errors._here(RequestFactory().get("/runs?state=failed")) == "/runs?state=failed"
    assert errors._here(RequestFactory().post("/start")) == "/"


def test_a_refusal_keeps_its_own_sentence(browser):
    answer = browser.get("/runs/019a1f3c-5d20-7c11-9a5e-4c81d7e20b1f")
    assert answer.status_code == 404
    assert "There is no run" in answer.content.decode()


class TestStyleGuide:
    def test_the_owner_sees_it(self, browser):
        answer = browser.get("/styleguide")
        assert answer.status_code == 200
        assert b"Visual language" in answer.content

    def test_staff_sees_it(self, owner):
        assert self.of(User.objects.create_user("ana", is_staff=True)).get("/styleguide").status_code == 200

    def test_somebody_else_gets_the_page_that_says_so(self, owner):
        answer = self.of(User.objects.create_user("ben")).get("/styleguide")
        page = answer.content.decode()
        assert answer.status_code == 403
        assert "This page is for staff" in page
        assert "No permission" in page
        assert steps(page) == ["/"]

    @staticmethod
    def of(user: User) -> Client:
        client = Client(HTTP_HOST="127.0.0.1")
        client.force_login(user)
        return client
