import httpx2
import pytest

from fabric.adapters.providers.waiting import duration_s, wait_s
from fabric.adapters.tools.outbound import RETRY_AFTER_MAX_S

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
