"""Agents that plan their calls (docs/specification/agent-step.md, S2): calls as JSON in the answer, with references and conditions, until there is an output."""

from __future__ import annotations

import json

import pytest

from fabric.core import events as ev
from fabric.core.calls.proposed import CALLS_MAX, find_plan
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.policies.expressions.invariants import holds
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, gives, say, summary

TWO = ("look", "find")
STEP = "fan_out.0.e0.r0"
OUTPUT = {"text": "Found it.", "citations": []}


def planning(**fields: JSON) -> FabricSpec:
    """``lone``, whose worker plans."""
    tree = lone(tools=TWO, **fields).model_dump(mode="json")
    for agent in tree["agents"]:
        if agent["name"] == "worker":
            agent["calls"] = "planned"
    return FabricSpec.model_validate(tree)


def plans(*calls: JSON, output: JSON = None):
    return say(json.dumps({"calls": list(calls), "output": output}))


def one(call_id: str, tool: str = "look", when: str = "", **args: JSON) -> JSON:
    return {"id": call_id, "tool": tool, "args": args} | ({"when": when} if when else {})


def ref(to: str) -> JSON:
    return {"$ref": to}


def told(world, request: int) -> str:
    return world.requests[request].messages[-1].text


def test_planned_calls_are_made_and_the_output_ends_them():
    world = ran(
        planning(),
        {"worker": [plans(one("a", q="x"), one("b", "find", of=ref("calls.a.result"))), plans(output=OUTPUT)]},
    )
    assert world.end.state is RunState.COMPLETED
    assert world.executed == [("look", {"q": "x"}), ("find", {"of": "a result"})]
    assert len(world.requests) == 2
    assert [m.text for m in world.requests[1].messages if m.role == "tool"] == ["a result", "a result"]


def test_an_output_alone_is_one_too_and_calls_of_the_endpoint_go_beside_planned_ones():
    assert ran(planning(), {"worker": summary()}).end.state is RunState.COMPLETED
    both = say(json.dumps({"calls": [one("a", q="x")], "output": None}), call("find", call_id="n", q="y"))
    world = ran(planning(), {"worker": [both, summary()]})
    assert sorted(world.executed) == [("find", {"q": "y"}), ("look", {"q": "x"})]


def test_calls_drain_before_an_output_that_came_with_them_stands():
    world = ran(planning(), {"worker": plans(one("a"), output=OUTPUT)})
    assert world.end.state is RunState.COMPLETED
    assert (len(world.executed), len(world.requests), len(world.of(ev.OutputAccepted))) == (1, 1, 1)
    world = ran(planning(), {"worker": [plans(one("a"), output=OUTPUT), summary()], "look": gives(error="no")})
    assert (len(world.requests), world.of(ev.OutputAccepted)) == (2, [])


def test_a_branch_is_taken_by_what_a_call_gave_and_the_other_is_left_out():
    happy = one("use", "find", "calls.a.error == null && calls.a.result.n > 3", of=ref("calls.a.result.n"))
    unhappy = one("else", "find", "calls.a.error != null", why=ref("calls.a.error.message"))
    script = {"worker": [plans(one("a"), happy, unhappy), summary()]}
    world = ran(planning(), {**script, "look": gives({"n": 4})})
    assert world.executed == [("look", {}), ("find", {"of": 4})]
    assert [fact.call_id for fact in world.of(ev.CallSkipped)] == ["else"]
    assert "its condition does not hold: calls.a.error != null" in told(world, 1)
    world = ran(planning(), {**script, "look": gives(error="no such page")})
    assert world.executed == [("look", {}), ("find", {"why": "no such page"})]
    assert ([fact.call_id for fact in world.of(ev.CallSkipped)], world.of(ev.CallRefused)) == (["use"], [])
    assert world.run.steps[STEP].corrections == 0, "an error that the plan asks about is data"


