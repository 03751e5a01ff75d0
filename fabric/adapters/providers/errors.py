"""What an endpoint's refusal means: tables from HTTP status, structured code and wording to a ``Cause``.

Structured code first, then whole-word pattern on the endpoint's own message, then the status. The raw text is kept, cleaned and without the
key. (semantics.md 2: "expected 500 rows" is not a server error.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from fabric.adapters.providers.waiting import wait_s
from fabric.adapters.tools.outbound import Exchange, causes, transport_failure
from fabric.core.frozen import replace
from fabric.core.inputs import CallFailed
from fabric.core.taxonomy import Cause
from fabric.core.text import clean_text

RAW_CHARS = 2_000
"""Characters of an endpoint's answer that are kept with a failure."""
SAID_CHARS = 300
KEY_CHARS_MIN = 6
"""A shorter key is a word ("none", "local") that is no secret and that any text may hold."""

CODES: Mapping[str, Cause] = {
    "context_length_exceeded": Cause.CONTEXT_LENGTH,
    "context_window_exceeded": Cause.CONTEXT_LENGTH,
    "exceed_context_size_error": Cause.CONTEXT_LENGTH,
    "string_above_max_length": Cause.CONTEXT_LENGTH,
    "insufficient_quota": Cause.QUOTA,
    "quota_exceeded": Cause.QUOTA,
    "billing_hard_limit_reached": Cause.QUOTA,
    "billing_not_active": Cause.QUOTA,
    "billing_error": Cause.QUOTA,
    "insufficient_balance": Cause.QUOTA,
    "rate_limit_exceeded": Cause.RATE_LIMIT,
    "rate_limit_error": Cause.RATE_LIMIT,
    "too_many_requests": Cause.RATE_LIMIT,
    "invalid_api_key": Cause.AUTH,
    "invalid_authentication": Cause.AUTH,
    "authentication_error": Cause.AUTH,
    "permission_error": Cause.AUTH,
    "permission_denied": Cause.AUTH,
    "model_not_found": Cause.UNKNOWN_MODEL,
    "model_not_available": Cause.UNKNOWN_MODEL,
    "unknown_model": Cause.UNKNOWN_MODEL,
    "deployment_not_found": Cause.UNKNOWN_MODEL,
    "content_filter": Cause.CONTENT_FILTER,
    "content_policy_violation": Cause.CONTENT_FILTER,
    "moderation_blocked": Cause.CONTENT_FILTER,
    "overloaded_error": Cause.SERVER_ERROR,
    "service_unavailable": Cause.SERVER_ERROR,
    "server_error": Cause.SERVER_ERROR,
    "internal_error": Cause.SERVER_ERROR,
    # Anthropic's types.
    "request_too_large": Cause.CONTEXT_LENGTH,
    "api_error": Cause.SERVER_ERROR,
    "timeout_error": Cause.TIMEOUT,
    # Google's statuses, the reasons of its ErrorInfo, and which quota its QuotaFailure names. RESOURCE_EXHAUSTED and
    # INVALID_ARGUMENT say too little: what is in their details, their wording and the HTTP status decide.
    "unauthenticated": Cause.AUTH,
    "api_key_invalid": Cause.AUTH,
    "api_key_expired": Cause.AUTH,
    "api_key_service_blocked": Cause.AUTH,
    "api_key_http_referrer_blocked": Cause.AUTH,
    "api_key_ip_address_blocked": Cause.AUTH,
    "service_disabled": Cause.AUTH,
    "billing_disabled": Cause.QUOTA,
    "quota_of_a_day": Cause.QUOTA,
    "quota_that_returns": Cause.RATE_LIMIT,
    "unavailable": Cause.SERVER_ERROR,
    "internal": Cause.SERVER_ERROR,
    "deadline_exceeded": Cause.TIMEOUT,
}
"""What an endpoint says in a field of its own: ``CODE_FIELDS``."""
CODE_FIELDS = ("reason", "code", "type", "status")
"""The fields of an error that hold a code, the most particular first."""

