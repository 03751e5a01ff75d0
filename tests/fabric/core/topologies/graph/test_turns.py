"""Graph: who speaks after whom, by rules; each turn a packet, each decision in the journal (docs/specification/topologies.md; S4)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.graph.state import SpeakerReason
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.graph.factories import round_robin, sequence
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, fails, planned, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks, team

SAYS = {name: summary(f"{name} has looked at it.") for name in ("alice", "bob", "carol")}
ALL = ("transfer", "finish", "context_write", "context_read")
TWO = {"max_turns": 2}
END = {"kind": "terminate", "reason": "enough"}


def of_graph(on, **fields):
    tree = on.to_dict()
    workers = tree.pop("participants")
    return team({"kind": "graph", "workers": workers, **tree}, **fields)


def spoken(world):
    return [fact.agent for fact in world.of(ev.TurnOpened)]


def closed(world):
    last = world.of(ev.SpeakerChosen)[-1]
    assert last.speaker == ""
    return last.close_reason


def equals(key, value=None):
    return {"kind": "context_equals", "key": key, "value": value}


def called(tool):
    return {"kind": "tool_called", "tool": tool}


def sets(**values):
    return call("context_write", set=values)


def using(*names, **fields):
    """The named participants with the conversation's tools."""
    return {name: {"tools": ALL} for name in names} | fields


# -- factories and bounds ----------------------------------------------------------------------------------------------


def test_a_sequence_closes_after_its_turns():
    world = ran(of_graph(sequence(["alice", "bob", "carol"])), SAYS)
    assert world.end.state is RunState.COMPLETED
    assert spoken(world) == ["alice", "bob", "carol"]
    last = world.of(ev.SpeakerChosen)[-1]
    assert (last.turn, last.speaker, last.close_reason) == (3, "", "sequence_complete")
    assert world.outcome["text"] == "carol has looked at it."
    assert world.end.reason == "finished"


def test_a_round_robin_takes_exactly_its_turns():
    world = ran(of_graph(round_robin(["alice", "bob", "carol"], max_turns=6)), talks("alice", "bob", "carol"))
    assert spoken(world) == ["alice", "bob", "carol"] * 2
    assert closed(world) == "max_turns"
    assert world.of(ev.SpeakerChosen)[-1].why is SpeakerReason.MAX_TURNS


def test_an_end_on_the_last_turn_that_may_be_wins():
    ends = rule(equals("done", True), END)
    fabric = graph(ends, rule("always", {"kind": "round_robin"}), topology=TWO, agents=using("bob"))
    world = ran(fabric, {**SAYS, "bob": [asks(sets(done=True)), summary("It is done.")]})
    assert spoken(world) == ["alice", "bob"]
    assert closed(world) == "enough"


STICKY = rule(equals("stuck", True), {"kind": "stay"})


@pytest.mark.parametrize(
    ("rules", "reason", "turns"),
    [
        ((STICKY, rule(equals("stuck", True), END)), "max_turns", 5),
        ((rule(equals("stuck", True), END), STICKY), "enough", 1),
    ],
    ids=["above", "below"],
)
def test_a_rule_that_sticks_loops_where_it_stands_above_the_one_that_ends(rules, reason, turns):
    fabric = graph(*rules, topology={"max_turns": 5, "context": {"stuck": True}})
    world = ran(fabric, talks("alice", "bob"))
    assert (closed(world), len(spoken(world))) == (reason, turns)


def test_rules_are_tried_by_their_order_and_ties_as_they_stand():
    rules = (rule("always", END, order=1), rule("always", "bob"), rule("always", "carol"))
    world = ran(
        graph(*rules, workers=("alice", "bob", "carol"), topology=TWO),
        SAYS,
    )
    assert spoken(world) == ["alice", "bob"]
    assert world.of(ev.SpeakerChosen)[0].transition == 1


