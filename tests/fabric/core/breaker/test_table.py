"""The states of a breaker: every pair has a successor, and nothing departs from the table."""

from itertools import product

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.breaker.policy import BreakerScope, endpoint, semantic
from fabric.core.breaker.table import (
    CLOSED,
    FORCED,
    OPENINGS,
    TRANSITIONS,
    BreakerState,
    Happened,
    Standing,
    after,
    decoded,
    encoded,
)

ONCE = semantic()
THRICE = endpoint()


def run(policy, *happened):
    standing = CLOSED
    for one in happened:
        standing = after(policy, standing, one, signal="server_error", failures=5, threshold=5)
    return standing


def test_the_table_is_total():
    assert set(TRANSITIONS) == set(product(BreakerState, Happened))


def test_closed_is_left_by_a_trip_or_a_person_alone():
    leaves = {happened for (state, happened), then in TRANSITIONS.items() if state is BreakerState.CLOSED is not then}
    assert leaves == {Happened.TRIPPED, Happened.FORCED_OPEN}


def test_stopped_is_left_by_a_person_alone():
    leaves = {happened for (state, happened), then in TRANSITIONS.items() if state is BreakerState.STOPPED is not then}
    assert leaves == {Happened.RESET}


@pytest.mark.parametrize("policy", [ONCE, THRICE], ids=["semantic", "endpoint"])
def test_it_closes_at_the_last_probe_that_must_pass_and_not_one_before(policy):
    half_open = run(policy, Happened.TRIPPED, Happened.COOLED)
    assert half_open.state is BreakerState.HALF_OPEN
    for n in range(1, policy.success_threshold):
        half_open = after(policy, half_open, Happened.PROBE_PASSED)
        assert (half_open.state, half_open.passed) == (BreakerState.HALF_OPEN, n)
    assert after(policy, half_open, Happened.PROBE_PASSED) == CLOSED


def test_probes_that_passed_count_no_more_once_one_failed():
    standing = run(THRICE, Happened.TRIPPED, Happened.COOLED, Happened.PROBE_PASSED, Happened.PROBE_PASSED)
    again = after(THRICE, after(THRICE, standing, Happened.PROBE_FAILED), Happened.COOLED)
    assert (again.state, again.passed, again.trips) == (BreakerState.HALF_OPEN, 0, 2)


def test_it_stops_at_the_last_trip_and_not_one_before():
    failing = (Happened.COOLED, Happened.PROBE_FAILED)
    standing = run(ONCE, Happened.TRIPPED, *failing)
    assert (standing.state, standing.trips) == (BreakerState.OPEN, 2)
    standing = run(ONCE, Happened.TRIPPED, *failing, *failing)
    assert (standing.state, standing.trips, standing.held) == (BreakerState.STOPPED, 3, True)
    assert after(ONCE, standing, Happened.RESET, by="ops") == Standing(by="ops")


def test_closing_forgets_trips_unless_the_policy_keeps_them():
    keeping = ONCE.model_copy(update={"reset_on_success": False})
    once = (Happened.TRIPPED, Happened.COOLED, Happened.PROBE_PASSED)
    assert run(ONCE, *once).trips == 0
    assert run(keeping, *once).trips == 1
    assert run(keeping, *once, *once, Happened.TRIPPED).state is BreakerState.STOPPED
    assert after(keeping, run(keeping, *once), Happened.FORCED_OPEN).trips == 1


def test_what_opened_it_stays_known_while_probes_fail():
    standing = run(THRICE, Happened.TRIPPED, Happened.COOLED)
    again = after(THRICE, standing, Happened.PROBE_FAILED, signal="timeout", failures=1)
    assert (again.signal, again.failures, again.threshold) == ("server_error", 5, 5)


def test_a_person_opens_it_without_a_trip_and_until_a_person_resets_it():
    standing = after(ONCE, CLOSED, Happened.FORCED_OPEN, by="ops", reason="the provider asked")
    assert (standing.signal, standing.trips, standing.by, standing.held) == (FORCED, 0, "ops", True)
    assert after(ONCE, standing, Happened.RESET, by="ops").state is BreakerState.CLOSED


def test_one_that_opened_by_itself_can_be_held_open_by_a_person():
    opened = run(ONCE, Happened.TRIPPED)
    held = after(ONCE, opened, Happened.FORCED_OPEN, by="ops", reason="the provider asked")
    assert (held.state, held.signal, held.trips, held.held) == (BreakerState.OPEN, FORCED, 1, True)
    assert after(ONCE, held, Happened.FORCED_OPEN, by="dana", reason="again") is held
    stopped = run(ONCE, Happened.TRIPPED, *[Happened.COOLED, Happened.PROBE_FAILED] * 2)
    assert after(ONCE, stopped, Happened.FORCED_OPEN, by="ops", reason="again") is stopped


def test_nothing_is_written_where_nothing_changes():
    assert after(ONCE, CLOSED, Happened.PROBE_FAILED) is CLOSED
    opened = run(ONCE, Happened.TRIPPED)
    assert after(ONCE, opened, Happened.TRIPPED, signal="timeout", failures=9) is opened


@given(st.lists(st.sampled_from(Happened), max_size=30), st.sampled_from([ONCE, THRICE]))
def test_whatever_happens_trips_are_bounded_and_the_row_says_it_all(happened, policy):
    standing = CLOSED
    for one in happened:
        before, standing = standing, after(policy, standing, one)
        assert standing.trips <= policy.max_trips
        assert standing.trips <= before.trips + (one in OPENINGS)
        assert (standing.state is BreakerState.STOPPED) <= (standing.trips == policy.max_trips)
        assert decoded(encoded(standing)) == standing


def test_a_row_that_was_never_changed_is_closed_and_a_broken_one_is_said():
    assert decoded("") is CLOSED
    with pytest.raises(msgspec.DecodeError):
        decoded("open")


def test_presets_take_any_scope():
    assert {policy(scope).scope for policy in (semantic, endpoint) for scope in BreakerScope} == set(BreakerScope)


@pytest.mark.parametrize(("max_trips", "stops_at"), [(1, 1), (2, 2), (3, 3), (0, None)])
def test_it_stops_at_so_many_trips_and_never_where_none_are_said(max_trips, stops_at):
    policy = endpoint().model_copy(update={"max_trips": max_trips})
    standing, stopped = CLOSED, None
    for trip in range(1, 6):
        standing = after(policy, standing, Happened.TRIPPED if trip == 1 else Happened.PROBE_FAILED, signal="timeout")
        if standing.state is BreakerState.STOPPED:
            stopped = trip
            break
        standing = after(policy, standing, Happened.COOLED)
    assert stopped == stops_at
