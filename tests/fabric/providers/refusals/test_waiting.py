from datetime import UTC, datetime

import httpx2
import pytest

from fabric.http.transport import RETRY_AFTER_MAX_S
from fabric.providers.refusals.bodies import BACK_MAX_S, back_in_words, duration_s, find_return, wait_s

NOW = 1_795_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("17s", 17.0), ("6m0s", 360.0), ("20ms", 0.02), ("1h2m3.5s", 3723.5), ("0s", 0.0)]
    + [(text, None) for text in ("", "17", "s", "-1s", "1 s", "soon", "1s later", "9" * 400 + "s")],
)
def test_durations_as_endpoints_write_them(text, seconds):
    assert duration_s(text) == seconds


def openai(remaining, reset, of="requests"):
    return {f"x-ratelimit-remaining-{of}": remaining, f"x-ratelimit-reset-{of}": reset}


@pytest.mark.parametrize(
    ("headers", "said", "limited", "seconds"),
    [
        ({"Retry-After": "7"}, {"retry_delay": "17s"}, True, 7.0),
        ({}, {"retry_delay": "17s"}, False, 17.0),
        ({}, {"retry_delay": "99999h"}, False, RETRY_AFTER_MAX_S),
        (openai("0", "1s"), {}, True, 1.0),
        (openai("0", "1s"), {}, False, None),
        (openai("1", "1s"), {}, True, None),
        (openai("0", "1s") | openai("0", "6m0s", "tokens"), {}, True, 360.0),
        (openai("0", "soon"), {}, True, None),
        (openai("0", "99999h"), {}, True, RETRY_AFTER_MAX_S),
        ({"x-ratelimit-remaining-requests": "0"}, {}, True, None),
    ],
)
def test_retry_after_then_the_error_s_own_word_then_a_limit_that_is_used_up(headers, said, limited, seconds):
    assert wait_s(httpx2.Headers(headers), said, NOW, limited=limited) == seconds


def test_an_instant_is_counted_from_now_and_never_below_nothing():
    for reset, seconds in (("2026-11-18T11:06:50Z", 10.0), ("2026-11-18T11:06:30Z", 0.0)):
        headers = {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": reset}
        assert wait_s(httpx2.Headers(headers), {}, NOW, limited=True) == seconds


NOON = datetime(2026, 11, 28, 12, 0, tzinfo=UTC).timestamp()
HOUR = 3_600.0


@pytest.mark.parametrize(
    ("message", "seconds", "zoned"),
    [
        ("5-hour quota has been exhausted. It will reset at 2026-11-28 18:00", 6 * HOUR, False),
        ("will reset at 2026-11-28 18:00:00 UTC", 6 * HOUR, True),
        ("reset at 2026-11-28T20:00:00+08:00", None, True),
        ("reset at 2026-11-28T21:00:00.5+08:00", HOUR, True),
        ("You will regain access on 2026-12-01 at 00:00 UTC.", 60 * HOUR, True),
        ("available again on 2026-11-29", 12 * HOUR, False),
        ("try again at Nov 28th, 2026 2:03 PM.", 2 * HOUR + 180, False),
        ("try again at November 28, 2026, 14:00 GMT", 2 * HOUR, True),
        ("usage limit reached|1795870800", HOUR, True),
        ("Please try again in 7m12s.", 432.0, True),
        ("Please try again in 1.5s", 1.5, True),
        ("try again in 20ms", 0.02, True),
        ("Please retry after 26 seconds.", 26.0, True),
        ("Your quota will reset after 17h39m4s.", 63_544.0, True),
        ("Please wait 2 hours, 5 minutes before", 7_500.0, True),
        ("wait at least 1 hour and 3 minutes", 3_780.0, True),
        ("resets in 3 days", 72 * HOUR, True),
        ("Limit 5 requests per 10 s", None, True),
        ("retry your request 3 times", None, True),
        ("the API version 2024-02-01 is over; retry after 3 seconds", 3.0, True),
        ("reset at 9999-12-31 00:00", None, True),
        ("reset at 2026-13-45 99:99", None, True),
        (f"try again in {'9' * 400}s", None, True),
        ("reset 99999999999999999999", None, True),
        ("", None, True),
    ],
)
def test_what_an_error_says_in_words(message, seconds, zoned):
    found = back_in_words({"message": message}, NOON)
    assert (found and found.in_s) == (None if seconds is None else pytest.approx(seconds, abs=1))
    assert found is None or found.zoned is zoned


@pytest.mark.parametrize(
    ("headers", "said", "seconds"),
    [
        ({"Retry-After": "3"}, {"message": "resets at 2026-11-28 18:00 UTC"}, 6 * HOUR),
        ({"Retry-After": "3"}, {"resets_at": "2026-11-28T13:00:00Z"}, HOUR),
        ({"Retry-After": "3"}, {"resets_at": str(int(NOON) + 60)}, 60.0),
        ({"Retry-After": "3"}, {"resets_at": f"{int(NOON) + 60}000"}, 60.0),
        ({"Retry-After": "3"}, {"retry_delay": "90s"}, 90.0),
        ({"Retry-After": "3"} | openai("0", "6m0s"), {}, 360.0),
        ({"Retry-After": "3", "x-ratelimit-reset": str(int(NOON) + 7)}, {}, 7.0),
        ({"Retry-After": "3"}, {}, 3.0),
        ({"Retry-After": "0"}, {}, None),
        ({"Retry-After": "3"}, {"resets_at": str(NOON + BACK_MAX_S + 1)}, 3.0),
        ({"Retry-After": "3"}, {"retry_delay": "99999h"}, 3.0),
        ({}, {"resets_at": "nan", "retry_delay": "inf"}, None),
    ],
)
def test_when_what_is_used_up_is_back(headers, said, seconds):
    found = find_return(httpx2.Headers(headers), said, NOON)
    assert (found and found.in_s) == seconds


def test_the_first_wait_that_is_one_is_taken():
    assert (
        wait_s(httpx2.Headers({"Retry-After": "0"}), {"message": "try again in 20 seconds"}, NOON, limited=True) == 20
    )
    assert wait_s(httpx2.Headers({"Retry-After": "0"}), {}, NOON, limited=True) == 0
    assert wait_s(httpx2.Headers({"Retry-After": "2"}), {"message": "try again in 20 seconds"}, NOON, limited=True) == 2
