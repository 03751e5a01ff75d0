"""A drill has teeth: whatever cell or limit is another one in what the engine runs than in what the judge reads, the drill deviates; where both change, it passes."""

from __future__ import annotations

import pytest

from fabric.core.decision_table import BOUNDED_ONLY, Reaction, table_with
from fabric.core.spec import FabricSpec
from fabric.core.taxonomy import FailureType, Tier
from simulator.drills.cells import drill, drive, judged
from simulator.drills.circumstances import promise
from simulator.drills.covers import CELLS
from simulator.drills.sustained import SUSTAINED
from tests.simulator.drills.drilled import drilled, with_cell

LAST = [reaction for reaction in Reaction if reaction not in BOUNDED_ONLY]


def chain(spec: FabricSpec, failure: FailureType, tier: Tier):
    return promise(spec, table_with(spec.decision_table), failure, tier, "reject")


def flipped(failure: FailureType, tier: Tier) -> FabricSpec:
    """The fabric with another last word in that cell, one that comes to another chain."""
    now = chain(drilled(), failure, tier)
    others = (with_cell(failure, tier, {"reaction": str(last)}) for last in LAST)
    return next(spec for spec in others if chain(spec, failure, tier) != now)


@pytest.mark.parametrize(("failure", "tier"), CELLS)
def test_an_engine_that_runs_another_cell_than_the_judge_reads_deviates(failure, tier):
    other = flipped(failure, tier)
    ran_other = judged(drive(other, SUSTAINED[failure], tier, seed=1), chain(drilled(), failure, tier))
    read_other = judged(drive(drilled(), SUSTAINED[failure], tier, seed=1), chain(other, failure, tier))
    assert (ran_other[0], read_other[0]) == ("deviated", "deviated")


@pytest.mark.parametrize(("failure", "tier"), CELLS)
def test_a_fabric_that_says_otherwise_is_expected_to_do_otherwise(failure, tier):
    found = drill(flipped(failure, tier), failure, tier)
    assert found.verdict == "pass", found
    assert found.expected != drill(drilled(), failure, tier).expected


def with_limit(path: str, value: object) -> FabricSpec:
    policy = drilled().policy.model_dump(mode="json")
    *groups, name = path.split(".")
    group = policy
    for one in groups:
        group = group[one]
    group[name] = value
    return drilled(policy=policy)


LIMITS = [
    ("limits.replans_per_stage", 1, FailureType.PLAN_MALFORMED, Tier.BATCH, "reject"),
    ("limits.replans_per_stage", 1, FailureType.SCHEMA_GROUNDING, Tier.BATCH, "reject"),
    ("humans.failure_rounds", 1, FailureType.PROVIDER, Tier.HIGH_STAKES, "approve"),
    ("failure_signature.limit", 1, FailureType.SCHEMA_GROUNDING, Tier.BATCH, "reject"),
]
"""Limits that a chain rests on: path, another value, the cell and the person that show it."""


@pytest.mark.parametrize(("path", "value", "failure", "tier", "person"), LIMITS)
def test_another_limit_than_the_judge_reads_deviates_and_is_expected_where_it_is_the_fabric_s(
    path, value, failure, tier, person
):
    other = with_limit(path, value)
    mine = promise(drilled(), table_with({}), failure, tier, person)
    world = drive(other, SUSTAINED[failure], tier, seed=1, person=person)
    assert judged(world, mine)[0] == "deviated"
    assert drill(other, failure, tier, person=person).verdict == "pass"
