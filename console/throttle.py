"""How often somebody may ask within a minute. What is over is told how long to wait.

Counted in Django's cache, by whole minutes: what a program that runs away costs is bounded, not shaped. The default cache is this process's
memory, so several web processes count each by itself. Who asks is a token or a user. Tries to sign in are counted in the database (``sign_in_tries``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from django.conf import settings
from django.core.cache import cache

WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Rate:
    """A bound on how often one caller may do one thing."""

    name: str
    setting: str
    """Name of the setting that holds how often within a minute; 0: as often as anybody likes."""
    default: int

    @property
    def most(self) -> int:
        """How often within a minute; 0: without a bound."""
        return int(getattr(settings, self.setting, self.default))


API = Rate("api", "FABRIC_API_PER_MINUTE", 6_000)
"""Requests of one token or one signed-in user."""
REPORTS = Rate("csp-reports", "CSP_REPORTS_PER_MINUTE", 30)
"""Reports on the content policy by all browsers together. No variable sets it."""
MODEL_TESTS = Rate("model-tests", "FABRIC_MODEL_TESTS_PER_MINUTE", 12)
"""Test calls of models by one user or token."""


def count(rate: Rate, who: str, now: Callable[[], float] = time.time) -> int:
    """Counts one more. Seconds to wait when that is too many, 0 when it may go on. Each of those that come at once is counted."""
    most, at = rate.most, now()
    if not most:
        return 0
    key = _key(rate, who, at)
    cache.add(key, 0, timeout=2 * WINDOW_S)
    try:
        counted = cache.incr(key)
    except ValueError:  # The cache was full and let go of it.
        return 0
    return 0 if counted <= most else math.ceil(WINDOW_S - at % WINDOW_S)


def give_back(rate: Rate, who: str, now: Callable[[], float] = time.time) -> None:
    """Takes one back that turned out not to count."""
    try:
        cache.decr(_key(rate, who, now()))
    except ValueError:  # It was counted in the minute before, or not at all.
        return


def _key(rate: Rate, who: str, at: float) -> str:
    return f"throttle:{rate.name}:{int(at // WINDOW_S)}:{sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
