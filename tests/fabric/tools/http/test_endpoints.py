import asyncio

import pytest

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.tools.http.endpoint import READ_CHARS, is_allowed
from fabric.tools.runner import ToolRunner
from simulator.endpoint import ScriptedEndpoint, Step, drop, hang, hang_up, refusal, trickle
from tests.fabric.tools.asking import request, run

SCHEMA = {"type": "object", "properties": {"a": {}, "b": {}}}


def text(body, kind="text/plain", **changed):
    return Step(body=body.encode() if isinstance(body, str) else body, content_type=kind, **changed)


def get(step, args=None, **changed):
    """One http_get against a loopback server that the operator and the fabric both allow."""
    with ScriptedEndpoint([step]) as endpoint:
        spec = ToolSpec(name="http_get", allowed_hosts=(endpoint.authority,))
        runner = ToolRunner(gate=Gate.trust_hosts([endpoint.authority]))
        given = {"url": f"http://{endpoint.authority}/page", **(args or {})}
        return run(spec, given, runner, **changed), endpoint.received


def post(step, args=None, method="POST", **changed):
    """One http tool against a loopback server."""
    with ScriptedEndpoint([step]) as endpoint:
        target = f"http://{endpoint.authority}/act?fixed=1"
        spec = ToolSpec(name="act", kind="http", description="D", parameters=SCHEMA, target=target, method=method)
        return run(
            spec, args or {}, ToolRunner(gate=Gate.trust_hosts([endpoint.authority])), **changed
        ), endpoint.received


def test_a_page_is_read():
    result, received = get(text("hello", "text/html; charset=utf-8"))
    assert result.result == {
        "url": received[0].headers["host"].join(["http://", "/page"]),
        "status": 200,
        "content_type": "text/html",
        "text": "hello",
        "start": 0,
        "total": 5,
        "more": False,
    }
    assert (received[0].method, received[0].key) == ("GET", "")


def test_a_long_page_is_read_piece_by_piece():
    result, _ = get(text("x" * READ_CHARS + "yz"), {"start": READ_CHARS, "length": 1})
    assert (result.result["text"], result.result["more"], result.result["total"]) == ("y", True, READ_CHARS + 2)


def test_other_encodings_are_decoded_and_nonsense_does_not_break():
    assert get(text("é".encode("latin-1"), "text/plain; charset=latin-1"))[0].result["text"] == "é"
    assert get(text(b"\xff", "text/plain; charset=no-such"))[0].result["text"] == "\ufffd"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (text(b"\x89PNG", "image/png"), "which is no text"),
        (text(b"a\0b", "text/plain"), "binary data"),
        (text(b"x" * 1_000_001), "larger than 1,000,000 bytes"),
        (refusal(404, "no such page"), "answered HTTP 404; it says:"),
        (refusal(302, headers={"Location": "http://169.254.169.254/"}), "redirects are not followed"),
        (Step(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "packed (gzip) and ends before it is whole"),
    ],
)
def test_what_the_model_can_mend_is_its_error(step, said):
    result, received = get(step)
    assert isinstance(result, ToolFinished)
    assert said in result.error
    assert len(received) == 1


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (refusal(429, "slow", headers={"Retry-After": "3"}), Cause.RATE_LIMIT),
        (refusal(503, "busy"), Cause.SERVER_ERROR),
        (refusal(408, "slow"), Cause.TIMEOUT),
        (drop(), Cause.DROPPED_STREAM),
        (hang_up(), Cause.DROPPED_STREAM),
    ],
)
@pytest.mark.parametrize("do", [get, post])
def test_what_another_try_may_mend_is_a_failed_call(do, step, cause):
    result, received = do(step)
    assert isinstance(result, CallFailed)
    assert result.cause is cause
    assert result.retry_after_s == (3.0 if cause is Cause.RATE_LIMIT else None)
    assert len(received) == 1


@pytest.mark.parametrize("step", [trickle(), hang()], ids=["trickle", "hang"])
@pytest.mark.parametrize("do", [get, post])
def test_the_deadline_ends_a_server_that_does_not_finish(do, step):
    result, _ = do(step, within_s=0.4)
    assert result.cause is Cause.TIMEOUT
    assert "did not finish within 0.4 seconds" in result.message


def test_a_refused_connection_is_a_network_failure():
    with ScriptedEndpoint([text("x")]) as endpoint:
        authority = endpoint.authority
    spec = ToolSpec(name="http_get", allowed_hosts=(authority,))
    result = run(spec, {"url": f"http://{authority}/"}, ToolRunner(gate=Gate.trust_hosts([authority])))
    assert result.cause is Cause.NETWORK


