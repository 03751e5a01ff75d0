"""Tools of MCP servers that are addresses: the official SDK's server over streamable HTTP, and endpoints that misbehave."""

import asyncio
import json

import pytest

from fabric.core.events.inputs import CallFailed
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from simulator.endpoint import ScriptedEndpoint, Step, drop, hang, hang_up, refusal
from tests.fabric.tools.mcp.worlds import call, gone, http, played, runner, served


@pytest.fixture(scope="module", params=[(), ("--json",)], ids=["events", "json"])
def where(request):
    with served(*request.param) as found:
        yield found


def of(where, name, args=None, *, trusted=True, server=None, **changed):
    """One call in a session of its own."""
    server = server or http(where)
    port = runner(server, gate=Gate.trust_hosts([where] if trusted else []))
    return played(lambda: call(port, server, name, args, **changed), port)


def test_an_answer_is_the_result(where):
    assert of(where, "add", {"a": 2, "b": 3}).result == {"result": 5}


def test_an_address_that_the_operator_does_not_trust_is_not_asked(where):
    found = of(where, "add", {"a": 1}, trusted=False)
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert "FABRIC_ALLOWED_HOSTS" in found.message


def test_a_name_that_leads_inside_is_not_asked():
    async def inside(host, port):
        return ["127.0.0.1"]

    server = http("", url="https://rebind.example/mcp")
    port = runner(server, gate=Gate(resolve=inside))
    found = played(lambda: call(port, server, "add", {"a": 1}), port)
    assert (found.cause, found.outcome) == (Cause.BAD_CONFIGURATION, Outcome.REJECTED)
    assert "leads to 127.0.0.1" in found.message


def test_fifty_megabytes_are_not_read_and_the_session_goes_on(where):
    server = http(where)
    port = runner(server, gate=Gate.trust_hosts([where]))

    async def scene():
        return await call(port, server, "large", {"megabytes": 50}), await call(port, server, "echo", {"text": "on"})

    much, after = played(scene, port)
    assert (
        much.error
        == "MCP server 'things': its answer is larger than 4,000,000 bytes; the rest is not read; ask for less"
    )
    assert much.outcome is Outcome.ANSWERED
    assert after.result == "on"


