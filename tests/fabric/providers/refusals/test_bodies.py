"""The bodies of refusals, form by form."""

import json
import time

import httpx2
import pytest

from fabric.core.values.taxonomy import Cause
from fabric.providers.refusals.bodies import build_error, find_return, is_page, page_title
from fabric.providers.refusals.causes import find_cause
from fabric.providers.refusals.errors import advice_on

LITELLM = (
    'litellm.RateLimitError: AnthropicException - {"type":"error","error":{"type":"rate_limit_error","message":"Slow"}}'
)
PYTHON = "Error code: 429 - {'error': {'message': 'Used up', 'code': 'insufficient_quota'}}"
BYTES = 'litellm.APIError: VertexAIException - b\'{\\n "error": {"code": 503, "message": "Busy"}}\''
ROWS = [
    ({"error": {"code": "c", "type": "t", "message": "m", "param": "p"}}, {"code": "c", "type": "t", "message": "m", "param": "p"}),
    ({"type": "error", "error": {"type": "t", "message": "m"}}, {"type": "t", "message": "m"}),
    ([{"error": {"code": 429, "status": "S", "message": "m"}}], {"code": "429", "status": "S", "message": "m"}),
    ({"error": "words"}, {"type": "words", "message": "words"}),
    ({"error": "invalid_token", "error_description": "It is old"}, {"type": "invalid_token", "message": "It is old"}),
    ({"error": "Busy", "error_type": "overloaded"}, {"type": "Busy", "message": "Busy"}),
    ({"status": 404, "error": "Not Found", "message": "m"}, {"status": "404", "type": "Not Found", "message": "m"}),
    ({"errors": [{"code": 7, "message": "first"}, {"message": "second"}]}, {"code": "7", "message": "first"}),
    ({"errors": ["first"]}, {"message": "first"}),
    ({"message": "m", "code": 3}, {"code": "3", "message": "m"}),
    ({"msg": "m", "code": 1113, "success": False}, {"code": "1113", "message": "m"}),
    ({"detail": "m"}, {"message": "m"}),
    (
        {"detail": [{"loc": ["body", "stop"], "msg": "Extra", "type": "x"}, {"loc": ["query"], "msg": "No"}]},
        {"message": "body.stop: Extra; query: No", "param": "stop"},
    ),
    ({"message": {"detail": [{"loc": ["body", "n"], "msg": "Bad"}]}, "type": "t"}, {"type": "t", "message": "body.n: Bad", "param": "n"}),
    ({"error": {"error": {"code": "c", "message": "m"}}}, {"code": "c", "message": "m"}),
    ({"error": {"code": {"code": "c"}, "message": "m"}}, {"code": "c", "message": "m"}),
    (
        {"error": {"code": "a", "message": "m", "innererror": {"code": "b", "innererror": {"code": "c"}}}},
        {"code": "a", "inner_code": "c", "message": "m"},
    ),
    ({"__type": "com.amazon.coral#ThrottlingException", "message": "m"}, {"type": "ThrottlingException", "message": "m"}),
    ({"statusCode": 401, "message": "m"}, {"code": "401", "message": "m"}),
    ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, {"message": "insufficient balance"}),
    ({"error": {"message": LITELLM, "code": "429"}}, {"code": "429", "exceptions": "RateLimitError", "wrapped_type": "rate_limit_error", "message": "Slow"}),
    ({"error": {"message": PYTHON}}, {"wrapped_code": "insufficient_quota", "message": "Used up"}),
    ({"error": {"message": BYTES}}, {"exceptions": "APIError", "wrapped_code": "503", "message": "Busy"}),
    (
        {"error": {"code": 502, "message": "m", "metadata": {"raw": '{"error":{"code":"overloaded","message":"n"}}'}}},
        {"code": "502", "wrapped_code": "overloaded", "message": "n"},
    ),
    (
        {"error": {"message": "m", "metadata": {"headers": {"X-RateLimit-Reset": "1741305600000"}}}},
        {"message": "m", "resets_at": "1741305600000"},
    ),
    ({"error": {"message": "m", "retry_after": 1.5}}, {"message": "m", "retry_delay": "1.5s"}),
    ({"error": {"message": "m"}, "retry_after_ms": 20}, {"message": "m", "retry_delay": "20ms"}),
    ({"error": {"message": 'the arguments {"type": "timeout"} are wrong'}}, {"message": 'the arguments {"type": "timeout"} are wrong'}),
    ({"error": None}, {}),
    ({"error": {}}, {}),
    ([], {}),
    (None, {}),
    (7, {}),
    ("words", {"message": "words"}),
    ({"error": [["x"]]}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("body", "said"), ROWS)
def test_each_form_is_read(body, said):
    assert build_error(json.dumps(body).encode()) == said
    assert build_error(b"\xef\xbb\xbf" + json.dumps(body).encode()) == said, "a byte order mark changes nothing"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", {}),
        (b"  \n", {}),
        (b"<html><title>502 Bad Gateway</title>", {}),
        (b"Too Many Requests", {"message": "Too Many Requests"}),
        (b'{"error": {"message": "cut off', {}),
        (b"[" * 100_000, {}),
        (b'{"error": ' * 50_000, {}),
        (b'{"error": {"code": ' + b"9" * 5_000 + b"}}", {}),
        (b'{"error": {"code": NaN, "message": "m"}}', {"code": "nan", "message": "m"}),
        (b"\xff\xfe\x00", {"message": "\ufffd\ufffd\x00"}),
        ("{'error': 'x'}".encode("utf-16"), None),
    ],
)
def test_what_is_no_json_never_raises(body, said):
    assert said is None or build_error(body) == said
    build_error(body)


def test_aws_names_its_exception_in_a_header():
    headers = httpx2.Headers({"x-amzn-ErrorType": "ThrottlingException:http://internal.amazon.com/coral#x"})
    assert build_error(b'{"message": "m"}', headers) == {"exceptions": "ThrottlingException", "message": "m"}
    assert build_error(b"", headers) == {"exceptions": "ThrottlingException"}


def test_a_page_is_known_by_its_first_sign_and_named_by_its_title():
    page = b"\xef\xbb\xbf\r\n<!DOCTYPE html><TITLE>\n Attention Required! </TITLE>"
    assert is_page(page)
    assert page_title(page) == "Attention Required!"
    assert (page_title(b"<html>"), is_page(b"1 < 2"), is_page(b"")) == ("", False, False)


@pytest.mark.parametrize(
    "text", ["<title" * 20_000, "9" * 20_000, "max_tokens " * 2_000, "again 1s" * 3_000, "{'a':" * 4_000, "{" * 9_000]
)
def test_a_text_made_to_take_long_is_read_at_once(text):
    body, began = json.dumps({"error": {"message": text}}).encode(), time.process_time()
    for raw in (body, text.encode(), b"<" + text.encode()):
        said = build_error(raw)
        page_title(raw)
        find_return(httpx2.Headers(), said, 1e9)
        assert find_cause(429, said) in (Cause.RATE_LIMIT, Cause.QUOTA)
        advice_on(said, ())
    assert time.process_time() - began < 3
