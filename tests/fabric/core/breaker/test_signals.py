"""Signals open a breaker, at the boundary; some calls may pass; a refused one is answered."""

from collections import Counter

import pytest
from pydantic import ValidationError

from fabric.core.breaker.signals import (
    CAUSE_OF,
    CLEAN,
    NEUTRAL,
    SIGNAL_OF,
    find_tripped,
    open_answer,
    passage,
    tallies,
    told_us,
)
from fabric.core.breaker.table import CLOSED, BreakerHappening, BreakerState, Standing, apply_happening
from fabric.core.spec.policies.breakers import (
    COOLDOWN_MAX_S,
    DOMAIN,
    PROBES_MAX,
    Breaker,
    Signal,
    SignalName,
    endpoint,
    rate_limit,
    semantic,
)
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import US

SEMANTIC, ENDPOINT = semantic(), endpoint()


def counted(policy, *ends):
    """Counts after calls that ended so: a signal, or the name of a domain for one that came clean in it."""
    counts: Counter[str] = Counter()
    for end in ends:
        signal = end if isinstance(end, SignalName) else None
        for tally in tallies(policy, DOMAIN[signal] if signal else end, signal):
            counts[tally.key] = tally.n if tally.reset else counts[tally.key] + tally.n
    return counts


def test_tables_are_total():
    assert list(SIGNAL_OF) == list(Cause)
    assert set(SIGNAL_OF.values()) - {CLEAN, NEUTRAL} <= set(SignalName)
    assert set(CAUSE_OF) == set(DOMAIN) == set(SignalName)


def test_cancel_and_budget_denial_are_neutral():
    assert {SIGNAL_OF[cause] for cause in (Cause.USER_CANCEL, Cause.BUDGET_GATE, Cause.RETRY_BUDGET_EMPTY)} == {NEUTRAL}


@pytest.mark.parametrize(
    ("policy", "signal", "threshold"),
    [
        (SEMANTIC, SignalName.IDENTICAL_CALL, 3),
        (SEMANTIC, SignalName.SCHEMA_INVALID, 2),
        (SEMANTIC, SignalName.COST_RATE, 1),
        (ENDPOINT, SignalName.TIMEOUT, 5),
        (ENDPOINT, SignalName.SERVER_ERROR, 5),
    ],
)
def test_a_streak_opens_it_at_its_threshold_and_what_is_clean_breaks_it(policy, signal, threshold):
    assert find_tripped(policy, counted(policy, *[signal] * (threshold - 1))) is None
    found = find_tripped(policy, counted(policy, *[signal] * threshold))
    assert found is not None
    assert (found.failures, signal in found.signal.names) == (threshold, True)
    broken = [*[signal] * (threshold - 1), DOMAIN[signal], *[signal] * (threshold - 1)]
    assert find_tripped(policy, counted(policy, *broken)) is None


def test_timeouts_and_server_errors_of_an_endpoint_are_one_streak():
    mixed = [SignalName.TIMEOUT, SignalName.SERVER_ERROR] * 3
    assert find_tripped(ENDPOINT, counted(ENDPOINT, *mixed[:4])) is None
    assert find_tripped(ENDPOINT, counted(ENDPOINT, *mixed[:5])) is not None


def test_an_answer_of_the_wrong_form_breaks_no_streak_of_calls():
    ends = [SignalName.IDENTICAL_CALL, SignalName.SCHEMA_INVALID] * 2
    counts = counted(SEMANTIC, *ends, SignalName.IDENTICAL_CALL)
    found = find_tripped(SEMANTIC, counts)
    assert found is not None
    assert found.signal.names == (SignalName.IDENTICAL_CALL,)


def test_a_rate_needs_ten_calls_and_more_than_half():
    failures, fine = [SignalName.RATE_LIMIT] * 3 + [SignalName.SERVER_ERROR] * 2, ["endpoint"] * 5
    assert find_tripped(SEMANTIC, counted(SEMANTIC, *[SignalName.RATE_LIMIT] * 9)) is None
    assert find_tripped(SEMANTIC, counted(SEMANTIC, *failures, *fine)) is None  # Exactly half.
    found = find_tripped(SEMANTIC, counted(SEMANTIC, *failures, SignalName.RATE_LIMIT, *fine))
    assert found is not None
    assert (found.failures, found.observed) == (6, 0.545)


@pytest.mark.parametrize("mode", ["window", "cumulative"])
def test_a_sum_is_not_broken_by_what_is_clean(mode):
    policy = Breaker(scope="tool", signals=({"names": ["timeout"], "mode": mode, "threshold": 3},))
    ends = [SignalName.TIMEOUT, "endpoint"] * 3
    assert find_tripped(policy, counted(policy, *ends[:4])) is None
    assert find_tripped(policy, counted(policy, *ends)) is not None
    assert {tally.windowed for tally in tallies(policy, "endpoint", SignalName.TIMEOUT)} == {mode == "window"}


def test_what_is_said_of_something_else_is_not_counted():
    assert list(tallies(ENDPOINT, "execution", SignalName.IDENTICAL_CALL)) == []


@pytest.mark.parametrize(
    ("state", "waited_us", "may"),
    [
        (BreakerState.CLOSED, 0, "pass"),
        (BreakerState.OPEN, 60 * US - 1, "refuse"),
        (BreakerState.OPEN, 60 * US, "probe"),
        (BreakerState.HALF_OPEN, 0, "probe"),
        (BreakerState.STOPPED, 10**15, "refuse"),
    ],
)
def test_who_may_pass(state, waited_us, may):
    assert passage(SEMANTIC, Standing(state=state), 5, 5 + waited_us) == may


