"""The server asks the sender of a large body by its head; 24 strangers with 25 MB each take a bounded part of its memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from console.launch.processes.data_directory import ROOT
from console.site.access.callers import NOT_ACCEPTED
from console.site.access.senders import is_known
from console.site.errors.problems import Problem
from fabric.core.people.scopes import PREFIX, Scope
from fabric.services.people.tokens import token_create, token_revoke
from tests.console.bad_clients import LARGE, SENDERS, posted
from tests.console.live.sockets import cookie_of
from tests.console.serving import serving

GROWN_MAX = 64 * 1024 * 1024


def asked(path="/api/v1/runs", **headers):
    scope = {"path": path, "headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    return asyncio.run(is_known(scope))


def test_a_token_is_known_until_it_is_revoked(actor):
    made = token_create(actor=actor, name="all", scopes=tuple(Scope))
    assert asked(authorization=f"Bearer {made.secret}") is True
    token_revoke(actor=actor, name="all")
    refused = asked(authorization=f"Bearer {made.secret}")
    assert isinstance(refused, Problem)
    assert (refused.status, refused.detail) == (401, NOT_ACCEPTED["revoked"])


@pytest.mark.parametrize("header", ["Bearer fabricflow_none", "Basic eDp5", "Bearer"])
@pytest.mark.django_db(transaction=True)
def test_a_token_that_is_none_is_refused_beside_any_session(header, browser):
    refused = asked(authorization=header, cookie=cookie_of(browser))
    assert isinstance(refused, Problem)
    assert refused.status == 401


def test_a_session_is_known_until_it_is_ended(browser):
    cookie = cookie_of(browser)
    assert asked("/runs/start", cookie=cookie) is True
    browser.post("/logout")
    assert asked("/runs/start", cookie=cookie) is False


@pytest.mark.django_db(transaction=True)
def test_a_stranger_is_no_actor():
    assert asked("/runs/start") is False
    assert asked("/runs/start", cookie="fabric-session-8420=made-up") is False
    assert asked("/runs/start", authorization="Bearer fabricflow_none") is False


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("senders")) as found:
        yield found


@pytest.mark.slow
def test_24_strangers_with_25_megabytes_each_take_no_memory(server):
    for path in ("/api/v1/runs", "/runs/start"):
        posted(server, path, 1_000)
    before = server.resident_bytes()
    with ThreadPoolExecutor(SENDERS) as pool:
        paths = ["/api/v1/runs", "/runs/start"] * (SENDERS // 2)
        said = list(pool.map(lambda path: posted(server, path, LARGE), paths))
    assert set(said) == {b"HTTP/1.1 401"}
    assert server.resident_bytes() - before < GROWN_MAX


@pytest.mark.slow
def test_a_token_that_is_not_accepted_is_refused_before_its_body_and_one_that_is_may_send_it(server):
    wrong = "Authorization: Bearer fabricflow_none\r\n"
    assert posted(server, "/api/v1/runs", LARGE, wrong, sends=False) == b"HTTP/1.1 401"
    command = [sys.executable, str(ROOT / "manage.py"), "token", "create", "large", "--scope", "start"]
    made = subprocess.run(command, env=server.environ, check=True, capture_output=True, text=True).stdout
    token = next(word for word in made.split() if word.startswith(PREFIX))
    said = posted(server, "/api/v1/runs", 2_000_000, f"Authorization: Bearer {token}\r\n")
    assert said.startswith(b"HTTP/1.1 4")  # Two megabytes of nothing: it was read, and is no JSON.
    assert said not in (b"HTTP/1.1 401", b"HTTP/1.1 413")
