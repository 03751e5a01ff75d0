"""Requests that agents hand to and fro: what a fabric's limits promise of it, that it is kept, and that an engine that counts otherwise is found out."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core.mechanisms import hop_limit
from fabric.core.rules import deadlocks as deadlock_rules
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.taxonomy import Tier
from simulator.drills.fabrics import default_table, samples
from simulator.faults.catalogue import STRUCK, FaultRefused, build_parameters
from simulator.rules.conversations.checks import SPEAKER_PLANTS
from simulator.scenarios.play.handovers import promise_handovers
from simulator.scenarios.play.player import play, play_told
from simulator.scenarios.spec.collection import find_shipped, library
from simulator.scenarios.spec.scenario import Disturbance
from simulator.scenarios.strikes.handovers import explain_no_circle, find_circle
from tests.simulator.scenarios.peers import peers

TO_AND_FRO, ROUND, NEWS = "handovers-to-and-fro", "handovers-round-three", "handovers-with-news"
SAMPLES = {spec.name: spec for spec in samples()}


def promise(spec: FabricSpec, fault: str = "handoff_cycle", **values: Any) -> str:
    found = promise_handovers(spec, [Disturbance(STRUCK[fault], build_parameters(STRUCK[fault], values))])
    return str(found)


GRAPH = {"kind": "graph"}
PROMISES = [
    # The same brief the same way: at the third handover of two, the fourth of three.
    ({}, {}, "2 handovers, then brief_repeated"),
    ({}, {"fault": "handoff_cycle_of_3"}, "3 handovers, then brief_repeated"),
    # Too short to be compared: the circle has to close twice.
    ({"monitor": {"brief_chars": 500}}, {}, "3 handovers, then handoff_cycle"),
    ({"monitor": {"brief_chars": 500}}, {"fault": "handoff_cycle_of_3"}, "5 handovers, then handoff_cycle and hop_limit"),
    ({"monitor": {"brief_chars": 500}, "limits": {"hops": 9}}, {"fault": "handoff_cycle_of_3"}, "5 handovers, then handoff_cycle"),
    ({"monitor": {"brief_chars": 500, "cycle_max": 2}, "limits": {"hops": 9}}, {"fault": "handoff_cycle_of_3"}, "9 handovers, then hop_limit"),
    # The hops are over before.
    ({"limits": {"hops": 1}}, {}, "1 handover, then hop_limit"),
    ({"limits": {"hops": 2}}, {}, "2 handovers, then brief_repeated and hop_limit"),
    ({}, {"how": "something_new"}, "5 handovers, then hop_limit"),
    ({"limits": {"hops": 7}}, {"how": "something_new", "fault": "handoff_cycle_of_3"}, "7 handovers, then hop_limit"),
    # A graph's own bounds, and visits.
    (GRAPH, {}, "2 handovers, then brief_repeated"),
    ({**GRAPH, "topology": {"max_turns": 2}}, {}, "1 handover, then its last turn"),
    ({**GRAPH, "topology": {"max_turns": 4}}, {"how": "something_new"}, "3 handovers, then its last turn"),
    ({**GRAPH, "topology": {"max_visits": {"b": 1}, "max_turns": 9}}, {"how": "something_new"}, "3 handovers, then visit_limit"),
    ({"limits": {"max_node_visits": 2}}, {"how": "something_new"}, "4 handovers, then visit_limit"),
    ({"limits": {"max_node_visits": 2, "visits_preset": "fabro"}}, {"how": "something_new"}, "2 handovers, then visit_limit"),
    # Who leads into the circle hands over as well.
    ({"topology": {"passes": {"a": ["b"], "b": ["c"], "c": ["b"]}}}, {}, "3 handovers, then brief_repeated"),
]  # fmt: skip


@pytest.mark.parametrize(("fabric", "values", "said"), PROMISES)
def test_what_is_promised_is_kept_in_each_tier(fabric, values, said):
    spec = peers(**fabric)
    assert promise(spec, **values) == said
    name = {"the_same": TO_AND_FRO, "something_new": NEWS}[values.get("how", "the_same")]
    scenario = find_shipped(name)
    fault = values.get("fault", "handoff_cycle")
    given = {name: value for name, value in values.items() if name != "fault"}
    disturbed = scenario.disturbance[0].model_copy(update={"fault": fault, "values": given})
    scenario = scenario.model_copy(update={"disturbance": (disturbed,)})
    for tier in Tier:
        found = play(spec, scenario, tier)
        assert (found.verdict, found.why) == ("pass", ""), (tier, found)


@pytest.mark.parametrize("name", ["incident-triage", "support-routing"])
def test_samples_whose_agents_hand_over_keep_what_their_limits_promise(name):
    played = 0
    for scenario in (find_shipped(TO_AND_FRO), find_shipped(ROUND), find_shipped(NEWS)):
        [circle] = scenario.disturbances()
        if explain_no_circle(SAMPLES[name], circle.parameters.peers):
            continue
        for tier in scenario.tiers:
            told = play_told(SAMPLES[name], scenario, tier)
            assert (told.played.verdict, told.played.why) == ("pass", ""), (tier, told.played)
            assert told.played.struck[circle.fault.name] > 1
            played += 1
    assert played == {"incident-triage": 6, "support-routing": 9}[name]


def test_a_graph_whose_agents_lack_the_tool_is_given_it_and_says_so():
    found = play(SAMPLES["support-routing"], find_shipped(TO_AND_FRO), Tier.BATCH)
    assert found.equipped == "tool transfer for router and billing"
    assert play(SAMPLES["incident-triage"], find_shipped(TO_AND_FRO), Tier.BATCH).equipped == ""


# -- an engine that counts otherwise than the fabric says --


def test_a_hop_limit_that_acts_too_soon_in_the_engine_alone_breaks_a_promise_of_the_engine(monkeypatch):
    """Its count does not follow from the journal: that is told before what the scenario expects."""
    kept = hop_limit._counts

    def sooner(config, state, proposal, view):
        return [
            (cause, limit - 1, *rest) if proposal.kind == "handoff" else (cause, limit, *rest)
            for cause, limit, *rest in kept(config, state, proposal, view)
        ]

    monkeypatch.setattr(hop_limit, "_counts", sooner)
    for tier in Tier:
        found = play(peers(), find_shipped(NEWS), tier)
        assert found.verdict == "error", (tier, found)
        assert "decision_derives" in found.why


def test_a_monitor_that_sees_nothing_deviates(monkeypatch):
    monkeypatch.setattr(deadlock_rules, "_find_repetition", lambda *given: None)
    for tier in Tier:
        found = play(peers(), find_shipped(TO_AND_FRO), tier)
        assert found.verdict == "deviated", (tier, found)
        assert (
            found.why == "the handovers did not end as the fabric's limits promise: "
            "it had 3 handovers, then handoff_cycle, where 2 handovers, then brief_repeated was promised"
        )


def test_uncounted_hops_break_a_promise_of_the_engine():
    with SPEAKER_PLANTS["hops_unbounded"]():
        found = play(peers(), find_shipped(NEWS), Tier.BATCH)
    assert found.verdict == "error"
    assert found.why == "hops_are_in_bounds: event 52 handed_off: hop 6, at most 5"


def test_what_something_else_ends_first_is_not_known():
    tree = peers().model_dump(mode="json")
    deny = [
        {"name": "all", "text": "permit(principal, action, resource);"},
        {"name": "none", "text": 'forbid(principal, action == Action::"handoff", resource);'},
    ]
    found = play(
        FabricSpec.model_validate({**tree, "gates": {**tree["gates"], "policies": deny}}),
        find_shipped(TO_AND_FRO),
        Tier.BATCH,
    )
    assert found.verdict == "unknown", found
    assert (
        found.why
        == "policy_denied came before anything that is there to end a circle: its limits promise 2 handovers, then brief_repeated"
    )


# -- where no agent hands over --


@pytest.mark.parametrize("name", [TO_AND_FRO, ROUND, NEWS])
def test_without_hand_overs_one_sentence_says_why_it_does_not_apply(name):
    with pytest.raises(FaultRefused) as caught:
        play(default_table(), find_shipped(name), Tier.BATCH)
    assert [str(problem) for problem in caught.value.problems] == [
        "disturbance.0: fabric default-table hands nothing over: its workers answer to the topology supervisor, and only those of a graph or a handoff pass the request on to each other"
    ]


def test_where_the_way_back_is_barred_one_sentence_says_so():
    spec = peers(topology={"passes": {"a": ["b", "c"], "b": ["c"]}})
    assert (
        explain_no_circle(spec, 2)
        == "fabric default-table lets no 2 of its workers hand the request on to each other in a circle"
    )
    assert find_circle(spec, 2) == {}


def test_the_circle_is_the_one_that_is_nearest():
    spec = peers(5, topology={"passes": {"a": ["b"], "b": ["c", "d"], "c": ["e"], "d": ["b"], "e": ["c"]}})
    assert find_circle(spec, 2) == {"a": "b", "b": "d", "d": "b"}
    assert find_circle(spec, 3) == {}
    assert find_circle(peers(), 3) == {"a": "b", "b": "c", "c": "a"}


def test_who_is_struck_now_and_then_has_no_promise():
    assert promise(peers(), times=1) == "None"
    assert promise(peers(), agent="a") == "None"
    assert promise_handovers(peers(), []) is None


def test_what_ends_a_circle_is_seen_in_the_shipped_scenarios():
    seen = set()
    for scenario in library().values():
        if scenario.disturbance[0].fault.startswith("handoff_cycle"):
            seen |= {str(promise_handovers(peers(), scenario.disturbances()))}
    assert seen == {
        "2 handovers, then brief_repeated",
        "3 handovers, then brief_repeated",
        "5 handovers, then hop_limit",
    }
