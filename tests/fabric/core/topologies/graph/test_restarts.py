"""Restart edges: what may cross one and how often, what begins anew and what goes on counting, and what a blocked one comes to (docs/specification/protections.md; S1)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.graph.state import SpeakerReason
from fabric.core.mechanisms import failure_signature, find_state
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import CLASSIFY, Cause, Direct, Tier
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, fails, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks
from tests.fabric.core.topologies.graph.test_failures import DOWN, FAILED, reacted
from tests.fabric.core.topologies.graph.test_turns import END, SAYS, closed, sets, spoken, using

FROM_ALICE = {"kind": "from_speaker", "agent": "alice"}
REFUSED = fails(Cause.AUTH, "the key was refused")


def restarts(to="alice", when=FAILED):
    return {**rule(when, to), "restart": True}


def goes_round(*, limit=3, most=20, workers=("alice", "bob"), **fields):
    """Alice speaks, then bob, whose failures begin it anew with her."""
    rules = (restarts(), rule(FROM_ALICE, "bob"))
    signature = {"failure_signature": {"restart_limit": limit}, "limits": {"max_node_visits": 50}}
    topology = {"max_turns": most, **fields.pop("topology", {})}
    return graph(*rules, workers=workers, topology=topology, **signature, **fields)


def down(times, *then, message="the provider is down"):
    """A call and its retries, that often without an answer; the messages of all are one but for their numbers."""
    return [*[fails(Cause.AUTH if n < 0 else Cause.SERVER_ERROR, message, status=503) for n in range(times * 3)], *then]


def crossings(world):
    return [fact for fact in world.of(ev.SpeakerChosen) if fact.why is SpeakerReason.RESTART]


# -- crossing ----------------------------------------------------------------------------------------------------------


def test_a_transient_failure_crosses_and_the_conversation_begins_anew():
    world = ran(goes_round(), {**talks("alice"), "bob": down(1, summary("bob has looked at it."))})
    assert world.end.state is RunState.COMPLETED
    assert spoken(world) == ["alice", "bob", "alice", "bob"]
    assert reacted(world) == [("retry", ""), ("retry", ""), ("route", "edge_routing")]
    (crossed,) = crossings(world)
    assert (crossed.speaker, crossed.transition, crossed.turn) == ("alice", 0, 2)
    assert crossed.crossed == "bob|transient_infra|the provider is down"
    assert world.outcome["text"] == "bob has looked at it."


@pytest.mark.parametrize(("times", "state"), [(1, RunState.COMPLETED), (2, RunState.COMPLETED), (3, RunState.ABORTED)])
def test_the_nth_crossing_of_one_signature_is_blocked(times, state):
    """Before the limit, one before it, and exactly at it."""
    fabric = goes_round()
    world = ran(fabric, {**talks("alice"), "bob": down(times, summary("bob has looked at it."))})
    assert world.end.state is state
    assert len(crossings(world)) == min(times, 2)
    if state is RunState.ABORTED:
        last = world.of(ev.ReactionDecided)[-1]
        assert (last.reaction, last.failure_type, last.cause.cause) == ("abort", None, Cause.RESTART_BLOCKED)
        assert (last.cause.evidence.limit, last.cause.evidence.observed) == (3, 3)
        assert last.cause.message == (
            "the provider is down; the graph does not start over: the same failure came 3 times (limit 3)"
        )


def test_other_failures_have_counts_of_their_own_and_numbers_are_no_difference():
    answers = [*down(1, message="line 1"), *down(1, message="other"), *down(1, message="line 2"), summary("Done.")]
    world = ran(goes_round(), {**talks("alice"), "bob": answers})
    assert world.end.state is RunState.COMPLETED
    counts = find_state(world.run.guards, failure_signature)
    assert counts.crossings == {"bob|transient_infra|line <n>": 2, "bob|transient_infra|other": 1}
    assert counts.counts == {}


@pytest.mark.parametrize(("given", "effective"), [(0, 3), (-1, 3), (1, 1), (2, 2)])
def test_a_limit_of_zero_or_less_means_three(given, effective):
    fabric = goes_round(limit=given)
    world = ran(fabric, {**talks("alice"), "bob": DOWN})
    assert len(crossings(world)) == effective - 1
    assert world.end.state is RunState.ABORTED


@pytest.mark.parametrize(
    ("tier", "reaction", "state"),
    [
        (Tier.INTERACTIVE, "abort", RunState.ABORTED),
        (Tier.BATCH, "abort", RunState.ABORTED),
        (Tier.HIGH_STAKES, "escalate", RunState.WAITING),
    ],
)
def test_a_failure_that_is_not_transient_is_blocked_at_once(tier, reaction, state):
    world = ran(goes_round(), {**SAYS, "bob": REFUSED}, tier=tier)
    assert crossings(world) == []
    last = world.of(ev.ReactionDecided)[-1]
    assert (last.reaction, last.cause.mechanism) == (reaction, "failure_signature")
    assert "a failure of class deterministic leads back nowhere" in last.cause.message
    assert visible_state(world.run) is state
    assert CLASSIFY[Cause.RESTART_BLOCKED].goes_to is Direct.ABORT


def test_a_person_may_let_the_turn_be_tried_once_more():
    world = World(goes_round(), {**SAYS, "bob": [REFUSED, summary("bob can after all.")]}, tier=Tier.HIGH_STAKES)
    world.start().go()
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED
    assert world.outcome["text"] == "bob can after all."
    assert spoken(world) == ["alice", "bob"]


def test_a_turn_that_did_not_fail_crosses_uncounted():
    success = {"kind": "all_of", "conditions": [FROM_ALICE, {"kind": "outcome_is", "outcome": "success"}]}
    world = ran(graph(restarts("bob", success), topology={"max_turns": 4}), SAYS)
    assert spoken(world) == ["alice", "bob"]
    assert next((fact.why, fact.crossed) for fact in world.of(ev.SpeakerChosen)) == (SpeakerReason.RESTART, "")
    assert find_state(world.run.guards, failure_signature).crossings == {}


# -- what begins anew --------------------------------------------------------------------------------------------------


def test_the_context_is_as_at_the_beginning_and_no_agent_reads_earlier_messages():
    topology = {"context": {"topic": "invoices"}}
    fabric = goes_round(topology=topology, agents=using("alice"))
    alice = [asks(sets(topic="parcels", half=1)), summary("First I saw."), summary("Then I saw.")]
    world = ran(fabric, {"alice": alice, "bob": down(1, summary("bob has looked at it."))})
    contexts = [told["context"] for told in world.content_of(ev.SpeakerChosen)]
    assert contexts[0] == {"topic": "parcels", "half": 1, "outcome": "success", "failure_class": None}
    assert contexts[1] == topology["context"]
    opened = world.of(ev.TurnOpened)
    assert [fact.hears for fact in opened] == [(), (0,), (), (2,)]
    last = "\n".join(message.text for message in world.requests[-1].messages)
    assert "Then I saw." in last
    assert "First I saw." not in last


def test_goals_are_to_be_met_anew():
    """Alice met hers before it began anew with bob: the end comes before she has met it again."""
    rules = (restarts("carol"), rule(FROM_ALICE, "bob"))
    fabric = graph(
        *rules, workers=("alice", "bob", "carol"), topology={"max_turns": 9}, goal_gates={"nodes": ["alice"]}
    )
    world = ran(fabric, {**SAYS, "bob": DOWN})
    assert spoken(world) == ["alice", "bob", "carol"]
    last = world.of(ev.ReactionDecided)[-1].cause
    assert last.cause is Cause.GOAL_UNMET
    assert "alice brought no result (the conversation started over after it)" in last.message


def test_turns_and_visits_go_on_counting():
    bounded = ran(goes_round(most=3), {**talks("alice"), "bob": DOWN})
    assert (spoken(bounded), closed(bounded)) == (["alice", "bob", "alice"], "max_turns")
    visited = ran(goes_round(topology={"max_visits": {"alice": 1}}), {**talks("alice"), "bob": DOWN})
    assert spoken(visited) == ["alice", "bob"]
    assert visited.of(ev.ReactionDecided)[-1].cause.cause is Cause.VISIT_LIMIT


def test_without_a_turn_that_came_back_since_there_is_no_answer():
    """Alice's words before the conversation began anew do not count: it is closed before any agent has come back."""
    fabric = goes_round(most=3)
    world = ran(fabric, {"alice": [summary("First."), *down(1)], "bob": DOWN})
    assert spoken(world) == ["alice", "bob", "alice"]
    assert world.end.state is RunState.FAILED
    assert END["reason"] not in str(world.outcome)