_any_refusal = frozenset(range(400, 500))
_W = re.IGNORECASE
PATTERNS: tuple[tuple[frozenset[int], re.Pattern[str], Cause], ...] = (
    (
        frozenset({400, 413, 422, 500}),
        re.compile(
            r"\b(context (length|window|size|limit)|maximum context|prompt is too long|too many tokens"
            r"|exceeds the maximum number of tokens)\b",
            _W,
        ),
        Cause.CONTEXT_LENGTH,
    ),
    (
        _any_refusal,
        re.compile(
            r"\b(insufficient (quota|balance|credits?|funds)|exceeded your current quota|credit balance is too low"
            r"|credits are depleted)\b",
            _W,
        ),
        Cause.QUOTA,
    ),
    (
        frozenset({400, 404, 422}),
        re.compile(r"\bmodels?\b.{0,120}\b(not found|does not exist|unknown|not available|not supported)\b", _W),
        Cause.UNKNOWN_MODEL,
    ),
    (frozenset({404}), re.compile(r"\b(model|deployment|engine)\b", _W), Cause.UNKNOWN_MODEL),
    # llama.cpp's Python server answers 500 to a request that it does not understand.
    (frozenset({500}), re.compile(r"\bvalidation errors?\b", _W), Cause.BAD_REQUEST),
    (
        frozenset({400, 403}),
        re.compile(r"\bcontent (filter(ing)?|policy|management policy)\b", _W),
        Cause.CONTENT_FILTER,
    ),
)
"""Statuses, words in the endpoint's message, cause; the first row that fits."""

STATUS: Mapping[int, Cause] = {
    400: Cause.BAD_REQUEST,
    401: Cause.AUTH,
    402: Cause.QUOTA,
    403: Cause.AUTH,
    404: Cause.BAD_CONFIGURATION,
    405: Cause.BAD_CONFIGURATION,
    408: Cause.TIMEOUT,
    409: Cause.SERVER_ERROR,
    413: Cause.CONTEXT_LENGTH,
    422: Cause.BAD_REQUEST,
    425: Cause.SERVER_ERROR,
    429: Cause.RATE_LIMIT,
}
"""By status alone. The rest by hundreds: 3xx bad configuration, 4xx bad request, 5xx server error."""

_HUNDREDS = {3: Cause.BAD_CONFIGURATION, 4: Cause.BAD_REQUEST, 5: Cause.SERVER_ERROR}

SENTENCES: Mapping[Cause, str] = {
    Cause.AUTH: "{where} refused the key (HTTP {status}); {key_advice}",
    Cause.QUOTA: "{where} says that the account's quota or credit is used up (HTTP {status})",
    Cause.RATE_LIMIT: "{where} asks for fewer requests (HTTP {status})",
    Cause.SERVER_ERROR: "{where} failed on its side (HTTP {status})",
    Cause.TIMEOUT: "{where} gave up waiting for the model (HTTP {status})",
    Cause.UNKNOWN_MODEL: "{where} has no model named {model!r} (HTTP {status}); {model_advice}",
    Cause.BAD_CONFIGURATION: "{where} has nothing to ask there (HTTP {status}){url_hint}",
    Cause.CONTEXT_LENGTH: "the prompt is longer than model {model!r} at {where} takes (HTTP {status})",
    Cause.CONTENT_FILTER: "{where} withheld the answer by its content filter (HTTP {status})",
    Cause.BAD_REQUEST: "{where} does not take this request (HTTP {status})",
}

SCHEMA_ADVICE = "{where} does not take a response format (HTTP {status}); set `structured_output: false` on the fabric's model {name!r}"
_no_schema = re.compile(
    r"\b(response_format|json_schema|json_object|structured[ _]outputs?|guided_json|grammar|output_config|output_format"
    r"|response_?json_?schema|response_?mime_?type|response_?schema)\b",
    _W,
)


class Malformed(httpx2.TransportError):
    """A 200 whose body is no answer. The message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class Names:
    """What the settings of a provider's endpoint are called, for sentences that say which to set."""

    url: str = "FABRIC_MODEL_URL"
    key: str = "FABRIC_MODEL_KEY"
    model: str = "FABRIC_MODEL"
    """Empty: a fabric names its models itself."""
    example: str = "https://example.org/v1"


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked, as far as an error's sentence needs it."""

    command_id: str
    attempt: int
    where: str
    """The URL as it may be shown."""
    name: str
    """The model's name in the fabric."""
    model: str
    """The provider's model id."""
    key: str = ""
    """The key that was sent; never shown."""
    key_host: str = ""
    """The only host a key is sent to."""
    schema: bool = False
    names: Names = Names()
    noun: str = "chat completion"
    """What an answer is called."""
    url_hint: str = "; the URL usually ends in /v1"
    stored: bool = False
    """Whether the key is one that the workspace stored for this host."""


