"""Calls that use what other calls gave (docs/specification/agent-step.md, S2): they wait for it, get it, and fall with it; what is wrong with a reference is told before anything runs."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.calls.proposed import Unresolved, list_references, names_in, resolve_references
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import asks, call, gives, summary

TWO = ("look", "find")
STEP = "fan_out.0.e0.r0"


def ref(to: str) -> dict[str, str]:
    return {"$ref": to}


def refused(world) -> list[str]:
    return [fact.problem for fact in world.of(ev.CallRefused)]


def test_a_call_that_refers_to_another_is_made_with_what_that_brought():
    wave = asks(
        call(call_id="a", q="x"),
        call("find", call_id="b", of=ref("calls.a.result.rows.1.id"), all=[ref("calls.a.result")]),
    )
    found = {"rows": [{"id": 1}, {"id": 7}]}
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives(found)})
    assert world.end.state is RunState.COMPLETED
    assert world.executed == [("look", {"q": "x"}), ("find", {"of": 7, "all": [found]})]
    (known,) = world.of(ev.CallResolved)
    (later,) = [fact for fact in world.of(ev.CallIssued) if fact.target == "find"]
    assert known.args_hash == later.args_hash != known.proposed_hash
    assert world.content_of(ev.CallResolved)[0]["calls"][0]["args"] == {"of": 7, "all": [found]}


def test_what_waits_for_nothing_goes_out_together_and_the_rest_as_soon_as_it_may():
    wave = asks(
        call(call_id="slow", q="s"),
        call(call_id="quick", q="q"),
        call("find", call_id="then", of=ref("calls.quick.result")),
        call("find", call_id="last", of=[ref("calls.slow.result"), ref("calls.then.result")]),
    )
    answers = {"s": gives("S").after(20), "q": gives("Q").after(1)}

    def look(command):
        return answers["s" if command.call_id == "slow" else "q"]

    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": look, "find": gives("F").after(2)})
    assert world.end.state is RunState.COMPLETED
    at = {
        fact.call_id: event.at
        for event in world.events
        if isinstance(fact := event.fact, ev.CallIssued)
        if fact.call_id
    }
    back = {fact.call_id: event.at for event in world.events if isinstance(fact := event.fact, ev.ToolAnswered)}
    assert at["slow"] == at["quick"]
    assert at["then"] == back["quick"] < back["slow"] == at["last"]
    assert world.executed[-1] == ("find", {"of": ["S", "F"]})


def test_a_call_whose_dependency_failed_is_not_made_and_one_correction_is_spent():
    wave = asks(
        call(call_id="a"),
        call("find", call_id="b", of=ref("calls.a.result")),
        call("find", call_id="c", of=ref("calls.b.result")),
    )
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives(error="no such page")})
    assert world.end.state is RunState.COMPLETED
    assert [tool for tool, _ in world.executed] == ["look"]
    assert refused(world) == [
        "it refers to 'a', which brought no result",
        "it refers to 'b', which brought no result",
    ]
    assert {(fact.cause, fact.correction) for fact in world.of(ev.CallRefused)} == {(Cause.DEPENDENCY_FAILED, False)}
    assert world.run.steps[STEP].corrections == 1


def test_an_error_can_be_referred_to_as_data():
    wave = asks(
        call(call_id="a"),
        call(call_id="c"),
        call("find", call_id="b", why=ref("calls.a.error.message"), none=ref("calls.c.error")),
    )

    def look(command):
        return gives(error="no such page") if command.call_id == "a" else gives("there")

    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": look})
    assert world.executed[-1] == ("find", {"why": "no such page", "none": None})


@pytest.mark.parametrize(
    ("wave", "said"),
    [
        (asks(call(call_id="a", of=ref("calls.a.result"))), "it refers to itself ('a')"),
        (
            asks(call(call_id="a", of=ref("calls.b.result")), call(call_id="b")),
            "it refers to 'b', which comes later in the same answer; put that call first",
        ),
        (
            asks(call(call_id="a", of=ref("calls.b.result")), call(call_id="b", of=ref("calls.a.result"))),
            "which comes later in the same answer",
        ),
        (asks(call(call_id="a", of=ref("calls.ghost.result"))), "there is no such call; before it came: none"),
        (asks(call(call_id="a", of=ref("calls.ghost"))), "of: 'calls.ghost' is no reference"),
        (asks(call(call_id="a", of={"deep": [ref("calls.")]})), "of.deep.0: 'calls.' is no reference"),
    ],
)
def test_a_reference_that_cannot_mean_anything_is_told_before_anything_runs(wave, said):
    world = ran(lone(tools=TWO), {"worker": [wave, summary()]})
    assert world.end.state is RunState.COMPLETED
    assert said in refused(world)[0]
    assert world.of(ev.CallRefused)[0].correction
    assert ("a", "look") not in [(fact.call_id, fact.target) for fact in world.of(ev.CallIssued)]
    assert world.run.steps[STEP].corrections == 1


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("calls.a.result.rows", "of: calls.a.result has no 'rows'; it has: row"),
        ("calls.a.result.row.9", "of: calls.a.result.row has no '9'; it is a list of 2"),
        ("calls.a.result.row.0.x", "of: calls.a.result.row.0 has no 'x'; it is a plain value"),
    ],
)
def test_a_path_that_a_result_has_not_is_told_with_what_it_has(to, said):
    wave = asks(call(call_id="a"), call("find", call_id="b", of=ref(to)))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives({"row": [1, 2]})})
    assert refused(world) == [said]
    assert world.run.steps[STEP].corrections == 1


def test_a_later_answer_may_refer_to_an_earlier_one():
    world = ran(
        lone(tools=TWO),
        {"worker": [asks(call(call_id="a")), asks(call("find", call_id="b", of=ref("calls.a.result"))), summary()]},
    )
    assert world.executed[-1] == ("find", {"of": "a result"})


def test_arguments_are_held_against_the_tools_schema_once_they_are_known():
    wants = {"find": lambda args: [] if isinstance(args.get("of"), str) else ["of: a string is wanted"]}
    wave = asks(
        call(call_id="a"),
        call("find", call_id="b", of=ref("calls.a.result.id")),
        call("find", call_id="c", of=ref("calls.a.result.name")),
    )
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives({"id": 4, "name": "x"})}, validators=wants)
    assert refused(world) == ["of: a string is wanted"]
    assert world.executed[-1] == ("find", {"of": "x"})


def test_what_a_reference_brings_may_not_be_larger_than_a_run_keeps():
    big = "x" * 600_000
    wave = asks(call(call_id="a"), call("find", call_id="b", of=[ref("calls.a.result"), ref("calls.a.result")]))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()], "look": gives(big)})
    assert "with what it refers to it has 1,200,0" in refused(world)[0]
    assert [tool for tool, _ in world.executed] == ["look"]


def test_equal_calls_count_as_equal_by_what_they_were_sent_with():
    """Three calls that come to the same arguments by another way are a loop all the same."""
    wave = asks(call(call_id="a"), *(call("find", call_id=f"b{n}", of=ref("calls.a.result")) for n in range(4)))
    world = ran(lone(tools=TWO), {"worker": [wave, summary()]})
    assert [fact.mechanism for fact in world.of(ev.CallRefused)][:1] == ["loop_detector"]


# -- the words themselves ----------------------------------------------------------------------------------------------


def test_what_is_no_reference_of_ours_is_left_alone():
    args = {"schema": {"$ref": "#/defs/a"}, "both": {"$ref": "calls.a.result", "more": 1}, "n": {"$ref": 3}}
    assert list_references(args) == []
    assert resolve_references(args, lambda call_id: {}) == args


def test_references_are_found_wherever_they_stand():
    found = list_references({"a": [{"b": ref("calls.x-1.result.k.0")}], "c": ref("calls.y.error")})
    assert [(one.call_id, one.part, one.path, one.at) for one in found] == [
        ("x-1", "result", ("k", "0"), "a.0.b"),
        ("y", "error", (), "c"),
    ]


@pytest.mark.parametrize("text", ["calls.a", "calls.a.results", "calls..result", "calls.a b.result", "calls.a.result."])
def test_what_is_spelt_wrongly_is_refused(text):
    with pytest.raises(Unresolved, match="is no reference"):
        list_references({"q": ref(text)})


def test_a_condition_names_calls_by_dot_and_by_bracket():
    said = "calls.a.error != null && size(calls['b-1'].result) > 2 || calls[\"c\"].result == my.calls.d"
    assert names_in(said) == ("a", "b-1", "c")
