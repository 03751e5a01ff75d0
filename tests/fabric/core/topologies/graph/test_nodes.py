"""Graphs: how often a worker may be visited, goals before the end, and what tools and an installation's own rules say (docs/specification/topologies.md; S1; S4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.events.envelope import Event
from fabric.core.events.inputs import DecisionMade, PersonSpoke, ToolFinished
from fabric.core.evolve import evolve
from fabric.core.graph.registry import Next, Register, Registry
from fabric.core.graph.state import Finish, Handoff, SpeakerReason
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import plan
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import Answer, asks, call, fails, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks, team
from tests.fabric.core.topologies.graph.test_turns import END, SAYS, TWO, called, closed, spoken, using

# -- visits and goals -------------------------------------------------------------------------------------------------


def visited(**fields):
    """Two who go round for ever, as far as visits let them."""
    again = rule("always", {"kind": "round_robin"})
    return ran(graph(again, topology={"max_turns": 9, **fields.pop("topology", {})}, **fields), talks("alice", "bob"))


def test_a_worker_has_as_many_turns_as_it_may_be_visited():
    world = visited(topology={"max_visits": {"bob": 2}})
    assert spoken(world) == ["alice", "bob"] * 2 + ["alice"]
    tripped = world.of(ev.ReactionDecided)[0].cause
    assert (tripped.mechanism, tripped.cause, tripped.evidence.scope) == ("hop_limit", Cause.VISIT_LIMIT, "agent:bob")


def test_of_a_worker_that_says_nothing_of_its_visits_the_fabrics_limit_holds():
    limits = {"limits": {"max_node_visits": 3, "max_visits": {"plan": 9}}}
    assert spoken(visited(topology={"max_visits": {"bob": 1}}, **limits)) == ["alice", "bob", "alice"]
    assert spoken(visited(**limits)) == ["alice", "bob"] * 3
    fabro = {"limits": {"max_node_visits": 3, "visits_preset": "fabro"}}
    assert spoken(visited(**fabro)) == ["alice", "bob"] * 2


def test_an_end_before_a_goal_is_met_leads_to_the_goals_target():
    goals = {"goal_gates": {"nodes": ["bob"]}}
    ends = rule("always", END)
    world = ran(graph(ends, topology={"goal_target": "bob", "max_turns": 5}, **goals), SAYS)
    assert (spoken(world), closed(world)) == (["alice", "bob"], "enough")
    assert [str(fact.why) for fact in world.of(ev.SpeakerChosen)] == ["goal", "transition"]
    assert world.end.state is RunState.COMPLETED


def test_a_goal_that_ended_in_partial_success_is_met():
    layers = {"preset": "fabro", "stages": {"fan_out": {"retry_policy": "none", "allow_partial": True}}}
    goals = {"goal_gates": {"nodes": ["bob"]}}
    steps = (
        rule({"kind": "from_speaker", "agent": "bob"}, "carol"),
        rule({"kind": "from_speaker", "agent": "alice"}, "bob"),
    )
    for topology in ({"max_turns": 5}, {"goal_target": "bob", "max_turns": 5}):
        fabric = graph(*steps, workers=("alice", "bob", "carol"), topology=topology, retry_layers=layers, **goals)
        world = ran(fabric, {**SAYS, "bob": fails(Cause.SERVER_ERROR, "down", status=503)})
        assert [str(fact.outcome) for fact in world.of(ev.SpeakerChosen)] == ["success", "partial_success", "success"]
        assert (world.end.state, world.end.partial) == (RunState.COMPLETED, True)


def test_a_goal_without_a_target_or_without_turns_left_does_not_let_the_run_exit():
    goals, ends = {"goal_gates": {"nodes": ["bob"]}}, rule("always", END)
    for topology in ({"max_turns": 5}, {"goal_target": "bob", "max_turns": 1}):
        world = ran(graph(ends, topology=topology, **goals), SAYS)
        assert spoken(world) == ["alice"]
        assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.GOAL_UNMET


@pytest.mark.parametrize(
    ("topology", "sentence"),
    [
        ({"max_visits": {"carl": 2}}, "topology.max_visits.carl: 'carl' is not one of the workers"),
        ({"goal_target": "carl", "max_turns": 3}, "topology.goal_target: 'carl' is not one of the workers"),
        ({"goal_target": "bob"}, "topology.goal_target: a goal that is never met would be gone back to for ever"),
    ],
)
def test_nodes_that_there_are_not_and_goals_without_an_end_are_refused(topology, sentence):
    with pytest.raises(ValidationError, match=sentence):
        graph(topology=topology)


# -- what tools and an installation's own rules say ------------------------------------------------------------------


def returning(returned):
    """A tool's result that means something to the conversation."""
    return Answer(
        lambda c: ToolFinished(command_id=c.command_id, attempt=c.attempt, result="seen", returned=returned), 0.1
    )