def failed(
    asked: Asked,
    cause: Cause,
    message: str,
    *,
    raw: str = "",
    raw_chars: int = RAW_CHARS,
    status: int | None = None,
    retry_after_s: float | None = None,
    billed: bool = False,
) -> CallFailed:
    """A failure as data, its texts cleaned, cut and without the key."""
    return CallFailed(
        command_id=asked.command_id,
        attempt=asked.attempt,
        cause=cause,
        message=fit(message, asked.key, 1_000),
        status=status,
        retry_after_s=retry_after_s,
        raw=fit(raw, asked.key, raw_chars),
        billed=billed,
    )


def fit(text: str, key: str, limit: int) -> str:
    """Text from outside, without the key, cleaned and cut."""
    shown = text.replace(key, "[key]") if len(key) >= KEY_CHARS_MIN else text
    return clean_text(shown[:limit])[0]


def came_in_part(exchange: Exchange) -> bool:
    """Whether a part of the answer had come: of a stream what the model says, of what comes at once any of its bytes."""
    streams = exchange.headers.get("content-type", "").startswith("text/event-stream")
    return exchange.output or (exchange.status == 200 and not streams and not exchange.complete and bool(exchange.body))


def classify(error: BaseException, exchange: Exchange, asked: Asked, now: float) -> CallFailed:
    """The failure that an exception or a refusal stands for. ``now`` is seconds since the epoch, for a Retry-After date."""
    found = _classified(error, exchange, asked, now)
    # What has said something of its answer may bill it, whatever it says next.
    return replace(found, partial=came_in_part(exchange), billed=found.billed or exchange.output)


def _classified(error: BaseException, exchange: Exchange, asked: Asked, now: float) -> CallFailed:
    raw = exchange.said or exchange.body[: RAW_CHARS * 4].decode("utf-8", "replace")
    if exchange.status == 200 and not exchange.complete and not _is_transport(error):
        # Its stream did not break: its client library cannot read what had come of it.
        message = f"{asked.where} answered, but with events that are no {asked.noun}"
        return failed(asked, Cause.MALFORMED_ANSWER, message, raw=raw, status=exchange.status, billed=True)
    if exchange.status is None or not exchange.complete:
        if exchange.status is None and not exchange.sent and not _is_transport(error):
            return failed(
                asked, Cause.BAD_CONFIGURATION, f"the request for {asked.where} could not be made: {_named(error)}"
            )
        cause, message = transport_failure(error, exchange, asked.where)
        return failed(asked, cause, message, raw=raw, status=exchange.status, billed=exchange.sent)
    said = error_of(exchange.body)
    status = _reported_status(exchange.status, said)
    if status < 300:
        malformed = next((str(link) for link in causes(error) if isinstance(link, Malformed)), "")
        message = f"{asked.where} answered, but {malformed or f'with JSON that is no {asked.noun}'}"
        return failed(asked, Cause.MALFORMED_ANSWER, message, raw=raw, raw_chars=200, status=status, billed=True)
    cause = cause_of(status, said)
    return failed(
        asked,
        cause,
        _sentence(cause, status, said, asked, exchange),
        raw=raw,
        status=status,
        retry_after_s=wait_s(exchange.headers, said, now, limited=cause is Cause.RATE_LIMIT),
        # Whoever gave up waiting for the model may have paid for what it did so far.
        billed=cause is Cause.TIMEOUT,
    )


