"""An HTTP tool reads each answer, over real HTTP, gives its model a text, and decides whether it was done."""

import base64
import gzip
import json
import tracemalloc

import pytest

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.spec.tools import ToolSpec
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import Gate
from fabric.tools.runner import DONE, ToolRunner
from simulator.endpoint import ScriptedEndpoint, Step, drop, hang_up, refusal, trickle
from tests.fabric.http.packed_bodies import PACK, WAYS, bomb
from tests.fabric.http.raw_server import raw_server
from tests.fabric.tools.asking import run

ANY = {"type": "object"}
JSON = "application/json"
PAGE = b"<!doctype html><html><head><title>Sign in - Acme</title></head><body><form><input type=password></form></body></html>"
WELCOME = b"<html><head><title>Welcome</title></head><body>It works!</body></html>"


def step(body=b"", kind=JSON, status=200, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Step(
        body=body if isinstance(body, bytes) else body.encode(), content_type=kind, status=status, headers=named
    )


def at(authority, **changed):
    """One call of a tool at a server that the operator trusts."""
    within_s = changed.pop("within_s", 30.0)
    spec = ToolSpec(
        name="act", kind="http", description="D", parameters=ANY, target=f"http://{authority}/act", **changed
    )
    return run(spec, {}, ToolRunner(gate=Gate.trust_hosts([authority])), within_s=within_s)


def act(given, **changed):
    with ScriptedEndpoint([given]) as endpoint:
        result = at(endpoint.authority, **changed)
        assert len(endpoint.received) == 1
        return result


def raw(*pieces, every_s=0.0, reset=False, **changed):
    with raw_server(pieces, every_s=every_s, reset=reset) as (authority, heads):
        result = at(authority, **changed)
        assert len(heads) == 1
        return result


def head(status="200 OK", kind=JSON, **headers):
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


# -- nothing in it --


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "given",
    [
        step(status=204),
        step(status=205),
        step(b""),
        step(b"\n"),
        step(b"\xef\xbb\xbf"),
        step(b"", "text/plain"),
        step(b"", ""),
        step(b"", "image/png"),
    ],
    ids=["204", "205", "empty", "blank", "mark", "text", "untyped", "picture"],
)
def test_an_answer_with_nothing_in_it_is_done(method, given):
    found = act(given, method=method, effect="mutating")
    assert (found.error, found.result, found.outcome) == ("", None, None)


@pytest.mark.parametrize("name", sorted(PACK))
def test_nothing_is_packed_in_no_way(name):
    assert act(step(b"", Content_Encoding=name)).error == ""
    assert act(step(status=204, Content_Encoding=name)).error == ""


def test_what_was_made_or_only_taken_is_told():
    assert act(step(status=201, Location="/things/7")).result["location"].endswith("/things/7")
    assert act(step(status=201)).result == {"status": 201}
    taken = act(step(status=202, Location="https://jobs.example/9")).result
    assert taken == {"status": 202, "location": "https://jobs.example/9"}
    assert act(step(b'{"id": 7}', status=201, Location="/things/7")).result == {"id": 7}


# -- packed, marked, in other charsets --


@pytest.mark.parametrize(("name", "pack"), WAYS)
def test_a_packed_answer_is_read(name, pack):
    assert act(step(pack(b'{"a": 1}'), Content_Encoding=name)).result == {"a": 1}


def test_a_packed_refusal_is_read():
    found = act(step(gzip.compress(b'{"failure_code": "E-7"}'), status=409, Content_Encoding="gzip"))
    assert (found.code, found.outcome) == ("E-7", Outcome.REJECTED)


def test_several_packings_and_many_small_chunks():
    packed = PACK["br"](gzip.compress(json.dumps(["x" * 50] * 10_000).encode()))
    pieces = tuple(packed[start : start + 1] for start in range(len(packed)))
    given = Step(pieces=pieces, headers={"Content-Encoding": "gzip, br"})
    assert len(act(given).result) == 10_000
    assert act(Step(pieces=(b" ",) * 10_000 + (b"[1]",))).result == [1]


