"""Finds the ``Cause`` of a refusal from its HTTP status, error codes and wording.

First a particular code, then the wording, then the status. A generic code is only the name of a status: it decides
where the HTTP status itself is unclear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from fabric.core.values.taxonomy import Cause

CODE_FIELDS = (
    "reason",
    "inner_code",
    "code",
    "type",
    "status",
    "wrapped_reason",
    "wrapped_code",
    "wrapped_type",
    "wrapped_status",
    "exceptions",
)
"""Fields of ``bodies.build_error`` with codes, the most particular first. The last has several, apart by spaces."""

_CODES: Mapping[Cause, tuple[str, ...]] = {
    Cause.CONTEXT_LENGTH: (
        "context_length_exceeded",
        "context_window_exceeded",
        "ContextWindowExceededError",
        "exceed_context_size_error",
        "string_above_max_length",
        "tokens_limit_reached",
        "prompt_too_long",
        "1261",  # Z.ai
    ),
    Cause.QUOTA: (
        "insufficient_quota",
        "quota_exceeded",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "billing_disabled",
        "insufficient_balance",
        "insufficient_credits",
        "insufficient_user_quota",
        "exceeded_current_quota_error",  # Kimi
        "usage_limit_reached",
        "usage_limit_exceeded",
        "BudgetExceededError",  # LiteLLM
        "ServiceQuotaExceededException",  # Bedrock
        "Arrearage",  # DashScope, with the next four
        "PrepaidBillOverdue",
        "PostpaidBillOverdue",
        "CommodityNotPurchased",
        "AllocationQuota.FreeTierOnly",
        "1113",  # Z.ai: no balance; of a day; of five hours; the plan is over; of a week or month.
        "1304",
        "1308",
        "1309",
        "1310",
        "quota_of_a_day",  # The quotas that Google's QuotaFailure names.
    ),
    Cause.RATE_LIMIT: (
        "rate_limit_exceeded",
        "rate_limit_reached",
        "rate_limit_reached_error",
        "ThrottlingException",
        "Throttling",
        "Throttling.RateQuota",
        "Throttling.AllocationQuota",
        "Throttling.BurstRate",
        "limit_requests",
        "limit_burst_rate",
        "1302",
        "1303",
        "1305",
        "quota_that_returns",
    ),
    Cause.AUTH: (
        "invalid_api_key",
        "incorrect_api_key_error",
        "invalid_authentication",
        "invalid_authentication_error",
        "api_key_invalid",
        "api_key_expired",
        "api_key_service_blocked",
        "api_key_http_referrer_blocked",
        "api_key_ip_address_blocked",
        "service_disabled",
        "account_deactivated",
        "UnrecognizedClientException",
        "InvalidSignatureException",
        "ExpiredTokenException",
        "AccessDeniedException",
    ),
    Cause.UNKNOWN_MODEL: (
        "model_not_found",
        "model_not_available",
        "model_not_supported",
        "model_decommissioned",
        "unknown_model",
        "deployment_not_found",
        "1211",
    ),
    Cause.CONTENT_FILTER: (
        "content_filter",
        "content_policy_violation",
        "ContentPolicyViolationError",
        "ResponsibleAIPolicyViolation",
        "moderation_blocked",
        "data_inspection_failed",
        "1301",
    ),
    Cause.BAD_REQUEST: ("unsupported_parameter", "unsupported_value", "unknown_parameter"),
    Cause.SERVER_ERROR: ("ModelNotReadyException", "ModelErrorException", "ModelStreamErrorException"),
}

STATUS_NAMES: Mapping[int, str] = {
    400: "invalid_request_error invalid_request invalid_argument invalid_parameter bad_request BadRequestError"
    " failed_precondition out_of_range ValidationException",
    401: "authentication_error unauthenticated unauthorized",
    402: "payment_required",
    403: "permission_error permission_denied permission_denied_error forbidden",
    404: "not_found_error not_found resource_not_found_error ResourceNotFoundException",
    408: "request_timeout timeout timeout_error deadline_exceeded ModelTimeoutException",
    409: "aborted conflict conflict_error",
    413: "request_too_large payload_too_large",
    422: "unprocessable_entity UnprocessableEntityError",
    429: "rate_limit_error too_many_requests resource_exhausted rate_limited throttling_error TooManyRequestsException",
    499: "cancelled canceled",
    500: "server_error api_error internal_error internal internal_server_error unexpected_output"
    " InternalServerException InternalFailure",
    501: "unimplemented not_implemented",
    502: "bad_gateway BadGatewayError APIConnectionError upstream_error",
    503: "service_unavailable service_unavailable_error unavailable ServiceUnavailableException",
    504: "gateway_timeout",
    529: "overloaded_error overloaded engine_overloaded_error",
}
"""Generic codes, apart by spaces: each is only the name of a status. LiteLLM's and AWS's are the names of their
exceptions.
"""

UNCLEAR = frozenset({200, 400, 422, 500, 502, 503, 504})
"""Unclear statuses: the name of a clearer one replaces them."""


def plain(code: str) -> str:
    """Return a code without case and punctuation: "RateLimitError", "rate_limit_error" and "rate-limit-error" are
    one.
    """
    return re.sub(r"[^a-z0-9]", "", code.lower())


CODES: Mapping[str, Cause] = {plain(code): cause for cause, codes in _CODES.items() for code in codes}
"""Particular codes, in plain form: each goes before any HTTP status."""
NAMED: Mapping[str, int] = {plain(name): status for status, names in STATUS_NAMES.items() for name in names.split()}
"""Statuses of generic codes, in plain form."""

STATUS: Mapping[int, Cause] = {
    400: Cause.BAD_REQUEST,
    401: Cause.AUTH,
    402: Cause.QUOTA,
    403: Cause.AUTH,
    404: Cause.BAD_CONFIGURATION,
    405: Cause.BAD_CONFIGURATION,
    407: Cause.BAD_CONFIGURATION,
    408: Cause.TIMEOUT,
    409: Cause.SERVER_ERROR,
    410: Cause.BAD_CONFIGURATION,
    413: Cause.CONTEXT_LENGTH,
    422: Cause.BAD_REQUEST,
    424: Cause.SERVER_ERROR,
    425: Cause.SERVER_ERROR,
    429: Cause.RATE_LIMIT,
    # A load balancer (460) or nginx (499) in front stopped waiting.
    460: Cause.TIMEOUT,
    499: Cause.TIMEOUT,
    500: Cause.SERVER_ERROR,
    501: Cause.BAD_CONFIGURATION,
    502: Cause.SERVER_ERROR,
    503: Cause.SERVER_ERROR,
    504: Cause.SERVER_ERROR,
    511: Cause.BAD_CONFIGURATION,
    # Cloudflare's.
    520: Cause.SERVER_ERROR,
    521: Cause.SERVER_ERROR,
    522: Cause.SERVER_ERROR,
    523: Cause.SERVER_ERROR,
    524: Cause.SERVER_ERROR,
    529: Cause.SERVER_ERROR,
}
"""By status alone. The rest by hundreds: 3xx bad configuration, 4xx bad request, 5xx server error."""
_HUNDREDS = {3: Cause.BAD_CONFIGURATION, 4: Cause.BAD_REQUEST, 5: Cause.SERVER_ERROR}

GAVE_UP = frozenset({408, 460, 499, 504, 524})
"""Statuses of a proxy that stopped waiting for a model: the model's work until then may be billed."""

