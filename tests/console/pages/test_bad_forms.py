"""Each form refuses bad input in a sentence, keeps what was written, and changes nothing.

The forms are the URLconf's: a route that takes a POST and has no row in ``FORMS`` makes a test fail that names it.
"""

from __future__ import annotations

import time
from itertools import islice, product

import pytest
from django.core.cache import cache
from django.test import Client

from console.forms import common as forms
from fabric.models import LoginLink, Review, Run
from fabric.services.actors import login_link_create
from tests.console.bad_input import ADDRESSES, fine, foreign, review, run, standing, to
from tests.console.nasty import ELSEWHERE, NASTY, NO_FORMS, crossed, escaped
from tests.console.pages.form_cases import FORMS

__all__ = ["foreign", "review", "run"]

ORIGIN = "http://127.0.0.1"
PARTS = 4
"""So many worlds share what single fields are sent."""


@pytest.fixture(autouse=True)
def _clear_throttle():
    cache.clear()


def test_every_route_that_takes_a_form_is_known_here(browser, run, review):
    taking = set()
    for name in ADDRESSES:
        answer = browser.generic("PUT", to(name, run, review))
        assert answer.status_code == 405, name
        if "POST" in answer.headers["Allow"]:
            taking.add(name)
    assert taking == set(FORMS)


def test_every_field_of_every_form_is_known_here():
    fields = {
        field
        for form in vars(forms).values()
        if isinstance(form, type) and issubclass(form, forms.forms.Form)
        for name, one in form.base_fields.items()
        for field in getattr(one.widget, "sent_as", (name,))
    }
    assert fields
    assert sorted(fields - {field for case in FORMS.values() for field in case.fields}) == []


@pytest.fixture
def unchanged(run, foreign):
    """No run, input, event or answer came or went during the test."""
    before = standing()
    yield
    assert standing() == before


def test_all_fields_may_be_anything(browser, run, review):
    before = Run.objects.count(), list(Review.objects.values_list("decided_at", "verb"))
    for (form, case), (kind, text) in crossed(FORMS.items(), NASTY.items()):
        if not case.fields:
            continue
        answer = sent(browser, form, run, review, dict.fromkeys(case.fields, text))
        assert answer.status_code in case.any_status, (kind, answer.status_code)
        assert (Run.objects.count(), list(Review.objects.values_list("decided_at", "verb"))) == before, kind


@pytest.mark.parametrize("part", range(PARTS))
def test_each_field_may_be_anything(browser, run, review, part):
    """One after the other, each with good ones beside it: some are taken, and what follows is refused for that. Never a failure."""
    fields = [(form, field) for form, case in FORMS.items() for field in case.fields]
    for kind, (form, field) in islice(crossed(NASTY, fields), part, None, PARTS):
        sent(browser, form, run, review, {field: NASTY[kind]})


def sent(browser, form, run, review, nasty):
    """The answer to a form that is good but for these fields."""
    told = {**written(form, review), **nasty}
    body = "&".join(f"{escaped(name)}={escaped(text)}" for name, text in told.items())
    answer = browser.post(to(form, run, review), body, content_type="application/x-www-form-urlencoded")
    fine(answer)
    return answer


@pytest.mark.usefixtures("unchanged")
def test_fields_that_are_missing_or_come_more_than_once(browser, run, review):
    # Where nothing is asked for, nothing is missing.
    asking = [(form, case) for form, case in FORMS.items() if case.fields and not case.repeats]
    for (form, case), headers in product(asking, ({}, {"HX-Request": "true"})):
        fine(browser.post(to(form, run, review), headers=headers))
        given = {field: ["", "x", "y"] for field in case.fields if field != "documents"}
        answer = browser.post(to(form, run, review), given, headers=headers)
        fine(answer)
        assert answer.status_code in case.any_status, form


@pytest.mark.usefixtures("unchanged")
def test_bodies_that_are_no_form(browser, run, review):
    # A form without fields that is accepted reads no body.
    told_once = [form for form, case in FORMS.items() if not case.repeats and (case.fields or case.done >= 400)]
    for form, (kind, body) in crossed(told_once, NO_FORMS.items()):
        began = time.process_time()
        answer = browser.generic("POST", to(form, run, review), body, content_type=kind.replace("; deep", ""))
        assert time.process_time() - began < 1, (form, kind)
        fine(answer)
        assert 400 <= answer.status_code < 500, (form, kind)


