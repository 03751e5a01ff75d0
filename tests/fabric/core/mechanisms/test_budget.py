"""Reserved at the worst case before a call, settled after it, never a micro-dollar over a cap (docs/specification/budgets.md)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.budgets.grants import NEVER
from fabric.core.mechanisms import budget
from fabric.core.spec.policies.budgets import Budget
from fabric.core.values.taxonomy import PASS, Cause, Trip
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
    assert verdict.message == "run budget: the next call may take $0.000101, but $0.0001 of $0.0001 is left"


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
    assert "spent $0.00015 of $0.0001: the endpoint billed $0.00015 for a call for which $0.00006" in verdict.message


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


# -- endpoints that bill more than was reserved ------------------------------------------------------------------------

DOLLAR, RESERVED, BILLED = 1_000_000, 30_000, 270_000


def spiked(times, state=None, model="small"):
    """So many calls that were billed at nine times their reservation."""
    state = state or budget.State()
    for n in range(times):
        state = held(state, f"s{n}", RESERVED, 100, target=model)
        state = budget.observe(state, at(answered(f"s{n}", cost=BILLED, tokens=(100, 800))))
    return state


def test_a_model_that_billed_more_than_was_reserved_is_reserved_at_that_from_then_on():
    found = budget.dearest(spiked(1), "small", None, 0)
    assert (found.usd_micros, found.reserved_usd_micros) == (BILLED, RESERVED)
    assert (found.tokens, found.reserved_tokens) == (900, 100)
    # Each model by itself.
    assert budget.dearest(spiked(1), "large", None, 0) is NEVER


def test_a_call_that_kept_to_its_reservation_raises_nothing():
    state = budget.observe(held(usd=60, tokens=60), at(answered("a", cost=60, tokens=(50, 10))))
    assert budget.dearest(state, "small", None, 0) is NEVER


def test_the_dearest_bill_counts_and_not_the_last():
    state = budget.observe(held(spiked(1), "b", 300_000), at(answered("b", cost=300_001)))
    state = budget.observe(held(state, "c", 10), at(answered("c", cost=20)))
    assert budget.dearest(state, "small", None, 0).usd_micros == 300_001


def test_an_attempt_that_failed_and_was_billed_more_counts_as_well():
    state = budget.observe(held(usd=60, tokens=60), at(failed("a", charged=500, tokens=700)))
    assert budget.dearest(state, "small", None, 0).usd_micros == 500


def test_a_refusal_says_what_the_endpoint_billed_and_what_to_do():
    verdict = check(Budget(run_usd_micros=DOLLAR), spiked(3), worst_usd_micros=BILLED, computed_usd_micros=34_000)
    assert verdict.message == (
        "run budget: spent $0.81 of $1.00, and the next call may take $0.27: the endpoint billed $0.27 for a call "
        "for which $0.03 had been reserved; raise the cap or set call_usd_micros"
    )
    told = {"billed": BILLED, "reserved": RESERVED, "computed": 34_000, "worst_case": BILLED, "target": "small"}
    assert verdict.evidence.details == told


@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_run_over_its_cap_says_by_how_much_and_why_whatever_is_next(kind):
    worst = BILLED if kind == "model" else 0
    verdict = check(Budget(run_usd_micros=DOLLAR), spiked(4), kind=kind, worst_usd_micros=worst)
    assert verdict.message == (
        "run budget: spent $1.08 of $1.00: the endpoint billed $0.27 for a call for which $0.03 had been reserved; "
        "raise the cap or set call_usd_micros"
    )


def test_a_cap_of_one_call_stops_a_model_after_its_first_surprise():
    config = Budget(run_usd_micros=DOLLAR, call_usd_micros=50_000)
    verdict = check(config, spiked(1), worst_usd_micros=BILLED, computed_usd_micros=34_000)
    assert verdict.evidence.scope == "call"
    assert verdict.message.startswith(
        "call budget: the next call may take $0.27, but $0.05 of $0.05 is left: the endpoint"
    )
