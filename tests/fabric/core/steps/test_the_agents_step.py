"""The agent's step, sentence by sentence (docs/specification/agent-step.md; S2): each sentence stands above the test that holds the engine to it.

The rest, from call ids on, is in ``test_the_agents_answers.py``. Write conflicts, rules of approval, replaced calls, references and plans have files of
their own, which go further; so have providers, which stream.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import ToolCall
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.recollections import remembering, started, write
from tests.fabric.core.scripts import asks, call, fails, gives, say, summary

STEP = "fan_out.0.e0.r0"
OUTPUT = {"text": "Found it.", "citations": []}
NO = gives(error="no such page")


def planning(**fields: JSON) -> FabricSpec:
    tree = lone(tools=("look", "find"), **fields).model_dump(mode="json")
    tree["agents"][0]["calls"] = "planned"
    return FabricSpec.model_validate(tree)


def plans(*calls: JSON, output: JSON = None) -> Any:
    return say(json.dumps({"calls": list(calls), "output": output}))


def one(call_id: str, tool: str = "look", when: str = "", **args: JSON) -> JSON:
    return {"id": call_id, "tool": tool, "args": args} | ({"when": when} if when else {})


def ref(to: str) -> JSON:
    return {"$ref": to}


def two(**fields: JSON) -> FabricSpec:
    return lone(tools=("look", "find"), **fields)


def refused(world: World) -> list[tuple[str, Cause, bool]]:
    return [(fact.call_id, fact.cause, fact.correction) for fact in world.of(ev.CallRefused)]


def corrections(world: World) -> int:
    return world.run.steps[STEP].corrections


def at(world: World, cls: Any, call_id: str) -> int:
    return next(event.at for event in world.events if isinstance(event.fact, cls) and event.fact.call_id == call_id)


def results(world: World, request: int) -> list[tuple[str, str]]:
    return [(message.call_id, message.text) for message in world.requests[request].messages if message.role == "tool"]


# -- "Requests until `output` is not null." --------------------------------------------------------------------------


def test_requests_until_output_is_not_null():
    """And each further request is made with what the calls of the one before brought."""
    world = ran(planning(), {"worker": [plans(one("a")), plans(one("b", "find")), plans(output=OUTPUT)]})
    assert world.end.state is RunState.COMPLETED
    assert [len(results(world, n)) for n in range(3)] == [0, 1, 2]
    assert world.outcome["text"] == "Found it."


# -- "Every call whose dependencies are met may run, in parallel ..." ------------------------------------------------


def test_every_call_whose_dependencies_are_met_runs_in_parallel():
    world = ran(two(), {"worker": [asks(call(call_id="a"), call(call_id="b"), call("find", "c")), summary()]})
    assert len({at(world, ev.CallIssued, call_id) for call_id in "abc"}) == 1


def test_after_confirmation_if_it_needs_one():
    """Only calls that are ready to run are put to a person."""
    tree = two().model_dump(mode="json")
    tree["tools"][1]["effect"] = "irreversible"
    wave = asks(call("find", "b", of=ref("calls.a.result")), call(call_id="a"))
    blocked = ran(FabricSpec.model_validate(tree), {"worker": [wave, summary()]})
    assert blocked.of(ev.ReviewOpened) == [], "what refers to a later call can never run"
    wave = asks(call(call_id="a"), call("find", "b", of=ref("calls.a.result")))
    world = ran(FabricSpec.model_validate(tree), {"worker": [wave, summary()]})
    assert world.content_of(ev.ReviewOpened)[0]["payload"] == {"of": "a result"}
    assert [name for name, _ in world.executed] == ["look"]


def test_each_completion_may_unblock_others():
    """While the rest is still out."""
    wave = asks(call(call_id="slow"), call("find", "quick"), call("find", "then", of=ref("calls.quick.result")))
    world = ran(two(), {"worker": [wave, summary()], "look": gives().after(20)})
    assert at(world, ev.CallIssued, "then") == at(world, ev.ToolAnswered, "quick") < at(world, ev.ToolAnswered, "slow")


# -- "References to earlier results are {"$ref": "calls.<id>.result.<path>"}" ----------------------------------------


def test_references_go_to_earlier_results_by_their_path():
    wave = asks(call(call_id="a"), call("find", "b", of=ref("calls.a.result.rows.0.id")))
    world = ran(two(), {"worker": [wave, summary()], "look": gives({"rows": [{"id": 7}]})})
    assert world.executed[-1] == ("find", {"of": 7})


# -- "A plan is JSON calls with `$ref` and an optional `when` in CEL" ------------------------------------------------


def test_a_plan_is_json_calls_with_references_and_conditions():
    wave = plans(
        one("a"),
        one("b", "find", "calls.a.result.n > 3", of=ref("calls.a.result.n")),
        one("c", "find", "calls.a.result.n <= 3"),
    )
    world = ran(planning(), {"worker": [wave, summary()], "look": gives({"n": 4})})
    assert world.executed == [("look", {}), ("find", {"of": 4})]
    assert [fact.call_id for fact in world.of(ev.CallSkipped)] == ["c"]


# -- "An unhappy path is a `when` on a returned error, which is data, not an exception." -----------------------------


@pytest.mark.parametrize(
    "unhappy",
    [
        one("else", "find", "calls.a.error != null"),
        one("else", "find", "calls.a.error != null", why=ref("calls.a.error.message")),
        one("else", "find", why=ref("calls.a.error.message")),
    ],
)
def test_an_error_that_the_plan_asks_about_is_data_and_costs_nothing(unhappy):
    happy = one("use", "find", "calls.a.error == null", of=ref("calls.a.result.n"))
    world = ran(planning(), {"worker": [plans(one("a"), happy, unhappy), summary()], "look": NO})
    assert world.executed[-1] == ("find", {"why": "no such page"} if unhappy["args"] else {})
    assert ([fact.call_id for fact in world.of(ev.CallSkipped)], refused(world)) == (["use"], [])
    assert world.of(ev.ToolAnswered)[0].handled
    assert corrections(world) == 0


def test_an_error_that_is_not_asked_about_is_an_exception():
    world = ran(planning(), {"worker": [plans(one("a"), one("b", "find", of=1)), summary()], "look": NO})
    assert not world.of(ev.ToolAnswered)[0].handled
    assert corrections(world) == 1


def test_an_error_that_is_asked_about_again_and_again_still_comes_to_an_end():
    """It costs no correction, and the third of one kind stops the agent as ever."""
    wave = [plans(one(f"a{n}", page=n), one(f"b{n}", "find", f"calls.a{n}.error != null", page=n)) for n in range(9)]
    world = ran(planning(), {"worker": wave, "look": NO})
    assert corrections(world) == 0
    assert world.of(ev.ReactionDecided)[0].cause.cause is Cause.REPEATED_FAILURE


# -- "Two calls that write the same state path in one wave are refused unless the fabric opts into last-write-wins." -


@pytest.mark.parametrize(("memory", "written"), [({}, []), ({"conflicts": "last_write_wins"}, ["a", "b"])])
def test_two_calls_that_write_the_same_path_are_refused_unless_the_last_write_wins(memory, written):
    wave = asks(write("k", 1, "a"), write("k", 2, "b"))
    world, shelf = started(remembering("fabric", memory=memory), [wave, summary()])
    world.go()
    assert [fact.call_id for fact in world.of(ev.MutationIntended)] == written
    assert shelf.stands() == ({"k": (2, 2)} if written else {})


# -- "Structural errors (schema, types, references) are caught before execution, runtime errors during it" -----------


@pytest.mark.parametrize(
    ("wrong", "cause"),
    [
        (call(call_id="x", q=3), Cause.SCHEMA_INVALID),
        (ToolCall(call_id="x", tool="look", args=[1]), Cause.SCHEMA_INVALID),
        (call(call_id="x", q=ref("calls.nobody.result")), Cause.TOOL_CONSTRAINT),
        (call("teleport", "x"), Cause.TOOL_CONSTRAINT),
    ],
)
def test_structural_errors_are_caught_before_execution(wrong, cause):
    wants = {"look": lambda args: [] if isinstance(args.get("q"), str) else ["q: a string is wanted"]}
    world = ran(two(), {"worker": [asks(wrong), summary()]}, validators=wants)
    assert (refused(world), world.executed) == ([("x", cause, True)], [])


def test_runtime_errors_are_caught_during_execution():
    world = ran(two(), {"worker": [asks(call(call_id="x")), summary()], "look": NO})
    (answered,) = world.of(ev.ToolAnswered)
    assert (answered.call_id, answered.error, len(world.executed)) == ("x", True, 1)


# -- "Each becomes an error message {call, error} appended at the end of the wave." ----------------------------------


def test_each_error_is_told_with_its_call_at_the_end_of_the_wave():
    """Nothing is asked before the slowest call is back; then each call has its answer, under its id, in the answer's order."""
    wave = asks(call("teleport", "x"), call(call_id="slow"), call("find", "y"))
    script = {"worker": [wave, summary()], "look": gives("late").after(20), "find": NO}
    world = ran(two(), script)
    assert at(world, ev.CallRefused, "x") < at(world, ev.ToolAnswered, "slow")
    told = results(world, 1)
    assert [call_id for call_id, _ in told] == ["x", "slow", "y"]
    assert "there is no tool 'teleport'" in told[0][1]
    assert "no such page" in told[2][1]
    (assistant,) = [message for message in world.requests[1].messages if message.role == "assistant"]
    assert [(made.call_id, made.tool) for made in assistant.calls] == [
        ("x", "teleport"),
        ("slow", "look"),
        ("y", "find"),
    ]
    asked = [event.at for event in world.events if isinstance(event.fact, ev.CallIssued) and event.fact.call == "model"]
    assert asked[1] == at(world, ev.ToolAnswered, "slow")


