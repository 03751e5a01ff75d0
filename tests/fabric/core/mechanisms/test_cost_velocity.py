"""Cost velocity: too fast after five calls, by pace and by what is left; bounded state; what each tier does about it (semantics.md 3 and 4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.frozen import replace
from fabric.core.grants import Refusal, Shares, Want
from fabric.core.mechanisms import cost_velocity
from fabric.core.mechanisms.cost_velocity import State
from fabric.core.policy import FlowPolicy
from fabric.core.run import Run
from fabric.core.spending import (
    BUCKET_US,
    HOUR_BUCKET_US,
    HOUR_US,
    MINUTE_US,
    NOTHING,
    US,
    added,
    total,
)
from fabric.core.taxonomy import Cause, FailureType, Tier
from fabric.core.verdict import PASS
from fabric.runtime.snapshots import restored, snapshot_of
from tests.fabric.core.fabrics import lone, proposal, spec, view
from tests.fabric.core.harness import World, ran
from tests.fabric.core.mechanisms.facts import answered, at, failed, issued
from tests.fabric.core.scripts import asks, call, summary
from tests.fabric.core.spenders import CHEAP, spender

RUN_S = 3_600
CAP = 120_000
"""Its even pace is 2,000 a minute, three times that 6,000."""


def policy(**budget) -> FlowPolicy:
    given = {"budget": {"run_usd_micros": CAP, **budget}, "deadlines": {}}
    return FlowPolicy.model_validate(given)


def spent(*costs: tuple[float, int], state: State | None = None, tokens: int = 0, agent: str = "worker") -> State:
    """The state after calls that came back at those seconds for those micro-dollars."""
    state = state or cost_velocity.observe(State(), at(_started()))
    for seconds, cost in costs:
        state = cost_velocity.observe(state, at(issued(agent=agent), int(seconds * US)))
        state = cost_velocity.observe(state, at(answered(cost=cost, tokens=(tokens, 0)), int(seconds * US)))
    return state


def _started() -> ev.RunStarted:
    return ev.RunStarted(fabric="f", revision="r", tier=Tier.BATCH, deadline_at=RUN_S * US, seed=1)


def judged(state: State, seconds: float, given: FlowPolicy | None = None, *, shares=None, **fields):
    config = cost_velocity.config(given or policy())
    asked = proposal(kind="model", agent="worker", target="small", **fields)
    seen = replace(view(Run("run", tier=Tier.BATCH), int(seconds * US)), shares=shares)
    return cost_velocity.check(config, state, asked, seen)


# -- the rate ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "trips"), [(4, False), (5, True), (6, True)])
def test_five_calls_have_to_be_there(calls, trips):
    verdict = judged(spent(*[(n, 20_000) for n in range(calls)]), 10)
    assert (verdict is not PASS) is trips


@pytest.mark.parametrize(("minute", "trips"), [(11_999, False), (12_000, False), (12_001, True)])
def test_the_pace_may_be_three_times_the_even_one_and_no_more(minute, trips):
    # 60 s of a 600 s run are a tenth of its cap: with a cap of 40,000 three times the pace is 12,000.
    state = cost_velocity.observe(State(), at(ev.RunStarted(**{**_fields(), "deadline_at": 600 * US})))
    verdict = judged(spent((0, 0), (0, 0), (0, 0), (0, 0), (1, minute), state=state), 10, policy(run_usd_micros=40_000))
    assert (verdict is not PASS) is trips


def _fields():
    return {"fabric": "f", "revision": "r", "tier": Tier.BATCH, "deadline_at": 0, "seed": 1}


@pytest.mark.parametrize(("minute", "trips"), [(9_999, False), (10_000, True), (10_001, True)])
def test_what_is_left_must_last_longer_than_ten_minutes(minute, trips):
    # 110,000 less 10,000 is ten times 10,000.
    state = spent((0, 0), (0, 0), (0, 0), (0, 0), (1, minute))
    assert (judged(state, 10, policy(run_usd_micros=110_000)) is not PASS) is trips


def test_the_evidence_says_limit_observed_unit_scope_window_and_the_projection():
    verdict = judged(spent(*[(n, 20_000) for n in range(5)]), 10)
    seen = verdict.evidence
    assert (seen.limit, seen.observed, seen.unit, seen.scope, seen.window) == (
        6_000,
        100_000,
        "usd_micros",
        "run",
        "60 s",
    )
    assert seen.details == {"left": 20_000, "cap": CAP, "calls": 5, "seconds_left": 12.0, "target": "small"}
    assert verdict.cause is Cause.COST_VELOCITY
    assert "the $0.020000 left would last 12 s" in verdict.message


def test_a_minute_later_the_burst_is_over():
    state = spent(*[(n, 20_000) for n in range(5)])
    assert judged(state, 59) is not PASS
    assert judged(state, 70) is PASS


def test_tokens_are_judged_by_the_token_cap():
    given = policy(run_tokens=120_000)
    verdict = judged(spent(*[(n, 0) for n in range(5)], tokens=20_000), 10, given)
    assert (verdict.evidence.unit, verdict.evidence.observed) == ("tokens", 100_000)
    assert judged(spent(*[(n, 0) for n in range(5)], tokens=20_000), 10) is PASS


def test_an_agent_and_a_stage_are_judged_by_their_own_caps():
    state = spent(*[(n, 1_000) for n in range(5)])
    assert judged(state, 10) is PASS
    assert judged(state, 10, policy(agent_usd_micros=20_000)).evidence.scope == "agent:worker"
    assert judged(state, 10, policy(stage_usd_micros=20_000)).evidence.scope == "stage:fan_out"
    assert judged(state, 10, policy(agent_usd_micros=20_000), stage="fan_in") is not PASS
    assert judged(spent(*[(n, 1_000) for n in range(5)], agent="other"), 10, policy(agent_usd_micros=20_000)) is PASS


def test_off_and_other_numbers():
    state = spent(*[(n, 20_000) for n in range(5)])
    for rule, trips in (
        ({"factor": 0}, False),
        ({"factor": 60}, False),
        ({"calls": 6}, False),
        ({"within_s": 11}, False),
    ):
        given = FlowPolicy.model_validate({"budget": {"run_usd_micros": CAP}, "cost_velocity": rule})
        assert (judged(state, 10, given) is not PASS) is trips


def test_a_cheaper_model_is_not_held_to_the_rate_that_led_to_it():
    assert judged(spent(*[(n, 20_000) for n in range(5)]), 10, cheaper=True) is PASS


def test_attempts_that_failed_count_at_what_was_charged_and_tools_count_nothing():
    state = cost_velocity.observe(State(), at(issued()))
    state = cost_velocity.observe(state, at(failed(charged=70, tokens=7)))
    assert (state.run.usd_micros, state.run.tokens, state.run.calls, state.out) == (70, 7, 1, {})
    assert cost_velocity.observe(state, at(issued(call="tool", target="look"))) is state
    assert cost_velocity.observe(state, at(failed(charged=70))) is state


# -- the hour ----------------------------------------------------------------------------------------------------------


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


# -- what is remembered ------------------------------------------------------------------------------------------------

SPENDS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10_000)), min_size=1, max_size=60)
"""Sevenths of a bucket since the one before, so that the edges of window and bucket are met; and what was spent."""


@given(SPENDS, st.integers(0, 100))
@pytest.mark.parametrize(("window", "width"), [(MINUTE_US, BUCKET_US), (HOUR_US, HOUR_BUCKET_US)])
def test_a_sum_is_never_too_little_and_never_more_than_a_bucket_too_much(window, width, steps, later):
    now, buckets, all_of_them = 7, (), []
    for wait, cost in steps:
        now += wait * width // 7
        buckets = added(buckets, now, cost, 1, window=window, width=width)
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
    state = spent(*[(n, 20_000) for n in range(5)])
    trip = ev.TripRecord(mechanism="cost_velocity", cause=Cause.COST_VELOCITY, message="")
    other = replace(trip, mechanism="budget")
    decided = ev.ReactionDecided(
        failure_type=FailureType.COST_OVERRUN,
        tier=Tier.BATCH,
        table="t",
        rung=0,
        reaction="cheaper_model",
        scope="",
        spent=0,
        bound=1,
        cause=other,
    )
    assert cost_velocity.observe(state, at(decided)) is state
    after = cost_velocity.observe(state, at(replace(decided, causes=(trip,))))
    assert (after.run.usd_micros, after.run.calls, after.run.recent) == (100_000, 0, ())
    assert (after.by_agent["worker"].calls, after.hour) == (0, state.hour)


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


# -- in the engine: one run a cell of the row --------------------------------------------------------------------------


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
    assert world.of(ev.EscalationOpened) == []


def test_batch_without_a_cheaper_model_says_so_and_aborts():
    world = ran(*spender(), tier=Tier.BATCH)
    [skipped] = world.of(ev.RungSkipped)
    assert (skipped.reaction, skipped.reason) == ("cheaper_model", "no cheaper model is configured")
    assert (world.reactions, world.end.state) == (["abort"], RunState.ABORTED)


def test_batch_aborts_when_the_cheaper_model_is_too_fast_as_well():
    world = ran(*spender(cheaper="thrifty", turns=24), tier=Tier.BATCH, prices={**CHEAP, "thrifty": CHEAP["nearly"]})
    assert world.reactions == ["cheaper_model", "abort"]
    assert decided(world)[1].cause.mechanism == "cost_velocity"


def test_high_stakes_asks_finance_who_names_a_new_cap_and_the_run_goes_on():
    fabric, script = spender()
    world = ran(fabric, script, tier=Tier.HIGH_STAKES)
    assert (world.question.fact.required_role, world.reactions) == ("finance", ["escalate"])
    world.decide("approve", cap_usd_micros=10_000_000).go()
    [raised] = world.of(ev.CapRaised)
    assert (raised.cap_usd_micros, raised.before_usd_micros, raised.actor) == (10_000_000, 60_000, "bob")
    assert world.end.state is RunState.COMPLETED


def test_what_is_counted_is_the_same_after_a_takeover_and_from_a_snapshot():
    world = World(*spender()).start().go(until_s=5)
    before = world.run.guards["cost_velocity"]
    assert before.run.calls >= 2
    taken = snapshot_of(world.run, b"head", world.driver.contents)
    assert restored(taken)[0].guards["cost_velocity"] == before
    after = world.crash().run.guards["cost_velocity"]
    # One was out: it is charged at its worst case, which is no pace.
    assert (after.run.calls, after.run.recent, after.time_us) == (before.run.calls, before.run.recent, before.time_us)
    assert after.run.usd_micros > before.run.usd_micros + 2_000


def test_a_run_that_spends_evenly_is_left_alone():
    world = ran(spec(), {"worker": [asks(call(q="x")), summary()]}, tier=Tier.BATCH)
    assert world.reactions == []
    assert lone().policy.cost_velocity.factor == 3


def test_an_agents_and_a_stages_tokens_are_judged_by_their_own_caps():
    state = spent(*[(n, 0) for n in range(5)], tokens=1_000)
    assert judged(state, 10) is PASS
    for capped in (policy(agent_tokens=20_000), policy(stage_tokens=20_000)):
        assert judged(state, 10, capped).evidence.unit == "tokens"
    assert judged(state, 10, policy(agent_tokens=20_000)).evidence.scope == "agent:worker"
    assert judged(state, 10, policy(stage_tokens=20_000)).evidence.scope == "stage:fan_out"


@pytest.mark.parametrize(("cap", "trips"), [(54_999, True), (55_000, True), (55_001, False)])
def test_a_raised_cap_is_what_the_rate_is_held_against(cap, trips):
    """5,000 a minute; what is left of the cap lasts ten minutes at 50,000, the last second of them included."""
    state = spent(*[(n, 0) for n in range(5)], tokens=1_000)
    fact = ev.BudgetRaised(scope="agent:worker", unit="tokens", cap=cap, before=20_000, actor="bob", escalation_id="e")
    raised = cost_velocity.observe(state, at(fact, 5 * US))
    assert (judged(raised, 10, policy(agent_tokens=20_000)) is not PASS) is trips