LOOKS = {"agents": {"alice": {"tools": ["look"]}}, "tools": ("look",)}


def test_a_tool_that_hands_over_beats_the_rule_for_it_and_its_agent_has_the_word_still():
    fabric = graph(rule(called("look"), "carol"), workers=("alice", "bob", "carol"), topology=TWO, **LOOKS)
    script = {**SAYS, "alice": [asks(call()), summary("It is for bob.")], "look": returning(Handoff("bob"))}
    world = ran(fabric, script)
    assert (spoken(world), world.asked("alice")) == (["alice", "bob"], 2)
    first = world.of(ev.SpeakerChosen)[0]
    assert (first.why, first.tool) == (SpeakerReason.HANDOFF, "look")
    assert world.content_of(ev.HandedOff) == [{"text": "It is for bob."}]


def came_back(result, returned=None, **fields):
    """A tool's result as it came back, beside what it means to the conversation."""
    return Answer(
        lambda c: ToolFinished(command_id=c.command_id, attempt=c.attempt, result=result, returned=returned, **fields),
        0.1,
    )


LAST = {"agents": {"alice": {"tools": ["look"]}}, "tools": ({"name": "look", "ends_turn": True},)}


@pytest.mark.parametrize(
    ("came", "says", "speakers"),
    [
        (came_back("It was in the hall."), "It was in the hall.", ["alice", "bob"]),
        (came_back({"room": 4}), '{"room":4}', ["alice", "bob"]),
        (came_back({"handed_to": "carol", "reason": "A bill."}, Handoff("carol")), "A bill.", ["alice", "carol"]),
        (came_back({"finished": "known"}, Finish("known")), "known", ["alice"]),
    ],
    ids=["text", "json", "handoff", "end"],
)
def test_a_tool_that_ends_the_turn_costs_no_further_word_of_its_agent(came, says, speakers):
    fabric = graph(rule(called("look"), "bob"), workers=("alice", "bob", "carol"), topology=TWO, **LAST)
    world = ran(fabric, {**SAYS, "alice": asks(call()), "look": came})
    assert (spoken(world), world.asked("alice")) == (speakers, 1)
    assert world.content_of(ev.OutputAccepted)[0]["output"]["text"] == says
    assert world.end.state is RunState.COMPLETED


def test_an_error_of_such_a_tool_ends_nothing():
    fabric = graph(rule(called("look"), "bob"), topology=TWO, **LAST)
    script = {**SAYS, "alice": [asks(call()), summary("I could not look.")], "look": came_back(None, error="locked")}
    world = ran(fabric, script)
    assert (spoken(world), world.asked("alice")) == (["alice", "bob"], 2)


def test_a_name_that_leads_to_no_agent_is_told_and_the_rules_decide():
    fabric = graph(rule(called("look"), "bob"), topology=TWO, **LOOKS)
    script = {**SAYS, "alice": [asks(call()), summary("For carl?")], "look": returning(Handoff("carl"))}
    first = ran(fabric, script).of(ev.SpeakerChosen)[0]
    assert (first.speaker, first.why) == ("bob", SpeakerReason.TRANSITION)
    assert first.errors == ("tool look hands over to 'carl', who takes no part; there are: alice, bob",)


