"""Graphs as they are written: their dict and their bytes, registered kinds, what cannot be read; and every table is total."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.core.graph import conditions, conversation, state
from fabric.core.graph.conditions import Always, ContextEquals, Not, RegisteredCondition, RegisteredTarget
from fabric.core.graph.conversation import open_conversation
from fabric.core.graph.registry import BUILT_IN, Next, Registry
from fabric.core.graph.spec import EXPECTATIONS, TransitionGraph, Unreadable, from_dict, loads
from fabric.core.graph.state import SpeakerReason
from tests.fabric.core.graph.drawn import graphs
from tests.fabric.core.graph.factories import round_robin, sequence
from tests.fabric.core.graph.graphs import decided, graph, packet, rule, sets

# -- tables ------------------------------------------------------------------------------------------------------------


def test_every_kind_has_its_row():
    assert set(conditions.HOLDS) == set(conditions.KINDS) == set(get_args(get_args(conditions.Condition)[0]))
    assert set(conditions.RESOLVES) == set(conditions.TARGET_KINDS) == set(get_args(get_args(conditions.Target)[0]))
    assert set(conversation.FOLDS) == set(get_args(state.Happening))


# -- dict and bytes ----------------------------------------------------------------------------------------------------


@given(graphs())
def test_a_graph_comes_back_from_its_dict_and_its_bytes_as_it_was(on):
    raw = on.dumps()
    assert loads(raw) == on == from_dict(on.to_dict())
    assert loads(raw).dumps() == raw


def test_the_bytes_are_the_same_whatever_the_order_of_the_fields():
    turned = dict(reversed(sequence(["a", "b"]).to_dict().items()))
    assert from_dict(turned).dumps() == sequence(["a", "b"]).dumps()


def test_defaults_are_those_of_the_source():
    on = sequence(["a", "b"])
    assert [(one.seconds, one.on_violation) for one in on.expectations] == [(120, "warn"), (600, "auto_close")]
    assert on.expectations == EXPECTATIONS
    assert open_conversation(on, {"k": 1}).context == {"k": 1}


@pytest.mark.parametrize("factory", [sequence, round_robin])
def test_a_factory_needs_a_participant(factory):
    with pytest.raises(ValueError, match="at least one"):
        factory([])


def _graph(**fields: Any) -> dict[str, Any]:
    return {"participants": ["alice", "bob"], "initial_speaker": "alice"} | fields


def _when(**fields: Any) -> dict[str, Any]:
    return _graph(transitions=[{"when": fields, "then": {"kind": "stay"}}])


def _nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"kind": "always"}
    for _ in range(levels):
        inner = {"kind": "not", "condition": inner}
    return inner


@pytest.mark.parametrize(
    ("tree", "path", "sentence"),
    [
        (
            _when(kind="after_work"),
            "transitions.0.when.kind",
            "there is no condition of kind 'after_work'; there are: al",
        ),
        (
            _graph(default_target={"kind": "x"}),
            "default_target.kind",
            "there is no target of kind 'x'; there are: agent",
        ),
        (_when(agent="bob"), "transitions.0.when", "does not say its kind; give `kind`"),
        (_when(kind="from_speaker"), "transitions.0.when.agent", "is missing; give it a value"),
        (_when(kind="from_speaker", agent="Bob!"), "transitions.0.when.agent", "is no name; use lower-case letters"),
        (_when(kind="always", agent="bob"), "transitions.0.when.agent", "there is no such field; take it out"),
        (
            _graph(default_target={"kind": "agent"}),
            "default_target.agent",
            "is missing; give it a value",
        ),
        (
            _when(kind="all_of", conditions=[{"kind": "not", "condition": {"kind": "tool_called"}}]),
            "transitions.0.when.conditions.0.condition.tool",
            "is missing; give it a value",
        ),
        (_when(kind="any_of", conditions=[]), "transitions.0.when.conditions", "is empty; give at least one"),
        (
            _when(kind="context_equals", key="k", value=float("nan")),
            "transitions.0.when.value",
            "is no value that JSON",
        ),
        (_when(kind="context_equals", key="k", value=2**70), "transitions.0.when.value", "is no value that JSON"),
        (_when(**_nested(8)), "transitions.0.when", "has conditions nested deeper than 8 levels"),
        (_graph(max_turns=0), "max_turns", "0 is too small; at least 1"),
        ("graph", "", "'graph' is no group of fields"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_path(tree, path, sentence):
    with pytest.raises(Unreadable) as refused:
        from_dict(tree)
    assert [found for found, _ in refused.value.problems] == [path]
    assert refused.value.problems[0][1].startswith(sentence)


def test_seven_levels_of_not_are_read():
    assert from_dict(_when(**_nested(7))).transitions[0].when.kind == "not"


def test_bytes_that_are_no_json_are_refused():
    with pytest.raises(Unreadable, match="^the graph is no JSON"):
        loads(b"{")


# -- registered kinds --------------------------------------------------------------------------------------------------


def _above(args):
    bound = args["bound"]
    return lambda turn: turn.state.context.get("score", 0) > bound


def _to(args):
    return lambda turn: Next(args["whom"])


OWN = Registry(BUILT_IN.conditions.add("above", _above), BUILT_IN.targets.add("somebody", _to))


def test_registered_kinds_are_read_back_by_name():
    on = graph(
        rule(
            RegisteredCondition(name="above", args={"bound": 3}),
            RegisteredTarget(name="somebody", args={"whom": "carol"}),
        )
    )
    back = loads(on.dumps())
    assert decided(back, packet("alice", writes=sets(score=4)), registry=OWN).speaker == "carol"
    assert decided(back, packet("alice", writes=sets(score=3)), registry=OWN).why is SpeakerReason.DEFAULT


def test_a_registered_target_that_names_no_agent_is_an_error_and_the_next_rule_decides():
    on = graph(rule(Always(), RegisteredTarget(name="somebody", args={"whom": "dave"})), rule(Always(), "bob"))
    found = decided(on, packet("alice"), registry=OWN)
    assert (found.speaker, found.transition) == ("bob", 1)
    assert found.errors == ("transitions.0.then leads to 'dave', who takes no part; the next rule decides",)
    last = decided(
        graph(default_target=RegisteredTarget(name="somebody", args={"whom": "dave"})), packet("alice"), registry=OWN
    )
    assert (last.why, last.close_reason, len(last.errors)) == (SpeakerReason.NO_DEFAULT, "no_transition", 1)


def test_unknown_names_are_refused_and_names_are_taken_once():
    with pytest.raises(ValueError, match="no condition is registered as 'below'; there are: above"):
        OWN.conditions.make("below", {})
    with pytest.raises(ValueError, match="no target is registered as 'x'; there are: none"):
        BUILT_IN.targets.make("x", {})
    with pytest.raises(ValueError, match="registered as 'above' already"):
        OWN.conditions.add("above", _above)
    with pytest.raises(ValueError, match="is no name"):
        OWN.conditions.add("Above it", _above)


# -- any conversation --------------------------------------------------------------------------------------------------


@given(graphs(), st.data())
def test_the_fold_is_pure_bounded_and_names_participants_only(on: TransitionGraph, data):
    here = open_conversation(on)
    for _ in range(12):
        if here.expected is None:
            break
        calls = data.draw(st.lists(st.sampled_from(["t1", "t2", "t3"]), max_size=2))
        key, held = data.draw(st.sampled_from(["k1", "k2"])), data.draw(st.sampled_from([None, 1, True, "x"]))
        spoken = packet(here.expected, *calls, writes=sets(**{key: held}))
        found = conversation.fold(on, here, spoken)
        assert found == conversation.fold(on, here, spoken)
        assert found.decision is not None
        assert found.state.turns == here.turns + 1
        assert found.state.expected in (None, *on.participants)
        assert (found.state.expected is None) == bool(found.state.close_reason)
        assert on.max_turns is None or found.state.turns < on.max_turns or found.state.expected is None
        here = found.state


def test_a_condition_sees_nothing_of_the_text():
    """Text is for people and models: two packets that differ in it alone are routed alike."""
    on = graph(rule(Not(condition=ContextEquals(key="a")), "bob"))
    assert decided(on, packet("alice", text="a")) == decided(on, packet("alice", text="b"))
