"""Failures of turns: what is done about their calls first, then a rule on how a turn ended, then the rest of the cell (docs/specification/topologies.md; S1)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, fails
from tests.fabric.core.topologies.fabrics import graph, rule
from tests.fabric.core.topologies.graph.test_turns import SAYS, TWO, sets, spoken, using

FAILED = {"kind": "outcome_is", "outcome": "fail"}
DOWN = fails(Cause.SERVER_ERROR, "the provider is down", status=503)


def reacted(world):
    return [(str(fact.reaction), fact.layer) for fact in world.of(ev.ReactionDecided)]


def test_a_turn_that_fails_goes_on_by_a_rule_after_what_is_done_about_its_call():
    world = ran(graph(rule(FAILED, "bob")), {**SAYS, "alice": DOWN})
    assert world.end.state is RunState.COMPLETED
    assert reacted(world) == [("retry", ""), ("retry", ""), ("route", "edge_routing")]
    assert spoken(world) == ["alice", "bob"]
    assert world.outcome["text"] == "bob has looked at it."
    first = world.of(ev.SpeakerChosen)[0]
    assert (first.transition, str(first.outcome), str(first.failure_class)) == (0, "fail", "transient_infra")
    assert world.content_of(ev.SpeakerChosen)[0]["context"] == {"outcome": "fail", "failure_class": "transient_infra"}


def test_how_the_last_turn_ended_is_told_anew_after_each():
    world = ran(graph(rule(FAILED, "bob")), {**SAYS, "alice": DOWN})
    assert world.content_of(ev.SpeakerChosen)[1]["context"] == {"outcome": "success", "failure_class": None}


def test_a_rule_on_another_class_or_on_nothing_of_the_kind_leads_nowhere():
    other = {"kind": "error_class_is", "failure_class": "deterministic"}
    for rules in ((rule(other, "bob"),), (rule("always", "bob"),), (rule("always", "bob"), rule(FAILED, "bob"))):
        world = ran(graph(*rules), {**SAYS, "alice": DOWN})
        assert world.end.state is RunState.FAILED
        assert spoken(world) == ["alice"]


@pytest.mark.parametrize(
    "when",
    [
        {"kind": "context_equals", "key": "failure_class", "value": "transient_infra"},
        {"kind": "context_equals", "key": "outcome", "value": "fail"},
        {"kind": "context_text", "key": "failure_class", "compares": "contains", "value": "transient"},
    ],
    ids=["failure_class", "outcome", "text"],
)
def test_the_context_variables_that_say_how_a_turn_ended_route_it(when):
    world = ran(graph(rule(when, "bob")), {**SAYS, "alice": DOWN})
    assert world.end.state is RunState.COMPLETED
    assert reacted(world)[-1] == ("route", "edge_routing")
    assert spoken(world) == ["alice", "bob"]


def test_a_failure_that_does_not_go_away_goes_on_at_once():
    world = ran(graph(rule(FAILED, "bob")), {**SAYS, "alice": fails(Cause.AUTH, "the key was refused")})
    assert reacted(world) == [("route", "edge_routing")]
    assert spoken(world) == ["alice", "bob"]


def test_a_turn_that_failed_brings_neither_what_it_called_nor_what_it_wrote():
    fabric = graph(rule(FAILED, "bob"), agents=using("alice"))
    world = ran(fabric, {**SAYS, "alice": [asks(sets(half=True)), fails(Cause.AUTH, "the key was refused")]})
    assert world.content_of(ev.SpeakerChosen)[0]["context"] == {"outcome": "fail", "failure_class": "deterministic"}


BUDGET = {"budget": {"run_usd_micros": 10_000_000, "agents": {"alice": {"usd_micros": 1}}}}


def test_a_conversation_whose_last_turn_failed_at_its_bound_is_no_completed_run():
    rules = (rule(FAILED, "bob"), rule("always", "alice"))
    script = {**SAYS, "bob": fails(Cause.AUTH, "the key was refused")}
    order = (rule({"kind": "from_speaker", "agent": "alice"}, "bob"), *rules)
    world = ran(graph(*order, topology=TWO), script)
    assert spoken(world) == ["alice", "bob"]
    assert world.of(ev.SpeakerChosen)[-1].close_reason == "max_turns"
    assert world.end.state is RunState.FAILED
    assert "the key was refused" in world.end.reason


@pytest.mark.parametrize(("tier", "ways"), [(Tier.INTERACTIVE, ["route"]), (Tier.HIGH_STAKES, ["escalate"])])
def test_a_budget_never_goes_on_by_a_rule_in_high_stakes(tier, ways):
    world = ran(graph(rule(FAILED, "bob"), **BUDGET), SAYS, tier=tier)
    assert [way for way, _ in reacted(world)] == ways
    skipped = [fact.reason for fact in world.of(ev.RungSkipped) if fact.reaction == "route"]
    assert (skipped == []) is (tier is Tier.INTERACTIVE)


def test_without_rules_on_failures_no_ladder_is_another():
    assert not ran(graph(rule("always", "bob"), topology=TWO), SAYS).compiled.ladders.layered


def test_layers_of_fabro_stand_around_the_way_by_a_rule():
    fabric = graph(rule(FAILED, "bob"), retry_layers={"preset": "fabro"})
    world = ran(fabric, {**SAYS, "alice": DOWN})
    assert reacted(world)[-1] == ("route", "edge_routing")
    assert {layer for _, layer in reacted(world)[:-1]} <= {"call_retries", "node_retries"}
    assert spoken(world) == ["alice", "bob"]


def verified(*messages, **fields):
    """One works, the other's check fails, again and again; S1's own example."""
    rules = (rule(FAILED, "alice"), rule({"kind": "from_speaker", "agent": "alice"}, "bob"))
    fabric = graph(*rules, topology={"max_turns": 9}, **fields)
    return ran(fabric, {**SAYS, "bob": [fails(Cause.AUTH, message) for message in messages or SAME]})


SAME = ("the tests fail",) * 9


def test_a_failure_that_comes_back_in_turns_of_one_worker_ends_the_run_whatever_succeeded_in_between():
    world = verified()
    assert spoken(world) == ["alice", "bob"] * 3
    assert world.end.state is RunState.ABORTED
    last = world.of(ev.ReactionDecided)[-1]
    repeated = next(one for one in (last.cause, *last.causes) if one.cause is Cause.REPEATED_FAILURE)
    assert repeated.evidence.details["signature"] == "agent:bob|deterministic|the tests fail"
    assert (repeated.evidence.observed, repeated.evidence.limit) == (3, 3)
    assert spoken(verified(failure_signature={"limit": 2})) == ["alice", "bob"] * 2


def test_one_that_says_something_else_each_time_does_not():
    words = ("one", "two", "three", "four")
    assert verified(*(f"test {word} fails" for word in words)).run.talk.turns == 9
