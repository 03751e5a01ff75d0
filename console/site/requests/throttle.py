"""Limits requests of a token or user to a number a minute, and returns the seconds to wait.

1. Whole minutes are counted in Django's cache. It bounds the cost of a runaway program; it does not shape traffic.
2. The default cache is this process's memory, so several web processes count separately.
3. Attempts to sign in are counted in the database (``sign_in_tries``).
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
    """A limit on one kind of request of a caller."""

    name: str
    setting: str
    """Name of the setting with the number a minute; 0: unlimited."""
    default: int

    @property
    def most(self) -> int:
        """Return the number a minute; 0: unlimited."""
        return int(getattr(settings, self.setting, self.default))


API = Rate("api", "FABRIC_API_PER_MINUTE", 6_000)
"""Requests of one token or one signed-in user."""
REPORTS = Rate("csp-reports", "CSP_REPORTS_PER_MINUTE", 30)
"""Reports on the content policy by all browsers together. No variable sets it."""
MODEL_TESTS = Rate("model-tests", "FABRIC_MODEL_TESTS_PER_MINUTE", 12)
"""Test calls of models by one user or token."""
AGENT_ASKS = Rate("agent-asks", "FABRIC_MODEL_TESTS_PER_MINUTE", 12)
"""Prompts to drafted agents by one user. They have the number of test calls, and are counted by themselves."""


def count_request(rate: Rate, who: str, now: Callable[[], float] = time.time) -> int:
    """Count a request. Return the seconds to wait if it is too many, else 0. Simultaneous requests all count."""
    most, at = rate.most, now()
    if not most:
        return 0
    key = _key(rate, who, at)
    cache.add(key, 0, timeout=2 * WINDOW_S)
    try:
        counted = cache.incr(key)
    except ValueError:  # The cache was full and dropped it.
        return 0
    return 0 if counted <= most else math.ceil(WINDOW_S - at % WINDOW_S)


def _key(rate: Rate, who: str, at: float) -> str:
    return f"throttle:{rate.name}:{int(at // WINDOW_S)}:{sha256(who.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