def test_no_rule_is_the_default_and_without_one_the_end():
    world = ran(graph(rule(called("look"), "bob")), SAYS)
    assert (spoken(world), closed(world)) == (["alice"], "done")
    world = ran(graph(rule(called("look"), "bob"), topology={"default_target": None}), SAYS)
    assert (spoken(world), closed(world)) == (["alice"], "no_transition")


def test_it_reverts_to_the_person_who_opened_it():
    back = rule({"kind": "from_speaker", "agent": "carol"}, {"kind": "revert_to_initiator"})
    rules = (rule({"kind": "from_speaker", "agent": "alice"}, "carol"), back, rule("always", END))
    fabric = graph(*rules, workers=("alice", "bob", "carol"), topology={"initiator": "bob"})
    assert spoken(ran(fabric, SAYS)) == ["alice", "carol", "bob"]


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_tool_that_was_called_decides_and_stands_in_the_journal():
    fabric = graph(rule(called("look"), "bob"), agents={"alice": {"tools": ["look"]}}, tools=("look",))
    world = ran(fabric, {**SAYS, "alice": [asks(call()), summary("Seen.")]})
    first = world.of(ev.SpeakerChosen)[0]
    assert (first.speaker, first.why, first.transition, first.tool) == ("bob", SpeakerReason.TRANSITION, 0, "look")


def test_a_handover_beats_the_rules_ends_the_turn_and_is_a_hop():
    fabric = graph(rule("always", "carol"), workers=("alice", "bob", "carol"), agents=using("alice"), topology=TWO)
    world = ran(fabric, {**SAYS, "alice": asks(call("transfer", to="bob", brief="The invoice is wrong."))})
    assert spoken(world) == ["alice", "bob"]
    assert world.asked("alice") == 1
    (handed,) = world.of(ev.HandedOff)
    assert (handed.from_agent, handed.to_agent) == ("alice", "bob")
    assert world.content_of(ev.HandedOff) == [{"text": "The invoice is wrong."}]
    assert world.run.guards["hop_limit"].hops == 1
    assert "alice said:\nThe invoice is wrong." in world.requests[1].messages[-1].text


def test_the_first_handover_of_an_answer_counts():
    fabric = graph(rule("always", END), workers=("alice", "bob", "carol"), agents=using("alice"))
    both = asks(call("transfer", to="carol", brief="Carol first."), call("transfer", to="bob", brief="Then bob."))
    world = ran(fabric, {**SAYS, "alice": both})
    assert spoken(world) == ["alice", "carol"]
    assert world.content_of(ev.HandedOff) == [{"text": "Carol first."}]


def test_an_agent_that_hands_over_to_itself_is_told_so_and_goes_on():
    fabric = graph(agents=using("alice"))
    world = ran(fabric, {**SAYS, "alice": [asks(call("transfer", to="alice", brief="Me.")), summary("Mine, then.")]})
    assert "may not hand over to 'alice'; it may to bob" in world.requests[1].messages[-1].text
    assert (spoken(world), closed(world)) == (["alice"], "done")


def test_an_agent_ends_the_conversation_with_an_answer():
    fabric = graph(rule("always", "bob"), agents=using("alice"))
    world = ran(fabric, {**SAYS, "alice": asks(call("finish", answer="It is 42.", reason="known"))})
    assert (spoken(world), closed(world)) == (["alice"], "known")
    assert world.of(ev.SpeakerChosen)[0].why is SpeakerReason.FINISH
    assert world.outcome["text"] == "It is 42."


# -- context variables -------------------------------------------------------------------------------------------------


def test_values_of_a_turn_are_seen_by_the_rules_that_decide_after_it():
    fabric = graph(rule(equals("topic", "billing"), "bob"), topology=TWO, agents=using("alice"))
    world = ran(fabric, {**SAYS, "alice": [asks(sets(topic="billing")), summary("It is a bill.")]})
    assert spoken(world) == ["alice", "bob"]
    assert world.content_of(ev.SpeakerChosen)[0]["context"] == {
        "topic": "billing",
        "outcome": "success",
        "failure_class": None,
    }


