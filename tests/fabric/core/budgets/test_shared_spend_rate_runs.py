"""Runs that spend too fast together: the call that crosses the line is not sent, and the cost cell of its run says what follows."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.budgets.spend_rate import Counting, count_spending, list_shared
from fabric.core.events.inputs import ModelReplied
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.breakers import build_count
from simulator.stores.memory.guards import MemoryGuards
from simulator.world.breakers import VirtualBreakers
from tests.fabric.core.harness import World
from tests.fabric.core.spenders import CHEAP, spender
from tests.fabric.core.tills import Till

HOUR_CAP = 60_000
BIG = 10_000_000_000


class Paced(World):
    """A world whose guard rows a test can reach."""

    guards: MemoryGuards


class Clock:
    """The world's."""

    world: Paced

    def now(self):
        return self.world.now


def world(tier: Tier, **how: Any) -> Paced:
    """A run under an hour's money of its fabric that is small beside its own."""
    clock = Clock()
    store = MemoryGuards(clock)
    fabric, script = spender(cap=BIG, budget={"fabric_hour_usd_micros": HOUR_CAP}, cost_velocity={}, **how)
    till = Till(caps={"fabric:fabric-1": BIG})
    made = Paced(
        fabric, script, tier=tier, prices=CHEAP, breakers=VirtualBreakers(store), till=till, claim={"session_key": ""}
    )
    clock.world = made
    made.guards = store
    return made


def others_spent(made: Paced, *costs: int) -> None:
    """Runs of other workers that came back just now."""
    (one,) = list_shared(made.spec.policy, "fabric-1")
    (row,) = made.guards.guards([(one.scope, one.key.kind)])
    for cost in costs:
        reply = ModelReplied(command_id="c", attempt=1, text="", cost_usd_micros=cost)
        for step in count_spending((Counting(one, row, None, 0),), reply):
            made.guards.tell([build_count(step)])


def refused(made: Paced) -> list[ev.AttemptFailed]:
    return [fact for fact in made.of(ev.AttemptFailed) if fact.cause is Cause.COST_VELOCITY]


def test_interactive_is_aborted_and_the_decision_has_count_rate_and_ceiling():
    made = world(Tier.INTERACTIVE)
    others_spent(made, *[2_000] * 5)
    made.start().go()
    (fact,) = refused(made)
    (decided,) = made.of(ev.ReactionDecided)
    seen = decided.cause.evidence
    assert (fact.charged_usd_micros, made.requests) == (0, [])
    assert (decided.reaction, decided.cause.mechanism, decided.cause.cause) == (
        "abort",
        "cost_velocity",
        Cause.COST_VELOCITY,
    )
    assert (seen.scope, seen.unit, seen.observed, seen.limit, seen.window) == (
        "fabric",
        "usd_micros",
        10_000,
        3_000,
        "60 s",
    )
    assert {name: seen.details[name] for name in ("calls", "cap", "left", "budget", "generation")} == {
        "calls": 5,
        "cap": HOUR_CAP,
        "left": HOUR_CAP,
        "budget": "fabric:fabric-1",
        "generation": 0,
    }
    assert made.end.state is RunState.ABORTED


@pytest.mark.parametrize(("cost", "trips"), [(1_199, False), (1_200, True)])
def test_one_micro_dollar_less_passes(cost, trips):
    """Five of 1,200 are 6,000: what an hour gives lasts ten minutes at that rate."""
    made = world(Tier.INTERACTIVE, turns=1)
    others_spent(made, *[cost] * 5)
    made.start().go()
    assert (made.requests == []) is trips


def test_batch_goes_on_with_the_cheaper_model_and_is_counted_anew():
    made = world(Tier.BATCH, cheaper="thrifty", turns=2)
    others_spent(made, *[2_000] * 5)
    made.start().go()
    assert made.reactions == ["cheaper_model"]
    assert [fact.model for fact in made.of(ev.ModelChanged)] == ["thrifty"]
    assert len(made.of(ev.AlertRaised)) == 1
    assert made.end.state is RunState.COMPLETED


def test_high_stakes_asks_finance_and_goes_on_when_it_is_approved():
    made = world(Tier.HIGH_STAKES, turns=1)
    others_spent(made, *[2_000] * 5)
    made.start().go()
    assert made.review.fact.required_role == "finance"
    made.decide("approve").go()
    assert (made.end.state, len(refused(made))) == (RunState.COMPLETED, 1)


def test_a_run_counts_what_it_spends_itself():
    made = world(Tier.INTERACTIVE)
    made.start().go()
    (fact,) = refused(made)
    assert fact.trip.evidence.details["calls"] >= 5
    assert fact.trip.evidence.observed == sum(one.cost_usd_micros for one in made.of(ev.ModelAnswered))


def test_the_burst_of_others_is_over_after_a_minute():
    made = world(Tier.INTERACTIVE, turns=1)
    others_spent(made, *[2_000] * 5)
    made.now += 70_000_000
    made.start().go()
    assert refused(made) == []