def test_a_tool_that_ends_the_conversation_does_so():
    fabric = graph(rule("always", "bob"), **LOOKS)
    script = {**SAYS, "alice": [asks(call()), summary("That was it.")], "look": returning(Finish("found"))}
    world = ran(fabric, script)
    assert (spoken(world), closed(world)) == (["alice"], "found")


def test_conditions_and_targets_of_an_installation_decide_where_it_has_them():
    own = Registry(
        Register("condition").add("late", lambda args: lambda turn: turn.state.turns >= args["from"]),
        Register("target").add("last", lambda args: lambda turn: Next(turn.state.participants[-1])),
    )
    rules = rule({"kind": "registered", "name": "late", "args": {"from": 1}}, {"kind": "registered", "name": "last"})
    world = World(graph(rules, workers=("alice", "bob", "carol"), topology=TWO), SAYS)
    world.compiled = replace(world.compiled, registry=own)
    world.deriving.compiled = world.compiled
    assert spoken(world.start().go()) == ["alice", "carol"]


def led_by(registry, tier=Tier.INTERACTIVE):
    """Two turns, of which what is registered chooses the second."""
    rules = rule({"kind": "registered", "name": "late"}, {"kind": "registered", "name": "last"})
    world = World(graph(rules, workers=("alice", "bob", "carol"), topology=TWO), SAYS, tier=tier)
    world.compiled = replace(world.compiled, registry=registry)
    world.deriving.compiled = world.compiled
    return world.start().go()


def _raises(turn):
    raise RuntimeError("the directory is away")


YES = Register[Any]("condition").add("late", lambda args: lambda turn: True)
NOT_REGISTERED = (
    "the installation's condition 'late' gave no answer: no condition is registered as 'late'; there are: none"
)


@pytest.mark.parametrize(
    ("registry", "sentence"),
    [
        (Registry(), NOT_REGISTERED),
        (Registry(YES), "the installation's target 'last' gave no answer: no target is registered as 'last'"),
        (
            Registry(Register[Any]("condition").add("late", lambda args: _raises)),
            "the installation's condition 'late' gave no answer: the directory is away",
        ),
        (
            Registry(Register[Any]("condition").add("late", lambda args: args["from"])),
            "the installation's condition 'late' gave no answer: from",
        ),
        (
            Registry(Register[Any]("condition").add("late", lambda args: lambda turn: None)),
            "the installation's condition 'late' answered NoneType, neither true nor false",
        ),
        (
            Registry(YES, Register[Any]("target").add("last", lambda args: lambda turn: "carol")),
            "the installation's target 'last' answered str, and no Next",
        ),
    ],
)
def test_what_gives_no_answer_is_a_failure_and_no_end(registry, sentence):
    world = led_by(registry)
    assert spoken(world) == ["alice"]
    assert world.of(ev.SpeakerChosen) == []
    (decided,) = world.of(ev.ReactionDecided)
    assert (decided.cause.mechanism, decided.cause.cause) == ("transition_graph", Cause.BAD_CONFIGURATION)
    assert decided.cause.message.startswith(sentence)
    assert decided.cause.message.endswith("so the next speaker is unknown after turn 1")
    assert (world.run.state, decided.reaction) == (RunState.FAILED, "surface")


def test_no_failure_goes_on_by_a_rule_that_cannot_be_asked():
    onward = rule({"kind": "outcome_is", "outcome": "fail"}, "bob")
    unknown = rule({"kind": "registered", "name": "late"}, "bob")
    failing = SAYS | {"alice": fails(Cause.AUTH)}
    assert spoken(World(graph(onward, topology=TWO), failing).start().go()) == ["alice", "bob"]
    world = World(graph(unknown, onward, topology=TWO), failing).start().go()
    assert (spoken(world), world.run.state) == (["alice"], RunState.FAILED)
    assert [one.cause.mechanism for one in world.of(ev.ReactionDecided)] == ["provider", "fan_in"]


