"""Refusals as real endpoints, gateways and proxies write them, over real HTTP through each provider's adapter: at once, inside a 200, and inside a stream."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

import pytest

from fabric.core.values.taxonomy import Cause
from fabric.providers.exchange.wire import ANSWER_BYTES_MAX, STREAM_TYPE
from simulator.endpoint import ScriptedEndpoint, Step
from tests.fabric.providers.asking import KEY, TOOL, request
from tests.fabric.providers.wires import ALL, OPENAI, STREAMED, event

NOW = int(time.time())
LATER = (NOW // 60 + 5 * 60) * 60
"""An instant of a whole minute, five hours from now."""


def at(form: str) -> str:
    return datetime.fromtimestamp(LATER, UTC).strftime(form)


BACK = f"it is back at {at('%Y-%m-%d %H:%M')} UTC"
PAGE = b"<html><head><title>%s</title></head><body><h1>nginx</h1></body></html>"


@dataclass(frozen=True)
class Row:
    """A refusal, and what it has to become."""

    status: int
    body: Any
    cause: Cause
    words: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: tuple[float, float] | None = None
    """Between which two the told wait is; None: none is told."""
    billed: bool = False
    says: str = ""
    """By which the row is called."""

    @property
    def step(self) -> Step:
        raw = self.body if isinstance(self.body, bytes) else json.dumps(self.body, ensure_ascii=False).encode()
        kind = "text/html" if raw.startswith(b"<") else "application/json"
        return Step(status=self.status, body=raw, headers=self.headers, content_type=kind)


def generic(status: int, code: str, cause: Cause) -> Row:
    billed = status == 408
    return Row(status, {"error": {"message": "m", "type": code, "code": code}}, cause, billed=billed, says=code)


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


R, Q = Cause.RATE_LIMIT, Cause.QUOTA
GENERIC = [
    generic(status, code, cause)
    for status, cause in (
        (429, R),
        (401, Cause.AUTH),
        (402, Q),
        (403, Cause.AUTH),
        (404, Cause.BAD_CONFIGURATION),
        (408, Cause.TIMEOUT),
        (413, Cause.CONTEXT_LENGTH),
        (529, Cause.SERVER_ERROR),
    )
    for code in ("server_error", "api_error", "internal_error", "invalid_request_error", "overloaded_error")
]
PARTICULAR = [
    Row(429, error("m", code="insufficient_quota"), Q),
    Row(500, error("m", code="context_length_exceeded"), Cause.CONTEXT_LENGTH),
    Row(429, error("m", type="server_error", code="model_not_found"), Cause.UNKNOWN_MODEL),
    Row(403, error("m", code="content_filter", innererror={"code": "ResponsibleAIPolicyViolation"}), Cause.CONTENT_FILTER),
]  # fmt: skip
QUOTAS = [
    Row(429, error(f"Your 5-hour quota has been exhausted and will reset at {at('%Y-%m-%d %H:%M')}", code="1308"), Q, (BACK, "names no time zone"), wait_s=(10_000, 18_000), says="z.ai"),
    Row(429, error(f"The 5-hour quota has been exhausted. It will reset at {at('%Y-%m-%d %H:%M')} UTC"), Q, (BACK,), {"Retry-After": "3"}, wait_s=(10_000, 18_000), says="words"),
    Row(429, error(f"您已达到 5 小时的使用上限。您的限额将在 {at('%Y-%m-%d %H:%M:00')} 重置。", code="1308"), Q, (BACK,), wait_s=(10_000, 18_000), says="chinese"),
    Row(429, {"code": 1113, "msg": "余额不足或无可用资源包,请充值。"}, Q, says="1113"),
    Row(429, error("Your account is suspended, please check your plan", type="exceeded_current_quota_error"), Q, says="kimi"),
    Row(403, error("You've reached your usage limit for this billing cycle."), Q, says="kimi-cycle"),
    Row(400, {"code": "Arrearage", "message": "Access denied, account is not in good standing"}, Q, says="dashscope"),
    Row(403, {"code": "AllocationQuota.FreeTierOnly", "message": "The free tier is exhausted"}, Q, says="dashscope-free"),
    Row(400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"You have reached your specified API usage limits. You will regain access on {at('%Y-%m-%d at %H:%M')} UTC."}}, Q, (BACK,), wait_s=(10_000, 18_000), says="anthropic"),
    Row(429, {"type": "error", "error": {"type": "rate_limit_error", "message": f"Claude AI usage limit reached|{LATER}"}}, Q, (BACK,), wait_s=(10_000, 18_000), says="claude"),
    Row(402, error("This request requires more credits", code=402), Q, says="openrouter"),
    Row(429, error("Rate limit exceeded: free-models-per-day", code=429, metadata={"headers": {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{LATER}000"}}), Q, (BACK,), wait_s=(10_000, 18_000), says="openrouter-free"),
    Row(429, error("usage limit", type="usage_limit_reached", resets_at=LATER), Q, (BACK,), wait_s=(10_000, 18_000), says="codex"),
    Row(429, error("You exceeded your current quota, please check your plan"), Q, (BACK,), {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": at("%Y-%m-%dT%H:%M:00Z")}, wait_s=(10_000, 18_000), says="headers"),
    Row(429, error("Monthly limit reached"), Q, ("it is back no earlier than",), {"Retry-After": "604800"}, wait_s=(86_400, 86_400), says="week"),
    Row(429, error("Quota limit reached", code="rate_limit_exceeded"), Q, ("it is back at",), {"Retry-After": formatdate(LATER, usegmt=True), "Date": formatdate(NOW, usegmt=True)}, wait_s=(10_000, 18_060), says="http-date"),
]  # fmt: skip
LIMITS = [
    Row(429, error("Rate limit reached on tokens per day (TPD): Limit 100000. Please try again in 7m12s.", code="rate_limit_exceeded"), R, ("it may be asked again at",), wait_s=(432, 432), says="groq"),
    Row(429, error("Please try again in 1.5s."), R, ("it asks to wait 2 s",), wait_s=(1.5, 1.5), says="openai"),
    Row(429, error("Requests have exceeded token rate limit. Please retry after 26 seconds.", code="429"), R, ("asks to wait 26 s",), wait_s=(26, 26), says="azure"),
    Row(429, {"error": {"status": "RESOURCE_EXHAUSTED", "message": "m", "details": [{"@type": "x.RetryInfo", "retryDelay": "30s"}]}}, R, ("asks to wait 30 s",), wait_s=(30, 30), says="google"),
    Row(429, error("m"), R, (), {"Retry-After": "0"}, wait_s=(0, 0), says="zero"),
    Row(429, error("m"), R, (), {"retry-after-ms": "250"}, wait_s=(0.25, 0.25), says="ms"),
    Row(429, error("m"), R, (), {"Retry-After": "2.5"}, wait_s=(2.5, 2.5), says="decimals"),
    Row(429, error("m"), R, (), {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, wait_s=(360, 360), says="reset"),
    Row(429, error("m"), R, (), {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "12"}, wait_s=(12, 12), says="reset-number"),
    Row(429, b"error code: 1015", R, ("It says: error code: 1015",), says="cloudflare"),
    Row(429, b"", R, says="empty"),
    Row(429, PAGE % b"429 Too Many Requests", R, ("a web page came", "It says: 429 Too Many Requests"), says="page"),
    Row(429, error("请求过于频繁"), R, ("请求过于频繁",), says="chinese"),
    *(
        Row(429, error("m"), R, (), {name: value}, says=f"{name}-{value[:12]}")
        for name in ("Retry-After", "retry-after-ms", "x-ratelimit-reset", "anthropic-ratelimit-unified-reset")
        for value in ("Fri, 31 Dec 99999999999999 23:59:59 GMT", "9" * 4_000, "-5", "soon", "nan", "inf", "1e999", "")
    ),
    Row(429, error("try again in 99999999999999999999 hours. Reset at 99999-13-45 99:99"), R, says="nonsense"),
]  # fmt: skip
FORMS = [
    Row(400, {"__type": "com.amazon.coral#ThrottlingException", "message": "Too many"}, R, says="bedrock"),
    Row(400, {"message": "Too many"}, R, (), {"x-amzn-ErrorType": "ThrottlingException:http://x/"}, says="bedrock-header"),
    Row(500, error('litellm.ContextWindowExceededError: litellm.BadRequestError: x - {"error": {"message": "long"}}', code="500"), Cause.CONTEXT_LENGTH, ("It says: long",), says="litellm"),
    Row(429, error('litellm.RateLimitError: AnthropicException - {"type":"error","error":{"type":"rate_limit_error","message":"Slow"}}', type="None", code="429"), R, ("It says: Slow",), says="litellm-429"),
    Row(429, error('{"message": "Slow", "__type": "ThrottlingException"}', type="None", code="429"), R, ("It says: Slow",), says="litellm-bedrock"),
    Row(422, {"detail": [{"loc": ["body", "top_p"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]}, Cause.BAD_REQUEST, ("take `top_p` out",), says="fastapi"),
    Row(400, {"error": "registry.ollama.ai/library/gemma:2b does not support tools"}, Cause.BAD_REQUEST, ("`tool_calls: false`",), says="ollama"),
    Row(404, error("No endpoints found that support tool use.", code=404), Cause.BAD_REQUEST, ("`tool_calls: false`",), says="openrouter"),
    Row(400, error("Unsupported parameter: 'max_tokens' is not supported with this model.", code="unsupported_parameter", param="max_tokens"), Cause.BAD_REQUEST, ("`max_tokens_field: max_completion_tokens`",), says="max_tokens"),
    Row(500, error("tools param requires --jinja flag", code=500, type="server_error"), Cause.BAD_REQUEST, ("`tool_calls: false`",), says="llama.cpp"),
    Row(401, {"statusCode": 401, "message": "Access denied due to invalid subscription key"}, Cause.AUTH, says="azure"),
    Row(403, PAGE % b"Attention Required! | Cloudflare", Cause.AUTH, ("firewall", "Attention Required!"), says="firewall"),
    Row(407, PAGE % b"Proxy Authentication Required", Cause.BAD_CONFIGURATION, ("wants a sign-in of its own",), says="proxy"),
    *(Row(status, PAGE % b"Bad Gateway", Cause.SERVER_ERROR, ("a proxy in front of",) if status == 504 else ("a web page came",), billed=status == 504, says="page") for status in (502, 503, 504)),
    *(Row(status, b"", Cause.SERVER_ERROR, billed=status in (504, 524), says="empty") for status in (409, 425, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529)),
    *(Row(status, b"", Cause.TIMEOUT, ("gave up",), billed=True, says="gave up") for status in (408, 460, 499)),
    Row(403, b"", Cause.AUTH, ("refused the key",), says="empty"),
]  # fmt: skip
ROWS = [*GENERIC, *PARTICULAR, *QUOTAS, *LIMITS, *FORMS]


def ask_all(spoken: Any, steps: list[Step], **changed: Any) -> list[Any]:
    async def go(provider: Any) -> list[Any]:
        found = [await asyncio.wait_for(provider.ask(asked), 60) for _ in steps]
        await provider.aclose()
        return found

    asked = request(model=spoken.spec(**changed.pop("spec", {})), **changed)
    with ScriptedEndpoint(steps) as endpoint:
        found = asyncio.run(go(spoken.port(endpoint)))
        assert len(endpoint.received) == len(steps)
    return found


def wrong_in(row: Row, result: Any) -> str:
    """In what a result is not as its row wants it: empty if in nothing."""
    low, high = row.wait_s or (0, 0)
    found = {
        "cause": result.cause is row.cause,
        "status": result.status == row.status,
        "billed": result.billed is row.billed,
        "words": all(words in result.message for words in row.words),
        "wait": low <= (result.retry_after_s or 0) <= high,
    }
    return ", ".join(name for name, right in found.items() if not right)


@pytest.mark.parametrize("spoken", ALL, ids=lambda spoken: spoken.name)
def test_each_refusal_has_its_cause_its_words_its_wait_and_costs_nothing(spoken: Any) -> None:
    """Every row in one test, one request each: 137 rows a protocol are collected by each process that tests."""
    results = ask_all(spoken, [row.step for row in ROWS])
    assert [
        f"{row.status}-{row.cause}-{row.says}: wrong in its {wrong}: {result}"
        for row, result in zip(ROWS, results, strict=True)
        if (wrong := wrong_in(row, result))
    ] == []


INSIDE = [
    ({"error": {"message": "m", "code": 429}}, R),
    ({"error": {"message": "m", "type": "rate_limit_error"}}, R),
    ({"error": {"message": "m", "type": "server_error"}}, Cause.SERVER_ERROR),
    ({"error": {"message": "m", "type": "overloaded_error"}}, Cause.SERVER_ERROR),
    ({"error": {"message": "m", "type": "invalid_request_error"}}, Cause.BAD_REQUEST),
    ({"error": {"message": "m", "type": "authentication_error"}}, Cause.AUTH),
    ({"error": {"message": "m", "type": "server_error", "code": "insufficient_quota"}}, Q),
    ({"error": {"message": f"5-hour quota exhausted, will reset at {at('%Y-%m-%d %H:%M')} UTC", "code": "429"}}, Q),
    ({"error": {"message": "The engine is currently overloaded"}}, Cause.SERVER_ERROR),
    ({"error": "Rate limit exceeded"}, R),
    ({"error": {"message": "litellm.RateLimitError: slow"}}, R),
    ({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}, R),
]


@pytest.mark.parametrize(
    ("spoken", "streamed"),
    [*((one, False) for one in ALL), *((one, True) for one in STREAMED)],
    ids=lambda given: getattr(given, "name", given),
)
def test_an_error_inside_a_200_or_a_stream_is_what_it_says(spoken: Any, streamed: bool) -> None:
    if streamed:
        steps = [Step(content_type=STREAM_TYPE, pieces=(event(body),)) for body, _ in INSIDE]
        more = {"spec": {"options": {"stream": True}}, "tools": (TOOL,), "streamed": [].append}
    else:
        steps, more = [Step(body=json.dumps(body).encode()) for body, _ in INSIDE], {}
    found = ask_all(spoken, steps, **more)
    for (body, cause), result in zip(INSIDE, found, strict=True):
        assert (result.cause, result.billed) == (cause, False), (body, result.message)
        assert "HTTP 200 with an error in it" in result.message
    assert BACK in found[7].message


@pytest.mark.parametrize("before", range(270, 302, 3))
def test_no_part_of_the_key_is_told_however_the_words_are_cut(before: int) -> None:
    text = "m" * before + KEY + "m" * 5_000
    result, _ = OPENAI.ask(Step(status=401, body=f"{text}".encode(), mode="drop"))
    assert result.cause is Cause.AUTH
    assert KEY[:6] not in result.message
    assert KEY[:6] not in result.raw


LONG = b'{"error": {"message": "' + b"m" * 5_000 + b'"}}'
UNENDED: dict[str, dict[str, Any]] = {
    "reset": {"body": LONG, "mode": "drop"},
    "silent": {"body": LONG, "mode": "stall"},
    "trickling": {"body": b" ", "mode": "trickle"},
    "silent events": {"pieces": (b"data: {}\n\n",) * 4, "content_type": STREAM_TYPE, "mode": "stall"},
    "bad gzip": {"body": b"\x1f\x8bnone", "headers": {"Content-Encoding": "gzip"}},
    "unknown packing": {"body": LONG, "headers": {"Content-Encoding": "rot13"}},
    "too large": {"body": b" " * (ANSWER_BYTES_MAX + 1)},
}
"""How the body of a refusal may come, so that it cannot be read whole."""


@pytest.mark.parametrize("way", UNENDED)
@pytest.mark.parametrize("spoken", ALL, ids=lambda spoken: f"{spoken.name} {spoken.path}")
def test_a_refusal_whose_body_cannot_be_read_is_judged_by_its_status(spoken: Any, way: str) -> None:
    """Also where the deadline ends it: its cause, its cost and its wait are those of the same refusal with a body."""
    for status in (302, 401, 402, 408, 429, 500, 503, 504):
        told = {"Retry-After": "7"}
        whole, _ = spoken.ask(spoken.refusal(status, "m", headers=told))
        given = UNENDED[way]
        broken = Step(**{**given, "status": status, "headers": {**told, **given.get("headers", {})}})
        within_s = 0.3 if given.get("mode") in ("stall", "trickle") else 30.0
        result, received = spoken.ask(broken, within_s=within_s)
        assert (result.cause, result.status, result.billed) == (whole.cause, status, whole.billed), result.message
        assert (result.retry_after_s, result.partial, len(received)) == (whole.retry_after_s, False, 1)


def test_the_body_of_a_refusal_is_not_waited_for_to_the_deadline() -> None:
    begun = time.monotonic()
    result, _ = OPENAI.ask(Step(status=429, body=LONG, mode="stall", headers={"Retry-After": "7"}), within_s=30.0)
    assert (result.cause, result.retry_after_s, result.billed) == (Cause.RATE_LIMIT, 7.0, False)
    assert time.monotonic() - begun < 10
