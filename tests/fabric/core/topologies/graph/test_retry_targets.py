"""Retry targets: four levels, after a turn that failed without a rule on that, and before an end that leaves a goal unmet (docs/specification/topologies.md; S1 "Goal gates")."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fabric.core import events as ev
from fabric.core.graph.state import SpeakerReason
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks
from tests.fabric.core.topologies.graph.test_failures import BUDGET, DOWN, FAILED, reacted
from tests.fabric.core.topologies.graph.test_restarts import REFUSED
from tests.fabric.core.topologies.graph.test_turns import END, closed, spoken

ALL = ("alice", "bob", "carol", "dave", "erin")
SAYS = talks(*ALL)
LEVELS = {
    "retry_targets": {"alice": {"retry_target": "bob", "fallback_retry_target": "carol"}},
    "retry_target": "dave",
    "fallback_retry_target": "erin",
}
SPENT = ("bob", "carol", "dave", "erin")


def targeted(*rules, topology=None, **fields):
    return graph(*rules, workers=ALL, topology={"max_turns": 20, **LEVELS, **(topology or {})}, **fields)


def ways(world):
    return [(str(fact.why), fact.speaker, fact.level) for fact in world.of(ev.SpeakerChosen)]


# -- after a failure ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("less", "to", "level"),
    [
        ((), "bob", "node"),
        (("retry_target",), "carol", "node_fallback"),
        (("retry_target", "fallback_retry_target"), "dave", "graph"),
        (("retry_target", "fallback_retry_target", "graph"), "erin", "graph_fallback"),
    ],
)
def test_a_turn_that_failed_leads_back_to_the_first_level_that_there_is(less, to, level):
    own = {name: who for name, who in LEVELS["retry_targets"]["alice"].items() if name not in less}
    common = {"retry_target": None} if "graph" in less else {}
    world = ran(targeted(topology={"retry_targets": {"alice": own}, **common}), {**SAYS, "alice": DOWN})
    assert world.end.state is RunState.COMPLETED
    assert spoken(world) == ["alice", to]
    assert ways(world)[0] == ("retry_target", to, level)
    assert world.of(ev.SpeakerChosen)[0].transition is None
    assert reacted(world) == [("retry", ""), ("retry", ""), ("go_back", "retry_target")]


def test_a_rule_on_how_a_turn_ended_goes_before_a_retry_target_and_that_before_the_cells_other_rungs():
    by_edge = ran(targeted(rule(FAILED, "erin")), {**SAYS, "alice": DOWN})
    assert ways(by_edge)[0] == ("transition", "erin", "")
    assert reacted(by_edge)[-1] == ("route", "edge_routing")
    back = ran(targeted(rule("always", END)), {**SAYS, "alice": DOWN})
    assert ways(back)[0] == ("retry_target", "bob", "node")
    other = targeted(rule({"kind": "error_class_is", "failure_class": "canceled"}, "erin"))
    missed = ran(other, {**SAYS, "alice": DOWN})
    assert [one for one in reacted(missed) if one[0] != "retry"] == [("go_back", "retry_target")]
    assert [fact.reaction for fact in missed.of(ev.RungSkipped)] == ["fallback_model", "wait_for_breaker", "route"]
    without = ran(graph(workers=ALL), {**SAYS, "alice": DOWN})
    assert without.end.state is RunState.FAILED


@pytest.mark.parametrize("spent", range(5))
def test_a_target_without_turns_left_is_passed_over_for_the_next_level(spent):
    """Each of those is visited once before alice fails, as often as it may be."""
    order = [*SPENT[:spent], "alice"]
    passes = [rule({"kind": "from_speaker", "agent": one}, other) for one, other in pairwise(order)]
    topology = {"initial_speaker": order[0], "max_visits": dict.fromkeys(SPENT[:spent], 1)}
    world = ran(targeted(*passes, topology=topology), {**SAYS, "alice": DOWN})
    if spent < 4:
        assert spoken(world) == [*order, SPENT[spent]]
        return
    assert spoken(world) == order
    skipped = next(fact.reason for fact in world.of(ev.RungSkipped) if fact.reaction == "go_back")
    assert skipped == "no retry target is left (bob, carol, dave, erin): no turns, or it fails the same way itself"
    assert world.end.state is RunState.FAILED


def test_a_node_that_leads_back_to_itself_does_so_once_for_one_failure():
    own = {"retry_targets": {"alice": {"retry_target": "alice", "fallback_retry_target": "carol"}}}
    world = ran(targeted(topology=own), {**SAYS, "alice": REFUSED})
    assert spoken(world) == ["alice", "alice", "carol"]
    other = ran(
        targeted(topology=own), {**SAYS, "alice": [REFUSED, fails(Cause.AUTH, "another key"), summary("Done.")]}
    )
    assert spoken(other) == ["alice", "alice", "alice"]


def test_the_last_turn_that_may_be_leads_no_agent_back():
    world = ran(targeted(topology={"max_turns": 1}), {**SAYS, "alice": DOWN})
    assert spoken(world) == ["alice"]
    skipped = next(fact.reason for fact in world.of(ev.RungSkipped) if fact.reaction == "go_back")
    assert skipped == "the conversation has had as many turns as it may"
    bound = ran(targeted(topology={"max_turns": 2}), {**SAYS, "alice": DOWN})
    assert (spoken(bound), closed(bound)) == (["alice", "bob"], "done")


@pytest.mark.parametrize("tier", list(Tier))
def test_a_budget_never_leads_back_in_high_stakes(tier):
    world = ran(targeted(**BUDGET), SAYS, tier=tier)
    high = tier is Tier.HIGH_STAKES
    assert [way for way, _ in reacted(world)][:1] == (["escalate"] if high else ["go_back"])
    assert [fact.reason for fact in world.of(ev.RungSkipped) if fact.reaction == "go_back"][:1] == (
        ["in high-stakes no rule continues after policy, unsafe output, budgets or limits"] if high else []
    )


@pytest.mark.parametrize("tier", list(Tier))
def test_what_is_transient_leads_back_in_every_tier(tier):
    world = ran(targeted(), {**SAYS, "alice": DOWN}, tier=tier)
    assert spoken(world) == ["alice", "bob"]
    assert reacted(world)[-1] == ("go_back", "retry_target")


def test_layers_of_fabro_have_it_behind_the_way_by_a_rule():
    fabric = targeted(
        rule({"kind": "error_class_is", "failure_class": "canceled"}, "erin"), retry_layers={"preset": "fabro"}
    )
    world = ran(fabric, {**SAYS, "alice": DOWN})
    assert reacted(world)[-1] == ("go_back", "retry_target")
    assert spoken(world) == ["alice", "bob"]


def test_without_targets_no_ladder_is_another():
    assert not ran(
        graph(rule("always", END), topology={"goal_target": "bob", "max_turns": 3}), SAYS
    ).compiled.ladders.layered


# -- before an end -----------------------------------------------------------------------------------------------------

GOALS = {"goal_gates": {"nodes": ["erin"]}}
OF_ERIN = {"retry_targets": {"erin": {"retry_target": "bob", "fallback_retry_target": "carol"}}}
BY_ERIN = rule({"kind": "from_speaker", "agent": "erin"}, END)


@pytest.mark.parametrize(
    ("topology", "to", "level"),
    [
        (OF_ERIN, "bob", "node"),
        ({"retry_targets": {"erin": {"fallback_retry_target": "carol"}}}, "carol", "node_fallback"),
        ({"retry_targets": {}}, "dave", "graph"),
        ({"retry_targets": {}, "goal_target": "carol"}, "carol", "graph"),
        ({"retry_targets": {}, "retry_target": None, "fallback_retry_target": "carol"}, "carol", "graph_fallback"),
    ],
)
def test_an_end_before_a_goal_is_met_leads_to_that_goals_target_on_the_first_level(topology, to, level):
    world = ran(targeted(rule({"kind": "from_speaker", "agent": to}, "erin"), topology=topology, **GOALS), SAYS)
    assert world.end.state is RunState.COMPLETED
    assert spoken(world) == ["alice", to, "erin"]
    assert ways(world)[0] == ("goal", to, level)


def test_a_goals_target_without_turns_left_is_passed_over():
    topology = {**OF_ERIN, "max_visits": {"bob": 1}}
    world = ran(targeted(rule({"kind": "from_speaker", "agent": "carol"}, "erin"), topology=topology, **GOALS), SAYS)
    assert spoken(world) == ["alice", "bob", "carol", "erin"]
    assert [level for _, _, level in ways(world)] == ["node", "node_fallback", "", ""]


def test_a_goal_that_stays_unmet_once_all_are_spent_does_not_let_the_run_exit():
    topology = {
        **OF_ERIN,
        "max_visits": dict.fromkeys(("bob", "carol", "dave", "erin"), 1),
        "fallback_retry_target": None,
    }
    world = ran(targeted(topology=topology, **GOALS), SAYS)
    assert spoken(world) == ["alice", "bob", "carol", "dave"]
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.cause.cause, str(last.reaction)) == (Cause.GOAL_UNMET, "abort")


def test_several_goals_are_gone_back_for_in_the_order_of_the_policy():
    topology = {"retry_targets": {"dave": {"retry_target": "dave"}, "erin": {"retry_target": "erin"}}}
    world = ran(targeted(topology=topology, goal_gates={"nodes": ["erin", "dave"]}), SAYS)
    assert spoken(world) == ["alice", "erin", "dave"]
    assert {fact.why for fact in world.of(ev.SpeakerChosen)[:2]} == {SpeakerReason.GOAL}
