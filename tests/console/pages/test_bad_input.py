"""A browser, a proxy or an attacker sends anything to a page: never a 5xx, always a sentence, and nothing of another workspace.

The pages are the URLconf's: one that is new is tried without being named here.
"""

from __future__ import annotations

import re
from itertools import product
from uuid import uuid4

import pytest
from django.conf import settings as configured
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from console.pages.audit.views import AUDIT
from console.pages.reviews.assignments import QUEUE
from console.pages.reviews.history import HISTORY
from console.site.access.policies import ROUTES, Policy
from fabric.models import Run
from tests.console.bad_input import ADDRESSES, PAGES, filled, fine, foreign, review, run, standing, to
from tests.console.nasty import NASTY, crossed, escaped
from tests.console.pages.asked import READ
from tests.console.pages.form_cases import FORMS

__all__ = ["foreign", "review", "run"]

WATCHED = [*configured.MIDDLEWARE, "tests.console.pages.asked.Watching"]
PARAMETERS = (
    "cell",
    "simulate",
    "try",
    "open",
    *("q", "before", "after", "state", "sort", "view", "show", "from", "fabric", "example", "tier", "next", "at"),
    *("stage", "agent", "kind", "seq", "event", "path", "a", "b", "part", "whole", "fold", "failed", "level", "around"),
    *("down", "events", "field", "form", "last", "new", "seen", "tab", "key", "operator", "panels", "type", "value"),
    *("enters", "port", "origin", "mode", "again", "decided", "template", "about", "code", "error"),
    *("range", "bucket", "as_of", "name", "since", "action", "as", "cause", "changed", "find", "only", "with"),
    *sorted({field.name for grammar in (AUDIT, HISTORY, QUEUE) for field in (grammar.choice, *grammar.fields)}),
)
"""Names that are put into every address. What a page looks for and is not here makes a test fail that names it."""


@pytest.fixture(autouse=True)
def _clear_throttle():
    cache.clear()


def test_every_parameter_of_every_page_may_be_anything(browser, run, review):
    for kind, name in crossed(NASTY, PAGES):
        query = "&".join(f"{parameter}={escaped(NASTY[kind])[:6_000]}" for parameter in PARAMETERS)
        path = filled(ADDRESSES[name], run, review)
        fine(browser.get(f"{path}?{query}"))
        if kind in ("NUL", "markup"):
            fine(browser.get(f"{path}?{query}", headers={"HX-Request": "true"}))


def test_parameters_that_come_more_than_once(browser, run, review):
    query = "&".join(f"{parameter}={value}" for parameter in PARAMETERS for value in ("", "1", "x", "\N{SNOWMAN}"))
    for name in PAGES:
        fine(browser.get(f"{filled(ADDRESSES[name], run, review)}?{query}"))


def test_no_page_looks_for_a_parameter_that_is_not_tried(settings, browser, run, review):
    """Also: no form has a field that is not tried."""
    settings.MIDDLEWARE = WATCHED
    watched = Client(HTTP_HOST="127.0.0.1")
    watched.cookies = browser.cookies
    for seen in READ.values():
        seen.clear()
    views = ("timeline", "events", "graph", "protections", "cost", "io")
    for name in PAGES:
        path = filled(ADDRESSES[name], run, review)
        for query in ("", f"from={run.id}"):
            watched.get(f"{path}?{query}")
        # Only a run's page has views.
        shown = [f"view={view}&after=1" for view in (views if name == "run" else views[:1])]
        for query, headers in product(("q=x&from=2026-01-01", *shown), ({}, {"HX-Request": "true"})):
            watched.get(f"{path}?{query}", headers=headers)
    for form, case in FORMS.items():
        given = {name: text.format(digest="0") for name, text in case.good.items()}
        watched.post(to(form, run, review), {**given, "documents_from": run.id})
    assert READ["GET"]
    assert " ".join(sorted({name for _, name in READ["GET"]} - set(PARAMETERS))) == ""
    fields = {(form, field) for form, case in FORMS.items() for field in case.fields}
    assert " ".join(sorted(f"{a}:{b}" for a, b in READ["POST"] if a in FORMS and (a, b) not in fields)) == ""
    assert sorted({route for route, _ in READ["POST"]} - set(FORMS)) == []


