"""Sessions with MCP servers that end: forgotten by the server, restarted, refused for a while, killed. What was not done is done once; what may have been is not done again."""

import asyncio
import json
import os
import re
import signal

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step, html
from tests.fabric.tools.mcp.worlds import call, gone, http, played, runner, served, stdio
from tests.servers.ports import free_port

PLAIN = "text/plain"


def said(body, status=200, **headers):
    return Step(status=status, body=json.dumps(body).encode(), content_type="application/json", headers=headers)


def result(received, found, **headers):
    return said({"jsonrpc": "2.0", "id": received.body["id"], "result": found}, **headers)


def except_calls(refusal, server):
    """A server whose answer to each call is that refusal."""

    def script(received):
        return refusal(received) if (received.body or {}).get("method") == "tools/call" else server(received)

    return script


class Forgetful:
    """A server of before 2026 with one tool, which does not know a session any more once ``forget`` was called."""

    def __init__(self, refusal, **able):
        self.able, self.refusal, self.sessions, self.known = able, refusal, 0, ""

    def forget(self):
        self.known = ""

    def __call__(self, received):
        body = received.body or {}
        method = body.get("method", "")
        if received.method == "GET":
            return Step(status=405)
        if method == "initialize":
            self.sessions += 1
            self.known = f"s{self.sessions}"
            about = {
                "protocolVersion": "2025-06-18",
                "capabilities": self.able,
                "serverInfo": {"name": "x", "version": "1"},
            }
            return result(received, about, **{"Mcp-Session-Id": self.known})
        if method == "server/discover":
            return Step(status=404)
        if received.headers.get("mcp-session-id") != self.known:
            return self.refusal(received)
        if method == "tools/list":
            return result(received, {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
        if method == "tools/call":
            return result(received, {"content": [{"type": "text", "text": f"done in {self.known}"}]})
        return Step(status=202)


def with_body(status, body):
    return lambda received: said(body, status)


def with_text(status, text):
    return lambda received: Step(status=status, body=text.encode(), content_type=PLAIN)


def own(status, code, message):
    return lambda received: said(
        {"jsonrpc": "2.0", "id": received.body.get("id"), "error": {"code": code, "message": message}}, status
    )


def calls(endpoint):
    return [
        one.headers.get("mcp-session-id") for one in endpoint.received if (one.body or {}).get("method") == "tools/call"
    ]


FORGOTTEN = {
    "404 alone": with_text(404, ""),
    "404 whose body does not end": lambda received: Step(status=404, body=b"m" * 5_000, mode="stall"),
    "404 with a page": lambda received: html(404),
    "the official Python SDK": with_body(
        404, {"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "Session not found"}}
    ),
    "404 in other words": own(404, -32601, "What is it that you want?"),
    "server-everything": with_body(
        400, {"jsonrpc": "2.0", "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}}
    ),
    "400 under the call's own id": own(400, -32600, "Unknown session"),
    "400 in plain words": with_text(400, "Invalid session id"),
    "the Rust SDK": with_text(401, "Unauthorized: Session not found"),
}


@pytest.mark.parametrize("refusal", FORGOTTEN.values(), ids=FORGOTTEN)
def test_a_call_of_a_session_that_the_server_forgot_is_made_once_in_another_one(refusal):
    server = Forgetful(refusal)
    with ScriptedEndpoint(server) as endpoint:
        port = runner(http(endpoint.authority), gate=Gate.trust_hosts([endpoint.authority]))

        async def scene():
            first = await call(port, http(endpoint.authority), "act")
            server.forget()
            return [first, *[await call(port, http(endpoint.authority), "act") for _ in range(3)]]

        found = played(scene, port)
    assert [one.result for one in found] == ["done in s1", *["done in s2"] * 3]
    assert calls(endpoint) == ["s1", "s1", "s2", "s2", "s2"]


@pytest.mark.parametrize("which", ["404 alone", "404 whose body does not end", "400 in plain words"])
def test_a_call_without_time_for_another_session_says_so_and_the_next_begins_it(which):
    server = Forgetful(FORGOTTEN[which])
    with ScriptedEndpoint(server) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))

        async def scene():
            await call(port, at, "act")
            server.forget()
            return await call(port, at, "act", within_s=1.0), await call(port, at, "act")

        short, after = played(scene, port)
    assert isinstance(short, CallFailed)
    assert (short.cause, short.outcome) == (Cause.DROPPED_STREAM, Outcome.REJECTED)
    assert short.message.startswith("MCP server 'things' does not know this session any more")
    assert re.search(r"; with [01]\.\d seconds left there is no time for a new one$", short.message)
    assert after.result == "done in s2"
    assert calls(endpoint) == ["s1", "s1", "s2"]


def test_calls_that_come_together_share_the_session_after_the_one_that_was_forgotten():
    server = Forgetful(with_text(404, ""))
    with ScriptedEndpoint(server) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))

        async def scene():
            await call(port, at, "act")
            server.forget()
            return await asyncio.gather(*(call(port, at, "act") for _ in range(10)))

        found = played(scene, port)
    assert {one.result for one in found} == {"done in s2"}


