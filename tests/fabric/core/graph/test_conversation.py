"""The rules and examples of docs/specification/topologies.md, one by one, on conversations without an engine."""

from __future__ import annotations

import pytest

from fabric.core.graph import state as writes
from fabric.core.graph.conditions import (
    AllOf,
    Always,
    AnyOf,
    ContextEquals,
    ErrorClassIs,
    FromSpeaker,
    Not,
    OutcomeIs,
    RevertToInitiator,
    RoundRobin,
    Stay,
    Terminate,
    ToolCalled,
)
from fabric.core.graph.conversation import fold, open_conversation
from fabric.core.graph.state import (
    ContextWritten,
    ConversationClosed,
    NodeOutcome,
    PersonSaid,
    RoundBegan,
    RoundLost,
    SpeakerReason,
    Writes,
)
from fabric.core.values.taxonomy import ErrorClass
from tests.fabric.core.graph.factories import round_robin, sequence
from tests.fabric.core.graph.graphs import decided, finishing, folded, graph, handing, packet, rule, sets, speakers

# -- the examples ------------------------------------------------------------------------------------------------------


def test_a_sequence_ends_after_each_spoke_once():
    assert speakers(sequence(["alice", "bob", "carol"])) == (["alice", "bob", "carol"], "sequence_complete")


def test_a_round_robin_takes_exactly_as_many_turns_as_it_may():
    spoken, reason = speakers(round_robin(["alice", "bob", "carol"], max_turns=6))
    assert (spoken, reason) == (["alice", "bob", "carol"] * 2, "max_turns")


def _triage(*, ends_first: bool):
    """A context variable that no agent clears sends everything to bob; another rule ends it after bob spoke."""
    sticky = rule(ContextEquals(key="route", value="security"), "bob")
    ends = rule(FromSpeaker(agent="bob"), Terminate(reason="handled"))
    return graph(*((ends, sticky) if ends_first else (sticky, ends)), max_turns=9)


@pytest.mark.parametrize(("ends_first", "turns", "reason"), [(False, 9, "max_turns"), (True, 2, "handled")])
def test_a_sticky_context_rule_above_the_end_loops_and_below_it_does_not(ends_first, turns, reason):
    on = _triage(ends_first=ends_first)
    state = fold(on, open_conversation(on), packet("alice", writes=sets(route="security"))).state
    while state.expected is not None:
        assert state.expected == "bob"
        state = fold(on, state, packet("bob")).state
    assert (state.turns, state.close_reason) == (turns, reason)


def test_the_second_agent_may_clear_the_key_instead():
    on = _triage(ends_first=False)
    first, second = folded(
        on, [packet("alice", writes=sets(route="security")), packet("bob", writes=Writes(delete=("route",)))]
    )
    assert (first.state.expected, second.state.close_reason) == ("bob", "handled")


# -- which rule decides ------------------------------------------------------------------------------------------------


def test_rules_are_tried_in_ascending_order_and_ties_as_written():
    on = graph(rule(Always(), "alice", 5), rule(Always(), "bob", -1), rule(Always(), "carol", -1))
    found = decided(on, packet("alice"))
    assert (found.speaker, found.why, found.transition) == ("bob", SpeakerReason.TRANSITION, 1)


def test_where_no_rule_holds_the_default_target_decides():
    on = graph(rule(FromSpeaker(agent="bob"), "carol"), default_target=Stay())
    found = decided(on, packet("alice"))
    assert (found.speaker, found.why, found.transition) == ("alice", SpeakerReason.DEFAULT, None)


def test_a_graph_without_a_default_target_ends():
    found = decided(graph(default_target=None), packet("alice"))
    assert (found.speaker, found.why, found.close_reason) == (None, SpeakerReason.NO_DEFAULT, "no_transition")


@pytest.mark.parametrize(
    ("target", "speaker"), [(RoundRobin(), "alice"), (Stay(), "carol"), (RevertToInitiator(), "bob")]
)
def test_targets_that_name_no_agent(target, speaker):
    on = graph(rule(Always(), target), initial_speaker="carol", initiator="bob")
    assert decided(on, packet("carol")).speaker == speaker


def test_the_initiator_is_the_first_speaker_unless_said_otherwise():
    on = graph(rule(FromSpeaker(agent="alice"), "carol"), rule(Always(), RevertToInitiator()))
    assert decided(on, packet("alice"), packet("carol")).speaker == "alice"


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (AllOf(conditions=(FromSpeaker(agent="alice"), ToolCalled(tool="look"))), True),
        (AllOf(conditions=(FromSpeaker(agent="bob"), ToolCalled(tool="look"))), False),
        (AnyOf(conditions=(FromSpeaker(agent="bob"), ToolCalled(tool="look"))), True),
        (AnyOf(conditions=(FromSpeaker(agent="bob"), ToolCalled(tool="other"))), False),
        (Not(condition=FromSpeaker(agent="bob")), True),
        (Not(condition=Always()), False),
    ],
)
def test_conditions_of_conditions(condition, held):
    assert decided(graph(rule(condition, "bob")), packet("alice", "look")).why is (
        SpeakerReason.TRANSITION if held else SpeakerReason.DEFAULT
    )