NOWHERE = (
    "/runs/{run}/events/99999999999999999999999999",
    "/runs/{run}/events/2147483648",
    "/runs/{run}/events/9223372036854775808",
    "/runs/{run}/events/0",
    "/runs/{run}/events/-1",
    "/runs/{run}/events/1.5",
    "/runs/not-a-run",
    "/runs/{run}0",
    "/runs/%00",
    "/runs/{run}/nosuch",
    "/reviews/%00/decision",
    "/reviews/" + "x" * 3_000 + "/decision",
    "/fabrics/%00",
    "/fabrics/" + "x" * 3_000,
    "/fabrics/doubtful/r99999999999999999999999999",
    "/fabrics/doubtful/r0",
    "/login/%00",
    "/login/" + "x" * 3_000,
    "/people/invitations/%00",
    "/%ff%fe",
    "/runs/..%2f..%2fetc",
    "/" + "a/" * 2_000,
)


def test_addresses_that_name_nothing(browser, run):
    for path in NOWHERE:
        answer = browser.get(path.format(run=run.id))
        fine(answer)
        assert answer.status_code in (400, 404, 405), (path, answer.status_code)


KINDS_OF_ID = {"run_id": str(uuid4()), "review_id": "0123456789abcdef", "name": "nobodys"} | {
    "scenario_name": "nosuch",
    "drill_id": str(uuid4()),
    "batch": str(uuid4()),
    "member_id": str(uuid4()),
    "invitation_id": str(uuid4()),
    "change_id": str(uuid4()),
    "model_id": "3d2de876f893f5985f2b504e57044c1a",
    "schedule_id": str(uuid4()),
    "scope": f"fabric:{uuid4()}",
    "digest": "0123456789ab",
    "notification_id": "fedcba9876543210fedcba9876543210",
    "record_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "stop_id": str(uuid4()),
    "channel_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "job_id": str(uuid4()),
    "view_id": str(uuid4()),
}
"""Each kind of id in an address, and one that there is not."""
WITHIN = {"agent", "memory", "seq", "number", "card", "tool", "form", "document", "picture"}
"""What names something within a thing that is named already, or nothing that belongs to a workspace."""


def test_every_kind_of_id_is_known_here(foreign):
    named = {part for address in ADDRESSES.values() for part in re.findall(r"<(?:\w+:)?(\w+)>", address)}
    assert named == set(KINDS_OF_ID) | WITHIN
    assert set(foreign) - {"hold_id"} == set(KINDS_OF_ID), "a hold has an address in the API alone"


NAMING = [name for name, address in ADDRESSES.items() if re.search("|".join(KINDS_OF_ID), address)]


def test_what_is_another_workspaces_is_told_like_what_there_is_not(browser, run, review, foreign):
    """All in one world: none of them changes it."""
    before = standing()
    for name, method in product(NAMING, ("GET", "POST")):
        answers = []
        for named in (KINDS_OF_ID, KINDS_OF_ID, foreign):  # The first asks what is asked once and kept.
            path = filled(ADDRESSES[name], run, review, **named)
            with CaptureQueriesContext(connection) as asked:
                answer = browser.generic(method, path, "verb=approve", "application/x-www-form-urlencoded")
            fine(answer)
            body = answer.content.decode()
            for value in named.values():
                body = body.replace(value, "ID")
            answers.append(
                (
                    answer.status_code,
                    re.sub(r'nonce="[^"]*"|value="[^"]*"|data-at="[^"]*"', "", body),
                    len(asked.captured_queries),
                )
            )
        assert answers[1] == answers[2], (name, method)
        assert answers[1][0] in (404, 405), name
    assert standing() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"])
def test_other_methods_are_refused_or_harmless(browser, run, review, method):
    for address in ADDRESSES.values():
        fine(browser.generic(method, filled(address, run, review)))
    assert Run.objects.count() == 1


def test_what_is_signed_in_is_nothing_for_others(run, review):
    stranger = Client(HTTP_HOST="127.0.0.1")
    for name, address in ADDRESSES.items():
        if ROUTES[name] is Policy.PUBLIC:
            continue
        for answer in (
            stranger.get(filled(address, run, review)),
            stranger.post(filled(address, run, review), {"text": "x"}),
            stranger.get(filled(address, run, review), headers={"HX-Request": "true"}),
        ):
            fine(answer, secret="What do the notes say?")
            assert answer.status_code in (302, 401, 403, 405), (name, answer.status_code)


@pytest.mark.parametrize("cookie", ["", "forged", "a:b:c", "\0", "x" * 10_000, "e30:1abc:def"])
def test_a_session_cookie_of_any_shape(run, cookie):
    stranger = Client(HTTP_HOST="127.0.0.1")
    answer = stranger.get("/runs", headers={"Cookie": f"{configured.SESSION_COOKIE_NAME}={cookie}"})
    fine(answer)
    assert answer.status_code == 302


def test_a_host_that_is_not_ours(browser):
    answer = browser.get("/runs", headers={"Host": "evil.example"})
    fine(answer)
    assert answer.status_code == 400