def test_a_private_host_needs_the_operator_and_the_fabric():
    with ScriptedEndpoint([text("inside")]) as endpoint:
        url = f"http://{endpoint.authority}/"
        alone = run(ToolSpec(name="http_get", allowed_hosts=(endpoint.authority,)), {"url": url})
        other = run(
            ToolSpec(name="http_get", allowed_hosts=("example.org",)),
            {"url": url},
            ToolRunner(gate=Gate.trust_hosts([endpoint.authority])),
        )
        assert "FABRIC_ALLOWED_HOSTS" in alone.error
        assert other.error == "127.0.0.1 is not among the allowed hosts: example.org"
        assert endpoint.received == []


@pytest.mark.parametrize(
    ("url", "allowed", "fits"),
    [
        ("https://example.org/x", ["example.org"], True),
        ("https://EXAMPLE.org./x", ["example.org"], True),
        ("https://example.org:443/x", ["example.org"], True),
        ("https://example.org:8443/x", ["example.org"], False),
        ("https://example.org:8443/x", ["example.org:8443"], True),
        ("https://sub.example.org/", ["example.org"], False),
        ("https://notexample.org/", ["example.org"], False),
        ("https://example.org.evil.net/", ["example.org"], False),
        ("https://example.org/", [], False),
    ],
)
def test_hosts_are_compared_whole(url, allowed, fits):
    assert is_allowed(url, allowed) is fits


# -- endpoints --


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
def test_arguments_go_out_as_json_under_the_idempotency_key(method):
    result, received = post(text('{"done": [1]}', "application/json"), {"a": {"x": "ü"}}, method=method)
    assert result.result == {"done": [1]}
    assert (received[0].method, received[0].path) == (method, "/act?fixed=1")
    assert received[0].body == {"a": {"x": "ü"}}
    assert received[0].idempotency_key == "key-1"
    assert received[0].headers["x-fabric-call"] == "r1/t1/1"
    assert received[0].headers["traceparent"] == f"00-{'a' * 32}-{'b' * 16}-01"


def test_arguments_of_a_get_go_out_in_the_url():
    result, received = post(text("plain words"), {"a": "x y", "b": True}, method="GET")
    assert result.result == "plain words"
    assert received[0].path == "/act?fixed=1&a=x+y&b=true"
    assert "give text, numbers" in post(text("x"), {"a": [1]}, method="GET")[0].error


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (refusal(422, "a is too small"), "answered HTTP 422; it says:"),
        (text("{", "application/json"), "but its JSON cannot be read at line 1, column 2 (it ends too early)"),
        (text("[" * 100 + "]" * 100, "application/json"), "deeper than 64"),
    ],
)
def test_what_the_endpoint_says_is_told_to_the_model(step, said):
    assert said in post(step)[0].error


@pytest.mark.parametrize("target", ["http://10.0.0.1/x", "https://[::1]/x", "http://example.org/", "nonsense"])
def test_a_target_that_may_not_be_asked_is_the_author_s_to_mend(target):
    spec = ToolSpec(name="act", kind="http", parameters=SCHEMA, target=target)
    result = run(spec, {})
    assert result.cause is Cause.BAD_CONFIGURATION
    assert "tool 'act'" in result.message


def test_a_target_that_leads_inside_is_the_author_s_to_mend():
    async def inside(host, port):
        return ["127.0.0.1"]

    spec = ToolSpec(name="act", kind="http", parameters=SCHEMA, target="https://rebind.example/")
    result = run(spec, {}, ToolRunner(gate=Gate(resolve=inside)))
    assert result.cause is Cause.BAD_CONFIGURATION
    assert "leads to 127.0.0.1" in result.message


def test_many_at_once():
    async def go(spec, runner):
        return await asyncio.gather(*(runner.run(request(spec, {"a": n})) for n in range(30)))

    with ScriptedEndpoint(lambda received: text(str(received.body["a"]), "application/json")) as endpoint:
        spec = ToolSpec(name="act", kind="http", parameters=SCHEMA, target=f"http://{endpoint.authority}/")
        found = asyncio.run(go(spec, ToolRunner(gate=Gate.trust_hosts([endpoint.authority]))))
        assert [one.result for one in found] == list(range(30))


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"failure_code": "E-LOCKED", "code": "other"}', "E-LOCKED"),
        ('{"failure_code": 42}', "42"),
        ('{"failure_code": "' + "x" * 64 + '"}', "x" * 63),
        ('{"failure_code": true}', ""),
        ('{"failure_code": {"code": 1}}', ""),
        ('{"failure_code": ""}', ""),
        ('{"code": "not_found"}', ""),
        ('["failure_code"]', ""),
        ('{"failure_code": "E-LOCKED"', ""),
        ("[" * 200 + "]" * 200, ""),
    ],
)
def test_a_refusal_s_own_code_comes_with_the_error(body, code):
    result, _ = post(text(body, "application/json", status=409))
    assert "answered HTTP 409" in result.error
    assert result.code == code


def test_a_code_in_a_text_is_no_code():
    assert post(text('{"failure_code": "E"}', status=409))[0].code == ""
