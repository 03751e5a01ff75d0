"""Publication refuses rules, and proves some of them: "never" is checked against conversations that are played."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings

from fabric.core.graph import conditions as c
from fabric.core.graph import reach as analysis
from fabric.core.graph.conversation import fold, open_conversation
from fabric.core.graph.problems import problems
from fabric.core.graph.reach import END, Crew, RuleReach
from fabric.core.graph.registry import BUILT_IN, Next, Registry
from fabric.core.graph.spec import RetryTargets
from fabric.core.graph.state import NodeOutcome, Packet, SpeakerReason, ToolUse, Writes
from fabric.core.values.frozen import replace
from fabric.core.values.taxonomy import ErrorClass
from tests.fabric.core.graph.drawn import graphs
from tests.fabric.core.graph.factories import round_robin, sequence
from tests.fabric.core.graph.graphs import PEOPLE, graph, rule

ALWAYS, STOP = c.Always(), c.Terminate(reason="stop")
ALL_ROUND = rule(ALWAYS, c.RoundRobin(), 100)


def said(on, **more):
    return [(one.path, one.sentence, one.warning) for one in problems(on, **more)]


def from_(agent):
    return c.FromSpeaker(agent=agent)


def tool(name):
    return c.ToolCalled(tool=name)


def all_of(*conditions):
    return c.AllOf(conditions=conditions)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("on", "path", "sentence"),
    [
        (graph(participants=("alice", "bob", "alice")), "participants.2", "'alice' is there twice"),
        (graph(participants=("alice",)), "participants", "has fewer than two"),
        (
            graph(initial_speaker="dave"),
            "initial_speaker",
            "no participant is named 'dave'; there are: alice, bob, carol",
        ),
        (graph(initiator="dave"), "initiator", "no participant is named 'dave'"),
        (graph(rule(ALWAYS, "dave")), "transitions.0.then.agent", "no participant is named 'dave'"),
        (graph(default_target=c.ToAgent(agent="dave")), "default_target.agent", "no participant is named 'dave'"),
        (graph(rule(from_("dave"), "bob")), "transitions.0.when.agent", "no participant is named 'dave'"),
        (
            graph(rule(all_of(ALWAYS, c.Not(condition=from_("dave"))), "bob")),
            "transitions.0.when.conditions.1.condition.agent",
            "no participant is named 'dave'",
        ),
        (
            graph(rule(c.RegisteredCondition(name="mood"), "bob")),
            "transitions.0.when",
            "no condition is registered as 'mood'; there are: none",
        ),
        (
            graph(default_target=c.RegisteredTarget(name="best")),
            "default_target",
            "no target is registered as 'best'; there are: none",
        ),
    ],
)
def test_a_name_that_is_wrong_is_a_problem(on, path, sentence):
    found = problems(on)
    assert [(one.path, one.warning) for one in found] == [(path, False)]
    assert found[0].sentence.startswith(sentence)


def test_a_tool_that_no_participant_has_is_a_problem():
    on = graph(rule(tool("page"), "bob"), ALL_ROUND, max_turns=9)
    crew = Crew({"alice": frozenset({"look"}), "bob": frozenset(), "zoe": frozenset({"page"})})
    assert said(on, crew=crew) == [
        ("transitions.0.when.tool", "no participant has a tool 'page'; their tools are: look", False)
    ]
    assert said(on) == []


def test_arguments_that_a_registered_one_refuses_are_told():
    def bounded(args):
        if "bound" not in args:
            raise ValueError("mood needs a bound; give it")
        return lambda turn: True

    own = Registry(BUILT_IN.conditions.add("mood", bounded), BUILT_IN.targets.add("best", lambda args: Next))
    on = graph(rule(c.RegisteredCondition(name="mood"), c.RegisteredTarget(name="best")))
    assert said(on, registry=own) == [("transitions.0.when", "mood needs a bound; give it", False)]


# -- what is proved ----------------------------------------------------------------------------------------------------


def test_the_factories_make_graphs_without_problems():
    assert said(sequence(PEOPLE)) == []
    assert said(round_robin(PEOPLE, max_turns=6)) == []


def test_a_round_without_a_bound_is_warned_of():
    found = problems(round_robin(PEOPLE))
    assert [(one.path, one.warning) for one in found] == [("max_turns", True)]


@pytest.mark.parametrize(
    "before",
    [
        ALWAYS,
        c.Not(condition=from_("bob")),
        c.AnyOf(conditions=(from_("alice"), tool("t1"))),
        c.AnyOf(
            conditions=(c.OutcomeIs(outcome=NodeOutcome.FAIL), c.Not(condition=c.OutcomeIs(outcome=NodeOutcome.FAIL)))
        ),
    ],
)
def test_an_end_behind_a_rule_that_holds_whenever_it_would_is_a_problem(before):
    on = graph(rule(before, c.RoundRobin()), rule(from_("alice"), STOP), ALL_ROUND)
    found = problems(on)[0]
    assert (found.path, found.warning) == ("transitions.1", False)
    assert found.sentence == (
        f"can never end the conversation: rule 1 ({before.kind}) is tried before it and holds whenever it would; move this one up"
    )


def test_order_counts_and_not_the_place_in_the_list():
    ends = rule(from_("alice"), STOP, 1)
    assert problems(graph(ends, rule(ALWAYS, c.RoundRobin(), 0)))[0].path == "transitions.0"
    assert said(graph(rule(ALWAYS, c.RoundRobin(), 2), ends, rule(ALWAYS, "carol", 1)))[0][0] == "transitions.0"


def test_rules_that_shadow_it_together():
    fails = c.OutcomeIs(outcome=NodeOutcome.FAIL)
    on = graph(
        rule(fails, c.RoundRobin()), rule(c.Not(condition=fails), c.RoundRobin()), rule(from_("alice"), STOP), ALL_ROUND
    )
    assert problems(on)[0].sentence.startswith("can never end the conversation: one of the rules that are tried before")


def test_an_end_after_a_speaker_to_whom_nothing_leads():
    on = graph(rule(from_("carol"), STOP), rule(from_("alice"), "bob"), rule(from_("bob"), "alice"), max_turns=9)
    assert said(on) == [
        ("transitions.0", "can never end the conversation: it is for turns of carol, to whom nothing leads", False),
        ("participants.2", "nothing ever leads to 'carol'; lead to it by a rule, or take it out", True),
    ]


@pytest.mark.parametrize(
    "never",
    [
        all_of(tool("t1"), tool("t2")),
        all_of(from_("alice"), from_("bob")),
        all_of(c.ContextEquals(key="k", value=1), c.ContextEquals(key="k", value=2)),
        all_of(c.OutcomeIs(outcome=NodeOutcome.SUCCESS), c.ErrorClassIs(failure_class=ErrorClass.STRUCTURAL)),
        all_of(c.ErrorClassIs(failure_class=ErrorClass.STRUCTURAL), c.OutcomeIs(outcome=NodeOutcome.SUCCESS)),
        c.ContextEquals(key="outcome", value="failed"),
        all_of(c.ContextEquals(key="outcome", value="fail"), c.OutcomeIs(outcome=NodeOutcome.SUCCESS)),
        c.Not(condition=ALWAYS),
    ],
)
def test_a_condition_that_never_holds(never):
    on = graph(rule(never, STOP), ALL_ROUND)
    assert said(on)[0] == ("transitions.0", "can never end the conversation: its condition never holds", False)


def test_a_tool_counts_for_those_who_have_it():
    """Bob has it and alice not: what alice's turn leads to is the round."""
    on = graph(rule(tool("page"), STOP), rule(from_("alice"), "alice"), max_turns=4)
    crew = Crew({"bob": frozenset({"page"})})
    assert said(on, crew=crew)[0][1] == "can never end the conversation: it is for turns of bob, to whom nothing leads"


