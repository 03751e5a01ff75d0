"""Whatever a browser, a proxy or somebody with bad intent sends: never a 5xx, always a sentence, and nothing of another workspace."""

from __future__ import annotations

import html
import re
import time
from uuid import uuid4

import pytest
from django.conf import settings
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from console.access import ROUTES, Policy
from fabric import wiring
from fabric.adapters.nudge import NullNudge
from fabric.models import Escalation, Run
from fabric.selectors.escalations import escalations_open
from fabric.services.fabrics import fabric_publish
from fabric.services.runs import run_start
from tests.fabric.services.world import NOTES, SMALL, ran

ORIGIN = "http://127.0.0.1"

NASTY = {
    "NUL": "\0",
    "NUL within": "a\0b",
    "surrogate": "\ud800",
    "long": "x" * 20_000,
    "number": "9" * 400,
    "negative": "-1",
    "float": "1e309",
    "brackets": "[[[[{{{{",
    "deep": "[" * 5_000,
    "markup": "<script>alert(1)</script>",
    "template": "{{ 7*7 }}{% debug %}",
    "quotes": "' OR 1=1 --\"",
    "path": "../../../etc/passwd",
    "direction": "\u202egnp.exe",
    "escape": "\x1b[31mred\x07",
    "not a number": "NaN",
    "emoji": "👩‍👩‍👧‍👦" * 50,
}
"""What is put into every parameter."""

PARAMETERS = (
    "q",
    "before",
    "after",
    "state",
    "sort",
    "view",
    "show",
    "from",
    "fabric",
    "example",
    "tier",
    "next",
    "at",
    "stage",
    "agent",
    "kind",
    "seq",
    "event",
    "path",
    "a",
    "b",
)


@pytest.fixture
def run(actor, doubtful):
    """A run that waits for a person, so that every page has something to show."""
    return ran(actor, doubtful)


@pytest.fixture
def question(actor, run):
    return escalations_open(actor, run.id)[0]


@pytest.fixture
def foreign(stranger):
    fabric_publish(actor=stranger, source=SMALL.replace("A small fabric", "Their secret"))
    started = run_start(
        store=wiring.store(),
        nudge=NullNudge(),
        actor=stranger,
        fabric="small",
        text="their secret",
        documents=(NOTES,),
    )
    return started.run_id


def routes():
    """Every page's route: its name, and its address with placeholders."""
    found = []

    def walk(patterns, prefix):
        for pattern in patterns:
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, prefix + str(pattern.pattern))
            elif isinstance(pattern, URLPattern):
                found.append((pattern.name or "", prefix + str(pattern.pattern)))

    walk(get_resolver().url_patterns, "")
    return [(name, address) for name, address in found if not address.startswith("api/")]


def filled(address, run, question):
    """A page's address for a run that is there."""
    by_name = {
        "run_id": str(run.id),
        "seq": "1",
        "escalation_id": question.id,
        "name": "doubtful",
        "number": "1",
        "token": "nosuchtoken",
        "card": "runs",
    }
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: by_name.get(found[1], "x"), address)


def fine(answer, *, secret="their secret"):
    """Whether an answer is one that a person may get."""
    assert answer.status_code < 500, answer.status_code
    if answer.streaming:
        return
    body = answer.content.decode("utf-8", "replace")
    assert secret not in body
    assert "Traceback" not in body
    if "html" in answer.headers["Content-Type"]:
        assert "<script>alert(1)" not in body
    if answer.status_code >= 400:
        text = " ".join(re.sub("<[^>]+>", " ", html.unescape(body.partition("<main")[2] or body)).split())
        assert len(text.split()) >= 4, f"{answer.status_code} without a sentence: {text[:200]!r}"


@pytest.mark.parametrize("kind", NASTY)
def test_every_parameter_of_every_page_may_be_anything(browser, run, question, kind):
    value = NASTY[kind].encode("utf-8", "surrogatepass")
    for name, address in routes():
        if ROUTES.get(name) is None or name == "logout":
            continue
        path = filled(address, run, question)
        query = "&".join(
            f"{parameter}=" + "".join(f"%{byte:02x}" for byte in value[:2_000]) for parameter in PARAMETERS
        )
        fine(browser.get(f"{path}?{query}"))
        if kind in ("NUL", "markup"):
            fine(browser.get(f"{path}?{query}", headers={"HX-Request": "true"}))


