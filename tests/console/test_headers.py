import re

import pytest
from django.http import HttpResponse
from django.test import RequestFactory

from console.headers import SafeHeadersMiddleware


def answer(**headers):
    return SafeHeadersMiddleware(lambda request: HttpResponse(headers=headers))(RequestFactory().get("/"))


def test_nothing_inline_and_nothing_from_elsewhere():
    """The policy as a whole: a word more would let something in."""
    given = answer().headers["Content-Security-Policy"]
    policy, nonces = re.subn(r"'nonce-[\w-]{22}'", "NONCE", given)
    assert nonces == 1
    assert policy.split("; ") == [
        "default-src 'none'",
        "script-src NONCE 'strict-dynamic'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "font-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "object-src 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types fabric",
        "report-uri /csp-reports",
        "report-to csp",
    ]
    assert answer().headers["Reporting-Endpoints"] == 'csp="/csp-reports"'
    assert answer().headers["Content-Security-Policy"] != given, "the nonce is new for each answer"


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
