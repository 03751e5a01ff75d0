"""Reads the headers of an answer. Nothing here raises: values without meaning are ignored."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

import httpx2

RETRY_AFTER_MAX_S = 86_400.0
HEADER_CHARS = 1_000
"""Largest header that is read; longer ones are nonsense."""
_number = re.compile(r"\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_iso = re.compile(r"\d{4}-\d\d-\d\dT", re.ASCII)
_type = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+", re.ASCII)
_charset = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)


def media_type(headers: httpx2.Headers) -> str:
    """Return the body's type in lower case, without parameters; empty where none is named. The first of two counts
    (RFC 9110, 8.3).
    """
    found = _type.match(_value(headers, "content-type"))
    return found[0].lower() if found else ""


def charset(headers: httpx2.Headers) -> str:
    """Return the charset of the type, in lower case; empty: none."""
    found = _charset.search(_value(headers, "content-type"))
    return found[1].lower() if found else ""


def encodings(headers: httpx2.Headers) -> tuple[str, ...]:
    """Return the packings of the body, in lower case, in their order (RFC 9110, 8.4)."""
    named = (one.strip().lower() for one in _value(headers, "content-encoding").split(","))
    return tuple(one for one in named if one not in NOT_PACKED)


NOT_PACKED = frozenset(
    ["", "identity", "none", "binary", "8bit", "7bit", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1"]
)
"""Words that servers write where nothing is packed. A charset does not belong here, and packs nothing."""


def drop_packing_headers(headers: httpx2.Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers without those that describe only the packed body."""
    return _drop_headers(headers, b"content-encoding", b"content-length")


def list_upward_headers(headers: httpx2.Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers of a finished answer, without those that a client library would act on."""
    return _drop_headers(
        headers, b"content-encoding", b"content-length", b"transfer-encoding", b"location", b"set-cookie"
    )


def _drop_headers(headers: httpx2.Headers, *names: bytes) -> list[tuple[bytes, bytes]]:
    # As bytes: a server may write characters beyond ASCII, which cannot be written again as text.
    return [(name, one) for name, one in headers.raw if name.lower() not in names]


def location(headers: httpx2.Headers, url: str) -> str:
    """Return the whole address of ``Location`` from ``url``; empty: there is none."""
    given = _value(headers, "location")
    if not given:
        return ""
    try:
        return str(httpx2.URL(url).join(given))
    except (httpx2.InvalidURL, ValueError):
        return ""


def _value(headers: httpx2.Headers, name: str) -> str:
    given = headers.get(name, "").strip()
    return given if len(given) <= HEADER_CHARS else ""


_WAITS = (
    ("retry-after-ms", 0.001),
    ("x-ms-retry-after-ms", 0.001),
    ("retry-after", 1.0),
    ("llm_provider-retry-after", 1.0),
)
"""Headers with a wait, and the seconds of their unit. The last is LiteLLM's copy of its provider's ``Retry-After``."""


def retry_after_s(headers: httpx2.Headers, now: float) -> float | None:
    """Return the seconds to wait, from ``retry-after-ms``, ``x-ms-retry-after-ms`` or ``Retry-After`` (seconds or
    HTTP date); a day at most.
    """
    for name, unit in _WAITS:
        given = [one.strip() for one in headers.get_list(name) if len(one) <= HEADER_CHARS]
        found = [_seconds(one, unit, _value(headers, "date"), now) for one in given]
        # A proxy may add its own to the endpoint's.
        seconds = [one for one in found if one is not None and isfinite(one)]
        if seconds:
            return min(max(seconds), RETRY_AFTER_MAX_S)
    return None


def _seconds(raw: str, unit: float, date: str, now: float) -> float | None:
    if _number.fullmatch(raw.removesuffix("s")):
        return float(raw.removesuffix("s")) * (1.0 if raw.endswith("s") else unit)
    until = _instant(raw)
    if until is None:
        return None
    # The endpoint's own clock, where it sends the time, so that a wrong clock on either side does not matter.
    own = _instant(date)
    return max(0.0, until - (now if own is None else own))


def _instant(text: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(text) if _iso.match(text) else parsedate_to_datetime(text)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError, AttributeError):
        return None