# -- the bound on turns ------------------------------------------------------------------------------------------------


def test_an_end_that_was_decided_on_the_last_turn_wins_over_the_bound():
    on = graph(rule(Always(), Terminate(reason="said all")), max_turns=1)
    assert decided(on, packet("alice")).close_reason == "said all"


def test_the_bound_says_which_rule_it_cut_off():
    on = graph(rule(FromSpeaker(agent="bob"), "alice"), rule(Always(), "bob"), max_turns=1)
    found = decided(on, packet("alice"))
    assert (found.speaker, found.why, found.close_reason, found.transition) == (
        None,
        SpeakerReason.MAX_TURNS,
        "max_turns",
        1,
    )


def test_the_bound_stops_a_handoff_and_not_a_finish():
    on = graph(max_turns=1)
    assert decided(on, packet("alice", handing("go", "bob"))).close_reason == "max_turns"
    assert decided(on, packet("alice", finishing("stop", "enough"))).close_reason == "enough"


# -- what tools return -------------------------------------------------------------------------------------------------


def test_a_returned_handoff_beats_the_rule_for_its_tool():
    on = graph(rule(ToolCalled(tool="route"), "bob"))
    found = decided(on, packet("alice", handing("route", "carol", "knows it best")))
    assert (found.speaker, found.why, found.tool, found.reason) == (
        "carol",
        SpeakerReason.HANDOFF,
        "route",
        "knows it best",
    )
    assert decided(on, packet("alice", "route")).speaker == "bob"


def test_the_first_emission_wins():
    on = graph(rule(ToolCalled(tool="second"), "bob"), rule(ToolCalled(tool="first"), "carol"))
    assert decided(on, packet("alice", "unnamed", "first", "second")).speaker == "carol"
    assert decided(on, packet("alice", "first", handing("second", "alice"))).speaker == "carol"
    assert decided(on, packet("alice", handing("a", "alice"), handing("b", "bob"))).speaker == "alice"
    assert decided(on, packet("alice", finishing("stop"), handing("b", "bob"))).close_reason == "finished"


def test_a_handoff_to_an_unknown_agent_is_an_error_and_the_rules_decide():
    on = graph(rule(ToolCalled(tool="route"), "bob"))
    found = decided(on, packet("alice", handing("route", "dave")))
    assert (found.speaker, found.why, found.transition) == ("bob", SpeakerReason.TRANSITION, 0)
    assert found.errors == ("tool route hands over to 'dave', who takes no part; there are: alice, bob, carol",)


def test_after_a_handoff_to_an_unknown_agent_the_next_emission_that_leads_somewhere_counts():
    found = decided(graph(), packet("alice", handing("route", ""), handing("other", "carol")))
    assert (found.speaker, found.tool, len(found.errors)) == ("carol", "other", 1)


# -- the context -------------------------------------------------------------------------------------------------------


def test_a_rule_sees_what_the_same_packet_set():
    on = graph(rule(ContextEquals(key="urgent", value=True), "carol"))
    assert decided(on, packet("alice", writes=sets(urgent=True))).speaker == "carol"


def test_a_missing_key_equals_none():
    on = graph(rule(ContextEquals(key="unset"), "bob"))
    assert decided(on, packet("alice")).speaker == "bob"
    assert decided(on, packet("alice", writes=sets(unset=0))).why is SpeakerReason.DEFAULT
    assert decided(on, packet("alice", writes=sets(unset=None))).speaker == "bob"


def test_deleted_first_then_set():
    after = fold(
        graph(), open_conversation(graph()), ContextWritten("bob", Writes(delete=("a", "b"), set={"a": 1}))
    ).state
    assert dict(after.context) == {"a": 1}


def test_context_writes_take_no_turn():
    on = graph(rule(ContextEquals(key="a", value=1), "carol"))
    found = folded(on, [ContextWritten("bob", sets(a=1)), packet("alice")])
    assert (found[0].state.turns, found[0].state.expected, found[0].decision) == (0, "alice", None)
    assert found[1].state.expected == "carol"


def test_only_participants_write():
    on, before = graph(), open_conversation(graph())
    found = fold(on, before, ContextWritten("mallory", sets(a=1)))
    assert found.state is before
    assert found.refused == "'mallory' takes no part; participants and people outside write context variables"
    assert fold(on, before, ContextWritten("", sets(a=1))).state.context == {"a": 1}


@pytest.mark.parametrize(
    ("outcome", "error"),
    [(NodeOutcome.FAIL, ErrorClass.TRANSIENT_INFRA), (NodeOutcome.SUCCESS, None), (NodeOutcome.PARTIAL_SUCCESS, None)],
)
def test_how_a_turn_ended_stands_in_the_context_whatever_participants_wrote(outcome, error):
    on = graph()
    ended = packet("alice", writes=sets(outcome="mine", failure_class="mine"), outcome=outcome, error=error)
    context = fold(on, open_conversation(on), ended).state.context
    assert (context["outcome"], context["failure_class"]) == (outcome, error)