@pytest.mark.parametrize("name", sorted(PACK))
def test_a_bomb_is_one_sentence(name):
    with ScriptedEndpoint([step(bomb(name), Content_Encoding=name)]) as endpoint:
        tracemalloc.start()
        found = at(endpoint.authority)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (
        found.error
        == "the answer is larger than 1,000,000 bytes when it is unpacked; the rest is not read; ask for less"
    )
    assert found.outcome is Outcome.ANSWERED
    assert peak < 20_000_000


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (step(b"no gzip", Content_Encoding="gzip"), "says that it is packed (gzip), but cannot be unpacked"),
        (
            step(gzip.compress(b'{"a": 1}')[:-3], Content_Encoding="gzip"),
            "is packed (gzip) and ends before it is whole",
        ),
        (step(b"x", Content_Encoding="compress"), "packed in a way that is not known here ('compress')"),
        (step(b"x", Content_Encoding="gzip, gzip, gzip, gzip"), "is packed 4 times"),
    ],
)
def test_a_packing_that_lies_is_one_sentence_and_the_call_was_done(given, said):
    found = act(given, effect="mutating")
    assert said in found.error
    assert found.error.endswith(DONE)
    assert found.outcome is Outcome.ANSWERED


def test_a_charset_in_the_place_of_a_packing_packs_nothing():
    assert act(step(b"[1]", Content_Encoding="utf-8")).result == [1]


@pytest.mark.parametrize("codec", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_json_in_every_utf_is_read(codec):
    assert act(step('{"a": "é€"}'.encode(codec))).result == {"a": "é€"}


@pytest.mark.parametrize(
    ("body", "kind", "result"),
    [
        (b')]}\',\n{"a": 1}', JSON, {"a": 1}),
        (b'{"a": 1}', "application/json; charset=binary", {"a": 1}),
        (b'{"a": 1}', "application/json, application/json", {"a": 1}),
        (b'{"a": 1}', "text/json", {"a": 1}),
        (b'{"a": 1}', "", {"a": 1}),
        (b'{"a": 1}', "text/html; charset=UTF-8", {"a": 1}),
        (b'{"a": 1}', "text/plain", '{"a": 1}'),
        (b"{no json", "", "{no json"),
        (b'{"a": 1}\n{"a": 2}\n', "application/x-ndjson", [{"a": 1}, {"a": 2}]),
        ("é".encode("latin-1"), "text/csv; charset=ISO-8859-1", "é"),
        (b"a,b\n1,2", "application/octet-stream", "a,b\n1,2"),
        (b"key: value", "application/x-yaml", "key: value"),
        (b'{"a": NaN, "b": 1e999, "c": ' + b"1" * 400 + b"}", JSON, {"a": None, "b": "1e999", "c": "1" * 400}),
        (b"[" * 50 + b"]" * 50, JSON, ...),
        (b'"\xff"', JSON, "\ufffd"),
    ],
)
def test_what_has_one_meaning_is_read(body, kind, result):
    found = act(step(body, kind))
    assert found.error == ""
    assert result is ... or found.result == result


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (
            b'{"a": 1}{"b": 2}',
            JSON,
            "but its JSON goes on with a second value behind its end at character 8; one value is wanted",
        ),
        (b'{"a": 1', JSON, "but its JSON cannot be read at line 1, column 8 (it ends too early)"),
        (b"[" * 70 + b"]" * 70, JSON, "but its JSON is nested deeper than 64 levels"),
        (b"9" * 5_000, JSON, "but its JSON has a number of 5,000 digits; at most 1,000 are read"),
        (b'{"a": 1}\n{"a"', "application/x-ndjson", "but its JSON is one value a line, and line 2 cannot be read"),
        (b"x" * 1_000_001, "text/plain", "larger than 1,000,000 bytes; the rest is not read; ask for less"),
    ],
)
@pytest.mark.parametrize("effect", ["read_only", "mutating", "irreversible"])
def test_what_cannot_be_read_was_done_and_the_model_is_told(body, kind, said, effect):
    found = act(step(body, kind), effect=effect, approval="waived", deviation="a test")
    assert isinstance(found, ToolFinished)
    assert said in found.error
    assert found.outcome is Outcome.ANSWERED
    assert found.error.endswith(DONE) is (effect != "read_only")


