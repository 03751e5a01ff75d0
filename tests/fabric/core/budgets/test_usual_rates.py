"""A fabric's usual spending: learned of runs that completed, taken by a run at its start, and compared with the present minute."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.spec.policies.budgets import CostVelocity
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState
from fabric.core.values.spending import UsualRate
from fabric.core.values.taxonomy import Tier
from fabric.core.values.units import US
from fabric.runtime.spending.usual_rates import Minutes, UsualRates, add_run, list_rates
from tests.fabric.core.fabrics import spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import summary
from tests.fabric.core.spenders import CHEAP, spender


def test_what_its_fabric_has_learned_enters_a_run_at_its_start_and_is_what_it_is_compared_with():
    fabric, script = spender(cost_velocity={})
    for known in (4, 5):
        usual = UsualRates()
        usual.learn("fabric-1", rows_of(*[{"run": (100, 10), "agent:worker": (10**6, 10)}] * known))
        world = World(fabric, script, usual=usual).start().go()
        assert [fact.rates[0].scope for fact in world.of(ev.UsualRatesPinned)] == ["agent:worker"] * (known == 5)
        assert world.end.state is (RunState.ABORTED if known == 5 else RunState.COMPLETED)
        if known == 5:
            assert "times the $0.0001 of its usual busiest minute" in world.end.reason


def rows_of(*minutes: Minutes) -> str:
    state = ""
    for one in minutes:
        state = add_run(state, one)
    return state


def test_usual_is_the_median_of_the_last_twenty_runs():
    runs = [
        {"run": (cost, cost * 2), "agent:rare": (1, 1)} if cost < 4 else {"run": (cost, cost * 2)} for cost in range(30)
    ]
    assert list_rates(rows_of(*runs[:4])) == ()
    assert list_rates(rows_of(*runs)) == (UsualRate(scope="run", usd_micros=20, tokens=40, runs=20),)
    assert list_rates(rows_of(*runs[:5])) == (UsualRate(scope="run", usd_micros=2, tokens=4, runs=5),)


@pytest.mark.parametrize(("tier", "learns"), [(Tier.INTERACTIVE, False), (Tier.BATCH, True)])
def test_a_fabric_learns_of_runs_that_completed(tier, learns):
    """The interactive one is aborted; the other completes with the cheaper model."""
    told: list[str] = []
    usual = UsualRates(lambda fabric, merge: told.append(merge("")))
    World(*spender(cheaper="thrifty"), tier=tier, prices=CHEAP, usual=usual).start().go()
    assert bool(told) is learns
    if learns:
        [minutes] = json.loads(told[0])
        assert minutes.keys() == {"run", "stage:fan_out", "agent:worker"}
        assert minutes["run"] == minutes["agent:worker"]
        assert minutes["run"][0] > 6_000


def test_a_busy_fabric_is_learned_of_once_a_minute_after_the_first_twenty():
    told: list[str] = []
    usual = UsualRates(lambda fabric, merge: told.append(merge("")))
    ended = ran(spec(), {"worker": summary()}).run
    for second in range(100):
        usual.note("f", CostVelocity(), Run("r"), ended, second * US)
    assert len(told) == 21
    for rule in (CostVelocity(factor=0), CostVelocity(times_usual=0)):
        usual.note("other", rule, Run("r"), ended, 0)
    assert len(told) == 21, "where nothing is compared with it, nothing is learned"