def test_a_tool_that_may_hand_over_leads_to_every_agent():
    on = graph(rule(ALWAYS, "alice"), max_turns=4)
    crew = Crew({"alice": frozenset({"pick"})}, frozenset({"pick"}))
    assert [one.path for one in problems(on)] == ["participants.1", "participants.2"]
    assert said(on, crew=crew) == []
    assert END in RuleReach(on, crew).find_next_speakers("alice")


def test_other_rules_that_never_decide_are_warned_of():
    assert [
        (one.path, one.warning)
        for one in problems(graph(rule(ALWAYS, c.RoundRobin()), rule(ALWAYS, "bob"), max_turns=9))
    ] == [("transitions.1", True)]


@pytest.mark.parametrize("bound", ["STEPS_MAX", "LOOKS_MAX"])
def test_a_search_that_is_too_long_reports_no_fault(monkeypatch, bound):
    keys = [c.ContextEquals(key=f"k{n}", value=n) for n in range(16)]
    never = all_of(*keys[:15], c.Not(condition=keys[0]))
    on = graph(rule(never, STOP), ALL_ROUND, max_turns=9)
    assert [one.path for one in problems(on)] == ["transitions.0"]
    monkeypatch.setattr(analysis, bound, 0)
    assert said(on) == []


def test_a_graph_of_a_thousand_rules_is_analysed_within_its_bound():
    people = tuple(f"p{n}" for n in range(64))
    keys = [all_of(from_(people[n % 64]), c.ContextEquals(key=f"k{n % 40}", value=n), tool("t1")) for n in range(1_000)]
    on = graph(*(rule(one, STOP) for one in keys), participants=people, initial_speaker="p0", max_turns=9)
    found = RuleReach(on, Crew())
    assert (found.ends, found.speakers) == (True, frozenset({"p0"}))


# -- against conversations that are played -----------------------------------------------------------------------------

