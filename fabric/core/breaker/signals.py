"""What a breaker counts, when that opens it, which call may pass, and what a refused one is answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from fabric.core.breaker.policy import DOMAIN, Breaker, Signal, SignalName
from fabric.core.breaker.table import BreakerState, Standing
from fabric.core.frozen import value
from fabric.core.taxonomy import Cause

US = 1_000_000
Neutral = Literal["neutral"]
NEUTRAL: Neutral = "neutral"
Clean = Literal["clean"]
CLEAN: Clean = "clean"

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
            Cause.DUPLICATE_CALL,
            Cause.OUTCOME_UNKNOWN,
            Cause.STALLED,
            Cause.NO_PROGRESS,
            Cause.BRIEF_REPEATED,
            Cause.SUPERVISOR_STUCK,
            Cause.HANDOFF_CYCLE,
            Cause.REPEATED_FAILURE,
            Cause.GOAL_UNMET,
            Cause.BELOW_TAU,
            Cause.USER_CANCEL,
        ),
        NEUTRAL,
    ),
}
"""What the end of a call is to a breaker, by its cause; total. Cancel and budget denial are neutral (semantics.md 4)."""
CAUSE_OF: Mapping[SignalName, Cause] = {
    SignalName.IDENTICAL_CALL: Cause.LOOP_DETECTED,
    SignalName.SCHEMA_INVALID: Cause.SCHEMA_INVALID,
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


def tallies(policy: Breaker, domain: str, signal: SignalName | None) -> Iterator[Tally]:
    """What to count of something that came clean (None) or as a signal in a domain (``policy.DOMAIN``)."""
    for one in policy.signals:
        if DOMAIN[one.names[0]] != domain:
            continue
        hit = signal in one.names
        if one.mode == "rate":
            yield Tally(key=f"{one.key}:all", windowed=True)
        if hit:
            yield Tally(key=one.key, windowed=one.mode in ("window", "rate"))
        elif one.mode == "consecutive":
            yield Tally(key=one.key, n=0, reset=True)


@value()
class Tripped:
    """A signal that reached its threshold."""

    signal: Signal
    failures: int
    observed: float
    """What is compared with the threshold: a count, or the share of the calls."""


def tripped(policy: Breaker, counts: Mapping[str, int]) -> Tripped | None:
    """The first signal that opens the breaker by these counts; None: it stays closed.

    A count opens at its threshold, a rate above it and from ``min_calls`` on.
    """
    for one in policy.signals:
        failures = counts.get(one.key, 0)
        if one.mode != "rate":
            if failures >= one.threshold:
                return Tripped(one, failures, float(failures))
            continue
        calls = counts.get(f"{one.key}:all", 0)
        if calls >= one.min_calls and failures / calls > one.threshold:
            return Tripped(one, failures, round(failures / calls, 3))
    return None


Passage = Literal["pass", "probe", "refuse"]


def passage(policy: Breaker, standing: Standing, changed_at: int, now: int) -> Passage:
    """Whether a call may pass: yes, as the one probe if its permit is had, or no. ``changed_at``, ``now``: microseconds since the epoch."""
    if standing.state is BreakerState.CLOSED:
        return "pass"
    if standing.state is BreakerState.HALF_OPEN:
        return "probe"
    if standing.state is BreakerState.OPEN and not standing.held and now - changed_at >= policy.cooldown_s * US:
        return "probe"
    return "refuse"


def open_answer(
    policy: Breaker, standing: Standing, *, changed_at: int, now: int, agent: str, fallback: bool
) -> dict[str, Any]:
    """What a refused call is answered (S3 "Circuit breaker"); ``retry_after_ms`` is what is left of the cooldown, None where only a person lets calls pass again."""
    left_us = max(0, changed_at + round(policy.cooldown_s * US) - now)
    until = "until somebody resets it" if standing.held else f"for {left_us / US:.0f} s more"
    what = f"{standing.failures} times {standing.signal}" if standing.failures else standing.signal
    return {
        "error": "circuit_breaker_open",
        "message": f"{agent} is not called {until}: its circuit breaker opened ({what})",
        "agent_id": agent,
        "failures": standing.failures,
        "threshold": standing.threshold,
        "retry_after_ms": None if standing.held else left_us // 1_000,
        "fallback_available": fallback,
    }
