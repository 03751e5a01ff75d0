"""A capture reads out of a run's journal what went wrong: each shipped scenario's run is captured, played again, and makes the same decisions."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import KINDS, fact_json, list_events
from fabric.core.values.taxonomy import Cause
from simulator.drills.library.causes import ATTEMPTS, DECISIONS, READ, build_facts
from simulator.faults.catalogue import STRUCK
from simulator.scenarios.baseline.work import first_run
from simulator.scenarios.play.player import play, play_told
from simulator.scenarios.spec.collection import library
from simulator.scenarios.spec.toml import read_scenario
from tests.simulator.scenarios.peers import fabric_for

NOTHING = {
    "answer-with-nul": "an answer that was cleaned is no failure",
    "clock-skew": "", "commit-landed": "", "commit-lost": "", "database-away": "", "inputs-doubled": "", "messages-doubled": "",
    "messages-lost": "", "slow-answers": "", "tool-slow": "", "worker-crashes": "", "worker-dies-at-an-instant": "", "worker-is-a-zombie": "",
}  # fmt: skip
"""Shipped scenarios in whose runs nothing has failed."""


def captured(told):
    """Return what a played scenario's run says went wrong, and the scenario that repeats it."""
    rows = told.world.store.rows(first_run(told.world).id)
    events = ((event.seq, event.fact.kind, fact_json(event)) for event in list_events(rows))
    return build_facts(events, told.spec.policy.budget.run_usd_micros)


def repeated(one, found):
    tree = {
        "name": "again",
        "title": "Again",
        "description": "Again.",
        "disturbance": found.disturbances,
        "steady_state": {"probes": [{"probe": "violations", "tolerance": 0}]},
    }
    return read_scenario(tree | ({"failure": str(found.failure)} if found.failure else {}))


def test_every_cause_has_a_place_in_both_tables_and_every_fault_is_one():
    assert set(ATTEMPTS) == set(DECISIONS) == set(Cause)
    assert set(READ) <= set(KINDS)


@pytest.mark.parametrize("name", library())
def test_a_run_is_captured_and_played_again_with_the_same_decisions(name):
    one = library()[name]
    for tier in one.tiers:
        told = play_told(fabric_for(one), one, tier)
        found = captured(told)
        if not found.disturbances:
            assert name in NOTHING or not found.decided, (name, tier, told.played.observed_chain)
            continue
        assert all(each["fault"] in STRUCK for each in found.disturbances)
        again = play(told.spec, repeated(one, found), tier, seed=told.played.seed)
        assert again.observed_chain == told.played.observed_chain, (tier, found.disturbances, again.why)


def test_people_strike_the_reviews_that_they_struck():
    """A review is known by the order in which it was opened, not decided; an edit counts those that can be edited."""
    opened = [("a", ("approve", "reject")), ("b", ("approve", "edit")), ("c", ("approve", "edit"))]
    decided = [
        ("c", {"verb": "edit", "system": False}),
        ("b", {"verb": "reject", "system": True}),
        ("a", {"verb": "reject", "system": False}),
    ]
    events = [
        *((n, "review_opened", {"review_id": name, "verbs": verbs}) for n, (name, verbs) in enumerate(opened)),
        *((n + 3, "review_decided", {"review_id": name, **told}) for n, (name, told) in enumerate(decided)),
    ]
    assert build_facts(events, 1).disturbances == [
        {"fault": "person_edits", "from_review": 2, "times": 1},
        {"fault": "person_silent", "from_review": 2, "times": 1},
    ]
