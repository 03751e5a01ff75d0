"""The states of a breaker: every pair has a successor, and nothing departs from the table."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.breaker.table import (
    CLOSED,
    FORCED,
    OPENINGS,
    TRANSITIONS,
    BreakerHappening,
    BreakerState,
    Standing,
    apply_happening,
    decode_standing,
    encode_standing,
)
from fabric.core.spec.policies.breakers import BreakerScope, endpoint, semantic

ONCE = semantic()
THRICE = endpoint()


def run(policy, *happened):
    standing = CLOSED
    for one in happened:
        standing = apply_happening(policy, standing, one, signal="server_error", failures=5, threshold=5)
    return standing


def test_the_table_is_total():
    assert set(TRANSITIONS) == set(product(BreakerState, BreakerHappening))


def test_closed_is_left_by_a_trip_or_a_person_alone():
    leaves = {happened for (state, happened), then in TRANSITIONS.items() if state is BreakerState.CLOSED is not then}
    assert leaves == {BreakerHappening.TRIPPED, BreakerHappening.FORCED_OPEN}


def test_stopped_is_left_by_a_person_alone():
    leaves = {happened for (state, happened), then in TRANSITIONS.items() if state is BreakerState.STOPPED is not then}
    assert leaves == {BreakerHappening.RESET}


@pytest.mark.parametrize("policy", [ONCE, THRICE], ids=["semantic", "endpoint"])
def test_it_closes_at_the_last_probe_that_must_pass_and_not_one_before(policy):
    half_open = run(policy, BreakerHappening.TRIPPED, BreakerHappening.COOLED)
    assert half_open.state is BreakerState.HALF_OPEN
    for n in range(1, policy.success_threshold):
        half_open = apply_happening(policy, half_open, BreakerHappening.PROBE_PASSED)
        assert (half_open.state, half_open.passed) == (BreakerState.HALF_OPEN, n)
    assert apply_happening(policy, half_open, BreakerHappening.PROBE_PASSED) == CLOSED


def test_probes_that_passed_count_no_more_once_one_failed():
    standing = run(
        THRICE,
        BreakerHappening.TRIPPED,
        BreakerHappening.COOLED,
        BreakerHappening.PROBE_PASSED,
        BreakerHappening.PROBE_PASSED,
    )
    again = apply_happening(
        THRICE, apply_happening(THRICE, standing, BreakerHappening.PROBE_FAILED), BreakerHappening.COOLED
    )
    assert (again.state, again.passed, again.trips) == (BreakerState.HALF_OPEN, 0, 2)


def test_it_stops_at_the_last_trip_and_not_one_before():
    failing = (BreakerHappening.COOLED, BreakerHappening.PROBE_FAILED)
    standing = run(ONCE, BreakerHappening.TRIPPED, *failing)
    assert (standing.state, standing.trips) == (BreakerState.OPEN, 2)
    standing = run(ONCE, BreakerHappening.TRIPPED, *failing, *failing)
    assert (standing.state, standing.trips, standing.held) == (BreakerState.STOPPED, 3, True)
    assert apply_happening(ONCE, standing, BreakerHappening.RESET, by="ops") == Standing(by="ops")


def test_closing_forgets_trips_unless_the_policy_keeps_them():
    keeping = ONCE.model_copy(update={"reset_on_success": False})
    once = (BreakerHappening.TRIPPED, BreakerHappening.COOLED, BreakerHappening.PROBE_PASSED)
    assert run(ONCE, *once).trips == 0
    assert run(keeping, *once).trips == 1
    assert run(keeping, *once, *once, BreakerHappening.TRIPPED).state is BreakerState.STOPPED
    assert apply_happening(keeping, run(keeping, *once), BreakerHappening.FORCED_OPEN).trips == 1


def test_what_opened_it_stays_known_while_probes_fail():
    standing = run(THRICE, BreakerHappening.TRIPPED, BreakerHappening.COOLED)
    again = apply_happening(THRICE, standing, BreakerHappening.PROBE_FAILED, signal="timeout", failures=1)
    assert (again.signal, again.failures, again.threshold) == ("server_error", 5, 5)


def test_a_person_opens_it_without_a_trip_and_until_a_person_resets_it():
    standing = apply_happening(ONCE, CLOSED, BreakerHappening.FORCED_OPEN, by="ops", reason="the provider asked")
    assert (standing.signal, standing.trips, standing.by, standing.held) == (FORCED, 0, "ops", True)
    assert apply_happening(ONCE, standing, BreakerHappening.RESET, by="ops").state is BreakerState.CLOSED


def test_one_that_opened_by_itself_can_be_held_open_by_a_person():
    opened = run(ONCE, BreakerHappening.TRIPPED)
    held = apply_happening(ONCE, opened, BreakerHappening.FORCED_OPEN, by="ops", reason="the provider asked")
    assert (held.state, held.signal, held.trips, held.held) == (BreakerState.OPEN, FORCED, 1, True)
    assert apply_happening(ONCE, held, BreakerHappening.FORCED_OPEN, by="dana", reason="again") is held
    stopped = run(ONCE, BreakerHappening.TRIPPED, *[BreakerHappening.COOLED, BreakerHappening.PROBE_FAILED] * 2)
    assert apply_happening(ONCE, stopped, BreakerHappening.FORCED_OPEN, by="ops", reason="again") is stopped


def test_nothing_is_written_where_nothing_changes():
    assert apply_happening(ONCE, CLOSED, BreakerHappening.PROBE_FAILED) is CLOSED
    opened = run(ONCE, BreakerHappening.TRIPPED)
    assert apply_happening(ONCE, opened, BreakerHappening.TRIPPED, signal="timeout", failures=9) is opened


@given(st.lists(st.sampled_from(BreakerHappening), max_size=30), st.sampled_from([ONCE, THRICE]))
def test_whatever_happens_trips_are_bounded_and_the_row_says_it_all(happened, policy):
    standing = CLOSED
    for one in happened:
        before, standing = standing, apply_happening(policy, standing, one)
        assert standing.trips <= policy.max_trips
        assert standing.trips <= before.trips + (one in OPENINGS)
        assert (standing.state is BreakerState.STOPPED) <= (standing.trips == policy.max_trips)
        assert decode_standing(encode_standing(standing)) == standing


def test_a_row_that_was_never_changed_is_closed_and_a_broken_one_is_said():
    assert decode_standing("") is CLOSED
    with pytest.raises(msgspec.DecodeError):
        decode_standing("open")


def test_presets_take_any_scope():
    assert {policy(scope).scope for policy in (semantic, endpoint) for scope in BreakerScope} == set(BreakerScope)


@pytest.mark.parametrize(("max_trips", "stops_at"), [(1, 1), (2, 2), (3, 3), (0, None)])
def test_it_stops_at_so_many_trips_and_never_where_none_are_said(max_trips, stops_at):
    policy = endpoint().model_copy(update={"max_trips": max_trips})
    standing, stopped = CLOSED, None
    for trip in range(1, 6):
        standing = apply_happening(
            policy, standing, BreakerHappening.TRIPPED if trip == 1 else BreakerHappening.PROBE_FAILED, signal="timeout"
        )
        if standing.state is BreakerState.STOPPED:
            stopped = trip
            break
        standing = apply_happening(policy, standing, BreakerHappening.COOLED)
    assert stopped == stops_at
