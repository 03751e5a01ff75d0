"""Cost velocity: a rate against what is configured or usual, a plan against its cap; bounded state; what each tier does about it (docs/specification/decision-table.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.budgets.grants import Refusal, Shares, Want
from fabric.core.mechanisms import cost_velocity
from fabric.core.mechanisms.cost_velocity import State
from fabric.core.spec.policies.budgets import RUN
from fabric.core.state.failure import record
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.frozen import replace
from fabric.core.values.spending import BUCKET_US, HOUR_BUCKET_US, HOUR_US, MINUTE_US, NOTHING, add_spending, total
from fabric.core.values.taxonomy import PASS, Cause, FailureType, Tier
from fabric.core.values.units import US
from fabric.runtime.journal.snapshots import build_snapshot, restore_run
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.facts import at, failed, issued
from tests.fabric.core.mechanisms.rates import CAP, USUAL, answered_by, decides, judged, knows, opened, policy, spent
from tests.fabric.core.spenders import CHEAP, spender

# -- what is normal ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "trips"), [(4, False), (5, True), (6, True)])
def test_five_calls_have_to_be_there_before_it_is_compared_with_what_is_usual(calls, trips):
    assert (judged(spent(*[(n, 50_000) for n in range(calls)]), 10) is not PASS) is trips


@pytest.mark.parametrize(("minute", "trips"), [(199_999, False), (200_000, False), (200_001, True)])
def test_a_minute_may_take_ten_times_the_usual_and_no_more(minute, trips):
    state = spent(*[(0, 0)] * 4, (1, minute), state=knows(RUN, usd_micros=20_000))
    assert (judged(state, 10) is not PASS) is trips


@pytest.mark.parametrize(("minute", "trips"), [(100_000, False), (100_001, True)])
def test_a_minute_that_takes_less_than_a_tenth_of_the_cap_is_never_too_fast(minute, trips):
    state = spent(*[(0, 0)] * 4, (1, minute), state=knows(RUN, usd_micros=1))
    assert (judged(state, 10) is not PASS) is trips


def test_nothing_is_compared_before_anything_is_known():
    """The control of the board: 84 cents of a dollar within a second, and 27 within 90 seconds."""
    assert judged(spent(*[(n / 10, 120_000) for n in range(7)], state=State()), 1) is PASS
    assert judged(spent(*[(n * 10, 30_000) for n in range(9)], state=State()), 90) is PASS


@pytest.mark.parametrize(("minute", "trips"), [(50_000, False), (50_001, True)])
def test_a_configured_rate_is_what_the_fabric_says_from_the_first_call_on(minute, trips):
    for state in (spent((1, minute), state=State()), spent((1, minute), state=knows(RUN, usd_micros=10**6))):
        assert (judged(state, 10, policy({"usd_micros_per_minute": 50_000})) is not PASS) is trips


def test_a_configured_rate_beats_what_is_usual():
    state = spent(*[(n, 50_000) for n in range(5)])
    assert judged(state, 10, policy({"usd_micros_per_minute": 250_000})) is PASS
    assert judged(state, 10, policy({"usd_micros_per_minute": 249_999})) is not PASS


@pytest.mark.parametrize(
    ("rule", "scope"),
    [
        ({"agent_usd_micros_per_minute": 100}, "agent:worker"),
        ({"stage_usd_micros_per_minute": 100}, "stage:fan_out"),
        ({"usd_micros_per_minute": 100}, "run"),
    ],
)
def test_agents_and_stages_are_judged_without_caps_of_their_own(rule, scope):
    assert judged(spent((1, 101), state=State()), 10, policy(rule)).evidence.scope == scope
    state = spent(*[(n, 50_000) for n in range(5)], state=knows(scope))
    assert judged(state, 10).evidence.scope == scope
    other = judged(state, 10, agent="other", stage=Stage.FAN_IN)
    assert (other is PASS) is (scope != "run")


def test_tokens_are_compared_with_what_is_configured_and_beside_a_cap_with_what_is_usual():
    state = spent(*[(n, 0) for n in range(5)], tokens=20_001)
    assert judged(state, 10) is PASS
    assert judged(state, 10, policy(run_tokens=1_000_000)).evidence.unit == "tokens"
    assert judged(state, 10, policy({"tokens_per_minute": 100_004})).evidence.observed == 100_005
    assert judged(state, 10, policy({"tokens_per_minute": 100_005})) is PASS


def test_the_sentence_says_what_was_compared():
    usual = judged(spent(*[(n, 50_000) for n in range(5)]), 10)
    assert usual.message == "the run spent $0.25 in a minute, 25 times the $0.01 of its usual busiest minute"
    given = policy({"agent_usd_micros_per_minute": 20_000})
    allowed = judged(spent((1, 40_000), state=State()), 10, given)
    assert allowed.message == "agent worker spent $0.04 in a minute, and the fabric allows $0.02 a minute"


def test_the_evidence_says_limit_observed_unit_scope_window_and_what_it_was_compared_with():
    seen = judged(spent(*[(n, 50_000) for n in range(5)]), 10).evidence
    assert (seen.limit, seen.observed, seen.unit, seen.scope, seen.window) == (
        *(100_000, 250_000, "usd_micros"),
        *("run", "60 s"),
    )
    assert seen.details == {
        "against": "usual",
        "usual": USUAL,
        "left": 750_000,
        "cap": CAP,
        "calls": 5,
        "seconds_left": 180.0,
        "target": "small",
    }


def test_a_minute_later_the_burst_is_over():
    state = spent(*[(n, 50_000) for n in range(5)])
    assert judged(state, 59) is not PASS
    assert judged(state, 70) is PASS


@pytest.mark.parametrize(
    ("rule", "trips"),
    [
        ({"factor": 0}, False),
        ({"times_usual": 0}, False),
        ({"times_usual": 30}, False),
        ({"calls": 6}, False),
        ({}, True),
    ],
)
def test_off_and_other_numbers(rule, trips):
    assert (judged(spent(*[(n, 50_000) for n in range(5)]), 10, policy(rule)) is not PASS) is trips


def test_a_cheaper_model_is_not_held_to_the_rate_that_led_to_it():
    assert judged(spent(*[(n, 50_000) for n in range(5)]), 10, cheaper=True) is PASS


# -- people ----------------------------------------------------------------------------------------------------------


def test_once_a_person_approved_no_rate_is_judged_any_more():
    state = spent(*[(n, 50_000) for n in range(5)])
    trip = record(judged(state, 10))
    asked = decides(trip, reaction="escalate")
    for verb, trips in (("approve", False), ("respond", True)):
        after = state
        for fact in (asked, opened(), answered_by(verb)):
            after = cost_velocity.observe(after, at(fact, 10 * US))
        after = spent(*[(11, 50_000)] * 5, state=after)
        assert (judged(after, 12) is not PASS) is trips


def test_an_approval_of_something_else_changes_nothing():
    state = spent(*[(n, 50_000) for n in range(5)])
    for fact in (opened(), answered_by("approve")):
        state = cost_velocity.observe(state, at(fact, 10 * US))
    assert judged(state, 10) is not PASS


def test_a_raised_cap_begins_a_new_count():
    raised = ev.CapRaised(cap_usd_micros=2_000_000, before_usd_micros=CAP, actor="bob", review_id="e")
    other = ev.BudgetRaised(scope="run", unit="tokens", cap=2, before=1, actor="bob", review_id="e")
    for fact in (raised, other):
        state = cost_velocity.observe(spent(*[(n, 50_000) for n in range(5)]), at(fact, 10 * US))
        assert judged(state, 11) is PASS


def test_attempts_that_failed_count_at_what_was_charged_and_tools_count_nothing():
    state = cost_velocity.observe(State(), at(issued()))
    state = cost_velocity.observe(state, at(failed(charged=70, tokens=7)))
    assert (state.run.usd_micros, state.run.tokens, state.run.calls, state.out) == (70, 7, 1, {})
    assert cost_velocity.observe(state, at(issued(call="tool", target="look"))) is state
    assert cost_velocity.observe(state, at(failed(charged=70))) is state


# -- the hour --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("last", "trips"), [(9_999, False), (10_000, False), (10_001, True)])
def test_the_hour_may_reach_the_fabrics_ceiling_and_no_more(last, trips):
    given = policy(fabric_hour_usd_micros=20_000)
    verdict = judged(spent((0, 10_000), (1_800, last)), 1_900, given)
    assert (verdict is not PASS) is trips
    if trips:
        assert (verdict.evidence.window, verdict.evidence.limit, verdict.evidence.observed) == ("1 h", 20_000, 20_001)


def test_the_hour_goes_by_and_a_cheaper_model_does_not_undo_it():
    given = policy(fabric_hour_usd_micros=20_000)
    assert judged(spent((0, 20_001)), 3_599, given, cheaper=True) is not PASS
    assert judged(spent((0, 20_001)), 3_661, given) is PASS


@pytest.mark.parametrize(("gone", "trips"), [(999, False), (1_000, False), (1_001, True)])
@pytest.mark.parametrize(("scope", "kind"), [("fabric:f", "fabric"), ("session:f:s", "session")])
def test_a_budget_that_runs_share_trips_when_more_is_gone_than_there_is(scope, kind, gone, trips):
    refused = Refusal(scope, 1_000, gone, 0, kind == "fabric", 0)
    verdict = judged(spent(), 1, shares=Shares(answers={Want(scope, 5): refused}))
    assert (verdict is not PASS) is trips
    if trips:
        assert (verdict.evidence.scope, verdict.evidence.window) == (kind, "1 h" if kind == "fabric" else "")


# -- what is remembered ----------------------------------------------------------------------------------------------

SPENDS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10_000)), min_size=1, max_size=60)
"""Sevenths of a bucket since the one before, so that the edges of window and bucket are met; and what was spent."""


@given(SPENDS, st.integers(0, 100))
@pytest.mark.parametrize(("window", "width"), [(MINUTE_US, BUCKET_US), (HOUR_US, HOUR_BUCKET_US)])
def test_a_sum_is_never_too_little_and_never_more_than_a_bucket_too_much(window, width, steps, later):
    now, buckets, all_of_them = 7, (), []
    for wait, cost in steps:
        now += wait * width // 7
        buckets = add_spending(buckets, now, cost, 1, window=window, width=width)
        all_of_them.append((now, cost))
    now += later * width // 7
    exact = sum(cost for when, cost in all_of_them if when > now - window)
    most = sum(cost for when, cost in all_of_them if when > now - window - width)
    found, _ = total(buckets, now, window=window, width=width)
    assert exact <= found <= most
    assert len(buckets) <= window // width + 1


def test_the_state_of_a_long_run_stays_small():
    state = spent(*[(n * 0.7, 3) for n in range(10_000)])
    assert len(state.run.recent) <= 13
    assert len(state.hour) <= 61
    assert state.out == {}
    assert (state.run.usd_micros, state.run.calls) == (30_000, 10_000)


def test_a_decision_about_it_begins_a_new_count_and_forgets_no_money():
    state = spent(*[(n, 50_000) for n in range(5)])
    trip = ev.TripRecord(mechanism="cost_velocity", cause=Cause.COST_VELOCITY, message="")
    decided = decides(replace(trip, mechanism="budget"))
    assert cost_velocity.observe(state, at(decided)) is state
    after = cost_velocity.observe(state, at(replace(decided, causes=(trip,))))
    assert (after.run.usd_micros, after.run.calls, after.run.recent) == (250_000, 0, ())
    assert (after.by_agent["worker"].calls, after.hour) == (0, state.hour)


def test_the_busiest_minute_is_kept():
    state = spent((0, 10), (1, 20), (200, 25), tokens=3)
    assert (state.run.peak_usd_micros, state.run.peak_tokens) == (30, 6)
    assert (state.by_agent["worker"].peak_usd_micros, state.by_stage["fan_out"].anew().peak_usd_micros) == (30, 30)


def test_a_childs_money_is_gone_and_is_no_rate():
    state = cost_velocity.observe(State(), at(ev.LineagePinned(**_lineage())))
    assert (state.cap_usd_micros, state.cap_tokens) == (500, 50)
    assert NOTHING.lump(5, 2).recent == ()


def _lineage():
    return {
        "parent_run_id": "p",
        "parent_command": "c",
        "root_run_id": "p",
        "purpose": "slice",
        "cap_usd_micros": 500,
        "cap_tokens": 50,
    }


# -- in the engine: one run a cell of the row ------------------------------------------------------------------------


def decided(world) -> list[ev.ReactionDecided]:
    return world.of(ev.ReactionDecided)


def test_interactive_aborts():
    world = ran(*spender())
    assert [(d.failure_type, d.reaction, d.cause.mechanism) for d in decided(world)] == [
        (FailureType.COST_OVERRUN, "abort", "cost_velocity")
    ]
    assert world.end.state is RunState.ABORTED
    assert decided(world)[0].cause.evidence.scope == "run"


def test_batch_alerts_goes_on_with_the_cheaper_model_and_says_so():
    world = ran(*spender(cheaper="thrifty"), tier=Tier.BATCH, prices=CHEAP)
    assert world.reactions == ["cheaper_model"]
    [alert], [changed] = world.of(ev.AlertRaised), world.of(ev.ModelChanged)
    assert (alert.mechanism, alert.cause, alert.reaction) == ("cost_velocity", Cause.COST_VELOCITY, "cheaper_model")
    assert (changed.before, changed.model, changed.agent) == ("small", "thrifty", "worker")
    models = [fact.target for fact in world.of(ev.CallIssued) if fact.call == "model"]
    assert (models[0], models[-1]) == ("small", "thrifty")
    assert models == sorted(models)  # Never back.
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    assert world.of(ev.ReviewOpened) == []


def test_batch_without_a_cheaper_model_says_so_and_aborts():
    world = ran(*spender(), tier=Tier.BATCH)
    [skipped] = world.of(ev.RungSkipped)
    assert (skipped.reaction, skipped.reason) == ("cheaper_model", "small names no cheaper model")
    assert (world.reactions, world.end.state) == (["abort"], RunState.ABORTED)
    [alert] = world.of(ev.AlertRaised)
    assert (alert.reaction, alert.cause) == ("abort", Cause.COST_VELOCITY)


def test_batch_aborts_when_the_cheaper_model_is_too_fast_as_well():
    world = ran(*spender(cheaper="thrifty", turns=24), tier=Tier.BATCH, prices={**CHEAP, "thrifty": CHEAP["nearly"]})
    assert world.reactions == ["cheaper_model", "abort"]
    assert decided(world)[1].cause.mechanism == "cost_velocity"


def test_high_stakes_asks_finance_who_names_a_new_cap_and_the_run_goes_on():
    fabric, script = spender()
    world = ran(fabric, script, tier=Tier.HIGH_STAKES)
    assert (world.review.fact.required_role, world.reactions) == ("finance", ["escalate"])
    world.decide("approve", cap_usd_micros=10_000_000).go()
    [raised] = world.of(ev.CapRaised)
    assert (raised.cap_usd_micros, raised.before_usd_micros, raised.actor) == (10_000_000, 60_000, "bob")
    assert world.end.state is RunState.COMPLETED


def test_what_is_counted_is_the_same_after_a_takeover_and_from_a_snapshot():
    world = World(*spender()).start().go(until_s=5)
    before = world.run.guards["cost_velocity"]
    assert before.run.calls >= 2
    taken = build_snapshot(world.run, b"head", world.driver.contents)
    assert restore_run(taken)[0].guards["cost_velocity"] == before
    after = world.crash().run.guards["cost_velocity"]
    # One was out: it is charged at its worst case, which is no pace.
    assert (after.run.calls, after.run.recent) == (before.run.calls, before.run.recent)
    assert after.run.usd_micros > before.run.usd_micros + 2_000


def test_a_run_whose_fabric_says_nothing_and_knows_nothing_is_left_alone():
    for tier in Tier:
        fabric, script = spender(cost_velocity={})
        world = ran(fabric, script, tier=tier)
        assert (world.reactions, world.end.state) == ([], RunState.COMPLETED)
