"""A bound on bodies: what is over it never reaches the application, whether or not it says how long it is."""

from __future__ import annotations

import asyncio

import pytest

from console.body_limit import BodyLimit

LIMIT = 1000


def post(chunks, *, declared=None, limit=LIMIT):
    """What is sent back for a body in chunks, and how many bytes of it the application got."""
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

    headers = [] if declared is None else [(b"content-length", str(declared).encode())]
    scope = {"type": "http", "headers": headers}
    asyncio.run(BodyLimit(application, limit)(scope, receive, send))
    return sent[0]["status"], sent[1]["body"], got


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
