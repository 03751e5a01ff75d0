"""Streaks of one step, and what a refused call says."""

import pytest

from fabric.core import events as ev
from fabric.core.breaker.passing import BreakerRefusal
from fabric.core.breaker.signals import CAUSE_OF
from fabric.core.breaker.table import FORCED, BreakerHappening, BreakerState, Standing, apply_happening
from fabric.core.mechanisms import circuit_breaker
from fabric.core.mechanisms.circuit_breaker import (
    SAID,
    State,
    find_cause,
    just_seen,
    observe,
    refusal,
    streaks,
    wait_us,
)
from fabric.core.spec.policies.breakers import BreakerScope, SignalName, endpoint, semantic
from fabric.core.state.failure import record
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Pass, Tier
from fabric.core.values.units import US
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import STEP, at, failed

OPENED = Standing(state=BreakerState.OPEN, trips=1, signal="timeout", failures=5, threshold=5.0)


def looked(standing=OPENED, **changed):
    given = {"breaker": endpoint(), "scope": "provider:scripted", "generation": 4, "changed_at": 10 * US}
    return BreakerRefusal(**{**given, "standing": standing, "asked_at": 12 * US, **changed})


def ran(args="a", tool="look"):
    return at(
        ev.ToolAnswered(
            command_id="c", attempt=1, step_id=STEP, call_id="1", tool=tool, args_hash=args, masked_hash="m"
        )
    )


def said(verdict):
    return at(ev.ModelAnswered(command_id="c", attempt=1, step_id=STEP, verdict=verdict))


def seen(*events):
    state = State()
    for event in events:
        state = observe(state, event)
    return state


def test_executed_calls_that_equal_the_one_before_are_a_streak():
    state = seen(ran(), ran(), ran())
    assert streaks(state)[SignalName.IDENTICAL_CALL] == 3
    assert just_seen(state) == {SignalName.IDENTICAL_CALL}
    other = observe(state, ran("b"))
    assert (streaks(other)[SignalName.IDENTICAL_CALL], just_seen(other)) == (1, frozenset())
    assert streaks(seen(ran("a", "look"), ran("a", "find")))[SignalName.IDENTICAL_CALL] == 1


def test_answers_without_the_promised_form_are_one_until_a_good_one():
    state = seen(said("rejected"), said("rejected"))
    assert streaks(state)[SignalName.SCHEMA_INVALID] == 2
    assert just_seen(state) == {SignalName.SCHEMA_INVALID}
    assert streaks(observe(state, said("calls")))[SignalName.SCHEMA_INVALID] == 0


def decided(cause, mechanism="cost_velocity"):
    trip = ev.TripRecord(mechanism=mechanism, cause=cause, message="too fast")
    return at(
        ev.ReactionDecided(
            failure_type=FailureType.COST_OVERRUN,
            tier=Tier.BATCH,
            table="t",
            rung=0,
            reaction="cheaper_model",
            scope="call:c",
            spent=0,
            bound=1,
            cause=trip,
            step_id=STEP,
        )
    )


def test_a_rate_that_tripped_is_counted_and_what_a_breaker_says_of_it_is_not():
    assert streaks(seen(decided(Cause.COST_VELOCITY)))[SignalName.COST_RATE] == 1
    assert streaks(seen(decided(Cause.COST_VELOCITY, "circuit_breaker")))[SignalName.COST_RATE] == 0
    assert streaks(seen(decided(Cause.BUDGET_GATE)))[SignalName.COST_RATE] == 0


def test_what_a_breaker_refused_begins_both_anew_and_another_failure_does_not():
    state = seen(ran(), ran(), said("rejected"))
    assert observe(state, at(failed())) is state
    refused = replace(failed(), trip=record(refusal(looked(), "worker", "sample")))
    assert set(streaks(observe(state, at(refused))).values()) == {0}


def test_a_refused_call_is_a_trip_and_any_other_passes():
    config = circuit_breaker.config(view().spec.policy)
    assert circuit_breaker.check(config, State(), proposal(kind="send"), view()) == Pass()
    trip = circuit_breaker.check(config, State(), proposal(kind="send", agent="worker", looked=looked()), view())
    assert (trip.mechanism, trip.cause) == ("circuit_breaker", Cause.TIMEOUT)
    assert (trip.evidence.limit, trip.evidence.observed, trip.evidence.scope) == (5.0, 5, "provider:scripted")
    assert trip.evidence.details["retry_after_ms"] == 58_000
    assert trip.evidence.details["cause"] == "breaker_open"
    assert (
        trip.message
        == "the circuit breaker of provider scripted is open until 1970-01-01 00:01:10 UTC (5 times timeout)"
    )


@pytest.mark.parametrize(
    ("scope", "row", "named"),
    [
        (BreakerScope.PROVIDER, "provider:openai@eu.host:8080/v1", "provider:openai@eu.host:8080/v1"),
        (BreakerScope.AGENT, "agent:f1:worker", "agent:worker"),
        (BreakerScope.TOOL, "tool:f1:oracle:site", "tool:oracle:site"),
        (BreakerScope.STAGE, "stage:f1:fan_out", "stage:fan_out"),
        (BreakerScope.FABRIC, "fabric:f1", "fabric:sample"),
    ],
)
def test_a_refusal_names_what_the_breaker_stands_in_front_of(scope, row, named):
    """An endpoint's by its row, so that another model at that endpoint is known to be behind it too."""
    trip = refusal(looked(breaker=endpoint(scope), scope=row), "worker", "sample")
    assert trip.evidence.scope == named
    called = named.replace("fabric:f1", "fabric sample").replace(":", " ", 1)
    assert trip.message.startswith(f"the circuit breaker of {called} is open")


@pytest.mark.parametrize(
    ("standing", "until", "left"),
    [
        (OPENED, 0, 58 * US),
        (Standing(state=BreakerState.HALF_OPEN, signal="timeout"), 15 * US, 3 * US),
        (Standing(state=BreakerState.STOPPED, signal="timeout"), 0, None),
        (Standing(state=BreakerState.OPEN, signal=FORCED), 0, None),
    ],
)
def test_how_long_it_lasts(standing, until, left):
    assert wait_us(looked(standing, until=until)) == left


def test_the_cooldown_that_is_over_is_no_wait():
    assert wait_us(looked(asked_at=10**12)) == 0


def test_each_signal_takes_its_own_row_and_a_persons_word_the_providers():
    rows = {name: CLASSIFY[find_cause(name)].goes_to for name in SignalName}
    assert rows == {
        SignalName.IDENTICAL_CALL: FailureType.TOOL_LOOP,
        SignalName.SCHEMA_INVALID: FailureType.SCHEMA_GROUNDING,
        SignalName.INVARIANT: FailureType.SCHEMA_GROUNDING,
        SignalName.COST_RATE: FailureType.COST_OVERRUN,
        SignalName.RATE_LIMIT: FailureType.PROVIDER,
        SignalName.SERVER_ERROR: FailureType.PROVIDER,
        SignalName.TIMEOUT: FailureType.PROVIDER,
    }
    assert set(CAUSE_OF) == set(SignalName)
    assert CLASSIFY[find_cause(FORCED)].goes_to is FailureType.PROVIDER


def test_there_is_a_word_for_every_state():
    assert set(SAID) == set(BreakerState)


def test_who_opened_it_by_hand_is_named():
    forced = apply_happening(
        semantic(), Standing(), BreakerHappening.FORCED_OPEN, by="dana", reason="the provider is down"
    )
    message = refusal(looked(forced), "worker", "sample").message
    assert "until a person resets it (opened by dana: the provider is down)" in message
