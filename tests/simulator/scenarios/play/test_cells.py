"""Every cell of the decision table through the production engine in virtual time, compared with the chain that the table promises."""

from __future__ import annotations

from random import Random

import pytest

from fabric.core.reviews import raised_cap
from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction, table_with
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.baseline.equipment import MEETS
from simulator.scenarios.play.cells import drill, drive, judge_world, matrix
from simulator.scenarios.play.circumstances import CANNOT, promise
from simulator.scenarios.play.verdicts import Cell
from simulator.scenarios.promises.expectation import Chain, Person
from simulator.scenarios.strikes.failures import SUSTAINED, Sustained
from tests import sets
from tests.simulator.drills.drilled import ANSWER, drilled, with_cell

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES
CELLS = [(failure, tier) for failure in FailureType for tier in Tier]

CHAINS = """
infinite_tool_loop    | inject > escalate > terminate > stopped | inject > escalate > replan > abort > aborted | escalate > aborted
sub_agent_deadlock    | abort > aborted | skips handover > abort > aborted | escalate > aborted
cost_overrun          | abort > aborted | skips cheaper_model > abort > aborted | escalate > aborted
provider_failure      | retry > retry > skips fallback_model > skips wait_for_breaker > surface > failed | retry > retry > retry > retry > retry > skips wait_for_breaker > escalate > aborted | retry > retry > escalate > aborted
schema_grounding_fail | retry > surface > failed | replan > replan > abort > aborted | escalate > aborted
plan_malformed        | abort > aborted | replan > replan > abort > aborted | abort > follow_up > aborted
semantic_no_progress  | terminate > stopped | replan > escalate > aborted | escalate > aborted
unsafe_output         | safe_fallback > failed | halt > aborted | escalate > aborted
"""
"""What the default table comes to in a fabric without fallbacks, cheaper models, breakers, a lead, or a static answer, by hand."""


def by_hand() -> dict[tuple[str, str], str]:
    lines = [[part.strip() for part in line.split("|")] for line in CHAINS.strip().splitlines()]
    return {(row, tier): chain for row, *chains in lines for tier, chain in zip(Tier, chains, strict=True)}


def test_there_is_a_failure_for_each_row_and_what_cannot_help_against_it():
    assert set(SUSTAINED) == set(CANNOT) == set(MEETS) == set(FailureType)


def test_all_24_cells_of_the_default_table_do_what_they_say():
    found = matrix(drilled())
    assert [(cell.failure, cell.tier) for cell in found] == CELLS
    assert {(cell.failure, cell.tier): (cell.verdict, cell.observed) for cell in found} == {
        key: ("pass", chain) for key, chain in by_hand().items()
    }


WAITS = "skips fallback_model > wait_for_breaker > "
BY_DEFAULT = {
    Tier.INTERACTIVE: f"retry > retry > {WAITS * 3}skips fallback_model > surface > failed",
    Tier.BATCH: "retry > retry > retry > skips retry > wait_for_breaker > retry > skips retry > wait_for_breaker > retry > escalate > aborted",
    Tier.HIGH_STAKES: "retry > retry > escalate > aborted",
}
"""What a provider that is away comes to behind the circuit breaker that a fabric has unless it says otherwise, by hand: it opens with the third failure."""


@pytest.mark.parametrize("tier", Tier)
def test_a_provider_that_is_away_is_waited_for_by_default(tier):
    spec = drilled()
    policy = spec.policy.model_dump(mode="json", exclude={"breakers"})
    found = drill(drilled(policy=policy), FailureType.PROVIDER, tier)
    assert (found.verdict, found.observed) == ("pass", BY_DEFAULT[tier])


def test_all_24_cells_with_a_lead_another_model_and_a_static_answer():
    found = matrix(drilled(lead=True, fallbacks=1, safe_fallback=ANSWER), seed=2)
    assert [cell for cell in found if cell.verdict != "pass"] == []
    told = {(cell.failure, cell.tier): cell.observed for cell in found}
    assert told[FailureType.DEADLOCK, BATCH] == "handover > abort > aborted"
    assert (
        told[FailureType.PROVIDER, FAST] == "retry > retry > fallback_model > skips wait_for_breaker > surface > failed"
    )
    assert told[FailureType.UNSAFE_OUTPUT, FAST] == "safe_fallback > completed"


@pytest.mark.parametrize(("failure", "tier"), [(f, t) for f, t in CELLS if f is not FailureType.COST_OVERRUN])
def test_a_person_who_approves_each_time_is_asked_twice(failure, tier):
    cell = drill(drilled(), failure, tier, person="approve")
    assert cell.verdict == "pass", cell
    bounded = failure is FailureType.TOOL_LOOP and tier is not HIGH  # It is asked about once, whatever comes then.
    assert cell.observed.count("escalate") in ((1,) if bounded else (0, 2))


RAISED = {
    FAST: "abort > aborted",
    BATCH: "skips cheaper_model > abort > aborted",
    HIGH: "escalate > completed",
}


