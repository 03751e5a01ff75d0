"""Peer handoff: a request goes from one peer to the next with a brief, until one answers (docs/specification/topologies.md; S0 "Hop Limit")."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, summary
from tests.fabric.core.topologies.fabrics import TOPICS, passes, peers

ANSWERS = {name: summary(f"{name} has the answer.") for name in ("triage", "network", "database")}


def moves(world):
    return [(fact.from_agent, fact.to_agent) for fact in world.of(ev.HandedOff)]


def test_who_answers_without_passing_it_on_ends_the_chain():
    world = ran(peers("triage", "network"), ANSWERS)
    assert world.end.state is RunState.COMPLETED
    assert (moves(world), world.outcome["text"]) == ([], "triage has the answer.")
    assert world.of(ev.SpeakerChosen)[-1].close_reason == "answered"


def test_a_request_goes_on_with_its_brief_and_the_last_peer_answers():
    script = {
        **ANSWERS,
        "triage": passes("network", "Packets are lost."),
        "network": passes("database", "Its disk is full."),
    }
    world = ran(peers("triage", "network", "database"), script)
    assert moves(world) == [("triage", "network"), ("network", "database")]
    assert world.outcome["text"] == "database has the answer."
    read = "\n".join(message.text for message in world.requests[-1].messages)
    assert read.index("triage said:\nPackets are lost.") < read.index("network said:\nIts disk is full.")
    assert world.run.guards["hop_limit"].hops == 2


def test_another_than_the_first_worker_may_have_it_first():
    world = ran(peers("network", "triage", topology={"first": "triage"}), ANSWERS)
    assert [fact.agent for fact in world.of(ev.TurnOpened)] == ["triage"]


def test_whom_a_peer_may_pass_it_to_is_said_by_the_fabric():
    fabric = peers("triage", "network", "database", topology={"passes": {"triage": ["network"]}})
    script = {
        **ANSWERS,
        "triage": [passes("database"), passes("network")],
        "network": [passes("triage"), ANSWERS["network"]],
    }
    world = ran(fabric, script)
    assert moves(world) == [("triage", "network")]
    told = [one["error"]["message"] for one in world.content_of(ev.ToolAnswered) if "error" in one]
    assert told == [
        "triage may not hand over to 'database'; it may to network",
        "network may not hand over to 'triage'; it may to no other agent: answer yourself",
    ]


def back_and_forth(times: int):
    """Two peers that pass it on so many times, always with something new."""
    briefs = [f"There is more to say of {topic}." for topic in TOPICS]
    return {
        "triage": [passes("network", briefs[n]) for n in range(0, times, 2)] + [ANSWERS["triage"]],
        "network": [passes("triage", briefs[n]) for n in range(1, times, 2)] + [ANSWERS["network"]],
    }


def test_five_hops_may_be_and_the_sixth_trips():
    fabric = peers("triage", "network")
    assert len(moves(ran(fabric, back_and_forth(5)))) == 5
    world = ran(fabric, back_and_forth(6))
    assert len(moves(world)) == 5
    tripped = world.of(ev.ReactionDecided)[0].cause
    assert (tripped.mechanism, tripped.cause) == ("hop_limit", Cause.HOP_LIMIT)
    refused = world.of(ev.CallRefused)[-1]
    assert (refused.tool, refused.mechanism, refused.correction) == ("transfer", "hop_limit", False)


def test_a_cycle_in_which_nothing_is_new_is_a_deadlock():
    same = "Please look at the invoice that the customer has sent us."
    script = {"triage": passes("network", same), "network": passes("triage", same)}
    world = ran(peers("triage", "network", limits={"hops": 20}), script)
    tripped = world.of(ev.ReactionDecided)[0].cause
    assert tripped.mechanism == "deadlock_monitor"
    assert tripped.cause in (Cause.BRIEF_REPEATED, Cause.HANDOFF_CYCLE)
    assert len(moves(world)) <= 3
    assert world.end.state is RunState.ABORTED


def test_a_policy_may_forbid_a_handover_and_the_peer_is_told():
    rules = (
        "permit(principal, action, resource);",
        'forbid(principal, action == Action::"handoff", resource == Agent::"database");',
    )
    gates = {"policies": [{"name": f"own-{n}", "text": text} for n, text in enumerate(rules)]}
    fabric = peers("triage", "network", "database", gates=gates)
    script = {**ANSWERS, "triage": [passes("database"), passes("network")]}
    world = ran(fabric, script, tier=Tier.INTERACTIVE)
    refused = world.of(ev.CallRefused)[0]
    assert (refused.tool, refused.mechanism, refused.cause) == ("transfer", "policy", Cause.POLICY_DENIED)
    assert moves(world) in ([("triage", "network")], [])


def test_a_peer_has_no_tool_that_ends_a_conversation():
    with pytest.raises(ValidationError, match="no tool is named 'finish'"):
        peers("triage", "network", agents={"triage": {"tools": ["finish"]}})


@pytest.mark.parametrize(
    ("topology", "sentence"),
    [
        ({"first": "nobody"}, "topology.first: 'nobody' is not one of the workers"),
        ({"passes": {"nobody": []}}, "topology.passes.nobody: 'nobody' is not one of the workers"),
        ({"passes": {"triage": ["nobody"]}}, "topology.passes.triage.0: 'nobody' is not one of the workers"),
    ],
)
def test_peers_that_there_are_not_are_refused(topology, sentence):
    with pytest.raises(ValidationError, match=sentence):
        peers("triage", "network", topology=topology)


def test_a_tool_of_ones_own_may_not_have_the_name_of_a_conversations():
    with pytest.raises(ValidationError, match="'transfer' is a tool that topology handoff has"):
        peers("triage", "network", tools=("transfer",))


def test_a_handover_in_an_answer_with_other_calls_ends_the_turn_once_they_are_back():
    fabric = peers("triage", "network", agents={"triage": {"tools": ["transfer", "look"]}}, tools=("look",))
    both = asks(call("transfer", to="network", brief="Look at this."), call("look", q="x"))
    world = ran(fabric, {**ANSWERS, "triage": both})
    kinds = world.kinds
    assert kinds.index("output_accepted") > max(n for n, kind in enumerate(kinds) if kind == "tool_answered")
    assert moves(world) == [("triage", "network")]