TURNS = [
    (used, outcome, error, context)
    for used, (outcome, error), context in product(
        ("", "t1", "t2", "t3"),
        (
            (NodeOutcome.SUCCESS, None),
            (NodeOutcome.PARTIAL_SUCCESS, None),
            (NodeOutcome.FAIL, ErrorClass.DETERMINISTIC),
            (NodeOutcome.FAIL, ErrorClass.CANCELED),
        ),
        ({}, {"k1": 1, "k2": "x"}, {"k1": True, "k2": None}, {"k1": "y", "k2": 0}, {"k1": [], "k2": 2}),
    )
]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_whatever_is_played_was_said_to_be_possible(on):
    """Every turn of every speaker that the analysis lets speak: what then decides, and who follows, it said before."""
    found = RuleReach(on, Crew())
    for speaker in sorted(found.speakers):
        for used, outcome, error, context in TURNS:
            here = replace(open_conversation(on), expected=speaker)
            calls = (ToolUse(used),) if used else ()
            played = fold(on, here, Packet(speaker, "", calls, Writes(set=context), outcome, error)).decision
            assert played is not None
            if played.why is SpeakerReason.TRANSITION:
                assert played.transition is not None
                assert found.decides(played.transition, speaker)
            elif played.why in (SpeakerReason.DEFAULT, SpeakerReason.NO_DEFAULT):
                assert found.falls_through(speaker)
            if played.why is not SpeakerReason.MAX_TURNS:
                assert (played.speaker or END) in found.find_next_speakers(speaker)


# -- restart edges and retry targets -----------------------------------------------------------------------------------

FAILS = c.OutcomeIs(outcome=NodeOutcome.FAIL)
RETRIES = {"retry_targets": {"alice": RetryTargets(retry_target="carol")}}


def restart(when, then="bob"):
    return rule(when, then).model_copy(update={"restart": True})


@pytest.mark.parametrize(
    ("on", "path", "sentence"),
    [
        (
            graph(restart(FAILS, c.Stay())),
            "transitions.0.restart",
            "a restart needs a speaker, and stay names none; give `then` the kind agent",
        ),
        (
            graph(restart(ALWAYS)),
            "transitions.0.restart",
            "a restart edge is for how a turn ended; put outcome_is or error_class_is into its condition",
        ),
        (
            graph(restart(c.ErrorClassIs(failure_class=ErrorClass.DETERMINISTIC))),
            "transitions.0.restart",
            "can never be crossed: of failures only transient_infra crosses a restart edge",
        ),
        (
            graph(
                rule(c.ErrorClassIs(failure_class=ErrorClass.TRANSIENT_INFRA), "carol"),
                restart(all_of(FAILS, c.Not(condition=c.ContextEquals(key="failure_class", value=None)))),
            ),
            "transitions.1.restart",
            "can never be crossed",
        ),
        (graph(retry_target="dave", max_turns=9), "retry_target", "no participant is named 'dave'"),
        (graph(fallback_retry_target="dave", max_turns=9), "fallback_retry_target", "no participant is named 'dave'"),
        (graph(retry_targets={"dave": RetryTargets()}, max_turns=9), "retry_targets.dave", "no participant is named"),
        (
            graph(retry_targets={"bob": RetryTargets(fallback_retry_target="dave")}, max_turns=9),
            "retry_targets.bob.fallback_retry_target",
            "no participant is named 'dave'",
        ),
        (graph(**RETRIES), "retry_targets.alice.retry_target", "a failure that stays would be gone back from for ever"),
        (graph(retry_target="bob"), "retry_target", "a failure that stays would be gone back from for ever"),
    ],
)
def test_what_never_restarts_or_leads_back_to_no_agent_or_for_ever_is_a_problem(on, path, sentence):
    (found,) = (one for one in problems(on) if not one.warning)
    assert (found.path, found.sentence[: len(sentence)]) == (path, sentence)


@pytest.mark.parametrize(
    "when", [FAILS, c.ErrorClassIs(failure_class=ErrorClass.TRANSIENT_INFRA), c.Not(condition=FAILS)]
)
def test_a_restart_edge_that_something_can_cross_is_none(when):
    assert [one for one in problems(graph(restart(when))) if not one.warning] == []


def warned(on, **more):
    return [one.path for one in problems(on, **more) if one.warning]


def test_who_is_led_back_to_may_speak():
    alone = graph(rule(from_("alice"), "bob"), rule(from_("bob"), STOP), max_turns=9)
    assert warned(alone) == ["participants.2"]
    assert warned(alone.model_copy(update=RETRIES)) == []
    # Every failure of alice is a rule's: nothing ever goes back from it.
    edged = graph(rule(all_of(from_("alice"), FAILS), "bob"), *alone.transitions, max_turns=9, **RETRIES)
    assert warned(edged) == ["participants.2"]


def test_who_an_unmet_goal_leads_back_to_may_speak_where_it_can_end():
    goal = Crew(goals=("bob",))
    ends = graph(rule(from_("alice"), "bob"), goal_target="carol", max_turns=9)
    assert warned(ends, crew=goal) == []
    assert warned(ends) == ["participants.2"]
    own = ends.model_copy(update={"goal_target": None, "retry_targets": {"bob": RetryTargets(retry_target="carol")}})
    assert warned(own, crew=goal) == []
