"""Caps of stages, agents and tokens: what is refused before it is sent, what an approval raises, what then holds (docs/specification/budgets.md)."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.auditor.purse import Purse
from fabric.core import events as ev
from fabric.core.mechanisms import budget, cost_velocity, find_state
from fabric.core.spec.policies.budgets import FIELDS, Budget, NamedCap, cap_key, fabrics_cap
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran

MONEY = 10_000_000


def poor(**caps) -> World:
    """A run whose first call does not fit one of its caps."""
    return ran(lone(budget={"run_usd_micros": MONEY, **caps}), tier=Tier.HIGH_STAKES)


def ignored(world):
    return [fact.reason for fact in world.of(ev.InputIgnored)]


def worst(world) -> ev.CallIssued:
    return world.of(ev.CallIssued)[0]


FREE = ran(lone(budget={"run_usd_micros": MONEY}), tier=Tier.HIGH_STAKES)
FIRST = worst(FREE)
CAPS = {
    "run_tokens": ("run", "tokens", FIRST.reserved_tokens),
    "stage_usd_micros": ("stage:fan_out", "usd_micros", FIRST.reserved_usd_micros),
    "stage_tokens": ("stage:fan_out", "tokens", FIRST.reserved_tokens),
    "agent_usd_micros": ("agent:worker", "usd_micros", FIRST.reserved_usd_micros),
    "agent_tokens": ("agent:worker", "tokens", FIRST.reserved_tokens),
}


def test_every_cap_names_a_field_of_the_policy():
    assert set(FIELDS.values()) == set(Budget.model_fields) & {
        f"{field}_{unit}" for field in ("run", "stage", "agent") for unit in ("usd_micros", "tokens")
    }
    assert len(FIELDS) == len(set(FIELDS.values())) == 6


def test_every_cap_that_a_fabric_sets_for_a_run_has_a_name():
    shared = {"call_usd_micros", "fabric_hour_usd_micros", "session_usd_micros", "session_tokens"}
    assert set(CAPS) == set(Budget.model_fields) - shared - {"run_usd_micros", "agents", "stages"}
    given = Budget(run_usd_micros=1, **{name: n + 2 for n, name in enumerate(CAPS)})
    assert [fabrics_cap(given, scope, unit) for scope, unit, _ in CAPS.values()] == [2, 3, 4, 5, 6]


@pytest.mark.parametrize("name", CAPS)
def test_one_less_than_the_worst_case_is_refused_before_it_is_sent_and_exactly_it_is_not(name):
    scope, unit, worst_case = CAPS[name]
    world = poor(**{name: worst_case - 1})
    (decided,) = world.of(ev.ReactionDecided)
    seen = decided.cause.evidence
    assert (decided.cause.mechanism, seen.scope, seen.unit, seen.limit, seen.observed) == (
        "budget",
        scope,
        unit,
        worst_case - 1,
        worst_case,
    )
    assert world.of(ev.CallIssued) == []
    assert worst(poor(**{name: worst_case})).agent == "worker"


@pytest.mark.parametrize("name", CAPS)
def test_an_approval_raises_it_for_this_run_and_the_run_goes_on(name):
    scope, unit, worst_case = CAPS[name]
    world = poor(**{name: worst_case - 1})
    shown = world.content_of(ev.ReviewOpened)[-1]
    offered = {"scope": scope, "unit": unit, "cap": worst_case - 1, "used": 0}
    assert shown["takes_caps"] == [offered]
    world.decide(caps=(NamedCap(scope, unit, 1_000_000),)).go()
    (raised,) = world.of(ev.BudgetRaised)
    assert (raised.scope, raised.unit, raised.cap, raised.before, raised.actor) == (
        scope,
        unit,
        1_000_000,
        worst_case - 1,
        "bob",
    )
    assert world.end.state is RunState.COMPLETED
    config, ledger = world.spec.policy.budget, find_state(world.run.guards, budget)
    assert budget.cap_in_force(config, ledger, scope, unit) == 1_000_000
    assert find_state(world.run.guards, cost_velocity).raised == {cap_key(scope, unit): 1_000_000}


@pytest.mark.parametrize("name", CAPS)
def test_one_short_of_the_worst_case_asks_again_and_names_the_new_cap(name):
    scope, unit, worst_case = CAPS[name]
    world = poor(**{name: worst_case - 2}).decide(caps=(NamedCap(scope, unit, worst_case - 1),)).go()
    assert world.of(ev.ReactionDecided)[-1].cause.evidence.limit == worst_case - 1
    assert world.content_of(ev.ReviewOpened)[-1]["takes_caps"][0]["cap"] == worst_case - 1


@pytest.mark.parametrize(
    ("cap", "said"),
    [
        (
            NamedCap("stage:fan_out", "tokens", 10),
            "the new cap of stage fan_out, 10 tokens, is not above the present one of 10 tokens",
        ),
        (
            NamedCap("stage:plan", "tokens", 99),
            "there is no cap of stage plan in tokens that this review could raise",
        ),
        (NamedCap("agent:worker", "tokens", 99), "there is no cap of agent worker in tokens"),
        (NamedCap("run", "usd_micros", MONEY + 1), "there is no cap of the run in money"),
        (NamedCap("stage:fan_out", "tokens", 10**12 + 1), "that any run may spend"),
    ],
)
def test_a_cap_that_cannot_be_given_changes_nothing_and_the_review_stays(cap, said):
    world = poor(stage_tokens=10).decide(caps=(cap,)).go()
    assert said in ignored(world)[0]
    assert world.of(ev.BudgetRaised) == world.of(ev.ReviewDecided) == []
    assert world.run.reviews


def test_a_stage_has_no_more_than_its_run_unless_that_is_raised_with_it():
    more = NamedCap("stage:fan_out", "usd_micros", MONEY + 1)
    world = poor(stage_usd_micros=10).decide(caps=(more,)).go()
    assert "is above the $10.00 that the run itself may spend: raise that too" in ignored(world)[0]
    both = poor(stage_usd_micros=10).decide(cap_usd_micros=MONEY + 1, caps=(more,)).go()
    assert [fact.cap_usd_micros for fact in both.of(ev.CapRaised)] == [MONEY + 1]
    assert [fact.cap for fact in both.of(ev.BudgetRaised)] == [MONEY + 1]


def test_a_cap_named_twice_and_one_beside_a_rejection_are_no_answer():
    twice = (NamedCap("stage:fan_out", "tokens", 100_000), NamedCap("stage:fan_out", "tokens", 200_000))
    assert "a cap is named twice" in ignored(poor(stage_tokens=10).decide(caps=twice).go())[0]
    world = poor(stage_tokens=10).decide("reject", caps=twice[:1]).go()
    assert "a new cap goes with the approval of a cost overrun" in ignored(world)[0]


def test_it_outlives_the_process():
    world = poor(agent_tokens=10).decide(caps=(NamedCap("agent:worker", "tokens", 1_000_000),)).go(steps=1)
    assert world.crash().go().end.state is RunState.COMPLETED


# -- caps of an agent's own ------------------------------------------------------------------------------------------

UNITS = ("usd_micros", "tokens")
AGENTS_OWN = {"usd_micros": FIRST.reserved_usd_micros, "tokens": FIRST.reserved_tokens}


@pytest.mark.parametrize("unit", UNITS)
def test_an_agents_own_cap_beats_the_one_of_all_agents_in_both_directions(unit):
    given = Budget(run_usd_micros=9, **{f"agent_{unit}": 5}, agents={"worker": {unit: 3}, "critic": {unit: 7}})
    assert [fabrics_cap(given, f"agent:{name}", unit) for name in ("worker", "critic", "finalizer")] == [3, 7, 5]


def test_an_own_cap_of_one_unit_leaves_the_other_to_what_all_agents_have_and_zero_is_a_cap():
    given = Budget(run_usd_micros=9, agent_tokens=5, agent_usd_micros=8, agents={"worker": {"usd_micros": 0}})
    assert [fabrics_cap(given, "agent:worker", unit) for unit in UNITS] == [0, 5]
    assert fabrics_cap(given, "stage:worker", "usd_micros") is None


@pytest.mark.parametrize("unit", UNITS)
def test_an_agent_is_stopped_by_its_own_cap_and_another_with_more_room_goes_on(unit):
    most = AGENTS_OWN[unit]
    caps = {"run_usd_micros": MONEY, f"agent_{unit}": most - 1, "agents": {"worker": {unit: 20 * most}}}
    world = ran(
        spec(budget={**caps, "agents": {**caps["agents"], "planner": {unit: 20 * most}}}), tier=Tier.HIGH_STAKES
    )
    asked = [issued.agent for issued in world.of(ev.CallIssued)]
    assert asked == ["planner", "worker"]
    seen = world.of(ev.ReactionDecided)[0].cause.evidence
    assert (seen.scope, seen.unit, seen.limit) == ("agent:aggregator", unit, most - 1)


@pytest.mark.parametrize("unit", UNITS)
def test_finance_raises_an_agents_own_cap_as_any_agents(unit):
    most = AGENTS_OWN[unit]
    world = poor(agents={"worker": {unit: most - 1}})
    evidence = world.of(ev.ReactionDecided)[0].cause.evidence
    assert (evidence.scope, evidence.limit, evidence.observed) == ("agent:worker", most - 1, most)
    assert world.of(ev.CallIssued) == []
    (offered,) = world.content_of(ev.ReviewOpened)[-1]["takes_caps"]
    assert offered == {"scope": "agent:worker", "unit": unit, "cap": most - 1, "used": 0}
    world.decide(caps=(NamedCap("agent:worker", unit, 1_000_000),)).go()
    (raised,) = world.of(ev.BudgetRaised)
    assert (raised.scope, raised.cap, raised.before) == ("agent:worker", 1_000_000, most - 1)
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("unit", UNITS)
def test_the_purse_that_decisions_are_derived_from_counts_by_an_agents_own_cap(unit):
    caps = Budget(run_usd_micros=MONEY, **{f"agent_{unit}": 5}, agents={"worker": {unit: 7}})
    worst = {"usd_micros": 0, "tokens": 0, unit: 6}
    purse = Purse()
    assert purse.find_passed_cap(caps, "fan_out", "worker", **worst) is None
    over = purse.find_passed_cap(caps, "fan_out", "critic", **worst)
    assert over is not None
    assert (over.scope, over.unit, over.cap, over.would_be) == ("agent:critic", unit, 5, 6)
    nothing = Budget(run_usd_micros=MONEY, agent_usd_micros=9, agents={"worker": {"usd_micros": 0}})
    assert purse.find_passed_cap(nothing, "fan_out", "worker", usd_micros=1, tokens=0) is not None


def test_an_own_cap_that_caps_nothing_and_one_of_an_unknown_agent_are_refused_with_their_path():
    with pytest.raises(ValidationError, match="caps nothing: give usd_micros or tokens"):
        Budget(run_usd_micros=1, agents={"worker": {}})
    with pytest.raises(ValidationError, match=r"policy\.budget\.agents\.ghost: no agent is named 'ghost'"):
        lone(budget={"run_usd_micros": MONEY, "agents": {"ghost": {"tokens": 5}}})


def test_another_agent_and_another_stage_have_budgets_of_their_own():
    ledger = budget.State(
        tokens_by_stage={"plan": 5, "fan_out": 7},
        tokens_by_agent={"planner": 5, "worker": 7},
        reserved={"c": budget.Reservation(1, 100, "fan_out", "worker")},
    )
    assert [budget.used_amount(ledger, scope, "tokens") for scope in ("stage:plan", "stage:fan_out")] == [5, 107]
    assert [budget.used_amount(ledger, scope, "tokens") for scope in ("agent:planner", "agent:worker")] == [5, 107]


@pytest.mark.parametrize(("unit", "cap"), [("usd_micros", 100), ("tokens", 10)])
def test_a_stage_has_a_cap_of_its_own_that_beats_that_of_all(unit, cap):
    """Of the stages that it does not name, the cap of all holds."""
    budget = Budget(run_usd_micros=10**6, **{f"stage_{unit}": 7_777}, stages={"fan_out": {unit: cap}})
    assert [fabrics_cap(budget, f"stage:{name}", unit) for name in ("fan_out", "plan")] == [cap, 7_777]
    world = ran(lone(budget=budget.model_dump(mode="json")), tier=Tier.HIGH_STAKES)
    refused = world.of(ev.ReactionDecided)[0].cause.evidence
    assert (refused.scope, refused.unit, refused.limit) == ("stage:fan_out", unit, cap)
    world.decide(caps=(NamedCap("stage:fan_out", unit, 10**6),)).go()
    assert world.end.state is RunState.COMPLETED


def test_a_stage_that_is_named_and_capped_by_nothing_is_refused():
    with pytest.raises(ValueError, match="caps nothing"):
        Budget(run_usd_micros=1, stages={"plan": {}})
    with pytest.raises(ValueError, match="stages"):
        Budget(run_usd_micros=1, stages={"somewhere": {"tokens": 1}})
