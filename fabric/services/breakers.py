"""What people do to circuit breakers, and how long is kept what became of them."""

from __future__ import annotations

import time

from fabric.models import GuardChange

KEPT_US = 7 * 86_400 * 1_000_000
"""How long it can be looked at that a breaker changed."""


# -- what is over ------------------------------------------------------------------------------------------------------


def guard_changes_prune(*, now: int | None = None) -> int:
    """Deletes the log's lines that are ``KEPT_US`` old; where guards stand is in their rows. How many lines. ``now``: microseconds since the epoch."""
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    return GuardChange.objects.filter(at__lte=until).delete()[0]


def guard_changes_to_prune() -> bool:
    """Whether there is anything in the log at all; in most installations no guard has changed for days."""
    return GuardChange.objects.exists()
