"""A sign-in by a provider of identities that does not answer: nothing is let through, and the status says that it may come back."""

from __future__ import annotations

import json

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as configured
from django.test import Client

from console.site.access.senders import is_known
from console.site.access.sessions import BACKEND, SSO
from console.site.errors.problems import Problem
from fabric.adapters.people.oidc_answers import OidcClaims
from fabric.models import Identity
from fabric.services.people.identities import GRACE_S, person_in
from fabric.services.people.sign_in.sessions import sign_in_begin
from tests.people import token_of

ADA = OidcClaims("ada", "ada@example.org", "ada", "", frozenset({"engineers"}), 0, "a refresh token")


@pytest.fixture
def ada(owner, settings):
    settings.FABRIC_OIDC_ISSUER = "http://127.0.0.1:9"
    settings.FABRIC_OIDC_ROLES = (("engineers", "editor"),)
    return person_in(ADA)


@pytest.fixture
def browser_of_ada(ada):
    browser = Client(HTTP_HOST="127.0.0.1")
    browser.force_login(ada, backend=BACKEND)
    session = browser.session
    session["mark"] = sign_in_begin(user=ada, way=SSO, browser="", address="", mark="")
    session.save()
    browser.cookies[configured.SESSION_COOKIE_NAME] = session.session_key
    return browser


def away():
    for row in Identity.objects.all():
        row.checked_at -= (GRACE_S + 1) * 1_000_000
        row.save()


def header_of(browser):
    return f"{configured.SESSION_COOKIE_NAME}={browser.cookies[configured.SESSION_COOKIE_NAME].value}".encode()


def test_the_api_tells_a_browser_503_and_not_that_it_is_signed_out(browser_of_ada):
    assert browser_of_ada.get("/api/v1/fabrics").status_code == 200
    away()
    answer = browser_of_ada.get("/api/v1/fabrics")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "sign-in does not respond" in answer.json()["detail"]
    assert "WWW-Authenticate" not in answer.headers
    sent = browser_of_ada.post("/api/v1/runs", json.dumps({"fabric": "x"}), content_type="application/json")
    assert sent.status_code == 503
    assert browser_of_ada.get("/runs").status_code == 503


def test_the_api_tells_a_token_the_same(ada):
    program = Client(HTTP_HOST="127.0.0.1", HTTP_AUTHORIZATION=f"Bearer {token_of(ada, 'reads', ('read',))}")
    assert program.get("/api/v1/fabrics").status_code == 200
    away()
    answer = program.get("/api/v1/fabrics")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")
    assert "sign-in does not respond" in answer.json()["detail"]


def test_a_large_body_is_told_the_same_before_it_is_read(browser_of_ada):
    scope = {"path": "/runs/start", "headers": [(b"cookie", header_of(browser_of_ada))]}
    assert async_to_sync(is_known)(scope) is True
    away()
    found = async_to_sync(is_known)(scope)
    assert isinstance(found, Problem)
    assert found.status == 503


def test_who_is_signed_out_is_still_told_401(browser_of_ada):
    away()
    assert Client(HTTP_HOST="127.0.0.1").get("/api/v1/fabrics").status_code == 401
