"""With an https address: what comes in the clear is not served, but to the machine itself; `localhost` is the machine's own name."""

from __future__ import annotations

import pytest
from django.test import Client

PUBLIC, THERE = "fabric.example.org", "https://fabric.example.org"
SECURE = {"X-Forwarded-Proto": "https"}
ELSEWHERE, HERE = "10.0.0.7", "127.0.0.1"


@pytest.fixture(autouse=True)
def behind_a_proxy(settings, db):
    settings.FABRIC_PUBLIC_URL = f"{THERE}/"
    settings.ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", PUBLIC]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")


def asked(host, peer, path="/login", method="get", **headers):
    return getattr(Client(HTTP_HOST=host, REMOTE_ADDR=peer), method)(path, headers=headers)


@pytest.mark.parametrize("host", ["127.0.0.1:8420", "localhost:8420", "[::1]:8420"])
def test_the_machine_itself_is_served_in_the_clear(host):
    assert asked(host, HERE).status_code == 200
    assert asked(host, "::1").status_code == 200


@pytest.mark.parametrize("peer", [HERE, ELSEWHERE])
def test_who_comes_by_the_proxy_is_served(peer):
    assert asked(PUBLIC, peer, **SECURE).status_code == 200


@pytest.mark.parametrize("peer", [HERE, ELSEWHERE])
def test_a_reader_in_the_clear_is_sent_to_https_and_sees_no_page(peer):
    answer = asked(PUBLIC, peer, "/login?next=/runs")
    assert (answer.status_code, answer.headers["Location"]) == (301, f"{THERE}/login?next=/runs")
    assert b"password" not in answer.content


@pytest.mark.parametrize(("method", "path"), [("post", "/login"), ("post", "/api/v1/runs")])
def test_what_sends_something_in_the_clear_is_refused(method, path):
    answer = asked(PUBLIC, ELSEWHERE, path, method)
    assert answer.status_code == 403
    assert "accepts only https" in answer.content.decode()


def test_a_token_in_the_clear_is_refused_and_not_sent_on():
    answer = asked(PUBLIC, ELSEWHERE, "/api/v1/runs", Authorization="Bearer fabricflow_x")
    assert answer.status_code == 403
    assert "was not encrypted" in answer.json()["detail"]


@pytest.mark.parametrize(("peer", "headers"), [(ELSEWHERE, {}), (ELSEWHERE, SECURE), (HERE, SECURE)])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8420"])
def test_localhost_is_no_name_for_another_machine(host, peer, headers):
    answer = asked(host, peer, **headers)
    assert answer.status_code == 400
    assert f"ask for {THERE}" in answer.content.decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
@pytest.mark.parametrize("host", [PUBLIC, "127.0.0.1"])
def test_a_watcher_is_answered(path, host):
    """Probes of an orchestrator come in the clear, from a node, by a name that the program does not know."""
    assert asked(host, ELSEWHERE, path).status_code == 200


def test_an_http_address_is_served_as_before(settings):
    settings.FABRIC_PUBLIC_URL = "http://127.0.0.1:8420"
    assert asked("localhost", ELSEWHERE).status_code == 200
