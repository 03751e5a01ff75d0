"""The bound on bodies before Django: its answers to programs."""

from __future__ import annotations

import asyncio
import json

import pytest

from console.site.requests.body_limit import API_BODY_MAX, API_START_MAX, BODY_MAX, BodyLimit, body_max


@pytest.mark.parametrize(
    ("method", "path", "most"),
    [
        ("POST", "/api/v1/runs", API_START_MAX),
        ("GET", "/api/v1/runs", API_BODY_MAX),
        ("POST", "/api/v1/runs/x/cancel", API_BODY_MAX),
        ("POST", "/api/v1/runs/", API_BODY_MAX),
        ("POST", "/api/v1/reviews/x/decision", API_BODY_MAX),
        ("POST", "/", BODY_MAX),
        ("POST", "/apiary", BODY_MAX),
    ],
)
def test_each_address_has_its_bound(method, path, most):
    assert body_max(method, path) == most


@pytest.mark.parametrize("declared", [True, False])
def test_a_program_is_told_in_a_problem(declared):
    sent = []
    chunk = b"x" * 300_000
    pending = [{"type": "http.request", "body": chunk, "more_body": n < 5} for n in range(6)]

    async def application(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        raise AssertionError("more than the bound was read")

    async def receive():
        return pending.pop(0)

    async def send(message):
        sent.append(message)

    headers = [(b"x-request-id", b"call-0001")] + [(b"content-length", b"1800000")] * declared
    scope = {"type": "http", "method": "POST", "path": "/api/v1/runs/x/cancel", "headers": headers}
    asyncio.run(BodyLimit(application)(scope, receive, send))
    assert sent[0]["status"] == 413
    told = dict(sent[0]["headers"])
    assert told[b"content-type"] == b"application/problem+json"
    assert told[b"x-request-id"] == b"call-0001"
    body = json.loads(sent[1]["body"])
    assert (body["status"], body["request_id"]) == (413, "call-0001")
    assert "1 MB" in body["detail"]
