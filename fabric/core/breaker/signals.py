"""What a breaker counts, when that opens it, which call may pass, and what a refused one is answered."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fabric.core.breaker.policy import COOLDOWN_MAX_S, DOMAIN, Breaker, Signal, SignalName
from fabric.core.breaker.table import BreakerState, Standing
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause

US = 1_000_000
ENDPOINT, OUTCOME = "endpoint", "outcome"
"""Domains of what all workers count together: how calls end, and what gates find."""
Neutral = Literal["neutral"]
NEUTRAL: Neutral = "neutral"
Clean = Literal["clean"]
CLEAN: Clean = "clean"
DISBELIEF = 2
"""How much longer each wait is than the one before, where the endpoint named both and a probe failed between them."""
LEAST_TOLD_US = US
"""A wait that the endpoint names counts as a second at least.

It must still be running when the breaker opens, and a probe a moment later finds nothing new.
"""
RETRY_AT = "retry_at"
"""What the latest Retry-After is called among the counts of a row: an instant, before which no probe goes out."""

SIGNAL_OF: Mapping[Cause, SignalName | Clean | Neutral] = {
    Cause.RATE_LIMIT: SignalName.RATE_LIMIT,
    Cause.SERVER_ERROR: SignalName.SERVER_ERROR,
    Cause.NETWORK: SignalName.SERVER_ERROR,
    Cause.DROPPED_STREAM: SignalName.SERVER_ERROR,
    Cause.TIMEOUT: SignalName.TIMEOUT,
    Cause.SCHEMA_INVALID: SignalName.SCHEMA_INVALID,
    Cause.MALFORMED_ANSWER: SignalName.SCHEMA_INVALID,
    # It answered, and said something that a breaker does not watch.
    **dict.fromkeys(
        (
            Cause.AUTH,
            Cause.BAD_REQUEST,
            Cause.BAD_CONFIGURATION,
            Cause.UNKNOWN_MODEL,
            Cause.TOOL_CONSTRAINT,
            Cause.CONTEXT_LENGTH,
            Cause.TOKEN_LIMIT,
            Cause.QUOTA,
            Cause.CONTENT_FILTER,
        ),
        CLEAN,
    ),
    # Said by the engine itself, or by a person: nothing is known of who was to be called.
    **dict.fromkeys(
        (
            Cause.UNKNOWN,
            Cause.CORRECTIONS_SPENT,
            Cause.INVARIANT,
            Cause.GROUNDING,
            Cause.PARTIAL_FAN_IN,
            Cause.BUDGET_GATE,
            Cause.KEY_CAP,
            Cause.COST_VELOCITY,
            Cause.PRICE_MISSING,
            Cause.RUN_DEADLINE,
            Cause.STAGE_DEADLINE,
            Cause.DEADLINE_NEAR,
            Cause.TURN_LIMIT,
            Cause.HOP_LIMIT,
            Cause.RECURSION_LIMIT,
            Cause.VISIT_LIMIT,
            Cause.SUB_AGENT_CAP,
            Cause.EVENT_CAP,
            Cause.PAYLOAD_CAP,
            Cause.PENDING_CAP,
            Cause.LOOP_DETECTED,
            Cause.RETRY_BUDGET_EMPTY,
            Cause.QUEUE_FULL,
            Cause.PLAN_GATE,
            Cause.POLICY_DENIED,
            Cause.WORKSPACE_POLICY,
            Cause.PERSONA_VIOLATION,
            Cause.INJECTED_INSTRUCTION,
            Cause.DUPLICATE_CALL,
            Cause.DEPENDENCY_FAILED,
            Cause.WRITE_CONFLICT,
            Cause.OUTCOME_UNKNOWN,
            Cause.STALLED,
            Cause.NO_PROGRESS,
            Cause.BRIEF_REPEATED,
            Cause.SUPERVISOR_STUCK,
            Cause.HANDOFF_CYCLE,
            Cause.REPEATED_FAILURE,
            Cause.RESTART_BLOCKED,
            Cause.GOAL_UNMET,
            Cause.BELOW_TAU,
            Cause.USER_CANCEL,
            # A handler's own wish to be asked again later says nothing of whether it is well.
            Cause.RETRY_ASKED,
        ),
        NEUTRAL,
    ),
}
"""What the end of a call is to a breaker, by its cause; total. Cancel and budget denial are neutral (semantics.md 4)."""
CAUSE_OF: Mapping[SignalName, Cause] = {
    SignalName.IDENTICAL_CALL: Cause.LOOP_DETECTED,
    SignalName.SCHEMA_INVALID: Cause.SCHEMA_INVALID,
    SignalName.INVARIANT: Cause.INVARIANT,
    SignalName.COST_RATE: Cause.COST_VELOCITY,
    SignalName.RATE_LIMIT: Cause.RATE_LIMIT,
    SignalName.SERVER_ERROR: Cause.SERVER_ERROR,
    SignalName.TIMEOUT: Cause.TIMEOUT,
}
"""The signal that opened a breaker names the row that a refused call takes: this cause's (semantics.md 4)."""


@value(kw_only=True)
class Tally:
    """How one end of a call changes one count."""

    key: str
    n: int = 1
    reset: bool = False
    """The count begins anew at ``n``: a streak was broken."""
    windowed: bool = False
    until: bool = False
    """``n`` is microseconds from now, and the count the latest such instant (``grant_ports.Count``)."""


