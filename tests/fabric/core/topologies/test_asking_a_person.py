"""A tool that is there to ask a person: the answer is its result, and silence is an error of its call (docs/specification/topologies.md; S1 human gates fail closed)."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.events.commands import CallTool, Command
from fabric.core.events.inputs import ToolFinished
from fabric.core.texts.forms import InputRequest
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import Answer, asks, call, fails, summary
from tests.fabric.core.topologies.fabrics import graph, rule
from tests.fabric.core.topologies.graph.test_turns import SAYS, TWO, spoken

FORM = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
FAILED = {"kind": "outcome_is", "outcome": "fail"}
DAY_S = 86_400


def asking(server: str = "") -> Answer:
    """A tool that asks a person, by itself or as its server does."""
    request = InputRequest(server=server, message="Approve the plan?", schema=FORM)

    def result(c: Command) -> ToolFinished:
        assert isinstance(c, CallTool)
        if c.answers:
            return ToolFinished(command_id=c.command_id, attempt=c.attempt, result={"answer": "Approve"})
        return ToolFinished(
            command_id=c.command_id, attempt=c.attempt, result=None, error="a person is asked", requested=request
        )

    return Answer(result, 0.1)


def asked(server: str = "") -> World:
    """A run in batch whose first speaker asks a person, and fails where no person answers."""
    fabric = graph(rule(FAILED, "bob"), topology=TWO, tools=("look",), agents={"alice": {"tools": ["look"]}})
    script: dict[str, Any] = {
        **SAYS,
        "alice": [asks(call()), fails(Cause.TOOL_CONSTRAINT, "no answer came")],
        "look": asking(server),
    }
    return World(fabric, script, tier=Tier.BATCH).start().go()


def test_the_review_is_the_reason_and_says_what_silence_does():
    world = asked()
    shown = world.content_of(ev.ReviewOpened)[0]
    assert shown["message"] == "Approve the plan?"
    assert shown["expiry"] == "no one answered: the call gets an error, and the run continues"
    assert shown["edit"] == "look is called once more, and the agent gets your answer"


def test_no_answer_is_a_failure_of_the_turn_that_an_edge_leads_on_from():
    world = asked().wait(DAY_S + 1)
    (decided,) = world.of(ev.ReviewDecided)
    assert (decided.verb, decided.system) == ("reject", True)
    (refused,) = world.of(ev.CallRefused)
    assert refused.problem == "no one answered in time"
    assert spoken(world) == ["alice", "bob"]
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize(("server", "by"), [("hotel", "no one answered in time"), ("", "bob rejected it")])
def test_a_rejection_and_what_a_server_asks_in_vain_ends_the_run(server, by):
    world = asked(server)
    if server:
        world.wait(DAY_S + 1)
    else:
        world.decide("reject", message="No.")
        world.go()
    assert world.end.state is RunState.ABORTED
    assert world.end.reason.startswith(by)


def test_the_answer_is_the_calls_result():
    fabric = graph(tools=("look",), agents={"alice": {"tools": ["look"]}})
    script: dict[str, Any] = {**SAYS, "alice": [asks(call()), summary("Done.")], "look": asking()}
    world = World(fabric, script, tier=Tier.BATCH).start().go()
    world.decide("edit", edited={"answer": "Approve"})
    world.go()
    assert world.content_of(ev.ToolAnswered)[-1]["result"] == {"answer": "Approve"}
    assert world.end.state is RunState.COMPLETED
