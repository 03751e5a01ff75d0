"""Which scenarios are recommended for a fabric: the table is total, and each part decides by itself."""

from __future__ import annotations

import pytest

from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import samples
from simulator.drills.library.recommendations import RECOMMENDED_MAX, TRIES, WHY, Trait, recommend_scenarios
from simulator.drills.library.selectors import shipped_views
from simulator.scenarios.spec.collection import library
from simulator.scenarios.strikes.needs import BOOK, WIRE
from tests.simulator.drills.drilled import drilled

ALL = list(shipped_views().values())


def names(spec):
    return [one.view.name for one in recommend_scenarios(spec, ALL)]


def sample(name):
    return next(spec for spec in samples() if spec.name == name)


def test_each_built_in_scenario_tries_one_part():
    told = [name for some in TRIES.values() for name in some]
    assert sorted(told) == sorted(library())
    assert len(told) == len(set(told))


def test_each_part_has_a_reason_and_scenarios():
    assert set(WHY) == set(TRIES) == set(Trait)
    assert all(TRIES.values())


@pytest.mark.parametrize("trait", [one for one in Trait if one is not Trait.ANY])
def test_each_part_is_there_in_some_fabric_and_lacks_in_another(trait):
    wired = drilled(tools=[tool.model_dump(mode="json") for tool in (*drilled().tools, *BOOK, *WIRE)])
    found = {bool(WHY[trait](spec)) for spec in (*samples(), wired, drilled(fallbacks=1))}
    assert found == {True, False}


def test_what_suits_every_fabric_is_not_recommended():
    assert not any(WHY[Trait.ANY](spec) for spec in samples())


def test_the_worst_harm_comes_first_and_each_part_once_before_any_twice():
    found = recommend_scenarios(sample("trip-desk"), ALL)
    assert found[0].view.name == "effect-answer-lost"
    assert found[0].why == "book_flight changes something and is undone after a failure"
    assert [one.why for one in found[:4]] == list(dict.fromkeys(one.why for one in found))[:4]
    assert len(found) <= RECOMMENDED_MAX


def test_the_topology_and_the_tier_decide():
    assert "handovers-to-and-fro" in names(sample("incident-triage"))
    assert "handovers-to-and-fro" not in names(sample("research-desk"))
    assert "person-is-silent" in names(sample("document-review"))
    for spec in samples():
        assert all(spec.tiers.default in library()[name].tiers for name in names(spec))


def test_two_people_who_have_to_agree_are_a_reason():
    spec = drilled()
    policy = spec.policy.model_dump(mode="json") | {"humans": {"four_eyes": ["batch"]}}
    assert WHY[Trait.TIER](drilled(policy=policy)) == "two people have to agree"
    assert Tier.BATCH in library()[TRIES[Trait.TIER][0]].tiers
