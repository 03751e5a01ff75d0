"""Wraps the API: request ids, strict JSON bodies, and problem documents for every error (docs/security.md).

JSON bodies are parsed before any other code reads them:

1. A scan bounds depth and number of values first, so that parsing takes no longer than the body's length suggests.
2. Values on which parsers disagree are refused: duplicate keys, NaN, numbers beyond 64 bits, halves of characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from console.site.errors.problems import (
    DOCS,
    KINDS,
    MEDIA_TYPE,
    REQUEST_ID,
    RETRY_AFTER,
    FieldError,
    Problem,
    build_id,
    problem_response,
)
from console.site.requests.body_limit import body_max, too_large
from fabric.core.values.units import JSON

ROOT = "/api/"
KEPT = ("Allow", "Retry-After", "WWW-Authenticate")
"""Headers of an error that are kept, because they say how to react."""


class ApiMiddleware:
    """Wraps the API, so that Django's own refusals (a bad host, a missing page, a failure) become problem documents."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if not request.path.startswith(ROOT) or request.path == DOCS:
            return self._get_response(request)
        response = self._answer(request)
        if response.status_code >= 400 and response.headers.get("Content-Type") != MEDIA_TYPE:
            response = _retold(request, response)
        response.headers[REQUEST_ID] = build_id(request)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _answer(self, request: HttpRequest) -> HttpResponse:
        limit = body_max(request.method or "", request.path)
        body = request.read(limit + 1)
        if len(body) > limit:
            return problem_response(request, Problem(413, too_large(limit)))
        # Django would apply the limit of a form, which is smaller than that of attachments.
        request._body = body
        return self._get_response(request)


def _retold(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    status = response.status_code if response.status_code in KINDS else 500 if response.status_code >= 500 else 400
    headers = {name: response.headers[name] for name in KEPT if name in response.headers}
    if status == 503:
        headers.setdefault("Retry-After", RETRY_AFTER)
    return problem_response(request, Problem(status, headers=headers))


DEPTH_MAX = 64
TOKENS_MAX = 20_000
"""Largest number of values, names, punctuation marks and gaps in a body. Useful bodies have fewer than two hundred."""
WORD_CHARS_MAX = 400
"""Largest length of a number, or of any other token outside of strings, in characters."""
INTEGER_DIGITS_MAX = 19
INTEGER_MAX = 2**63 - 1

# Strings, spaces and words are passed over whole; possessive, so that each is tried once.
_token = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]|[,:]|\s++|[^\s"\[\]{},:]++', re.DOTALL)


def read_json(body: bytes, content_type: str) -> JSON:
    """Return the value of a body.

    Raises Problem 415 if it is not announced as JSON, and 400 if parsers could disagree about it.
    """
    _require_json_type(content_type)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is no UTF-8 (byte {error.start:,} is not): send JSON in UTF-8") from None
    _scan(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_number
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        said = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise Problem(400, f"the body is no JSON: {said} at {where}") from None
    _whole_characters(value)
    return value


def _require_json_type(content_type: str) -> None:
    kind, _, parameters = content_type.partition(";")
    charset = re.fullmatch(r'\s*charset\s*=\s*"?([\w-]+)"?\s*', parameters, re.IGNORECASE)
    if kind.strip().lower() != "application/json" or (parameters.strip() and not charset):
        said = (
            f"the body is announced as {kind.strip()[:60]!r}"
            if content_type.strip()
            else "the body has no Content-Type"
        )
        raise Problem(415, f"{said}: send JSON with Content-Type: application/json")
    if charset and charset[1].lower() not in ("utf-8", "utf8"):
        raise Problem(415, f"the body is announced in the charset {charset[1][:30]!r}: send JSON in UTF-8")


def _scan(text: str) -> None:
    depth = 0
    for count, found in enumerate(_token.finditer(text)):
        if count >= TOKENS_MAX:
            raise Problem(400, f"the body has more than {TOKENS_MAX:,} values and marks: send less in one request")
        mark = text[found.start()]
        if mark in "{[":
            depth += 1
            if depth > DEPTH_MAX:
                raise Problem(400, f"the body is nested deeper than {DEPTH_MAX} levels: send it flatter")
        elif mark in "}]":
            depth -= 1
        elif mark != '"' and not mark.isspace() and found.end() - found.start() > WORD_CHARS_MAX:
            raise Problem(400, f"a number or word has more than {WORD_CHARS_MAX} characters: send a shorter one")


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Problem(400, f"the name {twice[:60]!r} stands twice in one object: send it once")
    return made


def _constant(name: str) -> JSON:
    raise Problem(400, f"{name} is no JSON number: send null, or leave it out")


def _integer(digits: str) -> int:
    # The length first: making an integer of a million digits takes its time.
    if len(digits.lstrip("-")) > INTEGER_DIGITS_MAX or not -INTEGER_MAX - 1 <= int(digits) <= INTEGER_MAX:
        raise Problem(400, f"the number {digits[:24]}... does not fit in 64 bits: send a smaller one")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise Problem(400, f"the number {digits[:24]} is too large: send a smaller one")
    return value


def _whole_characters(value: JSON, path: str = "") -> None:
    """Refuse halves of surrogate pairs, which no store accepts. The scan bounds the recursion."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = f"U+{ord(value[error.start]):04X}"
            message = f"a string has a lone surrogate ({half}): send whole characters"
            raise Problem(400, message, [FieldError(path, message)]) from None
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _whole_characters(item, f"{path}.{number}" if path else str(number))
    elif isinstance(value, dict):
        for name, item in value.items():
            _whole_characters(name, path)
            _whole_characters(item, f"{path}.{name}" if path else name)
