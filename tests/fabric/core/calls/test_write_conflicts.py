"""Calls of one answer that write the same key of a memory (docs/specification/agent-step.md): refused before any effect, unless they wait for one another or the last write wins."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from tests.fabric.core.recollections import DELETE, READ, WRITE, Shelf, delete, read, remembering, started, write
from tests.fabric.core.scripts import asks, call, say, summary

STEP = "fan_out.0.e0.r0"
SCOPES = pytest.mark.parametrize("scope", ["run", "fabric"])
NOTES = {f"memory_{verb}_{name}" for verb in ("write", "read", "delete") for name in ("notes", "drafts")}


def ref(to: str) -> JSON:
    return {"$ref": to}


def ran(worker: Any, *, scope: str = "fabric", shelf: Shelf | None = None, plans: bool = False, memory: JSON = None):
    """A run of a worker that has two memories, notes and drafts."""
    tree = remembering(scope, memory=memory).model_dump(mode="json")
    tree["memories"].append({"name": "drafts", "scope": scope})
    worker_of = tree["agents"][0]
    worker_of["tools"] = sorted(NOTES)
    if plans:
        worker_of["calls"] = "planned"
    world, shelf = started(FabricSpec.model_validate(tree), worker, shelf)
    return world.go()


def refused(world) -> dict[str, ev.CallRefused]:
    return {fact.call_id: fact for fact in world.of(ev.CallRefused)}


def at(world, cls: Any, call_id: str) -> int:
    return next(e.at for e in world.events if isinstance(e.fact, cls) and e.fact.call_id == call_id)


def sent(world) -> list[str]:
    return [fact.call_id for fact in world.of(ev.CallIssued) if fact.call == "tool"]


@SCOPES
@pytest.mark.parametrize(
    "second",
    [
        call(WRITE, "b", key="k", value=2),
        call(WRITE, "b", key="k", value=1),
        call(DELETE, "b", key="k"),
        call(WRITE, "b", key="k", value=2, version=0),
    ],
)
def test_two_calls_of_one_answer_that_write_one_key_are_both_refused_before_any_effect(scope, second):
    world = ran([asks(write("k", 1, "a"), second), summary()], scope=scope)
    assert world.end.state is RunState.COMPLETED
    assert (sent(world), world.of(ev.MutationIntended)) == ([], [])
    said = "calls {} and {} both write the key 'k' of the memory 'notes', and neither waits for the other"
    found = refused(world)
    assert found["a"].problem.startswith(said.format("'a'", "'b'"))
    assert found["b"].problem.startswith(said.format("'b'", "'a'"))
    assert {(fact.cause, fact.correction, fact.mechanism) for fact in found.values()} == {
        (Cause.WRITE_CONFLICT, True, "agent_loop")
    }
    assert world.run.steps[STEP].corrections == 1
    told = [message for message in world.requests[1].messages if message.role == "tool"]
    assert [message.call_id for message in told] == ["a", "b"]
    assert all("both write the key" in message.text for message in told)


@SCOPES
def test_of_a_wave_only_those_that_conflict_are_refused(scope):
    wave = asks(
        write("k", 1, "a"),
        write("other", 2, "b"),
        read("k", "c"),
        call("memory_write_drafts", "d", key="k", value=3),
        delete("k"),
    )
    world = ran([wave, summary()], scope=scope)
    assert sent(world) == ["b", "c", "d"]
    assert sorted(refused(world)) == ["a", "delete-k"]


@SCOPES
def test_a_call_that_waits_for_the_other_may_write_what_that_wrote(scope):
    """The second one names the version that the first one made."""
    wave = asks(write("k", 1, "a"), call(WRITE, "b", key="k", value=2, version=ref("calls.a.result.version")))
    world = ran([wave, summary()], scope=scope)
    assert (sent(world), refused(world)) == (["a", "b"], {})


@SCOPES
def test_waiting_by_way_of_a_third_call_is_waiting(scope):
    wave = asks(
        write("k", 1, "a"),
        call(READ, "b", key=ref("calls.a.result.key")),
        call(WRITE, "c", key="k", value=ref("calls.b.result.data")),
    )
    world = ran([wave, summary()], scope=scope)
    assert (sent(world), refused(world)) == (["a", "b", "c"], {})


@SCOPES
def test_two_that_wait_for_the_same_call_do_not_wait_for_each_other(scope):
    """Their key is known from the beginning, so nothing has to run before they are refused."""
    wave = asks(
        read("k", "a"),
        call(WRITE, "b", key="k", value=ref("calls.a.result")),
        call(WRITE, "c", key="k", value=[ref("calls.a.result")]),
    )
    world = ran([wave, summary()], scope=scope)
    assert (sent(world), sorted(refused(world))) == (["a"], ["b", "c"])
    assert at(world, ev.CallRefused, "b") == at(world, ev.CallRefused, "c") == at(world, ev.CallIssued, "a")


@SCOPES
def test_a_key_that_is_known_late_is_held_against_what_was_written_meanwhile(scope):
    wave = asks(
        write("name", "k", "seed"),
        write("k", 1, "a"),
        call(READ, "b", key=ref("calls.seed.result.key")),
        call(WRITE, "c", key=ref("calls.b.result.data"), value=2),
    )
    world = ran([wave, summary()], scope=scope)
    assert sent(world) == ["seed", "a", "b"]
    assert list(refused(world)) == ["c"]
    assert "calls 'c' and 'a' both write the key 'k'" in refused(world)["c"].problem
    assert world.of(ev.CallResolved)[-1].call_id == "c"


@SCOPES
def test_keys_that_are_known_at_the_same_time_are_held_against_each_other_before_either_is_written(scope):
    wave = asks(
        write("name", "k", "seed"),
        call(READ, "a", key=ref("calls.seed.result.key")),
        call(WRITE, "b", key=ref("calls.a.result.data"), value=1),
        call(DELETE, "c", key=ref("calls.a.result.data")),
    )
    world = ran([wave, summary()], scope=scope)
    assert sent(world) == ["seed", "a"]
    assert {(call_id, fact.cause) for call_id, fact in refused(world).items()} == {
        ("b", Cause.WRITE_CONFLICT),
        ("c", Cause.WRITE_CONFLICT),
    }
    assert world.run.steps[STEP].corrections == 1


def planned(*calls: JSON) -> Any:
    return say(json.dumps({"calls": list(calls), "output": None}))


def one(call_id: str, tool: str, when: str = "", **args: JSON) -> JSON:
    return {"id": call_id, "tool": tool, "args": args} | ({"when": when} if when else {})


@SCOPES
def test_branches_of_a_plan_may_write_the_same_key_for_only_one_of_them_is_taken(scope):
    wave = planned(
        one("a", READ, key="k"),
        one("b", WRITE, "calls.a.result.found", key="k", value=1),
        one("c", WRITE, "!calls.a.result.found", key="k", value=2),
    )
    world = ran([wave, summary()], scope=scope, plans=True)
    assert (sent(world), refused(world)) == (["a", "c"], {})
    assert [fact.call_id for fact in world.of(ev.CallSkipped)] == ["b"]


@SCOPES
def test_branches_that_are_both_taken_conflict(scope):
    wave = planned(
        one("a", READ, key="k"),
        one("b", WRITE, "!calls.a.result.found", key="k", value=1),
        one("c", WRITE, "calls.a.error == null", key="k", value=2),
    )
    world = ran([wave, summary()], scope=scope, plans=True)
    assert (sent(world), sorted(refused(world))) == (["a"], ["b", "c"])


@SCOPES
def test_a_call_that_is_not_made_conflicts_with_none(scope):
    """One has no key that may be, one an id that stands for two calls, one was made in an earlier turn."""
    wave = asks(
        write("k", 1, "a"),
        call(WRITE, "b", key="k"),
        call(WRITE, "twin", key="k", value=2),
        call(WRITE, "twin", key="k", value=3),
    )
    lacking = {WRITE: lambda args: [] if "value" in args else ["value: is missing"]}
    tree = remembering(scope)
    world, _ = started(tree, [wave, asks(write("k", 1, "a"), write("k", 4, "d")), summary()], validators=lacking)
    world.go()
    assert sent(world) == ["a"]
    assert sorted(refused(world)) == ["b", "call-1-4", "call-2-1", "d", "twin"]


@SCOPES
def test_each_answer_is_a_wave_of_its_own(scope):
    world = ran([asks(write("k", 1, "a")), asks(write("k", 2, "b")), summary()], scope=scope)
    assert (sent(world), refused(world)) == (["a", "b"], {})


# -- the last write wins -----------------------------------------------------------------------------------------------

LAST = {"conflicts": "last_write_wins"}


class Slow(Shelf):
    """The first call that it is asked takes ten seconds."""

    def answer(self, command: Any) -> Any:
        said = super().answer(command)
        return said.after(10) if len(self.asked) == 1 else said


def test_where_the_last_write_wins_the_answers_order_decides_and_not_who_comes_back_first():
    shelf = Slow()
    wave = asks(write("k", 1, "a"), write("other", 2, "b"), write("k", 3, "c"))
    world = ran([wave, summary()], shelf=shelf, memory=LAST)
    assert refused(world) == {}
    assert at(world, ev.CallIssued, "b") == at(world, ev.CallIssued, "a")
    assert at(world, ev.CallIssued, "c") == at(world, ev.ToolAnswered, "a") > at(world, ev.ToolAnswered, "b")
    assert shelf.stands() == {"k": (2, 3), "other": (1, 2)}
    (answered, *_) = world.of(ev.ModelAnswered)
    assert [proposed.after for proposed in answered.calls] == [(), (), ("a",)]


def test_a_key_that_is_not_known_yet_may_be_any():
    """Each later call on that memory waits for it, whatever it comes to; another memory's does not."""
    shelf = Slow()
    wave = asks(
        write("name", "k", "seed"),
        call(READ, "a", key=ref("calls.seed.result.key")),
        call(WRITE, "b", key=ref("calls.a.result.data"), value=1),
        write("k", 2, "c"),
        call("memory_write_drafts", "d", key="k", value=3),
    )
    world = ran([wave, summary()], shelf=shelf, memory=LAST)
    assert refused(world) == {}
    assert sent(world) == ["seed", "d", "a", "b", "c"]
    assert shelf.stands()["k"] == (2, 2)


def test_one_that_fails_lets_the_next_write():
    """They are put in order, and refer to nothing of each other."""
    wave = asks(call(WRITE, "a", key="k", value=1, version=7), write("k", 2, "b"))
    world = ran([wave, summary()], memory=LAST)
    assert [(fact.call_id, fact.error) for fact in world.of(ev.ToolAnswered)] == [("a", True), ("b", False)]


@SCOPES
def test_a_deletion_is_a_write_there_too(scope):
    world = ran([asks(write("k", 1, "a"), delete("k"), read("k", "c")), summary()], scope=scope, memory=LAST)
    assert refused(world) == {}
    assert [fact.call_id for fact in world.of(ev.ToolAnswered) if not fact.error] == ["a", "c", "delete-k"]
