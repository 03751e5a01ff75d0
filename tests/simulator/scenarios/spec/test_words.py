"""Scenarios in words, and what a dry run says: every parameter has its words, and nothing is struck."""

from __future__ import annotations

from typing import get_args

import pytest

from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import default_table
from simulator.faults.catalogue import STRUCK
from simulator.faults.fault import PORTS, Role
from simulator.scenarios.play.player import play
from simulator.scenarios.play.previews import preview
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.words import (
    CHANCES,
    MEANS,
    ROLES,
    WHICH,
    describe_reach,
    disturbances_words,
    find_field,
    ordinal,
    ports,
    used_by,
)
from tests.simulator.scenarios.peers import fabric_for, peers


def test_every_parameter_of_every_fault_has_words():
    fields = {name for fault in STRUCK.values() for name in fault.parameters.model_fields}
    assert set(MEANS) | WHICH == fields
    assert set(MEANS) & WHICH == set()
    assert set(CHANCES) == set(PORTS)
    assert set(ROLES) == set(get_args(Role))


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("rate-limit-storm", {"role": "planner"}, "The endpoint answers 429 without a Retry-After: each model call of the planner, for as long as the run goes on"),
        ("worker-crashes", {"at_effect": 11}, "A worker dies as it carries something out: at its 11th effect"),
        ("tool-error", {}, "The tool answers with an error: the 1st tool call"),
        ("provider-outage", {"to_s": 9.5}, "A provider answers no call for a while, and then is back: every provider, from 0 s to 9.5 s, HTTP 503"),
        ("branches-fail", {"branches": 2}, "The first branches of a fan-out bring no result: the first 2 branches"),
        ("database-away", {}, "The database is away when something is written: each write, 3 times"),
        ("person-too-late", {}, "A reviewer answers after the review has expired: each review, for as long as the run goes on, 60 s after it was due"),
    ],
)  # fmt: skip
def test_a_disturbance_is_said_with_its_parameters(name, overrides, words):
    assert words in disturbances_words(find_shipped(name), overrides)


@pytest.mark.parametrize("name", library())
def test_every_shipped_one_is_said_and_says_what_it_touches(name):
    one = find_shipped(name)
    assert all(len(words) > 10 for words in disturbances_words(one))
    assert "$0.00" in describe_reach(one)[0]
    assert ports(one)
    for parameter in one.parameters:
        key, schema = find_field(one, parameter)
        assert key, f"{parameter} of {name} is a fault's own parameter"
        assert schema
        assert used_by(one, parameter)


@pytest.mark.parametrize(
    ("number", "words"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (22, "22nd"), (113, "113th")]
)
def test_ordinals(number, words):
    assert ordinal(number) == words


@pytest.mark.parametrize("name", library())
def test_a_dry_run_says_whether_anything_is_struck(name):
    one = find_shipped(name)
    found = preview(fabric_for(one), one, one.tiers[0])
    assert found.strikes
    assert [each.fault for each in found.struck] == [each.fault for each in one.disturbance]


def test_a_dry_run_names_the_calls_that_are_struck_first():
    found = preview(default_table(), find_shipped("endpoint-down"), Tier.BATCH)
    assert found.state == "completed"
    [struck] = found.struck
    [met] = struck.calls
    assert (met.who, met.step, struck.count) == ("writer", "finalize", 1)
    assert met.at_s > 0
    played = play(default_table(), find_shipped("endpoint-down"), Tier.BATCH)
    assert played.during.model_calls > found.model_calls, "what is struck is asked again; what is looked at is not"


def test_a_dry_run_says_what_the_fabric_is_given_and_where_nothing_is_met():
    assert preview(default_table(), find_shipped("effect-refused"), Tier.BATCH).equipped == "tool drill-book"
    found = preview(default_table(), find_shipped("endpoint-down").model_copy(update={"disturbance": (
        find_shipped("endpoint-down").disturbance[0].model_copy(update={"values": {"role": "finalizer", "from_call": 9}}),
    ), "parameters": {}}), Tier.BATCH)  # fmt: skip
    assert not found.strikes
    assert found.struck[0].count == 0


def going_on(limits: dict[str, int | str]) -> FabricSpec:
    """A worker who goes on speaking for as long as a rule lets it."""
    tree = peers(2, kind="graph", topology={"default_target": {"kind": "stay"}}, limits=limits).model_dump(mode="json")
    assert tree["topology"]["max_turns"] is None
    return FabricSpec.model_validate({**tree, "agents": [{**agent, "tools": []} for agent in tree["agents"]]})


@pytest.mark.parametrize(
    ("limits", "visits"),
    [({}, 10), ({"visits_preset": "fabro"}, 10), ({"max_node_visits": 3}, 3), ({"max_node_visits": 12}, 12)],
)
def test_a_dry_run_visits_a_node_ten_times_by_default(limits, visits):
    found = preview(going_on(limits), find_shipped("answer-empty"), Tier.BATCH)
    assert found.model_calls == visits
    assert found.state == "aborted"
