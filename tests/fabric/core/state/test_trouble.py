"""The trouble of a run: short names are total and different, and a row has what fired."""

from __future__ import annotations

import pytest

from fabric.core.mechanisms import ORDER
from fabric.core.spec.policies.decision_table import Reaction
from fabric.core.state.trouble import FIRED, MECHANISMS, REACTIONS, UNTROUBLED
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, say, scored, summary
from tests.fabric.core.values.test_saga import planner


def test_each_mechanism_has_a_short_name_of_its_own():
    assert list(MECHANISMS) == [module.NAME for module in ORDER]
    assert len(set(FIRED)) == len(FIRED)


def test_each_reaction_has_a_row():
    assert set(REACTIONS) == set(Reaction)


LOOP = [*[asks(call(q="order 42"))] * 4, summary("What I have.")]
MET = {
    "nothing": (lambda: ran(lone()), None, None, ()),
    "budget": (lambda: ran(lone(budget={"run_usd_micros": 500})), Cause.BUDGET_GATE, FailureType.COST_OVERRUN, ("budget",)),
    "loop": (lambda: ran(lone(), {"worker": LOOP}), Cause.LOOP_DETECTED, FailureType.TOOL_LOOP, ("loop",)),
    "retry": (lambda: ran(lone(), {"worker": [fails(), summary()]}), Cause.RATE_LIMIT, FailureType.PROVIDER, ("retry",)),
    "no retry left": (
        lambda: ran(lone(workers=3, retry={"bucket": 1, "base_s": 0.1}), {"worker": fails(Cause.SERVER_ERROR)}),
        Cause.PARTIAL_FAN_IN, FailureType.SCHEMA_GROUNDING, ("retry", "retry_budget"),
    ),
    "deadline": (
        lambda: ran(lone(deadlines={"interactive": {"call_s": 25, "stage_s": 25, "run_s": 25}}), {"worker": HANGS}),
        Cause.RUN_DEADLINE, FailureType.COST_OVERRUN, ("stall", "deadline"),
    ),
    "gate": (
        lambda: ran(spec(gates={"max_outcome_chars": 5})), Cause.INVARIANT, FailureType.SCHEMA_GROUNDING, ("gate", "retry")
    ),
    "low score, which meets no row": (lambda: ran(spec(), {"critic": scored(0.2)}), Cause.BELOW_TAU, None, ("score",)),
}  # fmt: skip
"""A run, and its cause, its row of the decision table and what fired."""


@pytest.mark.parametrize("met", MET)
def test_a_run_knows_what_it_met(met):
    scene, cause, failure, fired = MET[met]
    trouble = scene().run.trouble
    assert (trouble.cause, trouble.failure) == (cause, failure)
    assert trouble.fired == fired
    assert trouble.breakers == ()


def test_an_untroubled_run_shares_one_value():
    assert ran(lone()).run.trouble is UNTROUBLED


def test_undoing_fires_and_a_later_decision_is_the_last():
    desk = Desk()
    world = at_the_desk(planner(), desk, [asks(booking(1)), *[say("no json")] * 4, summary()], tier=Tier.BATCH)
    go(world, desk)
    assert world.end.state is RunState.COMPLETED
    assert "undo" in world.run.trouble.fired
