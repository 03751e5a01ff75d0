"""Tests of cost velocity share a policy, what was spent, and how that is judged."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.mechanisms import cost_velocity
from fabric.core.mechanisms.cost_velocity import State
from fabric.core.spec.policies.budgets import RUN
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.run import Run
from fabric.core.values.flow import Stage
from fabric.core.values.frozen import replace
from fabric.core.values.spending import UsualRate
from fabric.core.values.taxonomy import FailureType, Tier
from fabric.core.values.units import US
from tests.fabric.core.fabrics import proposal, view
from tests.fabric.core.mechanisms.facts import answered, at, issued

CAP = 1_000_000
USUAL = 10_000
"""The usual busiest minute, micro-dollars and tokens: ten times that are 100,000, a tenth of the cap."""


def policy(rule=None, **budget) -> FlowPolicy:
    given = {"budget": {"run_usd_micros": CAP, **budget}, "cost_velocity": rule or {}, "deadlines": {}}
    return FlowPolicy.model_validate(given)


def knows(*scopes: str, usd_micros: int = USUAL, tokens: int = USUAL) -> State:
    """The state of a run whose fabric has learned what is usual."""
    rates = tuple(UsualRate(scope=one, usd_micros=usd_micros, tokens=tokens, runs=5) for one in scopes)
    return cost_velocity.observe(State(), at(ev.UsualRatesPinned(rates=rates)))


def spent(*costs: tuple[float, int], state: State | None = None, tokens: int = 0, agent: str = "worker") -> State:
    """The state after calls that came back at those seconds for those micro-dollars."""
    state = knows(RUN) if state is None else state
    for seconds, cost in costs:
        state = cost_velocity.observe(state, at(issued(agent=agent), int(seconds * US)))
        state = cost_velocity.observe(state, at(answered(cost=cost, tokens=(tokens, 0)), int(seconds * US)))
    return state


def judged(state: State, seconds: float, given: FlowPolicy | None = None, *, shares=None, run=None, **fields):
    config = cost_velocity.config(given or policy())
    asked = proposal(**{"kind": "model", "agent": "worker", "target": "small", "stage": Stage.FAN_OUT, **fields})
    seen = replace(view(run or Run("run", tier=Tier.BATCH), int(seconds * US)), shares=shares)
    return cost_velocity.check(config, state, asked, seen)


def opened() -> ev.ReviewOpened:
    return ev.ReviewOpened(
        review_id="e",
        item="failure",
        reason="",
        failure_type=FailureType.COST_OVERRUN,
        stage=Stage.FAN_OUT,
        step_id="",
        scope="",
        required_role="finance",
        verbs=(),
        digest="",
        remind_at=0,
        onward_at=0,
        due_at=0,
    )


def answered_by(verb: Any) -> ev.ReviewDecided:
    return ev.ReviewDecided(review_id="e", verb=verb, actor="bob")


def decides(trip: ev.TripRecord, reaction: str = "cheaper_model", causes=()) -> ev.ReactionDecided:
    return ev.ReactionDecided(
        failure_type=FailureType.COST_OVERRUN,
        tier=Tier.BATCH,
        table="t",
        rung=0,
        scope="",
        reaction=reaction,
        spent=0,
        bound=1,
        cause=trip,
        causes=causes,
    )