@pytest.mark.parametrize(
    ("state", "retry_at", "now", "may"),
    [
        (BreakerState.OPEN, 90 * US, 90 * US - 1, "refuse"),
        (BreakerState.OPEN, 90 * US, 90 * US, "probe"),
        (BreakerState.OPEN, 30 * US, 30 * US - 1, "refuse"),
        (BreakerState.OPEN, 30 * US, 30 * US, "probe"),  # Its own cooldown, the longer one, is not waited for.
        (BreakerState.OPEN, 5, 60 * US + 4, "refuse"),  # What was over when it opened says nothing.
        (BreakerState.OPEN, 5, 60 * US + 5, "probe"),
        (BreakerState.HALF_OPEN, 90 * US, 90 * US - 1, "refuse"),
        (BreakerState.HALF_OPEN, 90 * US, 90 * US, "probe"),
        (BreakerState.CLOSED, 90 * US, 0, "pass"),
        (BreakerState.STOPPED, 90 * US, 10**15, "refuse"),
    ],
)
def test_no_call_probes_before_the_retry_after_or_without_one_before_the_cooldown(state, retry_at, now, may):
    assert passage(SEMANTIC, Standing(state=state), 5, now, retry_at) == may


@pytest.mark.parametrize(
    ("said_s", "us"), [(None, 0), (0.0, 0), (0.0000001, 1), (2.5, 2_500_000), (1e300, round(COOLDOWN_MAX_S) * US)]
)
def test_a_retry_after_is_heeded_for_a_day_at_most(said_s, us):
    assert told_us(said_s) == us


def test_a_retry_after_is_told_of_what_is_counted_alone():
    def told(policy, signal, wait_us=7 * US):
        return [(one.n, one.reset) for one in tallies(policy, "endpoint", signal, wait_us) if one.until]

    limit = rate_limit()
    assert told(limit, SignalName.RATE_LIMIT) == [(7 * US, False)]
    assert told(limit, SignalName.RATE_LIMIT, 0) == []
    assert told(limit, SignalName.SERVER_ERROR) == [(0, True)], "which breaks the streak"
    assert told(limit, None) == [(0, True)]
    assert told(SEMANTIC, None) == [], "a rate is not broken by one that is clean"
    assert list(tallies(limit, "answer", SignalName.SCHEMA_INVALID, 7 * US)) == []


def test_one_that_a_person_opened_does_not_cool_down():
    forced = apply_happening(SEMANTIC, CLOSED, BreakerHappening.FORCED_OPEN, by="ops")
    assert passage(SEMANTIC, forced, 0, 10**15) == "refuse"


def test_the_answer_says_what_is_left_of_the_cooldown():
    opened = apply_happening(ENDPOINT, CLOSED, BreakerHappening.TRIPPED, signal="timeout", failures=5, threshold=5.0)
    told = open_answer(opened, left_us=42 * US, agent="critic", fallback=True)
    assert told == {
        "error": "circuit_breaker_open",
        "message": "critic is not called for 42 s more: its circuit breaker opened (5 times timeout)",
        "agent_id": "critic",
        "failures": 5,
        "threshold": 5.0,
        "retry_after_ms": 42_000,
        "fallback_available": True,
    }
    late = open_answer(opened, left_us=0, agent="critic", fallback=False)
    assert (late["retry_after_ms"], late["fallback_available"]) == (0, False)
    stopped = Standing(state=BreakerState.STOPPED, signal="timeout", failures=5)
    told = open_answer(stopped, left_us=None, agent="critic", fallback=False)
    assert told["retry_after_ms"] is None
    assert "until a person resets it" in told["message"]


@pytest.mark.parametrize(
    ("signal", "said"),
    [
        ({"names": [], "mode": "window", "threshold": 1}, "names"),
        ({"names": ["timeout"], "mode": "rate", "threshold": 1}, "less than 1"),
        ({"names": ["timeout"], "mode": "window", "threshold": 1.5}, "a whole number"),
        ({"names": ["timeout"], "mode": "window", "threshold": 0}, "greater than 0"),
        ({"names": ["timeout", "timeout"], "mode": "window", "threshold": 1}, "each once"),
        ({"names": ["timeout", "schema_invalid"], "mode": "window", "threshold": 1}, "the same thing"),
        ({"names": ["schema_invalid"], "mode": "window", "threshold": 1}, "give consecutive"),
        ({"names": ["boredom"], "mode": "window", "threshold": 1}, "identical_call"),
        ({"names": ["timeout"], "mode": "window", "threshold": 1, "window_s": 600}, "window_s"),
    ],
)
def test_a_signal_that_makes_no_sense_is_refused_with_its_field(signal, said):
    with pytest.raises(ValidationError, match=said):
        Signal.model_validate(signal)


def test_at_least_one_probe_and_at_most_sixteen():
    assert [endpoint().half_open_max, *(several(most).half_open_max for most in (2, PROBES_MAX))] == [1, 2, 16]
    for most in (0, PROBES_MAX + 1):
        with pytest.raises(ValidationError, match="half_open_max"):
            several(most)


def several(most):
    return Breaker.model_validate(endpoint().model_dump() | {"half_open_max": most})
