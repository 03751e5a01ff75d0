"""Cells under a circuit breaker: what the table promises of a provider that does not come back, and what the engine does."""

from __future__ import annotations

from random import Random

import pytest

from fabric.core.events.envelope import list_events
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, LAYERS_ONLY, Reaction
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.baseline.work import first_run
from simulator.scenarios.play.cells import drill, drive
from simulator.scenarios.strikes.failures import SUSTAINED
from tests import sets
from tests.simulator.drills.drilled import ANSWER, behind_breaker

FAST, BATCH, HIGH = Tier.INTERACTIVE, Tier.BATCH, Tier.HIGH_STAKES

CHAINS = """
interactive | 1 | 3 | retry > skips retry > skips fallback_model > wait_for_breaker > retry > skips fallback_model > wait_for_breaker > skips fallback_model > skips wait_for_breaker > surface > failed
interactive | 2 | 3 | retry > retry > skips fallback_model > wait_for_breaker > skips fallback_model > wait_for_breaker > skips fallback_model > skips wait_for_breaker > surface > failed
interactive | 3 | 3 | retry > retry > skips fallback_model > wait_for_breaker > skips fallback_model > wait_for_breaker > skips fallback_model > skips wait_for_breaker > surface > failed
interactive | 4 | 3 | retry > retry > skips fallback_model > skips wait_for_breaker > surface > failed
batch       | 5 | 3 | retry > retry > retry > retry > retry > wait_for_breaker > wait_for_breaker > escalate > aborted
batch       | 6 | 3 | retry > retry > retry > retry > retry > wait_for_breaker > wait_for_breaker > escalate > aborted
batch       | 7 | 3 | retry > retry > retry > retry > retry > skips wait_for_breaker > escalate > aborted
batch       | 1 | 3 | retry > skips retry > wait_for_breaker > retry > skips retry > wait_for_breaker > retry > skips retry > escalate > aborted
batch       | 1 | 1 | retry > skips retry > skips wait_for_breaker > escalate > aborted
batch       | 5 | 2 | retry > retry > retry > retry > retry > wait_for_breaker > skips wait_for_breaker > escalate > aborted
high_stakes | 1 | 3 | retry > skips retry > escalate > aborted
high_stakes | 2 | 3 | retry > retry > escalate > aborted
"""
"""By hand: tier, threshold, trips at which it stops. Below, at and above the number of calls that the ladder makes."""
SENT = {
    ("interactive", 1): 3,
    ("interactive", 2): 4,
    ("interactive", 3): 5,
    ("batch", 5): 7,
    ("batch", 6): 8,
    ("batch", 7): 6,
}
"""Calls that went out to the provider, of those that stop at the third trip."""


@pytest.mark.parametrize("line", [line.strip() for line in CHAINS.strip().splitlines()])
def test_a_cell_under_a_breaker_is_gone_down_as_it_says(line):
    tier, threshold, trips, chain = (part.strip() for part in line.split("|"))
    cell = drill(behind_breaker(int(threshold), int(trips)), FailureType.PROVIDER, Tier(tier))
    assert (cell.verdict, cell.expected, cell.observed) == ("pass", chain, chain)


@pytest.mark.parametrize(("tier", "threshold"), SENT)
def test_refused_calls_are_answered_as_the_document_says_and_do_not_go_out(tier, threshold):
    world = drive(behind_breaker(threshold), SUSTAINED[FailureType.PROVIDER], Tier(tier), seed=1)
    run = first_run(world)
    events = [event for event in list_events(world.store.rows(run.id)) if event.fact.kind == "attempt_failed"]
    refused = [
        event for event in events if event.fact.trip is not None and event.fact.trip.mechanism == "circuit_breaker"
    ]
    assert len(events) - len(refused) == SENT[tier, threshold]


DRAWN = 50 if sets.is_nightly() else 17
LAST = [reaction for reaction in Reaction if reaction not in BOUNDED_ONLY]


@pytest.mark.parametrize("block", range(4))
def test_any_ladder_under_any_breaker_is_gone_down_as_it_stands(block):
    for seed in range(block * 50, block * 50 + DRAWN):
        rng = Random(f"under a breaker {seed}")
        wanted = [
            Reaction.WAIT_FOR_BREAKER,
            Reaction.RETRY,
            *rng.sample(sorted(BOUNDED_ONLY - LAYERS_ONLY), rng.randint(0, 2)),
        ]
        rungs = [
            {"reaction": str(one), "times": rng.randint(1, 2 if one is Reaction.RETRY else 3)}
            for one in rng.sample(wanted, len(wanted))
        ]
        rungs.append({"reaction": str(rng.choice(LAST))})
        tier = rng.choice(list(Tier))
        changes = {"safe_fallback": ANSWER} if rng.random() < 0.5 else {}
        spec = behind_breaker(
            rng.randint(1, 5),
            rng.choice((0, 1, 2, 3)),
            rng.choice(("agent", "stage")),
            lead=rng.random() < 0.3,
            fallbacks=rng.choice((0, 1, 2)),
            decision_table={"provider_failure": {str(tier): {"rungs": rungs, "deviation": "it is drilled"}}},
            **changes,
        )
        cell = drill(spec, FailureType.PROVIDER, tier, seed=seed, person=rng.choice(("approve", "reject")))
        assert cell.verdict == "pass", (seed, tier, spec.policy.breakers, rungs, cell)


@pytest.mark.parametrize(
    ("scope", "only", "met"),
    [
        ("agent", ("critic", "finalizer"), True),
        ("agent", ("critic",), False),
        ("stage", ("finalize",), True),
        ("stage", ("validate", "plan"), False),
    ],
)
def test_a_breaker_that_names_others_is_none_of_the_cell_s(scope, only, met):
    named = drill(behind_breaker(1, 1, scope, only), FailureType.PROVIDER, BATCH)
    plain = drill(behind_breaker(1 if met else 1_000, 1, scope), FailureType.PROVIDER, BATCH)
    assert named.verdict == plain.verdict == "pass"
    assert named.observed == plain.observed


@pytest.mark.parametrize("scope", ["provider", "fabric"])
@pytest.mark.parametrize("line", [line.strip() for line in CHAINS.strip().splitlines()])
def test_answers_of_others_before_change_nothing_about_a_streak(scope, line):
    tier, threshold, trips, chain = (part.strip() for part in line.split("|"))
    cell = drill(behind_breaker(int(threshold), int(trips), scope), FailureType.PROVIDER, Tier(tier))
    assert (cell.verdict, cell.expected, cell.observed) == ("pass", chain, chain)


def test_a_breaker_of_tools_meets_no_call_of_a_model():
    cell = drill(behind_breaker(1, scope="tool"), FailureType.PROVIDER, BATCH)
    assert (cell.verdict, cell.observed) == (
        "pass",
        "retry > retry > retry > retry > retry > skips wait_for_breaker > escalate > aborted",
    )