def test_keys_are_deleted_before_others_are_set_and_one_that_is_missing_equals_none():
    both = call("context_write", delete=["a", "b"], set={"a": 1})
    fabric = graph(
        rule({"kind": "all_of", "conditions": [equals("a", 1), equals("b")]}, "bob"),
        topology={**TWO, "context": {"a": 0, "b": 0}},
        agents=using("alice"),
    )
    assert spoken(ran(fabric, {**SAYS, "alice": [asks(both), summary("Cleared.")]})) == ["alice", "bob"]


def test_readers_see_what_the_turn_in_flight_wrote_marked_as_tentative():
    fabric = graph(topology={"context": {"old": 1}}, agents=using("alice"))
    world = ran(fabric, {"alice": [asks(sets(new=2)), asks(call("context_read")), summary("Seen.")]})
    read = next(fact for fact in world.of(ev.ToolAnswered) if fact.tool == "context_read")
    told = next(one for one in world.content_of(ev.ToolAnswered) if "values" in one["result"])
    assert not read.error
    assert told["result"]["values"] == [
        {"key": "new", "value": 2, "tentative": True},
        {"key": "old", "value": 1, "tentative": False},
    ]


def test_writes_of_a_turn_that_is_run_again_are_reverted():
    fabric = graph(rule(equals("half", True), "bob"), agents=using("alice"))
    world = ran(
        fabric,
        {**SAYS, "alice": [asks(sets(half=True)), *[fails(Cause.TIMEOUT, "slow")] * 3, summary("Again.")]},
        tier=Tier.HIGH_STAKES,
    )
    world.decide("approve").go()
    assert (spoken(world), closed(world)) == (["alice"], "done")
    assert "half" not in world.content_of(ev.SpeakerChosen)[0]["context"]


def test_who_takes_no_part_is_not_offered_its_tools():
    fabric = graph(topology={"aggregator": "editor"}, agents={"editor": {"tools": ["context_write"]}})
    world = ran(fabric, {**SAYS, "editor": [asks(sets(a=1)), summary("Merged.")]})
    assert [one.tools for one in world.requests if one.agent == "editor"] == [(), ()]
    assert not world.of(ev.ToolAnswered)


def test_who_takes_part_writes_nothing_in_another_role():
    fabric = graph(topology={"aggregator": "bob"}, agents={"bob": {"tools": ["context_write"]}})
    world = ran(fabric, {**SAYS, "bob": [asks(sets(a=1)), summary("Merged.")]})
    (refused,) = [fact for fact in world.of(ev.ToolAnswered) if fact.error]
    assert refused.tool == "context_write"
    assert "takes no part" in world.content_of(ev.ToolAnswered)[0]["error"]["message"]


# -- what is read ------------------------------------------------------------------------------------------------------


def test_the_last_messages_are_read_in_full_and_the_rest_as_a_line():
    world = ran(of_graph(round_robin(["alice", "bob"], max_turns=6)), talks("alice", "bob"))
    last = world.of(ev.TurnOpened)[-1]
    assert last.hears == (1, 2, 3, 4)
    text = "\n".join(message.text for message in world.requests[-1].messages)
    assert "Earlier: 1 message (alice 1)." in text


def test_a_brief_for_each_is_asked_of_who_plans():
    brief = {"agent": "alice", "title": "Look", "instructions": "Look at it."}
    plan = {"goal": "g", "briefs": [brief], "exit_criteria": ["It is done."]}
    world = ran(graph(topology={"plan": plan}), SAYS)
    assert world.end.state is not RunState.COMPLETED
    assert "briefs: 'bob' takes part and has none" in world.end.reason


def test_a_decision_that_another_process_takes_sees_what_the_turn_wrote():
    fabric = graph(rule(equals("topic", "billing"), "bob"), topology=TWO, agents=using("alice"))
    script = {**SAYS, "alice": [asks(sets(topic="billing")), summary("It is a bill.").after(5)]}
    world = World(fabric, script).start().go(until_s=4)
    world.drain().go()
    assert not world.of(ev.SpeakerChosen)
    world.take_up().go()
    assert spoken(world) == ["alice", "bob"]


