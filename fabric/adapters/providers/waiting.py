"""Reads the wait that an endpoint asks for, and when a used-up quota is back: from headers, error fields and words.

Values out of range or without meaning are passed over. Nothing here raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite

import httpx2

from fabric.adapters.tools.outbound import RETRY_AFTER_MAX_S, retry_after_s

BACK_MAX_S = 400 * 86_400.0
"""No quota is back later than the one of a year; an instant beyond that is passed over."""
_EPOCH_S, _EPOCH_MS = 1e9, 1e11
"""A number from which on it is seconds, or milliseconds, since 1970; below it is seconds from now."""

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_duration = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|h|m|s))+", re.ASCII)
_UNIT = r"(?:milliseconds?|ms|days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_part = re.compile(rf"(\d+(?:\.\d+)?)[ -]?({_UNIT})", re.ASCII)
_limit = re.compile(r"(?:anthropic-ratelimit-(?P<a>[a-z-]+)-remaining|x-ratelimit-remaining-(?P<x>[a-z-]+))", re.ASCII)
RESET_HEADERS = ("x-ratelimit-reset", "ratelimit-reset", "x-ratelimit-reset-after", "anthropic-ratelimit-unified-reset")
"""Headers that name the one limit that refused, whatever the others say."""

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
class Back:
    """The time when the refused service is back."""

    in_s: float
    """Seconds from now."""
    dated: bool = False
    """True: the endpoint names the instant, and no duration."""
    zoned: bool = True
    """False: the text names no time zone, and was read as UTC."""
    least: bool = False
    """True: it is longer than a header's wait is heeded."""


def wait_s(headers: httpx2.Headers, said: Mapping[str, str], now: float, *, limited: bool) -> float | None:
    """Seconds, a day at most; None: it does not say. ``limited``: it refused for too many requests, so its words and its limits are looked at.

    ``said`` is what ``errors.error_of`` read; ``now`` is seconds since the epoch.
    """
    waits = [_header_s(headers, now), duration_s(said.get("retry_delay", ""))]
    if limited:
        in_words = back_in_words(said, now)
        waits += [None if in_words is None else in_words.in_s, _used_up_s(headers, now)]
    known = [min(one, RETRY_AFTER_MAX_S) for one in waits if one is not None]
    return next((one for one in known if one > 0), known[0] if known else None)


def back_of(headers: httpx2.Headers, said: Mapping[str, str], now: float) -> Back | None:
    """The time when a used-up quota is back: by the error's own words, by limits with nothing left, else by Retry-After. None: not known."""
    if (in_words := back_in_words(said, now)) is not None:
        return in_words
    for seconds in (duration_s(said.get("retry_delay", "")), _used_up_s(headers, now)):
        if seconds is not None and 0 < seconds <= BACK_MAX_S:
            return Back(seconds)
    header = _header_s(headers, now)
    return Back(header, least=header >= RETRY_AFTER_MAX_S) if header else None


def back_in_words(said: Mapping[str, str], now: float) -> Back | None:
    """When an error's own fields and message say that it may be asked again; None: they do not."""
    if (field := _until_s(said.get("resets_at", ""), now)) is not None and 0 < field <= BACK_MAX_S:
        return Back(field, dated=True)
    message = said.get("message", "")
    coming = [one for one in _instants(message, now) if 0 < one.in_s <= BACK_MAX_S]
    if coming:
        return coming[0]
    waits = (_seconds_of(found[1]) for found in _said_wait.finditer(message))
    return next((Back(seconds) for seconds in waits if 0 < seconds <= BACK_MAX_S), None)


def duration_s(text: str) -> float | None:
    """Seconds of a duration as Google and OpenAI write it: "17s", "6m0s", "20ms". None for any other text."""
    if not _duration.fullmatch(text.strip()):
        return None
    seconds = _seconds_of(text)
    return seconds if isfinite(seconds) else None


def _seconds_of(text: str) -> float:
    """The sum of all durations of a text: "2 hours 5 minutes", "7m12s"."""
    found = ((number, unit.lower()) for number, unit in _part.findall(text.lower()))
    return sum(float(number) * _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]] for number, unit in found)


def _header_s(headers: httpx2.Headers, now: float) -> float | None:
    try:
        return retry_after_s(headers, now)
    except (OverflowError, ValueError):
        return None


def _used_up_s(headers: httpx2.Headers, now: float) -> float | None:
    """Seconds until the last of those limits is full again of which nothing remains."""
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
    """Seconds to a duration's end, to an instant in RFC 3339, or of a number (``_EPOCH_S``)."""
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


def _instants(text: str, now: float) -> Iterator[Back]:
    """Every instant in a text that there is."""
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
        yield Back((int(number) / 1_000 if len(number) == 13 else int(number)) - now, dated=True)


def _back(instant: datetime, now: float) -> Back:
    zoned = instant.tzinfo is not None
    return Back((instant if zoned else instant.replace(tzinfo=UTC)).timestamp() - now, dated=True, zoned=zoned)
