"""A fabric may name another role for a passed deadline than for money, though both are one row of the table."""

from __future__ import annotations

import pytest

from fabric.core.reviews.reviews import OF_TIME
from fabric.core.values.taxonomy import CLASSIFY, Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import HANGS

LATE = {"high_stakes": {"call_s": 20, "stage_s": 20, "run_s": 30}}


@pytest.mark.parametrize(("humans", "role"), [({}, "finance"), ({"time_role": "operator"}, "operator")])
def test_a_passed_deadline_asks_the_role_for_time(humans, role):
    world = ran(
        lone(deadlines=LATE, humans=humans, stall_watchdog={"after_s": 0}), {"worker": HANGS}, tier=Tier.HIGH_STAKES
    )
    assert world.review.fact.failure_type is FailureType.COST_OVERRUN
    assert world.review.fact.required_role == role


def test_money_asks_the_cells_role():
    world = ran(lone(budget={"run_usd_micros": 100}, humans={"time_role": "operator"}), tier=Tier.HIGH_STAKES)
    assert world.review.fact.required_role == "finance"


def test_a_fabric_without_it_keeps_its_digest():
    plain, named = lone(), lone(humans={"time_role": "operator"})
    assert "time_role" not in plain.model_dump(mode="json")["policy"]["humans"]
    assert named.model_dump(mode="json")["policy"]["humans"]["time_role"] == "operator"
    assert plain.digest() == lone(humans={"time_role": None}).digest() != named.digest()


def test_each_cause_of_time_shares_the_row_of_money():
    assert {CLASSIFY[cause].goes_to for cause in OF_TIME} == {FailureType.COST_OVERRUN}
    assert {cause for cause in Cause if "deadline" in cause} == OF_TIME