_any_refusal = frozenset(range(400, 500))
_W = re.IGNORECASE
TOO_LARGE = re.compile(r"\b(request too large|reduce (your message size|the length|the number of tokens))\b", _W)
"""Groq's and OpenAI's words for one request above the limit of a minute, with the code of a rate limit. It never
passes.
"""
PATTERNS: tuple[tuple[frozenset[int], re.Pattern[str], Cause], ...] = (
    (
        frozenset({400, 413, 422, 500}),
        re.compile(
            r"\b(context (length|window|size|limit)|maximum context|prompt is too long|too many tokens"
            r"|exceeds the maximum number of tokens|input is too long)\b",
            _W,
        ),
        Cause.CONTEXT_LENGTH,
    ),
    (
        _any_refusal,
        re.compile(
            r"\b(insufficient (quota|balance|credits?|funds)|exceeded your current quota|credit balance is too low"
            r"|credits are depleted|requires more credits|key limit exceeded|reached your (specified )?(\w+ )?(api )?usage limits?"
            r"|reached your usage limit for this billing cycle)\b|余额不足|欠费",
            _W,
        ),
        Cause.QUOTA,
    ),
    (
        frozenset({400, 404, 410, 422}),
        re.compile(r"\bmodels?\b.{0,120}\b(not found|does not exist|unknown|not available|not supported)\b", _W),
        Cause.UNKNOWN_MODEL,
    ),
    (frozenset({404, 410}), re.compile(r"\b(model|deployment|engine)\b", _W), Cause.UNKNOWN_MODEL),
    # llama.cpp's servers answer 500 to a request that they do not understand.
    (frozenset({500}), re.compile(r"\bvalidation errors?\b|\brequires --jinja\b", _W), Cause.BAD_REQUEST),
    (
        frozenset({400, 403}),
        re.compile(r"\bcontent (filter(ing)?|policy|management policy)\b|\bwas flagged\b", _W),
        Cause.CONTENT_FILTER,
    ),
)
"""Statuses, words in the endpoint's message, cause; the first row that fits."""

