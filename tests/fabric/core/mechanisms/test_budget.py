"""Reserved at the worst case before a call, settled after it, never a micro-dollar over a cap (semantics.md 4 "budgets")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.mechanisms import budget
from fabric.core.policy import Budget
from fabric.core.taxonomy import Cause
from fabric.core.verdict import PASS, Trip
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import STEP, answered, at, failed, issued


def check(config, state, **fields):
    given = {"kind": "model", "agent": "worker", "target": "small", **fields}
    return budget.check(config, state, proposal(**given), view())


def held(state=None, command="a", usd=0, tokens=0, **fields):
    fact = issued(command, reserved_usd_micros=usd, reserved_tokens=tokens, **fields)
    return budget.observe(state or budget.State(), at(fact))


def test_a_call_that_just_fits_passes_and_one_micro_dollar_more_does_not():
    config = Budget(run_usd_micros=100)
    assert check(config, budget.State(), worst_usd_micros=100) is PASS
    verdict = check(config, budget.State(), worst_usd_micros=101)
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.BUDGET_GATE, 100, 101)
    assert verdict.message == "run budget: the next call may take $0.000101, but $0.000100 of $0.000100 is left"


def test_what_is_reserved_is_as_good_as_spent():
    config, state = Budget(run_usd_micros=100), held(usd=60)
    assert check(config, state, worst_usd_micros=40) is PASS
    assert check(config, state, worst_usd_micros=41).evidence.observed == 101


def test_settling_frees_what_was_not_used():
    state = budget.observe(held(usd=60, tokens=60), at(answered("a", cost=25, tokens=(20, 5))))
    assert (state.spent_usd_micros, state.spent_tokens, state.reserved) == (25, 25, {})
    assert check(Budget(run_usd_micros=100), state, worst_usd_micros=75) is PASS


@pytest.mark.parametrize(
    "end",
    [
        failed("a", charged=60, tokens=60),
        ev.AttemptInterrupted(command_id="a", attempt=1, charged_usd_micros=60, charged_tokens=60),
        ev.CallAborted(command_id="a", attempt=1, reason="halted", charged_usd_micros=60, charged_tokens=60),
    ],
    ids=lambda fact: fact.kind,
)
def test_an_unknown_outcome_is_charged_at_the_worst_case(end):
    state = budget.observe(held(usd=60, tokens=60), at(end))
    assert (state.spent_usd_micros, state.spent_tokens, state.reserved) == (60, 60, {})


def test_an_attempt_is_settled_once():
    once = budget.observe(held(usd=60), at(failed("a", charged=60)))
    aborted = ev.CallAborted(command_id="a", attempt=1, reason="late", charged_usd_micros=60)
    assert budget.observe(once, at(aborted)) == once


def test_an_overrun_is_recorded_and_the_next_call_is_refused():
    state = budget.observe(held(usd=60), at(answered("a", cost=150)))
    assert (state.spent_usd_micros, state.overrun_usd_micros) == (150, 90)
    verdict = check(Budget(run_usd_micros=100), state, worst_usd_micros=0)
    assert verdict.cause is Cause.BUDGET_GATE
    assert "$0.000000 of $0.000100 is left" in verdict.message


def test_a_model_without_a_price_is_refused():
    verdict = check(Budget(run_usd_micros=10**12), budget.State(), worst_usd_micros=None)
    assert verdict.cause is Cause.PRICE_MISSING
    assert verdict.message == "model small has no price, so its cost cannot be bounded; give it one in the fabric"


def test_a_cap_of_nothing_lets_only_what_is_free_pass():
    assert check(Budget(run_usd_micros=0), budget.State(), worst_usd_micros=0) is PASS
    assert isinstance(check(Budget(run_usd_micros=0), budget.State(), worst_usd_micros=1), Trip)


SCOPES = [
    ("call", "call_usd_micros", {}, 0),
    ("stage:fan_out", "stage_usd_micros", {"step_id": "plan.0.e0.r0"}, 30),
    ("agent:worker", "agent_usd_micros", {"agent": "critic"}, 30),
]


@pytest.mark.parametrize(("scope", "field", "elsewhere", "counted"), SCOPES, ids=[row[0] for row in SCOPES])
def test_every_scope_has_its_own_cap(scope, field, elsewhere, counted):
    config = Budget.model_validate({"run_usd_micros": 10**9, field: 100})
    state = held(None, "a", 20)
    state = budget.observe(held(state, "b", 99), at(answered("b", cost=10)))
    state = held(state, "other", 5_000, **elsewhere) if elsewhere else state
    assert check(config, state, worst_usd_micros=100 - counted) is PASS
    verdict = check(config, state, worst_usd_micros=101 - counted)
    assert (verdict.evidence.scope, verdict.evidence.limit, verdict.evidence.observed) == (scope, 100, 101)


def test_tokens_have_a_cap_of_their_own():
    config = Budget(run_usd_micros=10**9, run_tokens=1_000)
    state = budget.observe(held(None, "a", 0, 500), at(answered("a", tokens=(200, 100))))
    state = held(state, "b", 0, 200)
    assert check(config, state, worst_tokens=500) is PASS
    verdict = check(config, state, worst_tokens=501)
    assert (verdict.evidence.unit, verdict.evidence.observed) == ("tokens", 1_001)


def test_a_tool_costs_nothing_and_a_retry_reserves_anew():
    state = held(None, "t", call="tool", target="look")
    tool = ev.ToolAnswered(
        command_id="t", attempt=1, step_id=STEP, call_id="c", tool="look", args_hash="h", masked_hash="m"
    )
    assert budget.observe(state, at(tool)).spent_usd_micros == 0
    again = held(budget.observe(held(usd=60), at(failed("a", charged=60))), "a", 60, attempt=2)
    assert (again.spent_usd_micros, again.reserved["a"].usd_micros) == (60, 60)


@given(
    st.integers(0, 1_000),
    st.lists(
        st.tuples(st.integers(0, 300), st.sampled_from(["hold", "answer", "fail", "abort"]), st.floats(0, 1)),
        max_size=60,
    ),
)
def test_no_order_of_calls_that_keep_to_their_reservation_passes_the_cap(cap, acts):
    config, state, out, n = Budget(run_usd_micros=cap), budget.State(), [], 0
    for worst, act, share in acts:
        if act == "hold":
            if check(config, state, worst_usd_micros=worst) is PASS:
                n += 1
                state = held(state, f"c{n}", worst)
                out.append((f"c{n}", worst))
        elif out:
            name, reserved = out.pop()
            cost = int(reserved * share)
            ends = {
                "answer": answered(name, cost=cost),
                "fail": failed(name, charged=reserved),
                "abort": ev.CallAborted(command_id=name, attempt=1, reason="x", charged_usd_micros=reserved),
            }
            state = budget.observe(state, at(ends[act]))
        reserved_now = sum(one.usd_micros for one in state.reserved.values())
        assert state.spent_usd_micros + reserved_now <= cap
        assert reserved_now == sum(amount for _, amount in out)
    assert state.overrun_usd_micros == 0