def test_one_that_never_returns_is_left_at_the_deadline_and_the_session_goes_on():
    with served() as where:  # Its thread hangs for good.
        server = http(where)
        port = runner(server, gate=Gate.trust_hosts([where]))

        async def scene():
            before = await call(port, server, "whoami")
            stuck = await call(port, server, "never", within_s=2)
            return before, stuck, await call(port, server, "whoami")

        before, stuck, after = played(scene, port)
    assert (stuck.cause, stuck.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert before.result == after.result


def test_one_that_dies_in_mid_call_leaves_the_outcome_unknown():
    with served() as where:
        server = http(where)
        port = runner(server, gate=Gate.trust_hosts([where]))

        async def scene():
            pid = int((await call(port, server, "whoami")).result.split()[0])
            died = await call(port, server, "fail", {"how": "exit"})
            await gone(pid)
            return died, await call(port, server, "add", {"a": 1})

        died, after = played(scene, port)
    assert isinstance(died, CallFailed)
    assert (died.cause, died.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert (after.cause, after.outcome) == (Cause.NETWORK, Outcome.REJECTED)
    assert "nothing answers at" in after.message


def test_a_header_comes_from_the_environment_where_the_operator_allows_it_for_that_host():
    with ScriptedEndpoint([refusal(401, "no")]) as endpoint:
        server = http(endpoint.authority, headers_from={"Authorization": "CRM"})
        gate = Gate.trust_hosts([endpoint.authority])
        told = []
        for allowed in ((), ("CRM",), ("CRM@other.example:443",), (f"CRM@{endpoint.authority}",)):
            port = runner(server, *allowed, gate=gate, CRM="Bearer secret")
            told.append(played(lambda port=port: call(port, server, "add", {"a": 1}), port))
        received = endpoint.received
    assert all("is sent the variable CRM, which is not allowed" in one.message for one in told[:3])
    assert (told[3].cause, told[3].outcome) == (Cause.AUTH, Outcome.REJECTED)
    assert told[3].message == (
        "MCP server 'things': it answered HTTP 401 to the first greeting; give it a key by headers_from"
    )
    assert {one.headers["authorization"] for one in received} == {"Bearer secret"}


def greeting(received):
    """An old server that answers the greeting and lists one tool, in JSON."""
    body = received.body or {}
    method = body.get("method", "")
    if method == "initialize":
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"},
        }
    elif method == "tools/list":
        result = {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}
    elif "id" not in body:
        return Step(status=202, body=b"")
    else:
        said = {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": "unknown"}}
        return Step(body=json.dumps(said).encode(), content_type="application/json")
    said = {"jsonrpc": "2.0", "id": body["id"], "result": result}
    return Step(body=json.dumps(said).encode(), content_type="application/json", headers={"Mcp-Session-Id": "s1"})


def acted(step, **changed):
    """A call of an old server whose answer to it is that step."""

    def script(received):
        return step if (received.body or {}).get("method") == "tools/call" else greeting(received)

    with ScriptedEndpoint(script) as endpoint:
        found = of(endpoint.authority, "act", {"a": 1}, **changed)
        return found, [one for one in endpoint.received if (one.body or {}).get("method") == "tools/call"]


@pytest.mark.parametrize(
    ("step", "cause", "outcome", "said"),
    [
        (refusal(503, "busy"), Cause.SERVER_ERROR, Outcome.UNKNOWN, "answered HTTP 503"),
        (refusal(429, "slow", headers={"Retry-After": "3"}), Cause.RATE_LIMIT, Outcome.REJECTED, "answered HTTP 429"),
        (hang_up(), Cause.DROPPED_STREAM, Outcome.UNKNOWN, "closed the connection without an answer"),
        (drop(), Cause.DROPPED_STREAM, Outcome.UNKNOWN, "broke off after"),
        (refusal(404, "gone"), Cause.DROPPED_STREAM, Outcome.REJECTED, "does not know this session any more"),
        (Step(body=b"{", content_type="application/json"), Cause.MALFORMED_ANSWER, Outcome.UNKNOWN, "cannot be read"),
    ],
)
def test_what_another_try_may_mend_is_a_failed_call(step, cause, outcome, said):
    found, received = acted(step)
    assert isinstance(found, CallFailed)
    assert (found.cause, found.outcome) == (cause, outcome)
    assert said in found.message
    assert len(received) == (2 if step.status == 404 else 1)


def test_the_deadline_ends_an_old_server_that_does_not_answer():
    found, received = acted(hang(), within_s=2)
    assert (found.cause, found.outcome) == (Cause.TIMEOUT, Outcome.UNKNOWN)
    assert len(received) == 1
    assert (received[0].idempotency_key, received[0].headers["x-fabric-call"]) == ("key-1", "r1/t1/1")
    assert received[0].headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"


@pytest.mark.parametrize(
    ("code", "outcome"),
    [(-32601, Outcome.REJECTED), (-32602, Outcome.UNKNOWN), (-32603, Outcome.UNKNOWN), (-1, Outcome.UNKNOWN)],
)
def test_an_error_of_the_protocol_is_told_with_what_it_says_of_the_call(code, outcome):
    def script(received):
        if (received.body or {}).get("method") != "tools/call":
            return greeting(received)
        said = {"jsonrpc": "2.0", "id": received.body["id"], "error": {"code": code, "message": "it is locked"}}
        return Step(body=json.dumps(said).encode(), content_type="application/json")

    with ScriptedEndpoint(script) as endpoint:
        found = of(endpoint.authority, "act", {})
    assert found.error == "MCP server 'things' says: it is locked"
    assert (found.outcome, found.code) == (outcome, str(code))


def test_many_at_once(where):
    server = http(where)
    port = runner(server, gate=Gate.trust_hosts([where]))

    async def scene():
        return await asyncio.gather(*(call(port, server, "add", {"a": n}) for n in range(30)))

    assert [one.result["result"] for one in played(scene, port)] == list(range(1, 31))


def test_a_redirect_elsewhere_is_not_followed():
    found, received = acted(refusal(307, "moved", headers={"Location": "http://169.254.169.254/latest"}))
    assert "not followed" in found.error
    assert found.outcome is not Outcome.ANSWERED
    assert len(received) == 1


@pytest.mark.parametrize(
    ("status", "code", "outcome", "said"),
    [
        (400, -32602, Outcome.UNKNOWN, "MCP server 'things' says: it is locked"),
        (409, -32601, Outcome.REJECTED, "MCP server 'things' says: it is locked"),
        (403, None, Outcome.REJECTED, "MCP server 'things': http://WHERE/mcp answered HTTP 403; it says: no"),
    ],
)
def test_a_refusal_by_http_is_judged_by_its_code_where_it_has_one(status, code, outcome, said):
    def script(received):
        if (received.body or {}).get("method") != "tools/call":
            return greeting(received)
        error = {"jsonrpc": "2.0", "id": received.body["id"], "error": {"code": code, "message": "it is locked"}}
        return Step(status=status, body=json.dumps(error).encode() if code else b"no", content_type="application/json")

    with ScriptedEndpoint(script) as endpoint:
        found = of(endpoint.authority, "act", {})
    assert (found.error, found.outcome) == (said.replace("WHERE", endpoint.authority), outcome)