@pytest.mark.parametrize("tier", [Tier.BATCH, Tier.HIGH_STAKES])
def test_where_a_person_is_asked_an_approval_begins_the_conversation_anew_by_what_is_registered_by_then(tier):
    world = led_by(Registry(), tier)
    (asked,) = world.of(ev.ReviewOpened)
    assert NOT_REGISTERED in asked.reason
    own = Registry(YES, Register[Any]("target").add("last", lambda args: lambda turn: Next("carol")))
    world.compiled = replace(world.compiled, registry=own)
    world.deriving.compiled = world.compiled
    given = {"review_id": asked.review_id, "verb": "approve", "digest": asked.digest, "message": "It is back."}
    world.put(DecisionMade(input_id=f"decision:{asked.review_id}", actor="bob", **given))
    world.go()
    assert spoken(world) == ["alice", "alice", "carol"]
    assert world.run.state is RunState.COMPLETED


def test_what_comes_late_from_a_turn_that_was_begun_anew_changes_nothing():
    fabric = graph(topology=TWO, agents=using("alice"))
    world = World(fabric, {"alice": [summary("Too late.").after(200), summary("In time.")]}, late=True).start().go()
    world.go()
    assert world.outcome["text"] == "In time."
    assert [fact.turn for fact in world.of(ev.SpeakerChosen)] == [1]


# -- people ----------------------------------------------------------------------------------------------------------


def speaks(world, text, number=1):
    world.put(PersonSpoke(input_id=f"say:{number}", actor="bob", text=text))
    return world


def test_a_persons_message_waits_for_the_turn_in_flight_and_takes_none():
    world = World(graph(rule("always", "bob"), topology=TWO), talks("alice", "bob")).start().go(until_s=0.5)
    speaks(world, "Mind the VAT.").go()
    assert world.kinds.index("person_said") < world.kinds.index("speaker_chosen")
    assert spoken(world) == ["alice", "bob"]
    first, second = ("\n".join(message.text for message in one.messages) for one in world.requests)
    assert "Mind the VAT." not in first
    assert "bob, a person, says: Mind the VAT." in second
    assert world.run.talk.waiting == ()


def test_a_unread_message_outlives_a_plan_that_is_made_anew():
    fabric = graph(rule("always", "bob"), topology=TWO)
    world = World(fabric, talks("alice", "bob")).start().go(until_s=0.5)
    speaks(world, "Mind the VAT.").go(until_s=0.6)
    assert len(world.run.talk.waiting) == 1
    anew = evolve(world.run, Event(world.run.seq + 1, 0, ev.Replanned(epoch=1, stage=Stage.FAN_IN, reason="x")))
    assert anew.talk.waiting == world.run.talk.waiting
    assert (anew.talk.turns, anew.talk.opened_at) == (0, 0)


def test_a_message_after_the_last_turn_changes_nothing():
    world = World(graph(topology={"aggregator": "editor"}), SAYS | {"editor": summary("All.").after(20)}).start()
    speaks(world.go(until_s=5), "Too late.").go()
    (ignored,) = world.of(ev.InputIgnored)
    assert "its conversation is closed (done)" in ignored.reason
    other = World(team({"workers": ["alice"], "plan": plan(1, briefs=[BRIEF])}), SAYS).start().go(until_s=0.5)
    speaks(other, "Hello?").go()
    assert "no conversation" in other.of(ev.InputIgnored)[0].reason


BRIEF = {"agent": "alice", "title": "Look", "instructions": "Look at it."}


def test_once_the_hops_are_used_up_rules_lead_on_all_the_same():
    fabric = graph(
        rule("always", {"kind": "round_robin"}),
        topology={"max_turns": 4},
        agents=using("alice"),
        limits={"hops": 1},
    )
    says = talks("alice", "bob")
    script = {**says, "alice": [asks(call("transfer", to="bob", brief="The invoice is yours.")), *says["alice"]]}
    world = ran(fabric, script)
    assert (spoken(world), closed(world)) == (["alice", "bob"] * 2, "max_turns")
    assert len(world.of(ev.HandedOff)) == 1