# -- "Each wave with an error costs one of `max_corrections` (3 a step); when spent: the schema/grounding row." ------


def test_each_wave_with_an_error_costs_one_correction():
    """However many errors it has, and of whichever kind."""
    wave = asks(call("teleport"), call(q=ref("calls.nobody.result")), call("find"))
    world = ran(two(), {"worker": [wave, summary()], "find": NO})
    assert corrections(world) == 1


def test_three_are_allowed_and_the_fourth_is_the_schema_row():
    """Errors of tools count as those of answers do."""
    waves = [asks(call("teleport", page=n)) for n in range(4)]
    assert ran(two(), {"worker": [*waves[:3], summary()]}).end.state is RunState.COMPLETED
    world = ran(two(), {"worker": [*waves, summary()]})
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == ("schema_grounding_fail", Cause.CORRECTIONS_SPENT)
    assert (decided.cause.evidence.limit, decided.cause.evidence.observed) == (3, 4)
    assert len(world.requests) == 4


# -- "A call whose dependency failed gets `dependency_failed`." ------------------------------------------------------


@pytest.mark.parametrize(
    "second",
    [
        one("b", "find", of=ref("calls.a.result")),
        one("b", "find", "calls.a.result.n > 3"),
        one("b", "find", "calls.a.result.n > 3", of=ref("calls.a.result.n")),
    ],
)
def test_a_call_whose_dependency_failed_gets_dependency_failed(second):
    """By its arguments, or by a condition that has no value for want of the result; and what depends on that falls with it."""
    wave = plans(one("a"), second, one("c", "find", of=ref("calls.b.result")))
    world = ran(planning(), {"worker": [wave, summary()], "look": NO})
    assert refused(world) == [("b", Cause.DEPENDENCY_FAILED, False), ("c", Cause.DEPENDENCY_FAILED, False)]
    assert [name for name, _ in world.executed] == ["look"]


