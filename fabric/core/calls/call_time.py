"""Limits the time of one call over all its attempts. So an endpoint that never answers costs the time of one call, not
of each retry.

An attempt may take its own timeout. All attempts of a call together may take ``SHARE`` of that. Waits between them do
not count. A wait for a circuit breaker ends with a probe, so the call's time begins anew with it. It also begins anew
with another model.
"""

from __future__ import annotations

from fabric.core.mechanisms.deadline import NEAR_SHARE
from fabric.core.state.run import Pending
from fabric.core.values.units import US

SHARE = 1.4
"""The time of a call, in timeouts of one attempt: interactive 42 s, batch 168 s, high-stakes 84 s. If no answer ever
comes, a second attempt has 12 s, 48 s, 24 s.
"""


def left_s(pending: Pending | None, timeout: float) -> float:
    """Return the seconds that are left of a call's time. ``timeout``: of one attempt; ``pending`` None: its first
    has not begun.
    """
    spent = 0 if pending is None else pending.spent_us
    return SHARE * timeout - spent / US


def attempt_s(pending: Pending | None, timeout: float) -> float:
    """Return the seconds that the next attempt may take. A retry always gets its least time, so that it is not cut to
    nothing.
    """
    return min(timeout, max(left_s(pending, timeout), NEAR_SHARE * timeout))


def spent_sentence(pending: Pending | None, timeout: float) -> str:
    """Return why no further attempt fits into its call's time, as a sentence; "" if one does."""
    if left_s(pending, timeout) >= NEAR_SHARE * timeout:
        return ""
    took = 0.0 if pending is None else pending.spent_us / US
    return f"its attempts took {took:.1f} s, and one call has {SHARE * timeout:g} s for all of them"
