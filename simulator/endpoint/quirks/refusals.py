"""The endpoint refuses: by status, with each provider's limits and quotas, and with waits that no client can read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fabric.core.values.units import JSON
from simulator.endpoint.behaviour.definition import Behaviour, Saying
from simulator.endpoint.behaviour.misbehaviour import always
from simulator.endpoint.wire import steps
from simulator.endpoint.wire.steps import Step

STATUSES: Mapping[int, tuple[str, str]] = {
    400: ("Invalid request.", "invalid_request_error"),
    401: ("Incorrect API key provided.", "invalid_api_key"),
    402: ("Insufficient Balance", "insufficient_balance"),
    403: ("Your account does not have access to this model.", "model_not_allowed"),
    404: ("The model does not exist.", "model_not_found"),
    408: ("Request timed out.", "request_timeout"),
    409: ("The resource is being changed by another request.", "conflict"),
    413: ("The request exceeds the maximum size.", "request_too_large"),
    422: ("The request was well-formed and could not be processed.", "unprocessable_entity"),
    499: ("Client Closed Request", "client_closed"),
    500: ("The server had an error while processing your request.", "server_error"),
    503: ("The engine is currently overloaded.", "service_unavailable"),
    504: ("Gateway Timeout", "gateway_timeout"),
    520: ("Web server is returning an unknown error.", "unknown_error"),
    529: ("Overloaded", "overloaded"),
}
"""The words with each status; the form is the protocol's."""


def _send_body(status: int, body: JSON, **headers: str) -> Saying:
    """Return a behaviour that sends a provider's own body, whatever protocol is spoken."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return always(Step(status=status, body=json.dumps(body).encode(), headers=named, stream="as_it_is"))


def _page(status: int) -> Saying:
    return always(steps.html(status))


def _waits(text: str, header: str = "Retry-After") -> Saying:
    return always(steps.refusal(429, "Rate limit reached", code="rate_limit_exceeded", headers={header: text}))


RESET = "2099-01-01 05:00:00"
"""The time when a quota is back: fixed, and far ahead."""
LIMITS: Mapping[str, JSON] = {
    "openai": {"error": {"message": "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}},
    "azure": {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current pricing tier. Please retry after 7 seconds."}},
    "anthropic": {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your organization's rate limit of 50,000 input tokens per minute."}, "request_id": "req_1"},
    "google": {"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 7.5s.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}},
    "google_list": [{"error": {"code": 429, "message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED"}}],
    "mistral": {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300"},
    "openrouter": {"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4070926800000"}}}},
    "bedrock": {"message": "Too many requests, please wait before trying again."},
    "fastapi": {"detail": "Too Many Requests"},
    "text": "rate limited",
}  # fmt: skip
"""A limit as each provider says it."""
WAITS: Mapping[str, tuple[str, str]] = {
    "far": ("Retry-After", "Fri, 31 Dec 99999999999999 23:59:59 GMT"),
    "digits": ("Retry-After", "9" * 4_000),
    "negative": ("Retry-After", "-5"),
    "zero": ("Retry-After", "0"),
    "fraction": ("Retry-After", "0.25"),
    "words": ("Retry-After", "a little while"),
    "past": ("Retry-After", "Mon, 01 Jan 0001 00:00:00 GMT"),
    "date": ("Retry-After", "Thu, 01 Jan 2099 05:00:00 GMT"),
    "infinite": ("Retry-After", "inf"),
    "nan": ("Retry-After", "nan"),
    "hour": ("Retry-After", "3600"),
    "ms": ("retry-after-ms", "1500"),
    "unit": ("Retry-After", "2s"),
}
"""Waits, each by its header and the header's text."""


def _refuses(status: int, message: str, code: str = "", **headers: str) -> Behaviour:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Behaviour(always(steps.refusal(status, message, code=code, headers=named)))


OVERLOADED = always(steps.refusal(503, "overloaded"))
BEHAVIOURS: Mapping[str, Behaviour] = {
    "rate_limit": _refuses(429, "slow down"),
    "retry_after": _refuses(429, "slow down", Retry_After="2"),
    "quota": _refuses(429, "you exceeded your current quota", "insufficient_quota"),
    "unavailable": Behaviour(OVERLOADED),
    "outage": Behaviour(OVERLOADED, after=3, times=5),
    "bad_key": _refuses(401, "Incorrect API key provided", "invalid_api_key"),
    "unknown_model": _refuses(404, "The model does not exist", "model_not_found"),
    "not_found": _refuses(404, "Not Found"),
    "no_schema": _refuses(400, "Unrecognized request argument supplied: response_format"),
    "context_length": _refuses(400, "too long", "context_length_exceeded"),
    **{f"status_{status}": Behaviour(always(steps.refusal(status, message, code=code))) for status, (message, code) in STATUSES.items()},
    "status_502": Behaviour(_page(502)),
    "status_503_page": Behaviour(_page(503)),
    "status_500_empty": Behaviour(always(Step(status=500, stream="as_it_is"))),
    "status_429_page": Behaviour(_page(429)),
    "limit_as_server_error": Behaviour(always(steps.refusal(429, "The server is overloaded", kind="server_error", code="server_error"))),
    "limit_as_400": Behaviour(always(steps.refusal(400, "Rate limit reached, please try again in 2s", code="rate_limit_exceeded"))),
    **{f"limit_{name}": Behaviour(_send_body(429, body)) for name, body in LIMITS.items()},
    **{f"retry_after_{name}": Behaviour(_waits(text, header)) for name, (header, text) in WAITS.items()},
    "quota_reset": Behaviour(_send_body(429, {"error": {"code": "1308", "message": f"Your 5-hour quota has been exhausted. It will reset at {RESET}."}})),
    "quota_balance": Behaviour(_send_body(429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}})),
    "quota_day": Behaviour(_send_body(429, {"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39s"}]}})),
    "error_string": Behaviour(_send_body(400, {"error": "model is not loaded"})),
    "error_empty_object": Behaviour(_send_body(400, {})),
    "error_in_200": Behaviour(always(Step(body=b'{"error": "model is not loaded"}'))),
    "error_429_in_200": Behaviour(always(Step(body=b'{"error": {"message": "Rate limit exceeded", "code": 429}}'))),
}  # fmt: skip
"""The behaviour of each fault whose ``play`` is this module."""