def test_what_refers_to_a_call_that_was_left_out_is_left_out_with_it():
    wave = plans(one("a"), one("b", when="calls.a.result == 'other'"), one("c", "find", of=ref("calls.b.result")))
    world = ran(planning(), {"worker": [wave, summary()]})
    assert [fact.call_id for fact in world.of(ev.CallSkipped)] == ["b", "c"]
    assert world.run.steps[STEP].corrections == 0
    assert len(world.executed) == 1


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("calls.a.result >", "when: does not compile"),
        ("calls.a.result", "when: it gave str, not true or false"),
        ("calls.a.result.n == 1", "when: it could not be evaluated"),
        ("calls.ghost.error == null", "it refers to 'ghost', and there is no such call"),
        ("run.tier == 'batch' && calls.a.error == null", "when: names 'run'"),
        ("[1, 2].all(x, x > calls.a.result)", "when: it goes through a list"),
    ],
)
def test_a_condition_without_an_evaluator_is_told_and_the_call_is_not_made(condition, said):
    world = ran(planning(), {"worker": [plans(one("a"), one("b", "find", condition)), summary()]})
    assert said in world.of(ev.CallRefused)[0].problem
    assert world.of(ev.CallRefused)[0].correction
    assert [tool for tool, _ in world.executed] == ["look"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"calls": 3}, "calls: a list of calls is wanted"),
        ({"calls": [], "output": None}, "output is null and there are no calls"),
        ({"calls": ["look"]}, "calls.0: a call is an object with id, tool and args"),
        ({"calls": [{"id": "a"}]}, "calls.0.tool: a text is wanted"),
        ({"calls": [{"tool": "look"}]}, "calls.0.id: a text is wanted"),
        ({"calls": [one("a.b")]}, "calls.0.id: without dots and spaces"),
        ({"calls": [one("a") | {"args": [1]}]}, "calls.0.args: an object is wanted"),
        ({"calls": [one("a") | {"if": "x"}]}, "calls.0.if: a call has id, tool, args and when, and nothing else"),
        ({"calls": [one("a", when="x" * 501)]}, "calls.0.when: a condition in CEL of at most 500 characters"),
        ({"calls": [one("a")] * (CALLS_MAX + 1)}, "calls: there are 1,001, and at most 1,000 are read"),
        ({"output": {"citations": []}}, "text is missing"),
    ],
)
def test_a_plan_that_is_none_is_told_and_costs_a_correction(answer, said):
    world = ran(planning(), {"worker": [say(json.dumps(answer)), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert said in told(world, 1)
    assert world.run.steps[STEP].corrections == 1
    assert world.executed == []


def test_twins_and_unknown_tools_of_a_plan_are_told_as_those_of_an_endpoint_are():
    world = ran(planning(), {"worker": [plans(one("a", q=1), one("a", q=2), one("b", "teleport")), summary()]})
    assert {fact.cause for fact in world.of(ev.CallRefused)} == {Cause.DUPLICATE_CALL, Cause.TOOL_CONSTRAINT}
    assert world.executed == []


def test_who_does_not_plan_answers_as_before():
    """The same words of an agent that does not plan are an answer without a text."""
    world = ran(lone(tools=TWO), {"worker": [plans(one("a")), summary()]})
    assert "text is missing" in told(world, 1)
    assert world.executed == []


def test_only_who_plans_is_told_how():
    assert '"calls": [...]' in ran(planning(), {"worker": summary()}).requests[0].messages[0].text
    request = ran(lone(tools=TWO), {"worker": summary()}).requests[0]
    assert '"calls"' not in request.messages[0].text
    assert request.output_schema is not None
    assert ran(planning(), {"worker": summary()}).requests[0].output_schema is None


def test_an_agent_that_was_stopped_gives_its_output_and_plans_no_more():
    loop = [asks(call(q="x"))] * 6
    world = ran(planning(), {"worker": [*loop[:4], plans(one("late")), summary()]})
    assert ("look", {}) not in world.executed


# -- the words themselves ----------------------------------------------------------------------------------------------


def test_a_condition_without_an_answer_holds_nothing():
    about = {"calls": {"a": {"result": {"n": 1}, "error": None}}}
    assert holds("calls.a.result.n == 1", about) == (True, "")
    assert holds("calls.a.result.n == 2", about) == (False, "")
    found, problem = holds("calls.a.result.x == 1", about)
    assert not found
    assert problem.startswith("it could not be evaluated")


def test_an_object_without_its_keys_is_no_plan():
    assert find_plan({"text": "x"}) is None
