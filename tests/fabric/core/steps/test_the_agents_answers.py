"""The agent's step, sentence by sentence (docs/specification/agent-step.md; S2), from call ids on: what is one call, what is no answer, and what a person says."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, broken, call, say, summary
from tests.fabric.core.steps.test_the_agents_step import corrections, one, planning, plans, ref, refused, results, two

# -- "Same call id and equal JSON arguments: executed once." ----------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "again"),
    [({"n": 1, "s": "e\u0301"}, {"s": "\u00e9", "n": 1.0}), ({"deep": [{"a": None}]}, {"deep": [{"a": None}]})],
)
def test_the_same_call_is_executed_once(first, again):
    """In one answer; in a later one it is another call."""
    pair = asks(call(call_id="a", **first), call(call_id="a", **again))
    assert len(ran(two(), {"worker": [pair, summary()]}).executed) == 1
    world = ran(two(), {"worker": [asks(call(call_id="a", **first)), asks(call(call_id="a", **again)), summary()]})
    assert (len(world.executed), refused(world)) == (2, [])


# -- "Same id, other arguments: error before any effect." ------------------------------------------------------------


@pytest.mark.parametrize(
    "other", [call(call_id="a", q="y"), call("find", "a", q="x"), call(call_id="a"), call(call_id="a", q=None)]
)
def test_the_same_id_with_other_arguments_is_an_error_before_any_effect(other):
    world = ran(two(), {"worker": [asks(call(call_id="a", q="x"), other), summary()]})
    assert world.executed == []
    assert {(cause, costs) for _, cause, costs in refused(world)} == {(Cause.DUPLICATE_CALL, True)}


def test_the_same_id_in_a_later_answer_is_another_call():
    first = asks(call(call_id="a"), call(call_id="b", q=1), call("find", "c", of=ref("calls.a.result")))
    second = asks(call("find", "c", of=ref("calls.b.result")))
    world = ran(two(), {"worker": [first, second, summary()]})
    assert (refused(world), len(world.executed)) == ([], 4)


# -- "An empty call id: the engine gives one; of a plan that the agent writes itself it is an error." ----------------


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_a_plan_names_each_of_its_calls(empty):
    planned = ran(planning(), {"worker": [plans(one(empty)), summary()]})
    assert (planned.executed, corrections(planned)) == ([], 1)


# -- "An empty answer is not an output." -----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [say(""), say(" \n\t"), say("{}"), plans()])
def test_an_empty_answer_is_no_output(answer):
    world = ran(planning(), {"worker": [answer, summary("Now.")]})
    assert (world.of(ev.ModelAnswered)[0].verdict, world.outcome["text"]) == ("rejected", "Now.")


# -- "Invalid or cut tool JSON, an unknown tool (the answer names those offered) and an empty or off-schema answer ..."


@pytest.mark.parametrize(
    ("answer", "kept"),
    [
        (broken(raw='{"q": '), '{"q": '),
        (broken(raw="q=x"), "q=x"),
        (say("", ToolCall(call_id="a", tool="look", args=None, raw_args='{"q": "x'), finish="length"), '{"q": "x'),
        (asks(call("teleport", q="there")), "there"),
        (say(""), ""),
        (say('{"text": 3}'), '{"text": 3}'),
        (say('{"text": "cut off', finish="length"), '{"text": "cut off'),
        (say("<html>"), "<html>"),
    ],
)
def test_each_of_these_costs_a_correction_and_the_raw_text_is_kept(answer, kept):
    world = ran(two(), {"worker": [answer, summary()]})
    assert (corrections(world), world.executed, world.end.state) == (1, [], RunState.COMPLETED)
    assert kept in json.dumps(world.content_of(ev.ModelAnswered)[0], ensure_ascii=False).replace('\\"', '"')


def test_an_unknown_tool_is_answered_with_those_that_are_offered():
    world = ran(two(), {"worker": [asks(call("teleport")), summary()]})
    assert "there is no tool 'teleport'; offered are: look, find" in results(world, 1)[0][1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"calls": [one("a")], "output": {"citations": []}}, "text is missing"),
        ({"calls": [one("a"), {"id": "b"}], "output": None}, "calls.1.tool: a text is wanted"),
    ],
)
def test_of_a_plan_that_is_wrong_in_part_nothing_is_executed(wrong, said):
    """Its structure is looked at as a whole, also beside calls of the endpoint."""
    world = ran(planning(), {"worker": [say(json.dumps(wrong), call("find", "n")), summary()]})
    assert (world.executed, corrections(world)) == ([], 1)
    assert said in world.requests[1].messages[-1].text


# -- "A call whose approval rule cannot be evaluated (bad JSON, NaN) needs approval." --------------------------------


@pytest.mark.parametrize("args", [{"sum": float("nan")}, {"sum": "much"}, {}, {"sum": None}])
def test_a_call_whose_rule_cannot_be_evaluated_needs_approval(args):
    tree = two().model_dump(mode="json")
    tree["tools"][0]["approve_when"] = "args.sum > 100.0"
    world = ran(FabricSpec.model_validate(tree), {"worker": [asks(call(call_id="a", **args)), summary()]})
    assert (world.review.fact.item, world.executed) == ("pre_action", [])
    world.decide("approve").go()
    assert len(world.executed) == 1


# -- S2, "Human-in-the-Loop": approval, correction, replacement ------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "executed"),
    [
        ({"verb": "approve"}, [("look", {"q": "x"})]),
        ({"verb": "edit", "edited": {"q": "y"}}, [("look", {"q": "y"})]),
        ({"verb": "edit", "tool": "find", "edited": {"q": "z"}}, [("find", {"q": "z"})]),
        ({"verb": "respond", "message": "I know it."}, []),
    ],
)
def test_a_person_approves_corrects_replaces_or_answers(answer, executed):
    tree = two().model_dump(mode="json")
    tree["tools"][0]["approve_when"] = "true"
    world = ran(FabricSpec.model_validate(tree), {"worker": [asks(call(call_id="a", q="x")), summary()]})
    world.decide(**answer).go()
    assert (world.end.state, world.executed) == (RunState.COMPLETED, executed)
    assert [call_id for call_id, _ in results(world, 1)] == ["a"]