# -- pages, redirects --


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", JSON, "text/plain", ""])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_to_sign_in_is_no_result(kind, method):
    found = act(step(PAGE, kind), method=method)
    assert 'answered HTTP 200 with a page to sign in ("Sign in - Acme") where data is expected' in found.error
    assert found.result is None


def test_the_outcome_is_unknown_of_a_call_that_a_page_answers():
    found = act(step(WELCOME, "text/html"), effect="mutating")
    assert 'with a web page ("Welcome") where data is expected' in found.error
    assert found.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("status", [401, 403, 404, 407])
def test_a_refusal_by_a_page_is_told_in_its_words(status):
    found = act(step(PAGE.replace(b"</form>", b"Use your company account.</form>"), "text/html", status))
    assert f'answered HTTP {status} with a page to sign in ("Sign in - Acme"); it says: ' in found.error
    assert "Use your company account." in found.error
    assert "<" not in found.error
    assert found.outcome is Outcome.REJECTED


@pytest.mark.parametrize(
    ("status", "to", "said", "outcome"),
    [
        (302, "/users/sign_in?next=/act", "it leads to a page to sign in, http://127.0.0.1", Outcome.UNKNOWN),
        (303, "https://sso.example/x", "it leads to https://sso.example:443/x, and", Outcome.UNKNOWN),
        (301, "", "it is moved and says not where, and", Outcome.UNKNOWN),
        (304, "", "it is moved and says not where, and", Outcome.UNKNOWN),
        (307, "https://b.example/", "it leads to https://b.example:443/, and", Outcome.REJECTED),
        (308, "https://exa mple:x/", "says not where", Outcome.REJECTED),
        (302, "http://[", "redirects are not followed", Outcome.UNKNOWN),
        (302, "\xff\xfe", "redirects are not followed", Outcome.UNKNOWN),
    ],
)
def test_a_redirect_says_where_it_leads(status, to, said, outcome):
    found = raw(head(f"{status} X", Location=to, Content_Length=0) if to else head(f"{status} X", Content_Length=0))
    assert isinstance(found, ToolFinished)
    assert said in found.error
    assert "next=" not in found.error
    assert found.outcome is outcome


def test_a_part_is_not_taken_for_the_whole():
    assert "a part is not taken for the whole" in act(step(b"[1]", status=206)).error


# -- bytes --


def test_bytes_are_named_and_left_out():
    png = b"\x89PNG\r\n\x1a\n" + bytes(5_000)
    assert act(step(png, "image/png")).result == {"type": "image/png", "bytes": 5_008, "left_out": "it is no text"}
    assert act(step(b"\0\xff" * 50, "")).result == {
        "type": "application/octet-stream",
        "bytes": 100,
        "left_out": "it is no text",
    }
    assert act(step(b"\0\xff" * 50, "application/octet-stream")).result["bytes"] == 100
    assert "which is larger" not in act(step(bytes(1_000_001), "video/mp4")).error
    nested = json.dumps(
        {"name": "a.png", "mime_type": "image/png", "data": base64.b64encode(png).decode(), "id": "x" * 40}
    )
    assert act(step(nested)).result == {
        "name": "a.png",
        "mime_type": "image/png",
        "data": "[image/png, 5,008 bytes, left out: it is no text]",
        "id": "x" * 40,
    }


