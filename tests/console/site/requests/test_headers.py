import re

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import resolve

from console.site.requests.headers import SafeHeadersMiddleware


def answer(**headers):
    return SafeHeadersMiddleware(lambda request: HttpResponse(headers=headers))(RequestFactory().get("/"))


def policy_of(response):
    """The sources by directive, and the answer's nonce as NONCE."""
    given, nonces = re.subn(r"'nonce-[\w-]{22}'", "NONCE", response.headers["Content-Security-Policy"])
    assert nonces == 1
    return {name: set(words) for name, *words in (one.split() for one in given.split(";"))}


def test_nothing_inline_and_nothing_from_elsewhere():
    policy = policy_of(answer())
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == {"'none'"}
    assert policy.pop("script-src") == {"NONCE", "'strict-dynamic'"}
    assert policy["require-trusted-types-for"] == {"'script'"}
    # One policy makes texts elements; "allow-duplicates" and * would let others.
    assert policy["trusted-types"] == {"fabric"}
    where = [words for name, words in policy.items() if name.endswith("-src")] + [policy["form-action"]]
    assert set().union(*where) == {"'none'", "'self'"}


def test_a_nonce_is_for_one_answer_and_reports_have_an_address():
    one, other = answer(), answer()
    assert one.headers["Content-Security-Policy"] != other.headers["Content-Security-Policy"]
    (where,), (group,) = policy_of(one)["report-uri"], policy_of(one)["report-to"]
    assert one.headers["Reporting-Endpoints"] == f'{group}="{where}"'
    assert resolve(where).view_name == "csp-reports"


@pytest.mark.usefixtures("db")
def test_every_answer_has_them(client):
    headers = client.get("/login").headers
    assert "script-src 'nonce-" in headers["Content-Security-Policy"]
    assert headers["Permissions-Policy"] == "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == headers["Cross-Origin-Opener-Policy"] == "same-origin"


def test_a_view_may_set_its_own():
    assert answer(**{"Content-Security-Policy": "default-src 'self'"}).headers["Content-Security-Policy"] == (
        "default-src 'self'"
    )