def test_parameters_that_come_more_than_once(browser, run, question):
    for name, address in routes():
        if ROUTES.get(name) is None or name == "logout":
            continue
        path = filled(address, run, question)
        query = "&".join(f"{parameter}={value}" for parameter in PARAMETERS for value in ("", "1", "x", "\N{SNOWMAN}"))
        fine(browser.get(f"{path}?{query}"))


@pytest.mark.parametrize(
    "path",
    [
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
        "/%ff%fe",
        "/runs/..%2f..%2fetc",
        "/" + "a/" * 2_000,
    ],
)
def test_addresses_that_name_nothing(browser, run, path):
    answer = browser.get(path.format(run=run.id))
    fine(answer)
    assert answer.status_code in (200, 400, 404, 405), answer.status_code
    assert answer.status_code != 200 or path.startswith("/login/")


def test_unknown_and_foreign_ids_are_the_same_404(browser, run, question, foreign):
    Escalation.objects.filter(id=question.id).update(workspace_id=Run.objects.get(id=foreign).workspace_id)
    for name, address in routes():
        if "run_id" not in address:
            continue
        answers = []
        for run_id in (uuid4(), foreign):
            path = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda m, r=run_id: str(r) if m[1] == "run_id" else "1", address)
            answer = browser.get(path)
            fine(answer)
            answers.append((answer.status_code, answer.content.replace(str(run_id).encode(), b"")))
        assert answers[0][0] == answers[1][0] == 404, name
    answer = browser.post(f"/reviews/{question.id}/decision", {"verb": "approve"})
    fine(answer)
    assert answer.status_code == 404


FORMS = {
    "start": "/start",
    "cancel": "/runs/{run}/cancel",
    "decide": "/reviews/{question}/decision",
}
FIELDS = (
    "fabric",
    "text",
    "tier",
    "priority",
    "session_key",
    "start_key",
    "documents",
    "documents_of",
    "documents_from",
    "verb",
    "digest",
    "message",
    "reason",
    "next",
)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", NASTY)
def test_every_field_of_every_form_may_be_anything(browser, run, question, form, kind):
    path = FORMS[form].format(run=run.id, question=question.id)
    value = NASTY[kind].encode("utf-8", "surrogatepass")
    escaped = "".join(f"%{byte:02x}" for byte in value)
    body = "&".join(f"{field}={escaped}" for field in FIELDS)
    sent = {"data": body, "content_type": "application/x-www-form-urlencoded"}
    for headers in ({}, {"HX-Request": "true"}):
        answer = browser.post(path, **sent, headers=headers)
        fine(answer)
        assert answer.status_code in (200, 302, 400, 404, 409, 413, 422), answer.status_code


@pytest.mark.parametrize("form", FORMS)
def test_fields_that_are_missing_or_come_more_than_once(browser, run, question, form):
    path = FORMS[form].format(run=run.id, question=question.id)
    fine(browser.post(path))
    answer = browser.post(path, {field: ["", "x", "y"] for field in FIELDS if field != "documents"})
    fine(answer)
    assert answer.status_code in (302, 404, 409, 422)


