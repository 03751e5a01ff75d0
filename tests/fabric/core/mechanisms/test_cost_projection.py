"""Cost velocity: a plan that cannot be finished within its cap (docs/specification/budgets.md)."""

from __future__ import annotations

import pytest

from fabric.core.mechanisms import cost_velocity
from fabric.core.mechanisms.cost_velocity import State
from fabric.core.spec.policies.limits import FanIn
from fabric.core.state.failure import record
from fabric.core.state.run import Run, Seat, Step, step_id
from fabric.core.values.flow import Stage
from fabric.core.values.taxonomy import PASS, Tier
from fabric.core.values.units import US
from tests.fabric.core.mechanisms.facts import answered, at, issued
from tests.fabric.core.mechanisms.rates import decides, judged, policy


def at_work(done: int, out: int, *, agent: str = "worker", **fields) -> Run:
    """A fan-out with so many branches done, and so many under way."""
    steps = {}
    for branch in range(done + out):
        key = step_id(Stage.FAN_OUT, branch, 0, 0)
        status = "done" if branch < done else "active"
        steps[key] = Step(key, Stage.FAN_OUT, branch, 0, 0, agent, **{"status": status, **fields})
    return Run("run", tier=Tier.BATCH, steps=steps)


def branches(*costs: int) -> State:
    """Return what branches cost, one call each, a minute apart."""
    state = State()
    for branch, cost in enumerate(costs):
        key = f"{step_id(Stage.FAN_OUT, branch, 0, 0)}.t1"
        state = cost_velocity.observe(state, at(issued(key), branch * 60 * US))
        state = cost_velocity.observe(state, at(answered(key, cost=cost), branch * 60 * US))
    return state


@pytest.mark.parametrize(("cheapest", "trips"), [(124_999, False), (125_000, False), (125_001, True)])
def test_a_plan_that_cannot_be_finished_within_its_cap_is_stopped(cheapest, trips):
    """About half of the cap is spent; four branches are left."""
    state = branches(125_000, cheapest, cheapest, cheapest)
    verdict = judged(state, 1_000, run=at_work(4, 4))
    assert (verdict is not PASS) is trips
    if trips:
        assert verdict.message == (
            "the run cannot reach its end within its cap: the 4 branches done cost at least $0.125 each, "
            "so the 4 branches left would take $0.50, and $0.499997 of $1.00 is left"
        )
        assert (verdict.evidence.window, verdict.evidence.limit, verdict.evidence.observed) == (
            "plan",
            499_997,
            500_000,
        )


@pytest.mark.parametrize(
    ("costs", "done", "out", "trips"),
    [
        ((250_000, 250_000), 2, 2, False),  # It fits exactly.
        ((300_000, 300_000), 2, 2, True),
        ((240_000, 240_000), 2, 2, False),  # Less than half of the cap is spent.
        ((300_000, 300_000), 2, 3, False),  # Less than half of the branches are done.
        ((600_000,), 1, 1, False),  # One branch says nothing of the others.
        ((300_000, 300_000, 150_000, 150_000), 2, 2, True),  # What branches under way have cost is money gone.
        ((260_000, 260_000, 160_000, 160_000), 2, 2, True),
        ((250_000, 250_000, 125_000, 125_000), 2, 2, False),
    ],
)
def test_it_is_judged_once_half_of_the_cap_is_spent_and_half_of_the_branches_are_done(costs, done, out, trips):
    assert (judged(branches(*costs), 1_000, run=at_work(done, out)) is not PASS) is trips


def test_a_quorum_needs_fewer_branches_and_a_best_effort_none():
    state, run = branches(300_000, 300_000), at_work(2, 2)
    for fan_in, trips in (
        ({"mode": "all"}, True),
        ({"mode": "quorum", "k": 4}, True),
        ({"mode": "quorum", "k": 3}, False),
        ({"mode": "best_effort"}, False),
    ):
        given = policy().model_copy(update={"fan_in": FanIn.model_validate(fan_in)})
        assert (judged(state, 1_000, given, run=run) is not PASS) is trips


def test_an_agents_and_a_stages_own_caps_are_projected_too():
    state, run = branches(30_000, 30_000), at_work(2, 2)
    assert judged(state, 1_000, run=run) is PASS
    assert judged(state, 1_000, policy(agent_usd_micros=100_000), run=run).evidence.scope == "agent:worker"
    assert judged(state, 1_000, policy(stage_usd_micros=100_000), run=run).evidence.scope == "stage:fan_out"


def test_where_no_end_is_known_nothing_is_projected():
    state = branches(300_000, 300_000)
    assert judged(state, 1_000, run=at_work(2, 2, turn=Seat("worker", 0))) is PASS
    assert judged(state, 1_000, run=at_work(2, 2), stage=Stage.FAN_IN) is PASS
    assert judged(state, 1_000, run=at_work(2, 2), cheaper=True) is PASS


def test_a_projection_is_said_once_in_a_run():
    verdict = judged(branches(300_000, 300_000), 1_000, run=at_work(2, 2))
    state = cost_velocity.observe(branches(300_000, 300_000), at(decides(record(verdict))))
    assert judged(state, 1_000, run=at_work(2, 2)) is PASS
