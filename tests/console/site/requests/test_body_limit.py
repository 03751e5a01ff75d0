"""A bound on bodies: what is over it never reaches the application, whether or not it says how long it is."""

from __future__ import annotations

import asyncio

import pytest

from console.site.errors.problems import Problem
from console.site.requests.body_limit import UNASKED_MAX, UNKNOWN_SENDER_MAX, BodyLimit

LIMIT = 1000


def post(chunks, *, declared=None, limit=LIMIT, who=None, path="/runs/start"):
    """Return what is sent back for a body in chunks, and how many bytes of it the application got."""
    got = 0
    sent = []
    pending = [
        {"type": "http.request", "body": chunk, "more_body": n < len(chunks) - 1} for n, chunk in enumerate(chunks)
    ]

    async def application(scope, receive, send):
        nonlocal got
        more = True
        while more:
            message = await receive()
            got += len(message["body"])
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive():
        return pending.pop(0)

    async def send(message):
        sent.append(message)

    chunked = [(b"transfer-encoding", b"chunked")]
    headers = chunked if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers}
    asyncio.run(BodyLimit(application, limit, who)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], got


def saying(known):
    async def who(_scope):
        return known

    return who


MEGABYTE = 1024 * 1024


@pytest.mark.parametrize("declared", [3 * MEGABYTE, None])
def test_an_unknown_sender_gets_a_megabyte_and_a_member_all(declared):
    chunks = [b"x" * MEGABYTE] * 3
    assert post(chunks, declared=declared, limit=None, who=saying(True)) == (200, b"ok", 3 * MEGABYTE)
    status, body, got = post(chunks, declared=declared, limit=None, who=saying(False))
    assert (status, got <= UNKNOWN_SENDER_MAX) == (401, True)
    assert body.startswith(b"Requests of more than 1 MB need a sign-in or a token")


@pytest.mark.parametrize("declared", [3 * MEGABYTE, UNASKED_MAX + 1, None])
def test_what_is_refused_by_its_head_is_not_read(declared):
    refusing = saying(Problem(401, "no", headers={"WWW-Authenticate": "Bearer"}))
    status, body, got = post([b"x" * MEGABYTE] * 3, declared=declared, limit=None, who=refusing, path="/api/v1/runs")
    assert (status, got) == (401, 0)
    assert b'"detail": "No."' in body


def test_who_sends_little_is_not_asked_here():
    async def who(_scope):
        pytest.fail("no sender needs to be looked up")

    assert post([b"x" * 500], declared=500, limit=None, who=who) == (200, b"ok", 500)


def test_what_fits_goes_through():
    assert post([b"x" * 500, b"x" * 500], declared=1000) == (200, b"ok", 1000)


def test_what_says_it_is_too_long_is_not_read_by_the_application():
    status, body, got = post([b"x" * 600, b"x" * 600], declared=1200)
    assert (status, got) == (413, 0)
    assert body.endswith(b"send fewer or smaller files.\n")


@pytest.mark.parametrize("declared", [None, 10, "many"])
def test_what_does_not_say_so_is_stopped_where_it_passes_the_bound(declared):
    status, _, got = post([b"x" * 600] * 10, declared=declared)
    assert status == 413
    assert got <= LIMIT


def test_sockets_are_left_alone():
    seen = []

    async def application(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(BodyLimit(application)({"type": "websocket"}, None, None))
    assert seen == ["websocket"]