# -- "Output together with calls: calls drain first; if one of them fails the output is not accepted ..." ------------


@pytest.mark.parametrize("planned", [False, True])
def test_calls_drain_before_an_output_that_came_with_them_is_accepted(planned):
    fabric, answer = (
        (planning(), plans(one("a"), output=OUTPUT))
        if planned
        else (two(), asks(call(call_id="a"), text=json.dumps(OUTPUT)))
    )
    world = ran(fabric, {"worker": answer, "look": gives().after(20)})
    assert (len(world.requests), world.outcome["text"]) == (1, "Found it.")
    assert world.kinds.index("tool_answered") < world.kinds.index("output_accepted")


@pytest.mark.parametrize(
    "script",
    [
        {"look": NO},
        {"look": fails(Cause.AUTH, "401")},
        {"worker": [asks(call("teleport", "a"), text=json.dumps(OUTPUT)), summary("Again.")]},
    ],
)
def test_if_one_of_them_fails_the_output_is_not_accepted_and_the_loop_goes_on(script):
    """Failed, refused, or never answered: the output stands for nothing."""
    worker = [asks(call(call_id="a"), text=json.dumps(OUTPUT)), summary("Again.")]
    world = ran(two(), {"worker": worker, **script})
    assert world.of(ev.OutputAccepted) == []
    assert world.end.state is not RunState.COMPLETED or world.outcome["text"] == "Again."
