"""A drill has teeth: whatever cell or limit is another one in what the engine runs than in what the judge reads, the drill deviates; where both change, it passes."""

from __future__ import annotations

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.spec.policies.decision_table import BOUNDED_ONLY, Reaction, table_with
from fabric.core.values.taxonomy import FailureType, Tier
from simulator.scenarios.play.cells import drill, drive, judge_world
from simulator.scenarios.play.circumstances import promise
from simulator.scenarios.promises.digests import CELLS
from simulator.scenarios.strikes.failures import SUSTAINED
from tests.simulator.drills.drilled import ANSWER, drilled, with_cell
from tests.simulator.drills.variants import ROOM, layered, with_fallbacks, with_policy

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
    ran_other = judge_world(drive(other, SUSTAINED[failure], tier, seed=1), chain(drilled(), failure, tier))
    read_other = judge_world(drive(drilled(), SUSTAINED[failure], tier, seed=1), chain(other, failure, tier))
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
    assert judge_world(world, mine)[0] == "deviated"
    assert drill(other, failure, tier, person=person).verdict == "pass"


def under(mode: str = "consecutive", threshold: float = 2, scope: str = "stage", **more: object) -> FabricSpec:
    """Three models at endpoints of their own behind the one that all use, and a breaker in front of the one that fails; deadlines that any cooldown fits into."""
    signal = {"names": ["server_error"], "mode": mode, "threshold": threshold, "min_calls": more.pop("min_calls", 3)}
    one = {"scope": scope, "signals": [signal], "cooldown_s": 600.0, **more}
    return with_policy(with_fallbacks(drilled(safe_fallback=ANSWER), 1), breakers=[one], deadlines=ROOM)


SHORT = {**ROOM, "batch": {**ROOM["batch"], "stage_s": 500}}
"""A cooldown does not fit into a stage."""


def behind_layers(fallbacks: int = 0, **said: object) -> FabricSpec:
    return layered(with_fallbacks(drilled(lead=True), fallbacks), **said)


def nodes(**said: object) -> FabricSpec:
    return behind_layers(stages={"finalize": said})


AROUND = {
    "a breaker's threshold": (under(), under(threshold=3), Tier.BATCH),
    "its mode": (under(scope="fabric", threshold=3), under("rate", 0.9, scope="fabric"), Tier.BATCH),
    "its share": (under("rate", 0.4), under("rate", 0.99, min_calls=20), Tier.BATCH),
    "of how many calls": (under("rate", 0.5, min_calls=2), under("rate", 0.5, min_calls=4), Tier.BATCH),
    "its scope": (under(), under(scope="tool"), Tier.BATCH),
    "whom it stands in front of": (under(), under(only=["plan"]), Tier.BATCH),
    "trips until it stops": (under(max_trips=3), under(max_trips=1), Tier.BATCH),
    "what it lets stand in": (under(threshold=1, on_open="model"), under(threshold=1), Tier.INTERACTIVE),
    "retries of a node": (behind_layers(max_retries=0), behind_layers(max_retries=1), Tier.INTERACTIVE),
    "its own retries": (nodes(max_retries=2), nodes(max_retries=1), Tier.BATCH),
    "its preset": (nodes(retry_policy="none"), nodes(retry_policy="linear"), Tier.HIGH_STAKES),
    "an edge": (nodes(max_retries=0), nodes(max_retries=0, edges=[{"to": "replan"}]), Tier.BATCH),
    "its class": (
        nodes(max_retries=0, edges=[{"to": "replan", "failure_class": "transient_infra"}]),
        nodes(max_retries=0, edges=[{"to": "replan", "failure_class": "deterministic"}]),
        Tier.BATCH,
    ),
    "a retry target": (nodes(max_retries=0), nodes(max_retries=0, retry_target="handover"), Tier.BATCH),
    "models behind the one": (behind_layers(1, max_retries=0), behind_layers(2, max_retries=0), Tier.INTERACTIVE),
    "retry tokens": (behind_layers(), with_policy(behind_layers(), retry={"bucket": 5}), Tier.INTERACTIVE),
    "the time of a stage": (under(), with_policy(under(), deadlines=SHORT), Tier.BATCH),
}
"""What stands around a provider's failure: a fabric, the same with something else, and the tier that shows it."""


@pytest.mark.parametrize("name", AROUND)
def test_what_stands_around_a_call_is_another_promise_and_another_run(name):
    one, other, tier = AROUND[name]
    failure, sustained = FailureType.PROVIDER, SUSTAINED[FailureType.PROVIDER]
    promises = chain(one, failure, tier), chain(other, failure, tier)
    worlds = drive(one, sustained, tier, seed=1), drive(other, sustained, tier, seed=1)
    found = [[judge_world(world, promised)[0] for promised in promises] for world in worlds]
    assert found == [["pass", "deviated"], ["deviated", "pass"]]