# -- connections that break --


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ((), None),
        ((b"HTTP/1.1 20",), None),
        ((b"HTTP/1.1 200 OK\r\nContent-Ty",), None),
        ((head(Content_Length=10),), 200),
        ((head(Content_Length=10), b'{"a"'), 200),
        ((head(Transfer_Encoding="chunked"), b"4\r\n[1, \r\n"), 200),
        ((head(Transfer_Encoding="chunked"), b"zz\r\n"), 200),
        ((head("404 No", Content_Length=10), b'{"a"'), 404),
        ((head("500 No", Content_Length=10), b'{"a"'), 500),
        ((head("429 No", Content_Length=10, Retry_After="7"),), 429),
    ],
    ids=["nothing", "line", "head", "body", "in body", "in chunks", "bad chunk", "404", "500", "429"],
)
def test_where_a_connection_breaks_the_status_says_what_was_done(pieces, status, reset):
    looked = raw(*pieces, reset=reset, every_s=0.05)
    done = raw(*pieces, reset=reset, every_s=0.05, effect="mutating")
    match status:
        case None:
            assert (done.cause, done.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
        case 200:
            assert looked.cause is Cause.DROPPED_STREAM
            assert isinstance(done, ToolFinished)
            assert "broke off after" in done.error
            assert done.error.endswith(DONE)
            assert done.outcome is Outcome.ANSWERED
        case 404:
            assert isinstance(done, ToolFinished)
            assert (looked.outcome, done.outcome) == (Outcome.REJECTED, Outcome.REJECTED)
        case 500:
            assert (done.cause, done.outcome) == (Cause.SERVER_ERROR, Outcome.UNKNOWN)
        case 429:
            assert (done.cause, done.retry_after_s, done.outcome) == (Cause.RATE_LIMIT, 7.0, Outcome.REJECTED)


def test_a_stream_that_breaks_off_says_nothing_of_what_was_done():
    for kind in ("text/event-stream", "application/x-ndjson"):
        found = raw(head(kind=kind, Transfer_Encoding="chunked"), b"4\r\n{}\n\n\r\n", effect="mutating")
        assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)


@pytest.mark.parametrize(
    "first",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        head(Content_Length="abc"),
        head(Content_Length="-1"),
        head(Content_Length="9" * 5_000),
        head(Content_Length="1") + b"x",
        head(Content_Length="5, 6"),
        head(Transfer_Encoding="gzip"),
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 20_000 + b"\r\n",
        head(kind="\xff\xfe; charset=\xff", Content_Encoding="\xff", Retry_After="\xff", Content_Length=2) + b"[]",
        head(kind="a" * 5_000, Content_Length=2) + b"[]",
        head(
            Set_Cookie="a=b; expires=Fri, 31 Dec 99999999999999 23:59:59 GMT; max-age=" + "9" * 5_000, Content_Length=2
        )
        + b"[]",
    ],
)
def test_nothing_that_a_server_sends_leaves_the_adapter(first):
    found = raw(first, effect="mutating")
    assert isinstance(found, ToolFinished | CallFailed)
    if isinstance(found, CallFailed):
        assert (found.cause, found.outcome) == (Cause.DROPPED_STREAM, Outcome.UNKNOWN)
    assert "Traceback" not in str(found)
    assert "the tool failed" not in str(found)


def test_a_slow_trickle_ends_at_the_deadline_and_was_done():
    looked = act(trickle(), within_s=0.4)
    assert looked.cause is Cause.TIMEOUT
    done = act(trickle(), within_s=0.4, effect="mutating")
    assert "did not finish within 0.4 seconds" in done.error
    assert (done.outcome, done.error.endswith(DONE)) == (Outcome.ANSWERED, True)


def test_no_answer_at_all_leaves_open_whether_it_was_done():
    for given in (hang_up(), refusal(500)):
        assert act(given, effect="mutating").outcome is Outcome.UNKNOWN
    assert act(drop(), effect="mutating").outcome is Outcome.ANSWERED


@pytest.mark.parametrize(("status", "cause"), [(429, Cause.RATE_LIMIT), (503, Cause.SERVER_ERROR)])
def test_a_wait_out_of_range_is_passed_over(status, cause):
    for wait in ("Fri, 31 Dec 99999999999999 23:59:59 GMT", "9" * 4_000, "-5", "soon"):
        found = act(refusal(status, headers={"Retry-After": wait}))
        assert (found.cause, found.retry_after_s) == (cause, None)


@pytest.mark.parametrize("status", [429, 503])
def test_a_status_counts_where_its_body_cannot_be_read(status):
    found = act(step(b"no gzip", status=status, Content_Encoding="gzip", Retry_After="3"))
    assert (found.status, found.retry_after_s) == (status, 3.0)
    assert act(step(b"x" * 2_000_000, status=status, Retry_After="3")).retry_after_s == 3.0