def tallies(policy: Breaker, domain: str, signal: SignalName | None, wait_us: int = 0) -> Iterator[Tally]:
    """What to count of something that came clean (None) or as a signal in a domain (``policy.DOMAIN``). ``wait_us``: of the Retry-After that it told."""
    yield from _waits(policy, domain, signal, wait_us)
    for one in policy.signals:
        if DOMAIN[one.names[0]] != domain:
            continue
        hit = signal in one.names
        if one.mode == "rate":
            yield Tally(key=f"{one.key}:all", windowed=True)
        counted = one.names if signal is None or not hit else (signal,)
        keys = (one.key, *(_part(one, name) for name in counted if len(one.names) > 1))
        if hit:
            yield from (Tally(key=key, windowed=one.mode in ("window", "rate")) for key in keys)
        elif one.mode == "consecutive":
            yield from (Tally(key=key, n=0, reset=True) for key in keys)


def _part(one: Signal, name: SignalName) -> str:
    """The key under which one name of a group is counted."""
    return f"{one.key}/{name}"


def _waits(policy: Breaker, domain: str, signal: SignalName | None, wait_us: int) -> Iterator[Tally]:
    """What a counted failure told is kept as long as it may have a part in a trip: until its streak is broken; where not only streaks are counted, until it is over."""
    if domain != ENDPOINT:
        return  # Only an endpoint names a wait.
    mine = [one for one in policy.signals if DOMAIN[one.names[0]] == domain]
    if any(signal in one.names for one in mine):
        if wait_us > 0:
            yield Tally(key=RETRY_AT, n=told_cooldown_us(policy, wait_us), until=True)
    elif mine and all(one.mode == "consecutive" for one in mine):
        yield Tally(key=RETRY_AT, n=0, reset=True, until=True)


def told_us(retry_after_s: float | None) -> int:
    """Microseconds of a Retry-After, ``COOLDOWN_MAX_S`` at most."""
    return 0 if retry_after_s is None else math.ceil(min(retry_after_s, COOLDOWN_MAX_S) * US)


def told_cooldown_us(policy: Breaker, wait_us: int, early: int = 0) -> int:
    """Microseconds of the cooldown after an endpoint named a wait of ``wait_us``, which is more than 0.

    ``early``: probes in a row that failed after such a wait. The endpoint is believed less each time, until its wait is the policy's cooldown.
    """
    return max(wait_us, min(max(LEAST_TOLD_US, wait_us) * int(DISBELIEF**early), math.ceil(policy.cooldown_s * US)))


def too_early(policy: Breaker, standing: Standing, wait_us: int) -> bool:
    """Returns True where a failed probe went out before the policy's cooldown, after a shorter wait that the endpoint named. ``wait_us``: the wait it names now."""
    return wait_us > 0 and told_cooldown_us(policy, wait_us, standing.early) < policy.cooldown_s * US


@value()
class Tripped:
    """A signal that reached its threshold."""

    signal: Signal
    failures: int
    observed: float
    """What is compared with the threshold: a count, or the share of the calls."""
    parts: tuple[tuple[SignalName, int], ...]
    """How often each of its names was counted, the most frequent first."""


def tripped(policy: Breaker, counts: Mapping[str, int]) -> Tripped | None:
    """The first signal that opens the breaker by these counts; None: it stays closed.

    A count opens at its threshold, a rate above it and from ``min_calls`` on.
    """
    for one in policy.signals:
        failures = counts.get(one.key, 0)
        if one.mode != "rate":
            if failures >= one.threshold:
                return Tripped(one, failures, float(failures), _parts(one, failures, counts))
            continue
        calls = counts.get(f"{one.key}:all", 0)
        if calls >= one.min_calls and failures / calls > one.threshold:
            return Tripped(one, failures, round(failures / calls, 3), _parts(one, failures, counts))
    return None


def _parts(one: Signal, failures: int, counts: Mapping[str, int]) -> tuple[tuple[SignalName, int], ...]:
    """Returns the names of a signal that were counted; of programs that counted only the whole group, its first name."""
    named = [(name, counts.get(_part(one, name), 0)) for name in one.names]
    found = sorted((part for part in named if part[1]), key=lambda part: -part[1])
    return tuple(found) or ((one.names[0], failures),)


Passage = Literal["pass", "probe", "refuse"]


def cools_at(policy: Breaker, changed_at: int, retry_at: int) -> int:
    """When the cooldown of a breaker that opened at ``changed_at`` is over: when its endpoint said, else after ``cooldown_s``. Microseconds since the epoch.

    ``retry_at``: the row's ``RETRY_AT``. What was over before the breaker opened says nothing.
    """
    return retry_at if retry_at > changed_at else changed_at + math.ceil(policy.cooldown_s * US)


def passage(policy: Breaker, standing: Standing, changed_at: int, now: int, retry_at: int = 0) -> Passage:
    """Whether a call may pass: yes, as a probe if its permit is had, or no. ``changed_at``, ``now``, ``retry_at`` (the row's ``RETRY_AT``): microseconds since the epoch."""
    if standing.state is BreakerState.CLOSED:
        return "pass"
    if standing.state is BreakerState.HALF_OPEN:
        return "probe" if now >= retry_at else "refuse"
    if standing.state is BreakerState.OPEN and not standing.held and now >= cools_at(policy, changed_at, retry_at):
        return "probe"
    return "refuse"


def open_answer(standing: Standing, *, left_us: int | None, agent: str, fallback: bool) -> dict[str, Any]:
    """What a refused call is answered (S3 "Circuit breaker"); ``left_us``: until a call may be tried, None where only a person lets calls pass again."""
    until = "until somebody resets it" if left_us is None else f"for {left_us / US:.0f} s more"
    what = standing.counted or standing.signal
    return {
        "error": "circuit_breaker_open",
        "message": f"{agent} is not called {until}: its circuit breaker opened ({what})",
        "agent_id": agent,
        "failures": standing.failures,
        "threshold": standing.threshold,
        "retry_after_ms": None if left_us is None else left_us // 1_000,
        "fallback_available": fallback,
    }
