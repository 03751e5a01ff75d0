"""Errors: every one is a problem document, and what is hostile is refused quickly."""

from __future__ import annotations

import json
import time

import pytest
from django.db import OperationalError

from console.api.fabrics import files as fabrics
from console.api.middleware import DEPTH_MAX, TOKENS_MAX, read_json
from console.site.errors.pages import STATUS
from console.site.errors.problems import KINDS, Problem, request_id, write_line
from console.site.requests.body_limit import API_BODY_MAX, API_START_MAX

RUNS = "/api/v1/runs"
JSON = "application/json"
ASKED = b'{"fabric": "small", "text": "Why?"'


def nested(depth):
    return b"[" * depth + b"]" * depth


HOSTILE = {
    "deep lists": nested(DEPTH_MAX + 1),
    "very deep lists": nested(400_000),
    "deep objects": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "deep and never closed": b"[" * 900_000,
    "many values": b"[" + b"1," * 400_000 + b"1]",
    "many empty strings": b"[" + b'"",' * 300_000 + b'""]',
    "a name twice": ASKED + b', "text": "Whether?"}',
    "a name twice further in": ASKED + b', "documents": [{"name": "a", "name": "b", "text": "c"}]}',
    "a name written in two ways": ASKED + b', "te\\u0078t": "Whether?"}',
    "NaN": ASKED + b', "priority": NaN}',
    "infinity": ASKED + b', "priority": -Infinity}',
    "a huge float": ASKED + b', "priority": 1e999}',
    "a huge integer": ASKED + b', "priority": ' + b"9" * 500_000 + b"}",
    "an integer over 64 bits": ASKED + b', "priority": 9223372036854775808}',
    "a negative one": ASKED + b', "priority": -9223372036854775809}',
    "half a character": ASKED + b', "session_key": "\\ud800"}',
    "the other half": ASKED + b', "session_key": "x\\udfffy"}',
    "half a character in a name": ASKED + b', "\\ud800": 1}',
    "not UTF-8": b'{"fabric": "\xff\xfe"}',
    "UTF-16": '{"fabric": "small"}'.encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf{}",
    "no JSON": b"fabric=small",
    "two values": b"{} {}",
    "a string that does not end": b'"' + b"x" * 900_000,
    "backslashes": b'"' + b"\\" * 900_001,
    "a trailing comma": ASKED + b",}",
    "a control character": b'{"fabric": "a\nb"}',
    "single quotes": b"{'fabric': 'small'}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_body_that_is_not_read_alike_by_all(program, small, what):
    began = time.process_time()
    answer = program.post(RUNS, raw=HOSTILE[what])
    assert time.process_time() - began < 1
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("#problem-unreadable")


LARGEST = {
    "brackets": b"[" * API_START_MAX,
    "backslashes": b'"' + b"\\\\" * (API_START_MAX // 2),
    "empty strings": b'["' + b'","' * (API_START_MAX // 3),
    "digits": b"9" * API_START_MAX,
    "a string": b'"' + b"x" * API_START_MAX,
    "strings": b'"x' * (API_START_MAX // 2),
    "spaces": b" " * API_START_MAX,
}


@pytest.mark.parametrize("what", LARGEST)
def test_the_largest_bodies_are_refused_in_under_a_second(what):
    began = time.process_time()
    with pytest.raises(Problem):
        read_json(LARGEST[what], JSON)
    assert time.process_time() - began < 1


def test_what_is_just_allowed():
    assert read_json(nested(DEPTH_MAX), JSON)
    assert len(read_json(b"[" + b"1," * (TOKENS_MAX // 2 - 2) + b"1]", JSON)) == TOKENS_MAX // 2 - 1
    assert read_json(b"[9223372036854775807, -9223372036854775808, 1.5e300, -0, null]", JSON)
    assert read_json(b'"\\ud83d\\ude00 [[[[ \\" \\\\"', JSON) == '\U0001f600 [[[[ " \\'


@pytest.mark.parametrize(
    "announced", [JSON, "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"']
)
def test_json_may_be_announced_as(announced):
    assert read_json(b"{}", announced) == {}


@pytest.mark.parametrize(
    "announced",
    [
        *(
            "text/plain",
            "",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "application/jsonp",
        ),
        *("application/json; charset=utf-16", "application/json; version=2", "text/json", "application/problem+json"),
    ],
)
def test_anything_else_is_415(program, small, announced):
    answer = program.post(RUNS, raw=ASKED + b"}", content_type=announced)
    assert answer.status_code == 415


def test_a_body_over_a_megabyte(program):
    answer = program.post("/api/v1/reviews/x/decision", raw=b" " * (API_BODY_MAX + 1))
    assert answer.status_code == 413
    assert "1 MB" in answer.json()["detail"]


def test_a_start_may_be_larger_but_not_without_end(program, small):
    assert program.post(RUNS, raw=b" " * (API_BODY_MAX + 1)).status_code == 400
    answer = program.post(RUNS, raw=b" " * (API_START_MAX + 1))
    assert answer.status_code == 413
    assert "25 MB" in answer.json()["detail"]


@pytest.mark.parametrize(
    "path", ["/api/v1/nowhere", "/api/v1/runs/", "/api/v2/runs", "/api/v1/", "/api/x", "/api/v1/runs/x/y/z"]
)
def test_an_unknown_address(program, path):
    assert program.get(path).status_code == 404
    assert program.post(path, {}).status_code == 404


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"])
def test_another_method(program, method):
    answer = program.client.generic(method, RUNS, headers=program.headers)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, POST"


def test_a_failure_tells_its_id_and_nothing_else(program, monkeypatch, caplog):
    def breaks(actor):
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(fabrics, "fabrics_list", breaks)
    answer = program.get("/api/v1/fabrics", headers={"X-Request-Id": "abc-1234.5"})
    assert answer.status_code == 500
    assert answer.json()["request_id"] == "abc-1234.5"
    assert "42" not in answer.content.decode()
    assert "abc-1234.5" in caplog.text
    assert "the secret is 42" in caplog.text


def test_a_database_that_is_away(program, monkeypatch):
    def away(actor):
        raise OperationalError("connection refused")

    monkeypatch.setattr(fabrics, "fabrics_list", away)
    answer = program.get("/api/v1/fabrics")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]


def test_what_django_refuses_is_told_in_the_same_way(program):
    program.client.defaults["HTTP_HOST"] = "elsewhere.example"
    assert program.get("/api/v1/fabrics").status_code == 400


def test_a_failure_before_the_operation_is_told_in_the_same_way(program, monkeypatch):
    def breaks(request, route):
        raise RuntimeError("before anything")

    monkeypatch.setattr("console.site.access.callers.admit", breaks)
    assert program.get("/api/v1/fabrics").status_code == 500


def test_the_pages_keep_their_own_errors(browser):
    assert browser.get("/nowhere").headers["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("given", [None, "", "short", "x" * 65, "with space in it", "line\nbreak-12", "<script>-12345"])
def test_an_id_that_is_not_fit_for_a_log_is_replaced(given):
    made = request_id(given)
    assert made != given
    assert len(made) == 16


def test_every_status_of_a_refusal_is_known():
    assert set(STATUS.values()) <= set(KINDS)


def test_every_kind_is_told_in_whole_sentences():
    assert all(kind.otherwise == write_line(kind.otherwise) for kind in KINDS.values())
    assert len({kind.slug for kind in KINDS.values()}) == len(KINDS)


def test_a_body_in_a_request_that_has_none_is_ignored(program):
    answer = program.call("GET", RUNS, data=b"[[[", content_type="text/plain")
    assert json.loads(answer.content)["runs"] == []