@pytest.mark.parametrize(("failure", "tier"), CELLS)
def test_finance_that_names_a_new_cap_ends_an_overrun_and_nothing_else(failure, tier):
    cell = drill(drilled(), failure, tier, person="raise")
    assert cell.verdict == "pass", cell
    if failure is FailureType.COST_OVERRUN:
        assert cell.observed == RAISED[tier]
    else:
        assert cell.observed == drill(drilled(), failure, tier, person="approve").observed


@pytest.mark.parametrize(("times", "chain"), [(99, "escalate > aborted"), (100, "escalate > completed")])
def test_a_session_without_room_for_the_new_cap_leaves_the_review_to_expire(times, chain):
    budget = {"run_usd_micros": 1_000_000, "session_usd_micros": times * 1_000_000}
    policy = drilled().policy.model_dump(mode="json") | {"budget": budget}
    cell = drill(drilled(policy=policy), FailureType.COST_OVERRUN, HIGH, person="raise")
    assert (cell.verdict, cell.observed) == ("pass", chain)


@pytest.mark.parametrize("seed", [4, 5])
def test_no_seed_gives_the_workspace_of_a_drill_a_cap_that_was_not_set(seed):
    """The overrun of one run is not left in the way of the next."""
    cell = drill(drilled(), FailureType.COST_OVERRUN, BATCH, seed=seed)
    assert (cell.verdict, cell.why) == ("pass", "")


def test_a_cap_that_is_not_taken_is_a_deviation(monkeypatch):
    monkeypatch.setattr(raised_cap, "raise_to", lambda *asked: None)
    cell = drill(drilled(), FailureType.COST_OVERRUN, HIGH, person="raise")
    assert (cell.verdict, cell.expected) == ("deviated", RAISED[HIGH])


def test_another_cell_is_another_promise():
    spec = with_cell("provider_failure", "interactive", {"reaction": "retry", "times": 4}, {"reaction": "abort"})
    assert drill(spec, FailureType.PROVIDER, FAST) == Cell(
        FailureType.PROVIDER, FAST, "pass", *["retry > retry > retry > retry > abort > aborted"] * 2, 1
    )


def test_a_promise_that_is_not_kept_is_a_deviation():
    other = with_cell("plan_malformed", "batch", {"reaction": "surface"})
    promised = promise(other, table_with(other.decision_table), FailureType.PLAN_MALFORMED, BATCH, "reject")
    world = drive(drilled(), SUSTAINED[FailureType.PLAN_MALFORMED], BATCH, seed=1)
    assert str(promised) == "surface > failed"
    assert judge_world(world, promised) == ("deviated", "replan > replan > abort > aborted")


def test_a_failure_that_is_not_met_shows_nothing():
    never = Sustained(lambda where, request: False, SUSTAINED[FailureType.PROVIDER].fault)
    world = drive(drilled(), never, FAST, seed=1)
    assert judge_world(world, Chain((), RunState.COMPLETED)) == ("unknown", "nothing decided > completed")


def test_an_engine_that_breaks_its_rules_on_the_way_is_an_error():
    """A finding of the invariants is no deviation of the table."""
    world = drive(drilled(), SUSTAINED[FailureType.PROVIDER], FAST, seed=1)
    world.watch.record_violation("planted", "run", "it was broken")
    assert judge_world(world, Chain((), RunState.FAILED)) == ("error", "planted: it was broken")


LAST = [reaction for reaction in Reaction if reaction not in BOUNDED_ONLY]
BEFORE = [*sorted(BOUNDED_ONLY - LAYERS_ONLY)]


def drawn(seed: int) -> tuple[FabricSpec, FailureType, Tier, Person]:
    """A fabric with a ladder of up to three bounded rungs in one cell; retries few enough for the retry budget."""
    rng = Random(f"ladder {seed}")
    failure, tier = rng.choice(CELLS)
    rungs = [
        {"reaction": str(one), "times": rng.randint(1, 2 if one is Reaction.RETRY else 3)}
        for one in rng.sample(BEFORE, rng.randint(0, 3))
    ]
    rungs.append({"reaction": str(rng.choice(LAST))})
    static = {"safe_fallback": ANSWER} if rng.random() < 0.5 else {}
    spec = with_cell(failure, tier, *rungs, lead=rng.random() < 0.5, fallbacks=rng.choice((0, 1, 2)), **static)
    # An overrun that is approved without a new cap goes on from stage to stage: that is none of the table's.
    says: Person = "raise" if failure is FailureType.COST_OVERRUN else "approve"
    return spec, failure, tier, says if rng.random() < 0.5 else "reject"


DRAWN = 50 if sets.is_nightly() else 17


@pytest.mark.parametrize("block", range(8))
def test_any_ladder_in_any_cell_is_gone_down_as_it_stands(block):
    for seed in range(block * 50, block * 50 + DRAWN):
        spec, failure, tier, person = drawn(seed)
        cell = drill(spec, failure, tier, seed=seed, person=person)
        assert cell.verdict == "pass", (seed, cell)