def test_a_failed_turn_is_routed_by_how_it_failed():
    on = graph(
        rule(ErrorClassIs(failure_class=ErrorClass.TRANSIENT_INFRA), "bob"),
        rule(OutcomeIs(outcome=NodeOutcome.FAIL), "carol"),
    )
    failed = {"outcome": NodeOutcome.FAIL}
    assert decided(on, packet("alice", error=ErrorClass.TRANSIENT_INFRA, **failed)).speaker == "bob"
    assert decided(on, packet("alice", error=ErrorClass.DETERMINISTIC, **failed)).speaker == "carol"
    assert decided(on, packet("alice")).why is SpeakerReason.DEFAULT


# -- rounds ------------------------------------------------------------------------------------------------------------


def test_an_out_of_turn_send_is_refused_and_changes_nothing():
    on, before = graph(), open_conversation(graph())
    for happening in (packet("bob", writes=sets(a=1)), RoundBegan("bob")):
        found = fold(on, before, happening)
        assert (found.state is before, found.decision) == (True, None)
        assert found.refused == "alice is expected to speak, not 'bob'; nothing was changed"


def test_nothing_is_accepted_once_it_is_closed():
    on = graph()
    closed = fold(on, open_conversation(on), packet("alice")).state
    for happening in (
        packet("alice"),
        RoundBegan("alice"),
        ContextWritten("bob", sets(a=1)),
        PersonSaid("m"),
        ConversationClosed(""),
    ):
        found = fold(on, closed, happening)
        assert found.state is closed
        assert found.refused == "the conversation is closed (done); nothing more is accepted"


def test_writes_of_a_round_are_tentative_until_its_packet():
    on = graph(rule(Always(), Stay()))
    found = folded(on, [RoundBegan("alice"), ContextWritten("alice", sets(a=1)), packet("alice", writes=sets(b=2))])
    assert writes.read(found[1].state, "a") == (1, True)
    assert writes.read(found[1].state, "b") == (None, False)
    assert writes.read(found[2].state, "a") == (1, False)
    assert (found[2].state.context["a"], found[2].state.context["b"]) == (1, 2)


def test_a_lost_round_reverts_what_it_wrote_and_nothing_else():
    on = graph()
    begun = folded(
        on,
        [
            ContextWritten("bob", sets(a=0, b=0, c=0)),
            RoundBegan("alice"),
            ContextWritten("alice", Writes(delete=("b",), set={"a": 1})),
            ContextWritten("carol", sets(c=3)),
        ],
    )[-1].state
    assert dict(writes.visible_context(begun)) == {"a": 1, "c": 3}
    assert writes.read(begun, "b") == (None, True)
    assert writes.read(begun, "c") == (3, False)
    lost = fold(on, begun, RoundLost("alice"))
    assert dict(lost.state.context) == {"a": 0, "b": 0, "c": 3}
    assert (lost.state.expected, lost.state.turns, lost.state.round) == ("alice", 0, None)
    assert fold(on, lost.state, RoundLost("alice")).refused


def test_the_later_of_two_writes_stands_from_any_author():
    on = graph(rule(Always(), Stay()))
    began = [RoundBegan("alice"), ContextWritten("alice", sets(a=1)), ContextWritten("bob", sets(a=2))]
    begun = folded(on, began)[-1].state
    assert writes.read(begun, "a") == (2, False)
    assert fold(on, begun, packet("alice")).state.context["a"] == 2


def test_a_round_in_flight_is_not_begun_a_second_time():
    first, second = folded(graph(), [RoundBegan("alice"), RoundBegan("alice")])
    assert second.state is first.state
    assert second.refused == "alice has a turn in flight; one packet is committed at a time"


@pytest.mark.parametrize("end", [packet("alice"), RoundLost("alice"), ConversationClosed("ttl")])
def test_a_person_s_message_waits_for_the_packet_in_flight(end):
    on = graph(rule(Always(), "bob"))
    assert fold(on, open_conversation(on), PersonSaid("m0")).delivered == ("m0",)
    found = folded(on, [RoundBegan("alice"), PersonSaid("m1"), PersonSaid("m2"), end])
    assert [one.delivered for one in found] == [(), (), (), ("m1", "m2")]
    assert (found[2].state.expected, found[2].state.turns) == ("alice", 0)
    assert found[3].state.waiting == ()


def test_a_conversation_closed_from_outside_says_why_and_keeps_nothing_tentative():
    on = graph()
    found = folded(on, [RoundBegan("alice"), ContextWritten("alice", sets(a=1)), ConversationClosed("gone home")])[
        -1
    ].state
    assert (found.expected, found.close_reason, dict(found.context), found.round) == (None, "gone home", {}, None)
