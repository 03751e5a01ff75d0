"""The tables from status, code and wording to a cause."""

import pytest

from fabric.core.values.taxonomy import CLASSIFY, Cause
from fabric.providers.refusals.causes import (
    CODES,
    NAMED,
    QUOTA_S,
    STATUS,
    STATUS_NAMES,
    UNCLEAR,
    WORDS_IN_200,
    clear_status,
    find_cause,
    plain,
    status_in_200,
)
from fabric.providers.refusals.errors import SENTENCES, STATUS_SENTENCES

CLEAR = sorted(set(STATUS) - UNCLEAR)
GENERIC = sorted(name for names in STATUS_NAMES.values() for name in names.split())


@pytest.mark.parametrize("status", CLEAR)
def test_no_generic_code_beats_a_clear_status(status):
    for name in GENERIC:
        for field in ("code", "type", "status", "exceptions"):
            assert find_cause(status, {field: name}) is STATUS[status], (name, field)


@pytest.mark.parametrize("status", [401, 402, 403, 404, 408, 413, 429, 529])
def test_the_statuses_that_say_enough_are_clear(status):
    assert status in CLEAR


def test_a_particular_code_beats_every_status():
    for code, cause in CODES.items():
        assert {find_cause(status, {"code": code}) for status in range(300, 600)} == {cause}, code


def test_every_status_has_a_cause_and_the_cause_a_sentence():
    for status in range(300, 600):
        cause = find_cause(status, {})
        assert cause in SENTENCES, status
        assert cause is not Cause.UNKNOWN, status


def test_no_code_stands_twice_and_every_named_status_has_its_row():
    assert not set(CODES) & set(NAMED)
    assert len(NAMED) == len({plain(name) for name in GENERIC}) == len(GENERIC)
    assert set(STATUS_NAMES) <= set(STATUS)
    assert {status for _, status in WORDS_IN_200} <= set(STATUS)
    assert {*CODES.values(), *STATUS.values()} <= set(SENTENCES)
    assert {status for status in STATUS_SENTENCES if status >= 400} <= set(STATUS)


@pytest.mark.parametrize(
    ("status", "name", "cause"),
    [
        (500, "rate_limit_error", Cause.RATE_LIMIT),
        (400, "AuthenticationError", Cause.AUTH),
        (502, "timeout_error", Cause.TIMEOUT),
        (400, "server_error", Cause.BAD_REQUEST),
        (500, "invalid_request_error", Cause.SERVER_ERROR),
        (503, "internal_error", Cause.SERVER_ERROR),
        (422, "api_error", Cause.BAD_REQUEST),
        (500, "429", Cause.RATE_LIMIT),
        (400, "999", Cause.BAD_REQUEST),
    ],
)
def test_a_status_that_says_little_gives_way_to_the_name_of_a_clear_one(status, name, cause):
    assert find_cause(status, {"type": name}) is cause


@pytest.mark.parametrize("status", sorted(STATUS_NAMES))
def test_inside_a_200_each_generic_code_is_its_status(status):
    for name in STATUS_NAMES[status].split():
        assert status_in_200({"type": name}) == status
        assert clear_status(200, {"exceptions": f"unheard_of {name}"}) == status


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Rate limit exceeded: try later", 429),
        ("The engine is currently overloaded", 503),
        ("insufficient credits", 402),
        ("maximum context length is 4096", 400),
        ("Internal Server Error", 500),
        ("the moderate limiter", 200),
        ("", 200),
    ],
)
def test_inside_a_200_the_words_decide_where_there_is_no_code(message, status):
    assert status_in_200({"message": message}) == status


HOUR, WEEK = 3_600.0, 604_800.0


@pytest.mark.parametrize(
    ("message", "back_s", "cause"),
    [
        ("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 7m12s.", 432.0, "rate_limit"),
        ("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 5h3m.", 18_180.0, "quota"),
        ("Rate limit reached on tokens per day (TPD): Limit 100000.", None, "quota"),
        ("You have exceeded the 5-hour usage quota.", None, "quota"),
        ("Your 5-hour quota has been exhausted.", 6 * HOUR, "quota"),
        ("Monthly limit of your plan reached", None, "quota"),
        ("You are limited to 1000 API calls / month", None, "quota"),
        ("您已达到每周使用上限", None, "quota"),
        ("Rate limit reached", HOUR - 1, "rate_limit"),
        ("Rate limit reached", QUOTA_S, "quota"),
        ("Rate limit reached for requests per min", None, "rate_limit"),
        ("slow down", WEEK, "rate_limit"),
        ("", WEEK, "rate_limit"),
        ("", None, "rate_limit"),
        ("A holiday makes the limit of requests per 10 s lower", None, "rate_limit"),
    ],
)
def test_a_limit_that_is_back_in_hours_is_a_quota_and_a_short_wait_stays_a_rate_limit(message, back_s, cause):
    assert find_cause(429, {"message": message, "code": "rate_limit_exceeded"}, back_s) == cause
    assert find_cause(429, {"message": message, "type": "server_error"}, back_s) == cause


def test_a_quota_is_not_retried():
    assert not CLASSIFY[Cause.QUOTA].retried


@pytest.mark.parametrize("status", [413, 429])
def test_one_request_above_the_limit_of_a_minute_never_passes(status):
    message = "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 7000"
    assert find_cause(status, {"code": "rate_limit_exceeded", "message": message}) is Cause.CONTEXT_LENGTH
