"""Reads the body of a refusal, and the wait that it asks for.

The wait, or the return of a used-up quota, is in headers, error fields or words. Values out of range or without meaning
are skipped. Nothing here raises.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

import httpx2

from fabric.core.values.units import JSON
from fabric.http.transport import RETRY_AFTER_MAX_S, retry_after_s

BODY_BYTES = 100_000
FIELD_CHARS = 2_000
WRAPS_MAX = 3
"""Largest number of gateways that may have wrapped another one's error."""

_MESSAGES = ("message", "msg", "Message", "detail", "error_description", "error_msg", "errorMessage", "status_msg")
_CODES = ("code", "error_code", "statusCode", "errorCode")
_TYPES = ("type", "error_type", "__type")
_DELAYS_S = ("retry_after", "retryAfter", "retry_after_seconds", "resets_in_seconds", "retry_after_s", "Retry-After")
_RESETS = ("resets_at", "reset_at", "resetsAt", "resetAt", "reset_time", "nextResetTime", "X-RateLimit-Reset")
_litellm = re.compile(r"\blitellm\.(?:exceptions\.)?(\w+)")
_title = re.compile(rb"<title[^>]{0,200}>([^<]{1,200})</title", re.IGNORECASE)


def build_error(body: bytes | bytearray, headers: httpx2.Headers | None = None) -> dict[str, str]:
    """Return the fields of a refusal as text, without missing ones. Never raises.

    ``message``; ``param``, the field of the request that it is about; the codes ``causes.CODE_FIELDS``;
    ``retry_delay`` (a duration) and ``resets_at`` (an instant, or a number). A web page gives nothing, any other text
    is the message.
    """
    named = _aws_name(headers.get("x-amzn-errortype", "") if headers is not None else "")
    found = {"exceptions": named} if named else {}
    try:
        value: JSON = json.loads(bytes(body[:BODY_BYTES]).decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        text = "" if is_page(body) else bytes(body[:FIELD_CHARS]).decode("utf-8", "replace").strip()
        return found | ({"message": text} if text and text[0] not in "{[" else {})
    return found | _cut(_read(value, WRAPS_MAX))


def is_page(body: bytes | bytearray) -> bool:
    """Return True where a body is markup: a page of a proxy, or of a server without a model endpoint."""
    return bytes(body[:200]).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def page_title(body: bytes | bytearray) -> str:
    """Return the title of a web page; empty: it has none."""
    found = _title.search(bytes(body[: BODY_BYTES // 10]))
    return found[1].decode("utf-8", "replace").strip() if found else ""


def _cut(found: Mapping[str, JSON]) -> dict[str, str]:
    return {field: str(item)[:FIELD_CHARS] for field, item in found.items() if item not in (None, "")}


def _read(value: JSON, wraps: int) -> dict[str, JSON]:
    """Return the fields of one error, with those of the error that it wraps."""
    if isinstance(value, list) and value:
        value = value[0]  # So some of Google's gateways answer.
    if isinstance(value, str):
        return {"message": value}
    if not isinstance(value, dict):
        return {}
    error = _error_in(value)
    found: dict[str, JSON] = {
        "code": _code(_first(error, _CODES)),
        "type": _code(_first(error, _TYPES)),
        "status": _code(error.get("status")),
        "param": error.get("param"),
        "inner_code": _inner_code(error.get("innererror", error.get("inner_error"))),
    }
    if "__type" in error:
        found["type"] = _aws_name(str(error["__type"]))
    found |= _details(error.get("details"), exhausted=error.get("status") == "RESOURCE_EXHAUSTED")
    found |= _return(value) | _return(error)
    message = _first(error, _MESSAGES)
    if isinstance(message, list | dict):
        found |= {field: item for field, item in _list_message(message, wraps).items() if item not in (None, "")}
    else:
        found["message"] = message
    return found | _unwrap_error(found, error.get("metadata"), wraps)


def _error_in(value: dict[str, JSON]) -> dict[str, JSON]:
    """Return the object that names the fault. It is ``error``, also of a choice, the first of ``errors``, MiniMax's
    ``base_resp``, or the whole.
    """
    choices = value.get("choices")
    in_choices = (one.get("error") for one in choices if isinstance(one, dict)) if isinstance(choices, list) else ()
    error = value.get("error", value.get("Error")) or next(filter(None, in_choices), None)
    if isinstance(error, dict):
        below = error.get("error")
        return below if isinstance(below, dict) and "message" not in error else error
    if isinstance(error, str) and error:
        # OAuth writes a code there and more in another field; others write the whole sentence.
        return {"type": error, **value, "message": _first(value, _MESSAGES) or error}
    errors = value.get("errors")
    if isinstance(errors, list) and errors and "message" not in value:
        return errors[0] if isinstance(errors[0], dict) else {"message": str(errors[0])}
    base = value.get("base_resp")
    if isinstance(base, dict) and base.get("status_code"):
        return {"message": base.get("status_msg")}
    return value


def _first(value: Mapping[str, JSON], names: tuple[str, ...]) -> JSON:
    return next((value[name] for name in names if value.get(name) not in (None, "")), None)


def _code(value: JSON) -> JSON:
    """Return a code; an object has it in one of its fields."""
    return _first(value, (*_CODES, "value", "name", *_TYPES)) if isinstance(value, dict) else value


def _list_message(message: JSON, wraps: int) -> dict[str, JSON]:
    """Return a message that is an object, or FastAPI's list of faults: ``[{"loc": ["body", "stop"], "msg":
    "..."}]``.
    """
    if isinstance(message, dict):
        return _read(message, wraps - 1) if wraps else {"message": json.dumps(message)}
    parts, param = [], None
    for item in message:
        if not isinstance(item, dict):
            parts.append(str(item))
            continue
        loc = item.get("loc")
        place = [str(step) for step in loc] if isinstance(loc, list) else []
        param = param or (place[-1] if place else None)
        said = str(_first(item, _MESSAGES) or item)
        parts.append(f"{'.'.join(place)}: {said}" if place else said)
    return {"message": "; ".join(parts), "param": param}


def _inner_code(inner: JSON) -> str:
    """Return the most particular code of Azure's nested ``innererror``."""
    code = ""
    for _ in range(WRAPS_MAX):
        if not isinstance(inner, dict):
            break
        code = str(inner.get("code") or code)
        inner = inner.get("innererror")
    return code


def _aws_name(text: str) -> str:
    """Return only the name of an exception as AWS writes it: ``com.amazon.coral#ThrottlingException:http://...``."""
    return text.partition(":")[0].rpartition("#")[2].strip()


def _return(value: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the time of the next permitted request, from the error, its metadata, or copied headers."""
    metadata = value.get("metadata")
    places = [value, metadata, metadata.get("headers") if isinstance(metadata, dict) else None]
    found: dict[str, JSON] = {}
    for place in (one for one in places if isinstance(one, dict)):
        delay, delay_ms, reset = _first(place, _DELAYS_S), place.get("retry_after_ms"), _first(place, _RESETS)
        if delay is not None:
            found["retry_delay"] = f"{delay}s" if _is_number(delay) else delay
        elif delay_ms is not None:
            found["retry_delay"] = f"{delay_ms}ms"
        if reset is not None:
            found["resets_at"] = reset
    return found


def _is_number(value: JSON) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and value.replace(".", "", 1).isdigit())


def _unwrap_error(found: Mapping[str, JSON], metadata: JSON, wraps: int) -> dict[str, JSON]:
    """Return the other endpoint's error that a gateway passes on: LiteLLM in its message, OpenRouter in
    ``metadata.raw``.
    """
    message = str(found.get("message") or "")
    more: dict[str, JSON] = {}
    if names := _litellm.findall(message):
        more["exceptions"] = " ".join(dict.fromkeys(names))
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    inner = _find_embedded(str(raw)) if raw else _find_embedded(message)
    # A request that a message quotes is no error. A message that is one object and no word more is an error that a
    # gateway passed on.
    passed_on = bool(raw or names) or (message.startswith("{") and message.endswith("}"))
    is_error = isinstance(inner, dict) and ("error" in inner or ("message" in inner and passed_on))
    if not is_error or not wraps:
        return more
    below = _read(inner, wraps - 1)
    for field in ("reason", "code", "type", "status"):
        if item := below.get(field) or below.get(f"wrapped_{field}"):
            more[f"wrapped_{field}"] = item
    kept = ("message", "param", "retry_delay", "resets_at")
    return more | {field: below[field] for field in kept if below.get(field)}


def _find_embedded(text: str) -> JSON:
    """Return the object in a text, as JSON or as Python writes it; None: there is none."""
    text = text[: FIELD_CHARS * 4]
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    inside = text[start : end + 1]
    for form in (inside, inside.replace("\\n", " ")):
        try:
            return json.loads(form)
        except (ValueError, RecursionError):
            continue
    try:
        return ast.literal_eval(inside) if inside.startswith("{'") else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _details(details: JSON, *, exhausted: bool) -> dict[str, JSON]:
    """Return the reason in Google's error details, and the time of the next permitted request. ``exhausted``: it
    refused for a quota.
    """
    found: dict[str, JSON] = {}
    items = [item for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    for item in items:
        kind = str(item.get("@type", "")).rpartition(".")[2]
        if kind == "ErrorInfo":
            found.setdefault("reason", str(item.get("reason", "")))
        elif kind == "RetryInfo":
            found["retry_delay"] = str(item.get("retryDelay", ""))
        elif kind == "QuotaFailure":
            # It names the quota, where the message claims "exceeded your current quota" for one that is back in a
            # minute.
            of_a_day = re.search(r"per_?(day|month)", json.dumps(item.get("violations")), re.IGNORECASE)
            found["reason"] = "quota_of_a_day" if of_a_day else "quota_that_returns"
    if exhausted and "retry_delay" in found:
        found.setdefault("reason", "quota_that_returns")
    return found


BACK_MAX_S = 400 * 86_400.0
"""Longest quota in seconds, that of a year; a later instant is ignored."""
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""Least number that means seconds, or milliseconds, since 1970; a smaller one is seconds from now."""

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_duration = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|h|m|s))+", re.ASCII)
_UNIT = r"(?:milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_part = re.compile(rf"(\d+(?:\.\d+)?)[ -]?({_UNIT})", re.ASCII)
_limit = re.compile(r"(?:anthropic-ratelimit-(?P<a>[a-z-]+)-remaining|x-ratelimit-remaining-(?P<x>[a-z-]+))", re.ASCII)
RESET_HEADERS = ("x-ratelimit-reset", "ratelimit-reset", "x-ratelimit-reset-after", "anthropic-ratelimit-unified-reset")
"""Headers that name the one limit that refused, whatever the others show."""

_said_wait = re.compile(
    r"\b(?:again|retry|wait|resets?|back|available|refresh(?:es|ed)?|renew(?:s|ed)?|restored?)\b[^.\d]{0,40}?"
    rf"((?:\d+(?:\.\d+)?[ -]?{_UNIT}(?:,| and)?\s*)+)",
    re.IGNORECASE | re.ASCII,
)
_instant = re.compile(
    r"(?<!\d)(\d{4}-\d\d-\d\d)(?:(?:[T ]|,? at )(\d\d:\d\d(?::\d\d)?)(?:\.\d+)?)?"
    r"(?:\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?",
    re.IGNORECASE | re.ASCII,
)
_english = re.compile(
    r"\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})"
    r"(?:,? (?:at )?(\d{1,2}):(\d\d)(?: ?([ap])\.?m\.?)?)?(?:\s*(UTC|GMT))?",
    re.IGNORECASE | re.ASCII,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_epoch = re.compile(r"(?:\||reset[^\d.]{0,20})(\d{10}|\d{13})(?!\d)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class ServiceReturn:
    """Time of the refused service's return."""

    in_s: float
    """Seconds from now."""
    dated: bool = False
    """True: the endpoint names the instant, and no duration."""
    zoned: bool = True
    """False: the text names no time zone, and was read as UTC."""
    least: bool = False
    """True: it is longer than the longest accepted wait of a header."""


def wait_s(headers: httpx2.Headers, said: Mapping[str, str], now: float, *, limited: bool) -> float | None:
    """Return the seconds to wait, a day at most; None: unknown. ``limited``: too many requests, so its words and its
    limits are read.

    ``said`` is the result of ``build_error``; ``now`` is seconds since the epoch.
    """
    waits = [_header_s(headers, now), duration_s(said.get("retry_delay", ""))]
    if limited:
        in_words = back_in_words(said, now)
        waits += [None if in_words is None else in_words.in_s, _used_up_s(headers, now)]
    known = [min(one, RETRY_AFTER_MAX_S) for one in waits if one is not None]
    return next((one for one in known if one > 0), known[0] if known else None)


def find_return(headers: httpx2.Headers, said: Mapping[str, str], now: float) -> ServiceReturn | None:
    """Return the time of a used-up quota's return: by the error's words, by limits with nothing left, else by
    Retry-After. None: not known.
    """
    if (in_words := back_in_words(said, now)) is not None:
        return in_words
    for seconds in (duration_s(said.get("retry_delay", "")), _used_up_s(headers, now)):
        if seconds is not None and 0 < seconds <= BACK_MAX_S:
            return ServiceReturn(seconds)
    header = _header_s(headers, now)
    return ServiceReturn(header, least=header >= RETRY_AFTER_MAX_S) if header else None


def back_in_words(said: Mapping[str, str], now: float) -> ServiceReturn | None:
    """Return the time of the next permitted request from an error's own fields and message; None: they have none."""
    if (field := _until_s(said.get("resets_at", ""), now)) is not None and 0 < field <= BACK_MAX_S:
        return ServiceReturn(field, dated=True)
    message = said.get("message", "")
    coming = [one for one in _instants(message, now) if 0 < one.in_s <= BACK_MAX_S]
    if coming:
        return coming[0]
    waits = (_read_seconds(found[1]) for found in _said_wait.finditer(message))
    return next((ServiceReturn(seconds) for seconds in waits if 0 < seconds <= BACK_MAX_S), None)


def duration_s(text: str) -> float | None:
    """Return the seconds of a duration as Google and OpenAI write it: "17s", "6m0s", "20ms". None for any other
    text.
    """
    if not _duration.fullmatch(text.strip()):
        return None
    seconds = _read_seconds(text)
    return seconds if isfinite(seconds) else None


def _read_seconds(text: str) -> float:
    """Return the sum of all durations of a text: "2 hours 5 minutes", "7m12s"."""
    found = ((number, unit.lower()) for number, unit in _part.findall(text.lower()))
    return sum(float(number) * _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]] for number, unit in found)


def _header_s(headers: httpx2.Headers, now: float) -> float | None:
    try:
        return retry_after_s(headers, now)
    except (OverflowError, ValueError):
        return None


def _used_up_s(headers: httpx2.Headers, now: float) -> float | None:
    """Return the seconds until the last exhausted limit is full again."""
    resets = [headers.get(name, "") for name in RESET_HEADERS]
    for name, remaining in headers.items():
        found = _limit.fullmatch(name.lower())
        if found is None or remaining.strip() not in ("0", "0.0"):
            continue
        reset = f"anthropic-ratelimit-{found['a']}-reset" if found["a"] else f"x-ratelimit-reset-{found['x']}"
        resets.append(headers.get(reset, ""))
    waits = [wait for wait in (_until_s(reset, now) for reset in resets) if wait is not None]
    return max(waits, default=None)


def _until_s(text: str, now: float) -> float | None:
    """Return the seconds to a duration's end, to an instant in RFC 3339, or of a number (``_EPOCH_S``)."""
    text = text.strip()
    if (seconds := duration_s(text)) is not None:
        return seconds
    try:
        number = float(text)
    except ValueError:
        return next((max(0.0, one.in_s) for one in _instants(text, now)), None)
    if not isfinite(number) or number < 0:
        return None
    if number < _EPOCH_S:
        return number
    return max(0.0, (number / 1_000 if number >= _EPOCH_MS else number) - now)


def _instants(text: str, now: float) -> Iterator[ServiceReturn]:
    """Yield every instant in a text."""
    for date, clock, zone in _instant.findall(text):
        offset = zone.upper().replace("UTC", "Z").replace("GMT", "Z")
        try:
            yield _back(datetime.fromisoformat(f"{date}T{clock or '00:00'}{offset}"), now)
        except (ValueError, OverflowError):
            continue
    for month, day, year, hour, minute, half, zone in _english.findall(text):
        hours = int(hour or 0) % 12 + (12 if half.lower() == "p" else 0) if half else int(hour or 0)
        try:
            at = datetime(int(year), _MONTHS.index(month.lower()) + 1, int(day), hours, int(minute or 0))  # noqa: DTZ001
            yield _back(at.replace(tzinfo=UTC) if zone else at, now)
        except (ValueError, OverflowError):
            continue
    for number in _epoch.findall(text):
        yield ServiceReturn((int(number) / 1_000 if len(number) == 13 else int(number)) - now, dated=True)


def _back(instant: datetime, now: float) -> ServiceReturn:
    zoned = instant.tzinfo is not None
    return ServiceReturn((instant if zoned else instant.replace(tzinfo=UTC)).timestamp() - now, dated=True, zoned=zoned)
