"""Every address has a policy, and is held to it."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import ResolverMatch, URLPattern, URLResolver, get_resolver, reverse

from console.live.consumer import websocket_urlpatterns
from console.site.access.actors import AccessMiddleware, find_actor
from console.site.access.policies import ROUTES, SOCKETS, Policy

SAMPLE = {
    "name": "small",
    "memory": "findings",
    "tool": "search",
    "agent": "planner",
    "number": 1,
    "hold_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "record_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "change_id": "01a20ad2-a0da-75e8-86f0-896fd8797a57",
    "card": "workers",
    "document": "concepts/tiers",
    "picture": "tiers.svg",
    "run_id": str(uuid4()),
    "seq": 1,
    "scope": "provider:scripted",
    "digest": "92e507dd97e0",
    "token": "x",
    "member_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "invitation_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "model_id": "3d2de876f893f5985f2b504e57044c1a",
    "rest": "nowhere",
    "review_id": "0123456789abcdef",
    "scenario_name": "tool-error",
    "drill_id": "01a20ad2-a0da-75e8-86f0-896fd8797a56",
    "schedule_id": "01a20c1a-59b1-77f1-bef2-cf6045060838",
    "stop_id": "01a20c1a-59b1-77f1-bef2-cf6045060839",
    "channel_id": "0a1b2c3d4e5f60718293a4b5c6d7e8f9",
    "job_id": "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a12",
    "view_id": "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a13",
    "batch": "01a20ad2-a0d9-7bc0-8f56-0c2d5b1e9a11",
    "form": "json",
    "notification_id": "fedcba9876543210fedcba9876543210",
}


def patterns(within: URLResolver | None = None) -> list[URLPattern]:
    found: list[URLPattern] = []
    for item in (within or get_resolver()).url_patterns:
        found += patterns(item) if isinstance(item, URLResolver) else [item]
    return found


def address(name: str) -> str:
    pattern = next(pattern for pattern in patterns() if pattern.name == name)
    return reverse(name, kwargs={key: SAMPLE[key] for key in pattern.pattern.converters})


def test_every_route_has_a_policy():
    assert [pattern.name or str(pattern.pattern) for pattern in patterns() if pattern.name not in ROUTES] == []


def test_every_policy_has_a_route():
    assert set(ROUTES) == {pattern.name for pattern in patterns()}


def test_strangers_get_the_login_the_health_and_the_schema_and_nothing_else():
    assert {name for name, policy in ROUTES.items() if policy is Policy.PUBLIC} == {
        "api-openapi",
        "csp-reports",
        "livez",
        "readyz",
        "healthz",
        "login",
        "login-link",
        "login-second",
        "login-passkey",
        "login-sso",
        "login-sso-back",
        "login-recover",
        "login-password",
        "invitation",
    }
    assert Policy.PUBLIC not in SOCKETS.values()


def test_every_socket_has_a_policy():
    assert {pattern.name for pattern in websocket_urlpatterns} == set(SOCKETS)


INSIDE = [name for name, policy in ROUTES.items() if policy in (Policy.SIGNED_IN, Policy.STAFF)]


@pytest.mark.django_db
class TestSignedOut:
    def test_a_page_leads_to_the_login(self):
        for name in INSIDE:
            answer = Client(HTTP_HOST="127.0.0.1").get(address(name))
            assert answer.status_code == 302, name
            assert answer.headers["Location"].startswith("/login"), name

    def test_a_fragment_is_refused_in_a_sentence(self):
        for name in INSIDE:
            answer = Client(HTTP_HOST="127.0.0.1", headers={"HX-Request": "true"}).get(address(name))
            assert answer.status_code == 401, name
            assert answer.headers["Content-Type"].startswith("text/plain"), name

    def test_a_form_without_its_token_is_refused(self):
        for name in INSIDE:
            client = Client(HTTP_HOST="127.0.0.1", enforce_csrf_checks=True)
            assert client.post(address(name)).status_code == 403, name


@pytest.mark.parametrize(
    "name", [name for name in ROUTES if name not in ("livez", "readyz", "healthz", "csp-reports", "api-openapi")]
)
def test_a_form_from_elsewhere_is_refused(name, browser):
    browser.handler.enforce_csrf_checks = True
    assert browser.post(address(name)).status_code == 403


def test_an_address_without_a_row_is_closed():
    request = RequestFactory().get("/somewhere")
    request.resolver_match = ResolverMatch(lambda: None, (), {}, url_name="forgotten")
    request.user = AnonymousUser()
    with pytest.raises(PermissionDenied):
        AccessMiddleware(lambda request: HttpResponse()).process_view(request, HttpResponse, (), {})


def test_an_anonymous_user_is_no_actor():
    with pytest.raises(PermissionDenied):
        find_actor(AnonymousUser())


def test_a_removed_member_is_no_actor(owner):
    owner.is_active = False
    with pytest.raises(PermissionDenied):
        find_actor(owner)


def test_pages_are_kept_by_no_cache_between(browser):
    assert browser.get("/").headers["Cache-Control"] == "private, no-store"
    assert browser.get("/runs/start").headers["Cache-Control"] == "private, no-cache"


def test_the_session_cookie_is_out_of_reach_of_scripts(browser):
    cookie = next(morsel for name, morsel in browser.cookies.items() if "session" in name)
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
