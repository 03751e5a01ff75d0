"""Refusals: a status each, limits and quotas in the forms of each provider, and waits that no client can make sense of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from simulator.endpoint import steps
from simulator.endpoint.misbehaviour import always
from simulator.endpoint.scenario import Saying, Scenario
from simulator.endpoint.steps import Step

JSON = Any

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


def _sent(status: int, body: JSON, **headers: str) -> Saying:
    """A body of a provider's own, whatever protocol is spoken."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return always(Step(status=status, body=json.dumps(body).encode(), headers=named, stream="as_it_is"))


def _page(status: int) -> Saying:
    return always(steps.html(status))


def _waits(text: str, header: str = "Retry-After") -> Saying:
    return always(steps.refusal(429, "Rate limit reached", code="rate_limit_exceeded", headers={header: text}))


RESET = "2099-01-01 05:00:00"
"""The time when a quota is back: fixed, and far ahead."""
LIMITS: Mapping[str, tuple[str, JSON]] = {
    "openai": ("OpenAI", {"error": {"message": "Rate limit reached for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}}),
    "azure": ("Azure", {"error": {"code": "429", "message": "Requests to the ChatCompletions_Create Operation under Azure OpenAI API have exceeded token rate limit of your current pricing tier. Please retry after 7 seconds."}}),
    "anthropic": ("Anthropic", {"type": "error", "error": {"type": "rate_limit_error", "message": "This request would exceed your organization's rate limit of 50,000 input tokens per minute."}, "request_id": "req_1"}),
    "google": ("Google", {"error": {"code": 429, "message": "You exceeded your current quota. Please retry in 7.5s.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]}}),
    "google_list": ("Google's compatible endpoint", [{"error": {"code": 429, "message": "Resource has been exhausted (e.g. check quota).", "status": "RESOURCE_EXHAUSTED"}}]),
    "mistral": ("Mistral", {"object": "error", "message": "Requests rate limit exceeded", "type": "rate_limited", "param": None, "code": "1300"}),
    "openrouter": ("OpenRouter", {"error": {"message": "Rate limit exceeded: free-models-per-min.", "code": 429, "metadata": {"headers": {"X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4070926800000"}}}}),
    "bedrock": ("Bedrock", {"message": "Too many requests, please wait before trying again."}),
    "fastapi": ("FastAPI", {"detail": "Too Many Requests"}),
    "text": ("a gateway that speaks in a bare text", "rate limited"),
}  # fmt: skip
"""A limit as each provider says it."""
WAITS: Mapping[str, tuple[str, str, str]] = {
    "far": ("a date in the year 99999999999999", "Retry-After", "Fri, 31 Dec 99999999999999 23:59:59 GMT"),
    "digits": ("a number of 4,000 digits", "Retry-After", "9" * 4_000),
    "negative": ("a negative number", "Retry-After", "-5"),
    "zero": ("0", "Retry-After", "0"),
    "fraction": ("a fraction", "Retry-After", "0.25"),
    "words": ("words", "Retry-After", "a little while"),
    "past": ("a date that is past", "Retry-After", "Mon, 01 Jan 0001 00:00:00 GMT"),
    "date": ("a date that lies far ahead", "Retry-After", "Thu, 01 Jan 2099 05:00:00 GMT"),
    "infinite": ("inf", "Retry-After", "inf"),
    "nan": ("nan", "Retry-After", "nan"),
    "hour": ("3600 seconds", "Retry-After", "3600"),
    "ms": ("milliseconds in retry-after-ms", "retry-after-ms", "1500"),
    "unit": ("a number with a unit", "Retry-After", "2s"),
}
"""Waits that a header asks for."""

SCENARIOS: Mapping[str, Scenario] = {
    **{f"status_{status}": Scenario(f"Refuses with {status} and an error body.", always(steps.refusal(status, message, code=code))) for status, (message, code) in STATUSES.items()},
    "status_502": Scenario("Refuses with 502 and a web page.", _page(502)),
    "status_503_page": Scenario("Refuses with 503 and a web page.", _page(503)),
    "status_500_empty": Scenario("Refuses with 500 and an empty body.", always(Step(status=500, stream="as_it_is"))),
    "status_429_page": Scenario("Refuses with 429 and a web page.", _page(429)),
    "limit_as_server_error": Scenario("Refuses with 429, and says in the body that it is a server_error.", always(steps.refusal(429, "The server is overloaded", kind="server_error", code="server_error"))),
    "limit_as_400": Scenario("Refuses with 400 what is a limit of requests.", always(steps.refusal(400, "Rate limit reached, please try again in 2s", code="rate_limit_exceeded"))),
    **{f"limit_{name}": Scenario(f"Refuses with 429 in the form of {who}.", _sent(429, body)) for name, (who, body) in LIMITS.items()},
    **{f"retry_after_{name}": Scenario(f"Refuses with 429, and says as the wait: {what}.", _waits(text, header)) for name, (what, header, text) in WAITS.items()},
    "quota_reset": Scenario("Refuses with 429 because a quota is used up, and says in the message when it is back.", _sent(429, {"error": {"code": "1308", "message": f"Your 5-hour quota has been exhausted. It will reset at {RESET}."}})),
    "quota_balance": Scenario("Refuses with 429 because the account has no balance left.", _sent(429, {"error": {"code": "1113", "message": "Insufficient balance or no resource package. Please recharge."}})),
    "quota_day": Scenario("Refuses with 429 because the quota of the day is used up, as Google does.", _sent(429, {"error": {"code": 429, "message": "You exceeded your current quota, please check your plan and billing details.", "status": "RESOURCE_EXHAUSTED", "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaMetric": "generativelanguage.googleapis.com/generate_content_free_tier_requests", "quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}]}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "39s"}]}})),
    "error_string": Scenario("Refuses with 400 and an error that is a bare text.", _sent(400, {"error": "model is not loaded"})),
    "error_empty_object": Scenario("Refuses with 400 and an empty object.", _sent(400, {})),
    "error_in_200": Scenario("Sends 200 with an error that is a bare text.", always(Step(body=b'{"error": "model is not loaded"}'))),
    "error_429_in_200": Scenario("Sends 200 with an error whose code is 429.", always(Step(body=b'{"error": {"message": "Rate limit exceeded", "code": 429}}'))),
}  # fmt: skip
"""By what ``--scenario`` takes."""
