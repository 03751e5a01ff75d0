import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from fabric.core.values.taxonomy import Cause
from fabric.http.transport import RETRY_AFTER_MAX_S, retry_after_s
from fabric.providers.openai_compatible import Endpoint, OpenAICompatible
from fabric.providers.refusals.causes import CODES, STATUS, find_cause
from fabric.providers.refusals.errors import SENTENCES
from simulator.endpoint import ScriptedEndpoint, Step, answer, bad_json, empty, html, refusal
from tests.fabric.providers.asking import KEY, request

ROWS = [
    (refusal(401, "no"), Cause.AUTH),
    (refusal(403, "no"), Cause.AUTH),
    (refusal(404, "The model `small` does not exist"), Cause.UNKNOWN_MODEL),
    (refusal(404, "no", code="model_not_found"), Cause.UNKNOWN_MODEL),
    (refusal(404, "Not Found"), Cause.BAD_CONFIGURATION),
    (html(404), Cause.BAD_CONFIGURATION),
    (refusal(405, "no"), Cause.BAD_CONFIGURATION),
    (refusal(400, "no"), Cause.BAD_REQUEST),
    (refusal(422, "no"), Cause.BAD_REQUEST),
    (refusal(418, "no"), Cause.BAD_REQUEST),
    (refusal(400, "no", code="context_length_exceeded"), Cause.CONTEXT_LENGTH),
    (refusal(400, "This model's maximum context length is 2048 tokens"), Cause.CONTEXT_LENGTH),
    (refusal(413, "no"), Cause.CONTEXT_LENGTH),
    (refusal(500, "Requested tokens exceed context window of 2048"), Cause.CONTEXT_LENGTH),
    (refusal(402, "no"), Cause.QUOTA),
    (refusal(429, "no", code="insufficient_quota"), Cause.QUOTA),
    (refusal(429, "You exceeded your current quota"), Cause.QUOTA),
    (refusal(429, "no"), Cause.RATE_LIMIT),
    (refusal(408, "no"), Cause.TIMEOUT),
    (refusal(400, "no", code="content_filter"), Cause.CONTENT_FILTER),
    (refusal(500, "expected 429 rows"), Cause.SERVER_ERROR),
    (refusal(502, ""), Cause.SERVER_ERROR),
    (html(503), Cause.SERVER_ERROR),
    (refusal(529, "no", kind="overloaded_error"), Cause.SERVER_ERROR),
    (refusal(301), Cause.BAD_CONFIGURATION),
    (html(), Cause.MALFORMED_ANSWER),
    (empty(), Cause.MALFORMED_ANSWER),
    (bad_json(), Cause.MALFORMED_ANSWER),
    (Step(body=b"[]"), Cause.MALFORMED_ANSWER),
    (Step(body=b'{"choices": []}'), Cause.MALFORMED_ANSWER),
    (Step(body=b'{"choices": [7]}'), Cause.MALFORMED_ANSWER),
    (Step(body=b'{"choices": [{}]}'), Cause.MALFORMED_ANSWER),
    (Step(body=b"[" * 100_000), Cause.MALFORMED_ANSWER),
    (Step(body=b'{"error": {"code": 429, "message": "slow down"}}'), Cause.RATE_LIMIT),
    (Step(body=b'{"error": {"message": "oops"}}'), Cause.MALFORMED_ANSWER),
]


@pytest.fixture(scope="module")
def results():
    """Every row over real HTTP, through one client, in order."""

    async def go(provider):
        found = [await asyncio.wait_for(provider.ask(request()), 60) for _ in ROWS]
        await provider.aclose()
        return found

    with ScriptedEndpoint([step for step, _ in ROWS]) as endpoint:
        found = asyncio.run(go(OpenAICompatible(Endpoint(endpoint.url, "small", KEY))))
        return endpoint, found


@pytest.mark.parametrize(
    "number", range(len(ROWS)), ids=[f"{n}-{step.status}-{cause}" for n, (step, cause) in enumerate(ROWS)]
)
def test_each_refusal_has_its_cause(results, number):
    result = results[1][number]
    step, cause = ROWS[number]
    assert result.cause is cause, result
    assert endpoint_named(results[0], result.message)
    assert "\n" not in result.message
    assert result.raw == step.body.decode()[: 200 if cause is Cause.MALFORMED_ANSWER else 2_000]


def endpoint_named(endpoint, message):
    return endpoint.url in message


def test_there_was_one_request_for_each(results):
    assert len(results[0].received) == len(ROWS)


def test_the_endpoint_s_own_words_are_told(results):
    assert "It says: expected 429 rows" in results[1][20].message


def test_only_an_attempt_that_may_have_cost_is_billed(results):
    billed = {result.cause for result in results[1] if result.billed}
    assert billed == {Cause.TIMEOUT, Cause.MALFORMED_ANSWER}


def test_a_page_says_where_the_url_may_be_wrong(results):
    assert "a web page instead of JSON; the URL usually ends in /v1" in results[1][25].message


def test_every_cause_of_the_tables_has_a_sentence():
    assert {*CODES.values(), *STATUS.values()} <= set(SENTENCES)


@pytest.mark.parametrize(
    ("status", "said", "cause"),
    [
        (500, {"code": "rate_limit_exceeded"}, Cause.RATE_LIMIT),
        (400, {"code": "unheard_of", "type": "insufficient_quota"}, Cause.QUOTA),
        (400, {"message": "discontext lengthy"}, Cause.BAD_REQUEST),
        (404, {"message": "remodelled page"}, Cause.BAD_CONFIGURATION),
        (200, {"message": "context length"}, Cause.UNKNOWN),
        (599, {}, Cause.SERVER_ERROR),
    ],
)
def test_code_comes_first_then_whole_words_then_status(status, said, cause):
    assert find_cause(status, said) is cause


NOW = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0"}, 0.0),
        ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"Retry-After": format_datetime(NOW - timedelta(seconds=30), usegmt=True)}, 0.0),
        (
            {
                "Retry-After": format_datetime(NOW + timedelta(seconds=90), usegmt=True),
                "Date": format_datetime(NOW + timedelta(seconds=80), usegmt=True),
            },
            10.0,
        ),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-3"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "999999999"}, RETRY_AFTER_MAX_S),
        ({}, None),
    ],
)
def test_retry_after_in_every_spelling(headers, seconds):
    assert retry_after_s(httpx2.Headers(headers), NOW.timestamp()) == seconds


def test_retry_after_reaches_the_engine():
    async def go(provider):
        found = await provider.ask(request())
        await provider.aclose()
        return found

    with ScriptedEndpoint([refusal(429, "slow", headers={"Retry-After": "7"}), answer("second")]) as endpoint:
        result = asyncio.run(go(OpenAICompatible(Endpoint(endpoint.url, "small", KEY))))
        assert (result.cause, result.status, result.retry_after_s) == (Cause.RATE_LIMIT, 429, 7.0)
        assert len(endpoint.received) == 1
