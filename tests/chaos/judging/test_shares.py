"""Shared budgets against the ledger: one planted fault a sentence, and what looks like one and is none."""

from dataclasses import replace

import pytest

from tests.chaos.judging.shares import overspent
from tests.chaos.judging.test_judge import BUDGET, GOOD


def said(**changed):
    return overspent(GOOD.ledger, (BUDGET, replace(BUDGET, **changed)))


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"cap": 99, "spent": 0, "granted": 0, "held": 0, "used": 0}, "100 of 99 micro-dollars were spent"),
        ({"cap": 602}, "103 spent and 500 granted are more than 602"),
        ({"held": 501}, "grants of 501 are out, and it knows of 500"),
        ({"used": 104}, "its grants were used for 104, and it knows of 103"),
        ({"booked": {("r1", "plan", 1): 99}}, "attempt 1 of plan of run r1 cost 100, and it knows of 99"),
        ({"booked": {("r1", "plan", 2): 100}}, "attempt 1 of plan of run r1 cost 100, and it knows of 0"),
    ],
)
def test_a_planted_fault_is_told(changed, sentence):
    assert said(**changed) == [f"session:f:s: {sentence}"]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"spent": 100, "overrun": 3},
        {"hourly": True, "spent": 0},  # What was spent has left the hour.
        {"hourly": True, "cap": 99, "spent": 0, "granted": 0, "held": 0, "used": 0},
        {"runs": frozenset(), "booked": {}},  # Another session's.
        {"held": 499},
    ],
)
def test_what_is_no_fault_is_not(changed):
    assert said(**changed) == []