# -- moves by rules ----------------------------------------------------------------------------------------------------


def test_a_move_by_a_rule_is_no_hop_and_is_put_before_policies():
    fabric = of_graph(round_robin(["alice", "bob"], max_turns=8), limits={"hops": 1})
    assert closed(ran(fabric, talks("alice", "bob"))) == "max_turns"
    names = ("permit(principal, action, resource);", 'forbid(principal, action == Action::"handoff", resource);')
    gates = {"policies": [{"name": f"own-{n}", "text": text} for n, text in enumerate(names)]}
    world = ran(of_graph(round_robin(["alice", "bob"], max_turns=8), gates=gates), talks("alice", "bob"))
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.POLICY_DENIED
    assert spoken(world) == ["alice"]


def test_a_round_in_which_nothing_new_is_said_is_no_deadlock_where_rules_lead_on():
    world = ran(of_graph(round_robin(["alice", "bob"], max_turns=20)), SAYS)
    assert (closed(world), len(spoken(world)), world.reactions) == ("max_turns", 20, [])
    visits = ran(of_graph(round_robin(["alice", "bob"], max_turns=40), limits={"max_node_visits": 10}), SAYS)
    assert [fact.cause.cause for fact in visits.of(ev.ReactionDecided)] == [Cause.VISIT_LIMIT]
    assert len(spoken(visits)) == 20


@pytest.mark.parametrize(
    ("tier", "reactions"),
    [(Tier.INTERACTIVE, ["abort"]), (Tier.BATCH, ["abort"]), (Tier.HIGH_STAKES, ["escalate"])],
)
def test_a_hub_whose_worker_asks_for_more_each_time_is_a_stuck_supervisor(tier, reactions):
    def hands_on(request):
        return asks(call("transfer", to="bob", brief=f"Look at part {request.command_id.split('.')[1]} of it."))

    back = rule({"kind": "from_speaker", "agent": "bob"}, "alice")
    fabric = graph(back, topology={"max_turns": 20}, agents=using("alice"))
    world = ran(fabric, {"alice": hands_on, "bob": summary("I need more information.")}, tier=tier)
    decided = world.of(ev.ReactionDecided)
    assert ([fact.reaction for fact in decided], decided[0].cause.cause) == (reactions, Cause.SUPERVISOR_STUCK)
    assert spoken(world) == ["alice", "bob"] * 2 + ["alice"]


def test_a_fix_and_verify_loop_ends_by_its_failures_and_no_deadlock():
    """S1's loop: the agent that fixes says the same each lap, and the tests fail for another reason each time."""
    failed = {"kind": "outcome_is", "outcome": "fail"}
    rules = (rule({"kind": "from_speaker", "agent": "alice"}, "bob"), rule(failed, "alice"), rule("always", END))
    fabric = graph(*rules, topology={"max_turns": 40}, limits={"max_node_visits": 4})
    reasons = iter(["the lamp is out", "the door sticks", "the roof leaks", "the bell is mute", "the floor creaks"])
    fixed = summary("I have fixed everything that the tests had said, and they should pass by now.")
    world = ran(fabric, {"alice": fixed, "bob": lambda request: fails(Cause.BAD_REQUEST, next(reasons))})
    causes = {fact.cause.cause for fact in world.of(ev.ReactionDecided)}
    assert causes == {Cause.BAD_REQUEST, Cause.VISIT_LIMIT}
    assert len(spoken(world)) == 8


def test_a_planner_that_hands_out_the_same_again_is_seen_where_workers_take_turns():
    briefs = [
        {"agent": name, "title": "Look", "instructions": f"Look at it as {name} would, and tell."}
        for name in ("alice", "bob")
    ]
    plan = planned(0, briefs=briefs)
    fabric = graph(rule("always", "bob"), topology={**TWO, "planner": "planner", "critic": "critic"})
    world = ran(fabric, {**SAYS, "planner": plan})
    assert [wave.speaker for wave in world.run.guards["deadlock_monitor"].waves] == ["planner"]