BODIES = {
    "text/plain": b'{"text": "x"}',
    "application/json": b'{"text": "x"}',
    "application/json; deep": b"[" * 200_000,
    "multipart/form-data": b"no boundary",
    "multipart/form-data; boundary=x": b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\ncut off',
    "multipart/form-data; boundary=" + "y" * 300: b"--y",
    "application/x-www-form-urlencoded; charset=nosuch": b"text=x",
    "application/x-www-form-urlencoded": b"text=%ff%fe&" + b"a=1&" * 5_000,
    "application/octet-stream": bytes(range(256)) * 100,
    "": b"\0\0\0",
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", BODIES)
def test_bodies_that_are_no_form(browser, run, question, form, kind):
    path = FORMS[form].format(run=run.id, question=question.id)
    begun = time.monotonic()
    answer = browser.generic("POST", path, BODIES[kind], content_type=kind.replace("; deep", ""))
    assert time.monotonic() - begun < 2
    fine(answer)
    assert 400 <= answer.status_code < 500 or form == "cancel"
    assert Run.objects.count() == 1


def test_more_than_any_form_holds(browser, run, question):
    for path in FORMS.values():
        answer = browser.post(path.format(run=run.id, question=question.id), {"text": "x" * 3_000_000})
        fine(answer)
        assert answer.status_code == 413


@pytest.fixture
def guarded(browser):
    """The same browser, held to its token and its origin as a real one is."""
    client = Client(HTTP_HOST="127.0.0.1", enforce_csrf_checks=True)
    client.cookies = browser.cookies
    return client


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1"},
        {"Referer": "http://evil.example/page"},
        {"X-CSRFToken": "x" * 32},
        {"X-CSRFToken": "\xff\xfe"},
    ],
)
def test_a_form_from_elsewhere_or_without_its_token_does_nothing(guarded, run, question, form, headers):
    path = FORMS[form].format(run=run.id, question=question.id)
    before = Run.objects.get(id=run.id).state
    for more in ({}, {"HX-Request": "true"}):
        answer = guarded.post(path, {"fabric": "doubtful", "text": "x", "verb": "approve"}, headers={**headers, **more})
        fine(answer)
        assert answer.status_code == 403
        assert b"reload the page and send it again" in answer.content
    assert Run.objects.count() == 1
    assert Run.objects.get().state == before


def test_a_right_token_from_a_wrong_origin_does_nothing(guarded, run):
    page = guarded.get("/start").content.decode()
    token = page.partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
    assert token
    sent = {"csrfmiddlewaretoken": token, "fabric": "doubtful", "text": "x"}
    refused = guarded.post("/start", sent, headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert guarded.post("/start", sent, headers={"Origin": ORIGIN}).status_code == 302
    assert Run.objects.count() == 2


def test_a_page_from_before_the_answer_says_who_answered(browser, run, question):
    """A stale page: the question was answered in another tab meanwhile."""
    sent = {"verb": "approve", "digest": question.digest}
    browser.post(f"/reviews/{question.id}/decision", sent)
    stale = browser.post(
        f"/reviews/{question.id}/decision", {"verb": "reject", "digest": question.digest, "message": "no"}
    )
    fine(stale)
    assert stale.status_code == 409
    assert b"owner" in stale.content


def test_a_page_made_for_another_question_does_not_answer_this_one(browser, run, question):
    answer = browser.post(f"/reviews/{question.id}/decision", {"verb": "approve", "digest": "0" * 64})
    fine(answer)
    assert answer.status_code in (409, 422)
    assert Escalation.objects.get(id=question.id).decided_at is None


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"])
def test_other_methods_are_refused_or_harmless(browser, run, question, method):
    for name, address in routes():
        if ROUTES.get(name) is None:
            continue
        fine(browser.generic(method, filled(address, run, question)))
    assert Run.objects.count() == 1


def test_what_is_signed_in_is_nothing_for_others(run, question):
    nobody = Client(HTTP_HOST="127.0.0.1")
    for name, address in routes():
        if ROUTES.get(name) in (None, Policy.PUBLIC):
            continue
        for answer in (
            nobody.get(filled(address, run, question)),
            nobody.post(filled(address, run, question), {"text": "x"}),
            nobody.get(filled(address, run, question), headers={"HX-Request": "true"}),
        ):
            fine(answer, secret="What do the notes say?")
            assert answer.status_code in (302, 401, 403, 405), (name, answer.status_code)


@pytest.mark.parametrize("cookie", ["", "forged", "a:b:c", "\0", "x" * 10_000, "e30:1abc:def"])
def test_a_session_cookie_of_any_shape(run, cookie):
    nobody = Client(HTTP_HOST="127.0.0.1")
    answer = nobody.get("/runs", headers={"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"})
    fine(answer)
    assert answer.status_code == 302


def test_a_host_that_is_not_ours(browser):
    answer = browser.get("/runs", headers={"Host": "evil.example"})
    fine(answer)
    assert answer.status_code == 400