OTHERS = {
    "a tool's own error of that word": (own(400, -32602, "there is no training session 7"), Outcome.UNKNOWN),
    "forbidden": (with_text(403, "your session has no right to do so"), Outcome.REJECTED),
    "a page to sign in": (lambda received: html(401), Outcome.REJECTED),
    "a server that broke": (with_text(500, "Session not found"), Outcome.UNKNOWN),
}


@pytest.mark.parametrize(("refusal", "outcome"), OTHERS.values(), ids=OTHERS)
def test_what_is_no_word_about_the_session_ends_the_call_alone(refusal, outcome):
    script = except_calls(refusal, Forgetful(with_text(404, "")))
    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
    assert found.outcome is outcome
    assert calls(endpoint) == ["s1"]


def test_a_server_that_knows_no_session_at_all_is_asked_twice_and_no_more():
    script = except_calls(with_text(404, ""), Forgetful(with_text(404, "")))
    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.REJECTED)
    assert calls(endpoint) == ["s1", "s2"]


def test_an_answer_that_broke_off_and_whose_rest_is_unknown_is_not_asked_for_again():
    server = Forgetful(with_text(404, ""))

    def script(received):
        if received.method == "GET" and "last-event-id" in received.headers:
            return Step(status=404)
        if (received.body or {}).get("method") == "tools/call":
            return Step(body=b"id: e1\ndata: \n\n", content_type="text/event-stream")
        return server(received)

    with ScriptedEndpoint(script) as endpoint:
        at = http(endpoint.authority)
        port = runner(at, gate=Gate.trust_hosts([endpoint.authority]))
        found = played(lambda: call(port, at, "act"), port)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert calls(endpoint) == ["s1"]


@pytest.mark.parametrize("how", [("--old",), ("--old", "--json"), ()], ids=["events", "json", "of 2026"])
def test_a_real_server_that_was_started_anew_is_called_on(how):
    number = str(free_port())
    at = http(f"127.0.0.1:{number}")
    port = runner(at, gate=Gate.trust_hosts([f"127.0.0.1:{number}"]))

    async def scene():
        with served(*how, "--port", number):
            before = await call(port, at, "whoami")
        away = await call(port, at, "whoami")
        with served(*how, "--port", number):
            return before, away, [await call(port, at, "whoami") for _ in range(2)]

    before, away, after = played(scene, port)
    assert (away.cause, away.outcome) == (Cause.NETWORK, Outcome.REJECTED)
    assert after[0].result == after[1].result != before.result


def test_a_server_that_is_started_anew_in_mid_call_leaves_the_outcome_unknown(tmp_path):
    os.mkfifo(tmp_path / "never")
    number = str(free_port())
    at = http(f"127.0.0.1:{number}")
    port = runner(at, gate=Gate.trust_hosts([f"127.0.0.1:{number}"]))

    async def scene():
        with served("--old", "--port", number, MCP_NOTES=str(tmp_path)):
            out = asyncio.create_task(call(port, at, "never"))
            await asyncio.to_thread((tmp_path / "never").read_text)
        with served("--old", "--port", number):
            return await out, await call(port, at, "echo", {"text": "on"})

    out, after = played(scene, port)
    assert isinstance(out, CallFailed)
    assert (out.cause, out.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert after.result == "on"


def test_a_command_that_dies_between_two_calls_is_started_anew_for_the_next():
    server = stdio()
    port = runner(server)

    async def scene():
        pid = int((await call(port, server, "whoami")).result.split()[0])
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        return pid, await call(port, server, "whoami")

    pid, after = played(scene, port)
    assert int(after.result.split()[0]) != pid
