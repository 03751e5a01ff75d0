"""Refusals over HTTP, of tools and of MCP servers, whose bodies break off, never end or cannot be unpacked: the status says what they are."""

import time

import pytest

from fabric.core.events.inputs import CallFailed
from simulator.endpoint import Step
from tests.fabric.tools.http.test_answers import act
from tests.fabric.tools.mcp.test_odd_servers import asked, sentence_of

UNENDED = {
    "reset": {"body": b"m" * 5_000, "mode": "drop"},
    "silent": {"body": b"m" * 5_000, "mode": "stall"},
    "trickling": {"body": b" ", "mode": "trickle"},
    "bad gzip": {"body": b"\x1f\x8bnone", "headers": {"Content-Encoding": "gzip"}},
}


@pytest.mark.parametrize("way", UNENDED)
@pytest.mark.parametrize("status", [302, 307, 400, 404, 408, 429, 500, 503])
@pytest.mark.parametrize("effect", ["read_only", "mutating"])
def test_a_refusal_whose_body_cannot_be_read_is_judged_by_its_status(status, way, effect):
    """Also where the deadline ends it."""
    told, given = {"Retry-After": "7", "Location": "/there"}, UNENDED[way]
    whole = act(Step(status=status, headers=told), effect=effect)
    step = Step(**{**given, "status": status, "headers": {**told, **given.get("headers", {})}})
    found = act(step, effect=effect, within_s=0.3 if given.get("mode") in ("stall", "trickle") else 20.0)
    assert (type(found), found.outcome) == (type(whole), whole.outcome), found
    if isinstance(whole, CallFailed):
        assert (found.cause, found.status, found.retry_after_s) == (whole.cause, status, whole.retry_after_s)
    else:
        assert f"answered HTTP {status}" in found.error


@pytest.mark.parametrize("within_s", [20, 1.8], ids=["then", "at the deadline"])
@pytest.mark.parametrize("mode", ["stall", "drop"])
@pytest.mark.parametrize("status", [400, 403, 422, 429, 500, 503])
def test_a_refusal_over_http_is_judged_by_its_status_although_its_body_does_not_end(status, mode, within_s):
    told = {"Retry-After": "7"}
    begun = time.monotonic()
    whole, _ = asked(lambda received: Step(status=status, headers=told))
    found, times = asked(
        lambda received: Step(status=status, body=b"m" * 5_000, mode=mode, headers=told), within_s=within_s
    )
    assert (type(found), found.outcome, times) == (type(whole), whole.outcome, 1), found
    if isinstance(whole, CallFailed):
        assert (found.cause, found.status, found.retry_after_s) == (whole.cause, status, 7.0)
    assert f"answered HTTP {status}" in sentence_of(found)
    assert time.monotonic() - begun < 10
