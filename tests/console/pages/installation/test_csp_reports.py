"""Reports on the content policy: bounded, counted, and told without whose they are."""

import json
import logging

import pytest
from django.core.cache import cache
from django.test import Client

from console.site.requests import throttle
from console.site.requests.body_limit import REPORT_MAX, body_max

OLD = {
    "csp-report": {
        "document-uri": "http://127.0.0.1:8420/runs/01a20ad2-a0da-75e8-86f0-896fd8797a56?token=canary",
        "violated-directive": "script-src-elem",
        "blocked-uri": "https://evil.example/x.js?cookie=canary",
        "script-sample": "canary",
        "source-file": "http://127.0.0.1/canary",
    }
}
NEW = [
    {
        "type": "csp-violation",
        "age": 1,
        "url": "http://127.0.0.1:8420/",
        "user_agent": "canary",
        "body": {
            "documentURL": "http://127.0.0.1:8420/login/link?next=canary",
            "effectiveDirective": "require-trusted-types-for",
            "blockedURL": "trusted-types-sink",
            "sample": "Element innerHTML|canary",
        },
    }
]


@pytest.fixture(autouse=True)
def fresh():
    cache.clear()
    yield
    cache.clear()


def sent(body, kind="application/csp-report"):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Client(enforce_csrf_checks=True).post("/installation/csp-reports", raw, content_type=kind)


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (OLD, "application/csp-report", "(script-src-elem) stopped https://evil.example on the page run"),
        (
            NEW,
            "application/reports+json",
            "(require-trusted-types-for) stopped trusted-types-sink on the page login-link",
        ),
    ],
)
def test_a_report_is_one_line_without_whose_it_is(caplog, body, kind, said):
    with caplog.at_level(logging.WARNING, logger="console.pages.installation.csp_reports"):
        assert sent(body, kind).status_code == 204
    (record,) = caplog.records
    assert record.getMessage().endswith(said)
    assert "canary" not in caplog.text
    assert "01a20ad2" not in caplog.text


@pytest.mark.parametrize(
    "body",
    [b" ", b"{", b"[" * 5_000, b"null", b"[1]", b'{"csp-report": 1}', b"\xff"],
)
def test_what_is_no_report_says_nothing(caplog, body):
    assert sent(body).status_code == 204
    assert not caplog.records


def test_nothing_that_would_forge_a_line_is_told(caplog):
    forged = {
        "effective-directive": "x\nERROR y",
        "blocked-uri": "https://a.example\r\nERROR/",
        "document-uri": "/\nERROR",
    }
    assert sent({"csp-report": forged}).status_code == 204
    assert "ERROR" not in caplog.text
    assert len(caplog.records) == 1


def test_many_in_one_are_told_in_part(caplog):
    sent(NEW * 50, "application/reports+json")
    assert len(caplog.records) == 5


def test_what_is_too_large_or_of_another_type_is_refused(caplog):
    assert body_max("POST", "/installation/csp-reports") == REPORT_MAX
    assert sent(b" " * (REPORT_MAX + 1)).status_code == 413
    assert sent(OLD, "text/plain").status_code == 415
    assert Client().get("/installation/csp-reports").status_code == 405
    assert not caplog.records


def test_it_is_counted_for_all_runs_together(caplog):
    taken = 0
    while (answer := sent(OLD)).status_code == 204:  # Slow requests leave time for a token to come back.
        taken += 1
    assert taken >= throttle.REPORTS.most
    assert (answer.status_code, len(caplog.records)) == (429, taken)
    assert 0 < int(answer.headers["Retry-After"]) <= 60