def cause_of(status: int, said: Mapping[str, str]) -> Cause:
    """The cause of an HTTP refusal: code, then wording, then status."""
    if (code := _coded(said)) is not None:
        return code
    for statuses, pattern, cause in PATTERNS:
        if status in statuses and pattern.search(said.get("message", "")):
            return cause
    return STATUS.get(status) or _HUNDREDS.get(status // 100, Cause.UNKNOWN)


def _coded(said: Mapping[str, str]) -> Cause | None:
    """The cause that a code of an error names; None: it has none that is known."""
    found = (CODES.get(said.get(field, "").lower()) for field in CODE_FIELDS)
    return next((cause for cause in found if cause is not None), None)


def error_of(body: bytes | bytearray) -> dict[str, str]:
    """``code``, ``type``, ``status``, ``message`` of an error answer as text, and of Google's details ``reason`` and ``retry_delay``.

    What is missing is missing. HTML and other text give nothing.
    """
    try:
        value: Any = json.loads(bytes(body[:100_000]))
    except (ValueError, RecursionError):
        return {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # So some of Google's gateways answer.
    if not isinstance(value, dict):
        return {}
    error = value.get("error", value)
    if isinstance(error, str):
        return {"message": error}
    if not isinstance(error, dict):
        return {}
    message = error.get("message", error.get("detail", ""))
    found = {"code": error.get("code"), "type": error.get("type"), "status": error.get("status"), "message": message}
    found |= _details(error.get("details"), exhausted=error.get("status") == "RESOURCE_EXHAUSTED")
    return {field: str(item)[:2_000] for field, item in found.items() if item not in (None, "")}


def _details(details: Any, *, exhausted: bool) -> dict[str, str]:
    """What Google's error details say: the reason, and when to come back. ``exhausted``: it refused for a quota."""
    found: dict[str, str] = {}
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    for item in items:
        kind = str(item.get("@type", "")).rpartition(".")[2]
        if kind == "ErrorInfo":
            found.setdefault("reason", str(item.get("reason", "")))
        elif kind == "RetryInfo":
            found["retry_delay"] = str(item.get("retryDelay", ""))
        elif kind == "QuotaFailure":
            # It says which quota, where the message says "exceeded your current quota" of one that is back in a minute.
            of_a_day = re.search(r"per_?(day|month)", json.dumps(item.get("violations")), _W)
            found["reason"] = "quota_of_a_day" if of_a_day else "quota_that_returns"
    if exhausted and "retry_delay" in found:
        found.setdefault("reason", "quota_that_returns")
    return found


def _reported_status(status: int, said: Mapping[str, str]) -> int:
    """Gateways report a failure inside a 200, with its status as the code."""
    code = said.get("code", "")
    if status == 200 and code.isascii() and code.isdigit() and len(code) == 3 and 400 <= int(code) < 600:
        return int(code)
    return 500 if status == 200 and _coded(said) is not None else status


def _sentence(cause: Cause, status: int, said: Mapping[str, str], asked: Asked, exchange: Exchange) -> str:
    message = said.get("message", "")
    template = SENTENCES.get(cause, "{where} answered HTTP {status}")
    if (
        cause is Cause.BAD_REQUEST
        and asked.schema
        and _no_schema.search(message or exchange.body[:2_000].decode("utf-8", "replace"))
    ):
        template = SCHEMA_ADVICE
    if 300 <= status < 400:
        template = "{where} is moved (HTTP {status}), and redirects are not followed; set the URL to where it is now"
    sentence = template.format(
        where=asked.where,
        status=status,
        model=asked.model,
        name=asked.name,
        key_advice=_key_advice(asked),
        model_advice=f"check the fabric's model{f' or {asked.names.model}' if asked.names.model else ''}",
        url_hint=asked.url_hint,
    )
    said_so = " ".join(clean_text(message)[0].split())[:SAID_CHARS]
    return f"{sentence}. It says: {said_so}" if said_so else sentence


def _key_advice(asked: Asked) -> str:
    name = asked.names.key
    if asked.stored:
        return "the key stored for it was sent: store another under Models and prices"
    if asked.key:
        return f"check {name}"
    if asked.key_host:
        return f"none was sent, because {name} is only ever sent to {asked.key_host} ({asked.names.url}); store one for it under Models and prices"
    return f"none was sent, because {name} is not set and none is stored for it"


def _is_transport(error: BaseException) -> bool:
    return any(isinstance(link, httpx2.TransportError | OSError) for link in causes(error))


def _named(error: BaseException) -> str:
    text = " ".join(str(error).split())[:SAID_CHARS]
    return f"{text or 'no message'} ({type(error).__name__})"