WORDS_IN_200: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"\b(rate[ _-]?limit(ed|s)?|too many requests)\b", _W), 429),
    (PATTERNS[1][1], 402),
    (PATTERNS[0][1], 400),
    (re.compile(r"\b(overloaded|service unavailable|temporarily unavailable|bad gateway)\b", _W), 503),
    (re.compile(r"\binternal (server )?error\b", _W), 500),
    (re.compile(r"\b(invalid|incorrect) api[ _-]?key\b", _W), 401),
)
"""Wordings of an error inside a 200 without a code, with the status of each."""

QUOTA_S = 3_600.0
"""Seconds from which on an exhausted limit is a quota; a shorter wait is a rate limit."""
_limit_words = re.compile(
    r"\b(quotas?|limits?|limited|plan|credits?|usage|allowance|billing)\b|额度|限额|配额|上限", _W
)
_long_words = re.compile(
    r"\b(daily|weekly|monthly|[tr]pd|billing (cycle|period)|usage limit|tokens? plan)\b|\bper[ _-]?(day|week|month)\b"
    r"|[^\W\d_] ?/ ?(day|week|month)\b|\b\d{1,3}[ -]?hours?\b.{0,40}\b(quota|limit|window)\b"
    r"|\bquota\b.{0,20}\b(exhausted|used up|depleted)\b|\b(exhausted|used up)\b.{0,40}\b(quota|credits|plan)\b"
    r"|每日|每天|每周|每月|\d{1,3} ?小时",
    _W,
)


def list_codes(said: Mapping[str, str]) -> Iterator[str]:
    """Yield the codes of an error, in plain form, the most particular first."""
    for field in CODE_FIELDS[:-1]:
        yield plain(said.get(field, ""))
    yield from map(plain, said.get(CODE_FIELDS[-1], "").split())


def find_cause(status: int, said: Mapping[str, str], back_s: float | None = None) -> Cause:
    """Return the cause of a refusal. ``said``: ``bodies.build_error``; ``back_s``: seconds until the used-up quota
    returns; None: not known.

    UNKNOWN for a status below 300 whose codes mean nothing.
    """
    cause = _cause(status, said)
    return Cause.QUOTA if cause is Cause.RATE_LIMIT and _is_quota(said.get("message", ""), back_s) else cause


def _cause(status: int, said: Mapping[str, str]) -> Cause:
    message = said.get("message", "")
    if status in (413, 429) and TOO_LARGE.search(message):
        return Cause.CONTEXT_LENGTH
    if (code := particular(list_codes(said))) is not None:
        return code
    status = clear_status(status, said)
    for statuses, pattern, cause in PATTERNS:
        if status in statuses and pattern.search(message):
            return cause
    return STATUS.get(status) or _HUNDREDS.get(status // 100, Cause.UNKNOWN)


def _is_quota(message: str, back_s: float | None) -> bool:
    """Return True where the limit of the rate lasts too long to wait for."""
    if back_s is not None:
        return back_s >= QUOTA_S and bool(_limit_words.search(message))
    return bool(_long_words.search(message))


def particular(codes: Iterable[str]) -> Cause | None:
    """Return the cause of the first particular code; None: there is none."""
    return next((CODES[code] for code in codes if code in CODES), None)


def clear_status(status: int, said: Mapping[str, str]) -> int:
    """Return the HTTP status, or a clearer one that a generic code names. For a 200 any counts; for another unclear
    status only a clear one.
    """
    if status not in UNCLEAR:
        return status
    named = (_named_status(code) for code in list_codes(said))
    return next((one for one in named if one and (status == 200 or one not in UNCLEAR)), status)


def status_in_200(said: Mapping[str, str]) -> int:
    """Return the status of an error inside a 200, by its codes or by its words; 200: unknown."""
    status = clear_status(200, said)
    if status == 200 and particular(list_codes(said)) is not None:
        return 500
    if status == 200:
        return next((one for words, one in WORDS_IN_200 if words.search(said.get("message", ""))), 200)
    return status


def is_success(status: int | None) -> bool:
    """Return True for a status of success; None: there was no answer."""
    return status is not None and 200 <= status < 300


def status_of_code(code: str) -> int | None:
    """Return the status in a code such as "429"; None for any other code."""
    return int(code) if code.isascii() and code.isdigit() and len(code) == 3 and 400 <= int(code) < 600 else None


def _named_status(code: str) -> int:
    return status_of_code(code) or NAMED.get(code, 0)
