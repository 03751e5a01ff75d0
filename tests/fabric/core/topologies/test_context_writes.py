"""Context variables that others than the speaker's own tool write: a tool's result, and a caller outside (docs/specification/topologies.md; S4)."""

from __future__ import annotations

from typing import Any

from fabric.core import events as ev
from fabric.core.events.commands import Command
from fabric.core.events.inputs import ContextGiven, ToolFinished
from fabric.core.graph.state import Writes
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import Answer, asks, call, fails, summary
from tests.fabric.core.topologies.fabrics import graph, rule, talks
from tests.fabric.core.topologies.graph.test_turns import SAYS, TWO, sets, spoken, using

DONE = {"kind": "context_equals", "key": "done", "value": True}


def given(world: World, number: int = 1, delete: tuple[str, ...] = (), **values: object) -> World:
    world.put(ContextGiven(input_id=f"context:{number}", actor="ana", set=values, delete=delete))
    return world


def contexts(world: World) -> list[object]:
    return [told["context"] for told in world.content_of(ev.SpeakerChosen)]


def ends(**more: object) -> dict[str, object]:
    return {"outcome": "success", "failure_class": None, **more}


# -- tools -------------------------------------------------------------------------------------------------------------


def writing(**values: object) -> Answer:
    """A tool's result that writes variables."""

    def result(c: Command) -> ToolFinished:
        writes = Writes(set=values, delete=("open",))
        return ToolFinished(command_id=c.command_id, attempt=c.attempt, result="seen", writes=writes)

    return Answer(result, 0.1)


LOOKS = {"tools": ("look",), "agents": {"alice": {"tools": ["look"]}}}


def test_what_a_tools_result_writes_routes_the_turn_that_called_it():
    script = {**SAYS, "alice": [asks(call()), summary("Done.")], "look": writing(done=True)}
    world = ran(graph(rule(DONE, "bob"), topology={"context": {"open": 1}, **TWO}, **LOOKS), script)
    assert spoken(world) == ["alice", "bob"]
    assert contexts(world)[0] == ends(done=True)
    (answered,), (content,) = world.of(ev.ToolAnswered), world.content_of(ev.ToolAnswered)
    assert (answered.writes, content["context"]) == (2, {"set": {"done": True}, "delete": ["open"]})


def test_it_is_lost_with_the_turn_that_called_it():
    failed = {"kind": "outcome_is", "outcome": "fail"}
    script = {**SAYS, "alice": [asks(call()), fails(Cause.AUTH, "the key was refused")], "look": writing(done=True)}
    world = ran(graph(rule(failed, "bob"), **LOOKS), script)
    assert contexts(world)[0] == {"outcome": "fail", "failure_class": "deterministic"}


# -- a caller outside --------------------------------------------------------------------------------------------------


def test_a_write_from_outside_flags_the_turn_in_flight():
    world = World(graph(rule(DONE, "bob"), topology=TWO), talks("alice", "bob")).start().go(until_s=0.5)
    given(world, done=True).go()
    assert spoken(world) == ["alice", "bob"]
    (fact,) = world.of(ev.ContextWritten)
    assert (fact.actor, fact.writes, fact.in_turn, fact.after) == ("ana", 1, True, 0)
    assert contexts(world)[0] == ends(done=True)
    assert world.run.talk.written == ()


def test_it_stands_though_the_turn_in_flight_is_lost():
    failed = {"kind": "all_of", "conditions": [{"kind": "outcome_is", "outcome": "fail"}, DONE]}
    script = {**SAYS, "alice": [asks(sets(half=True)).after(1), fails(Cause.AUTH, "the key was refused").after(1)]}
    world = World(graph(rule(failed, "bob"), agents=using("alice")), script).start().go(until_s=1.5)
    given(world, done=True).go()
    assert spoken(world) == ["alice", "bob"]
    assert contexts(world)[0] == {"done": True, "outcome": "fail", "failure_class": "deterministic"}


def test_of_two_who_write_the_same_the_later_stands():
    def after(*inputs: float) -> object:
        script: dict[str, Any] = {**SAYS, "alice": [asks(sets(done=False, mine=1)).after(2), summary("Done.").after(2)]}
        world = World(graph(agents=using("alice")), script).start().go(until_s=inputs[0])
        return contexts(given(world, done=True, delete=("mine",)).go())[0]

    assert after(1.0) == ends(done=False, mine=1)
    assert after(3.0) == ends(done=True)


def test_after_the_last_turn_it_changes_nothing():
    script = {**SAYS, "alice": summary("Said.").after(1), "editor": summary("All.").after(20)}
    world = World(graph(topology={"aggregator": "editor"}), script).start().go(until_s=5)
    given(world, done=True).go()
    (ignored,) = [fact for fact in world.of(ev.InputIgnored) if fact.input_kind == "context_given"]
    assert ignored.reason == "its conversation is closed (done); no agent speaks any more"
    assert (world.of(ev.ContextWritten), world.end.state) == ([], RunState.COMPLETED)


def test_a_conversation_that_is_closed_from_outside_keeps_it():
    fabric = graph(topology={"ttl_s": 3, **TWO})
    world = World(fabric, {**SAYS, "alice": summary("Late.").after(20)}).start().go(until_s=1)
    given(world, done=True).go()
    assert contexts(world)[-1] == {"done": True}