@pytest.mark.usefixtures("unchanged")
def test_more_than_any_form_holds(browser, run, review):
    for form in (form for form, case in FORMS.items() if case.fields):
        answer = browser.post(to(form, run, review), {FORMS[form].fields[0]: "x" * 3_000_000})
        fine(answer)
        assert answer.status_code == 413


@pytest.fixture
def guarded(browser):
    """The same browser, held to its token and its origin as a real one is."""
    client = Client(HTTP_HOST="127.0.0.1", enforce_csrf_checks=True)
    client.cookies = browser.cookies
    return client


def written(form, review):
    return {name: text.format(digest=review.digest) for name, text in FORMS[form].good.items()}


@pytest.fixture
def prepared(browser, run, review):
    """Sends what a form comes after."""

    def prepare(form):
        if before := FORMS[form].after:
            assert browser.post(to(before, run, review), written(before, review)).status_code == FORMS[before].done

    return prepare


@pytest.mark.usefixtures("unchanged")
def test_from_another_site_or_without_its_token_it_does_nothing(guarded, owner, run, review):
    """All in one world: none of them changes it."""
    link = login_link_create(owner)
    for form, (headers, more) in crossed(FORMS, product(ELSEWHERE, ({}, {"HX-Request": "true"}))):
        path = to(form, run, review, token=link)
        answer = guarded.post(path, written(form, review), headers={**headers, **more})
        fine(answer)
        assert answer.status_code == 403, (form, headers)
        assert b"reload the page and send it again" in answer.content, form
    assert guarded.get("/runs").status_code == 200
    assert LoginLink.objects.filter(used_at__isnull=True).count() == 1


def token_on(guarded):
    """The token that stands in the pages of this browser."""
    page = guarded.get("/runs/start").content.decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    assert token
    return token


@pytest.mark.parametrize("form", FORMS)
def test_with_its_token_it_counts_from_here_and_from_nowhere_else(guarded, owner, run, review, prepared, form):
    prepared(form)
    path, before = to(form, run, review, token=login_link_create(owner)), standing()
    sent = {"csrfmiddlewaretoken": token_on(guarded), **written(form, review)}
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1"):
        answer = guarded.post(path, sent, headers={"Origin": origin})
        fine(answer)
        assert answer.status_code == 403, origin
    assert standing() == before
    assert guarded.post(path, sent, headers={"Origin": ORIGIN}).status_code == FORMS[form].done


@pytest.mark.parametrize("form", FORMS)
def test_from_a_page_that_is_older_than_what_it_changes(browser, owner, run, review, prepared, form):
    prepared(form)
    case, path = FORMS[form], to(form, run, review, token=login_link_create(owner))
    assert browser.post(path, written(form, review)).status_code == case.done
    changed = {**written(form, review), "text": "Something else?", "message": "And yet.", "reason": "Again."}
    stale = browser.post(path, changed)
    fine(stale)
    assert stale.status_code == case.stale
    assert stale.streaming or case.said.encode() in stale.content


def test_a_page_made_for_another_review_does_not_answer_this_one(browser, run, review):
    answer = browser.post(to("decide", run, review), {"verb": "approve", "digest": "0" * 64})
    fine(answer)
    assert answer.status_code == 409
    assert Review.objects.get(id=review.id).decided_at is None


def test_documents_of_another_workspaces_run_are_not_taken_along(browser, run, review, foreign):
    sent = {"fabric": "doubtful", "text": "Why?", "documents_of": foreign["run_id"]}
    unknown = {**sent, "documents_of": "0" * 32}
    answers = [browser.post("/runs/start", one) for one in (sent, unknown)]
    for answer in answers:
        fine(answer)
        assert b"notes.md" not in answer.content
    assert {answer.status_code for answer in answers} == {404}
    assert Run.objects.filter(workspace_id=run.workspace_id).count() == 1
