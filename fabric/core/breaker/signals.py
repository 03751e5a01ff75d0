"""Holds the rules of a breaker: its signals, its thresholds, the passing calls, and the answer to a refused call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fabric.core.breaker.table import BreakerState, Standing
from fabric.core.events.inputs import CallFailed
from fabric.core.spec.policies.breakers import COOLDOWN_MAX_S, DOMAIN, Breaker, Signal, SignalName
from fabric.core.values.frozen import value
from fabric.core.values.identity_cache import keep_results
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import US

ENDPOINT, OUTCOME = "endpoint", "outcome"
"""Domains of what all workers count together: how calls end, and what gates find."""
Neutral = Literal["neutral"]
NEUTRAL: Neutral = "neutral"
Clean = Literal["clean"]
CLEAN: Clean = "clean"
DISBELIEF = 2
"""Factor by which each wait grows, where the endpoint named the wait and the probe after it failed."""
LEAST_TOLD_US = US
"""A wait that the endpoint names counts as a second at least.

It must still be running when the breaker opens, and a probe a moment later finds nothing new.
"""
RETRY_AT = "retry_at"
"""Name of the latest Retry-After among the counts of a row: an instant, before which no probe goes out."""

SIGNAL_OF: Mapping[Cause, SignalName | Clean | Neutral] = {
    # Failures of the engine, of a person, or of a handler that asks for a later retry tell nothing about an endpoint.
    **dict.fromkeys(Cause, NEUTRAL),
    Cause.RATE_LIMIT: SignalName.RATE_LIMIT,
    Cause.SERVER_ERROR: SignalName.SERVER_ERROR,
    Cause.NETWORK: SignalName.SERVER_ERROR,
    Cause.DROPPED_STREAM: SignalName.SERVER_ERROR,
    Cause.TIMEOUT: SignalName.TIMEOUT,
    Cause.SCHEMA_INVALID: SignalName.SCHEMA_INVALID,
    Cause.MALFORMED_ANSWER: SignalName.SCHEMA_INVALID,
    # It answered, with a failure that no breaker watches.
    Cause.AUTH: CLEAN,
    Cause.BAD_REQUEST: CLEAN,
    Cause.BAD_CONFIGURATION: CLEAN,
    Cause.UNKNOWN_MODEL: CLEAN,
    Cause.TOOL_CONSTRAINT: CLEAN,
    Cause.CONTEXT_LENGTH: CLEAN,
    Cause.TOKEN_LIMIT: CLEAN,
    Cause.QUOTA: CLEAN,
    Cause.CONTENT_FILTER: CLEAN,
}
"""Signal of a call's end for a breaker, by its cause. A cause without a row of its own is neutral
(docs/specification/breakers.md).
"""


def find_signal(failed: CallFailed) -> SignalName | Clean | Neutral:
    """Return the signal of a failed call: neutral where no request went out."""
    return NEUTRAL if failed.never_sent else SIGNAL_OF[failed.cause]


CAUSE_OF: Mapping[SignalName, Cause] = {
    SignalName.IDENTICAL_CALL: Cause.LOOP_DETECTED,
    SignalName.SCHEMA_INVALID: Cause.SCHEMA_INVALID,
    SignalName.INVARIANT: Cause.INVARIANT,
    SignalName.COST_RATE: Cause.COST_VELOCITY,
    SignalName.RATE_LIMIT: Cause.RATE_LIMIT,
    SignalName.SERVER_ERROR: Cause.SERVER_ERROR,
    SignalName.TIMEOUT: Cause.TIMEOUT,
}
"""Cause whose row a refused call takes, by the signal that opened the breaker (docs/specification/protections.md)."""


@value(kw_only=True)
class CountChange:
    """Change of one count by the end of a call."""

    key: str
    n: int = 1
    reset: bool = False
    """The count begins anew at ``n``: a streak was broken."""
    windowed: bool = False
    until: bool = False
    """``n`` is microseconds from now, and the count the latest such instant
    (``runtime.ports.spending.SignalCount``).
    """


def tallies(policy: Breaker, domain: str, signal: SignalName | None, wait_us: int = 0) -> Iterator[CountChange]:
    """Yield the counts to change for a clean end (None) or a signal in a domain (``policy.DOMAIN``). ``wait_us``:
    its Retry-After.
    """
    yield from _waits(policy, domain, signal, wait_us)
    yield from _list_counts(policy, domain, signal)


@keep_results
def _list_counts(policy: Breaker, domain: str, signal: SignalName | None) -> tuple[CountChange, ...]:
    return tuple(_count(policy, domain, signal))


def _count(policy: Breaker, domain: str, signal: SignalName | None) -> Iterator[CountChange]:
    for one in policy.signals:
        if DOMAIN[one.names[0]] != domain:
            continue
        hit = signal in one.names
        if one.mode == "rate":
            yield CountChange(key=f"{one.key}:all", windowed=True)
        counted = one.names if signal is None or not hit else (signal,)
        keys = (one.key, *(_part(one, name) for name in counted if len(one.names) > 1))
        if hit:
            yield from (CountChange(key=key, windowed=one.mode in ("window", "rate")) for key in keys)
        elif one.mode == "consecutive":
            yield from (CountChange(key=key, n=0, reset=True) for key in keys)


def _part(one: Signal, name: SignalName) -> str:
    """Return the key under which one name of a group is counted."""
    return f"{one.key}/{name}"


def _waits(policy: Breaker, domain: str, signal: SignalName | None, wait_us: int) -> Iterator[CountChange]:
    """Yield the change of the Retry-After. It stays while it may contribute to a trip: until its streak is broken
    or, where not only streaks count, until it is over.
    """
    if domain != ENDPOINT:
        return  # Only an endpoint names a wait.
    mine = [one for one in policy.signals if DOMAIN[one.names[0]] == domain]
    if any(signal in one.names for one in mine):
        if wait_us > 0:
            yield CountChange(key=RETRY_AT, n=told_cooldown_us(policy, wait_us), until=True)
    elif mine and all(one.mode == "consecutive" for one in mine):
        yield CountChange(key=RETRY_AT, n=0, reset=True, until=True)


def told_us(retry_after_s: float | None) -> int:
    """Return the microseconds of a Retry-After, ``COOLDOWN_MAX_S`` at most."""
    return 0 if retry_after_s is None else math.ceil(min(retry_after_s, COOLDOWN_MAX_S) * US)


def told_cooldown_us(policy: Breaker, wait_us: int, early: int = 0) -> int:
    """Return the microseconds of the cooldown after an endpoint named a wait of ``wait_us``, which is more than 0.

    ``early``: probes in a row that failed after such a wait. The endpoint is believed less each time, until its wait
    is the policy's cooldown.
    """
    return max(wait_us, min(max(LEAST_TOLD_US, wait_us) * int(DISBELIEF**early), math.ceil(policy.cooldown_s * US)))


def too_early(policy: Breaker, standing: Standing, wait_us: int) -> bool:
    """Return True if a failed probe went out before the policy's cooldown, after a shorter wait that the endpoint
    named. ``wait_us``: the wait it names now.
    """
    return wait_us > 0 and told_cooldown_us(policy, wait_us, standing.early) < policy.cooldown_s * US


@value()
class TrippedSignal:
    """A signal that reached its threshold."""

    signal: Signal
    failures: int
    observed: float
    """Value that is compared with the threshold: a count, or the share of the calls."""
    parts: tuple[tuple[SignalName, int], ...]
    """Count of each of its names, the most frequent first."""


def find_tripped(policy: Breaker, counts: Mapping[str, int]) -> TrippedSignal | None:
    """Return the first signal that opens the breaker by these counts; None: it stays closed.

    A count opens at its threshold, a rate above it and from ``min_calls`` on.
    """
    for one in policy.signals:
        failures = counts.get(one.key, 0)
        if one.mode != "rate":
            if failures >= one.threshold:
                return TrippedSignal(one, failures, float(failures), _parts(one, failures, counts))
            continue
        calls = counts.get(f"{one.key}:all", 0)
        if calls >= one.min_calls and failures / calls > one.threshold:
            return TrippedSignal(one, failures, round(failures / calls, 3), _parts(one, failures, counts))
    return None


def _parts(one: Signal, failures: int, counts: Mapping[str, int]) -> tuple[tuple[SignalName, int], ...]:
    """Return the names of a signal that were counted; of programs that counted only the whole group, its first name."""
    named = [(name, counts.get(_part(one, name), 0)) for name in one.names]
    found = sorted((part for part in named if part[1]), key=lambda part: -part[1])
    return tuple(found) or ((one.names[0], failures),)


Passage = Literal["pass", "probe", "refuse"]


def cools_at(policy: Breaker, changed_at: int, retry_at: int) -> int:
    """Return the end of an open breaker's cooldown. That is the instant that its endpoint named, or ``cooldown_s``
    after ``changed_at``. Microseconds since the epoch.

    ``retry_at``: the row's ``RETRY_AT``; ignored if it was over before the breaker opened.
    """
    return retry_at if retry_at > changed_at else changed_at + math.ceil(policy.cooldown_s * US)


def passage(policy: Breaker, standing: Standing, changed_at: int, now: int, retry_at: int = 0) -> Passage:
    """Return "pass", "probe" (a permit is needed) or "refuse" for a call. ``changed_at``, ``now``, ``retry_at`` (the
    row's ``RETRY_AT``): microseconds since the epoch.
    """
    if standing.state is BreakerState.CLOSED:
        return "pass"
    if standing.state is BreakerState.HALF_OPEN:
        return "probe" if now >= retry_at else "refuse"
    if standing.state is BreakerState.OPEN and not standing.held and now >= cools_at(policy, changed_at, retry_at):
        return "probe"
    return "refuse"


def open_answer(standing: Standing, *, left_us: int | None, agent: str, fallback: bool) -> dict[str, Any]:
    """Return the answer to a refused call (S3 "Circuit breaker"). ``left_us``: time until a call may be tried; None
    if only a person closes the breaker.
    """
    until = "until a person resets it" if left_us is None else f"for {left_us / US:.0f} s more"
    what = standing.signal_words or standing.signal
    return {
        "error": "circuit_breaker_open",
        "message": f"{agent} is not called {until}: its circuit breaker opened ({what})",
        "agent_id": agent,
        "failures": standing.failures,
        "threshold": standing.threshold,
        "retry_after_ms": None if left_us is None else left_us // 1_000,
        "fallback_available": fallback,
    }
