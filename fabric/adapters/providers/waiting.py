"""How long an endpoint says to wait: Retry-After first, then what its error says, then when a limit that is used up is full again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite

import httpx2

from fabric.adapters.tools.outbound import RETRY_AFTER_MAX_S, retry_after_s

_UNITS = {"h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_duration = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|h|m|s))+", re.ASCII)
_part = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)", re.ASCII)
_limit = re.compile(r"(?:anthropic-ratelimit-(?P<a>[a-z-]+)-remaining|x-ratelimit-remaining-(?P<x>[a-z-]+))", re.ASCII)


def wait_s(headers: httpx2.Headers, said: Mapping[str, str], now: float, *, limited: bool) -> float | None:
    """Seconds, a day at most; None: it does not say. ``limited``: it refused for too many requests, so its limits are looked at.

    ``said`` is what ``errors.error_of`` read; ``now`` is seconds since the epoch.
    """
    asked = retry_after_s(headers, now)
    if asked is None and (delay := duration_s(said.get("retry_delay", ""))) is not None:
        asked = min(delay, RETRY_AFTER_MAX_S)
    return asked if asked is not None or not limited else _used_up_s(headers, now)


def duration_s(text: str) -> float | None:
    """Seconds of a duration as Google and OpenAI write it: "17s", "6m0s", "20ms". None for any other text."""
    if not _duration.fullmatch(text.strip()):
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _part.findall(text))
    return seconds if isfinite(seconds) else None


def _used_up_s(headers: httpx2.Headers, now: float) -> float | None:
    """Seconds until the last of those limits is full again of which nothing remains."""
    waits = []
    for name, remaining in headers.items():
        found = _limit.fullmatch(name.lower())
        if found is None or remaining.strip() != "0":
            continue
        reset = f"anthropic-ratelimit-{found['a']}-reset" if found["a"] else f"x-ratelimit-reset-{found['x']}"
        wait = _until_s(headers.get(reset, ""), now)
        if wait is not None:
            waits.append(min(wait, RETRY_AFTER_MAX_S))
    return max(waits, default=None)


def _until_s(text: str, now: float) -> float | None:
    """Seconds to a duration's end, or to an instant in RFC 3339."""
    if (seconds := duration_s(text)) is not None:
        return seconds
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return max(0.0, (instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() - now)
