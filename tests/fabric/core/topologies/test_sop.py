"""SOP: a fixed procedure of roles, one after the other, each with the artifacts of those before it (docs/specification/topologies.md)."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.harness import ran
from tests.fabric.core.scripts import fails, say, summary
from tests.fabric.core.topologies.fabrics import duty, sop

CHECK = (duty("clerk", "Read the contract"), duty("lawyer", "Judge the risks"), duty("clerk", "Write the letter"))
SAYS = {"clerk": summary("A clerk's work."), "lawyer": summary("A lawyer's work.")}


def test_the_items_are_done_in_their_order_one_at_a_time():
    world = ran(sop(*CHECK), SAYS)
    assert world.end.state is RunState.COMPLETED
    assert [(fact.branch, fact.agent, fact.brief, fact.hears) for fact in world.of(ev.TurnOpened)] == [
        (0, "clerk", 0, ()),
        (1, "lawyer", 1, (0,)),
        (2, "clerk", 2, (0, 1)),
    ]
    assert world.elapsed_s == pytest.approx(3)
    assert world.outcome["text"] == "A clerk's work."


def test_each_is_given_its_own_item_and_the_artifacts_before_it_with_their_authors():
    world = ran(sop(*CHECK), SAYS)
    first, second, third = ("\n".join(message.text for message in one.messages) for one in world.requests)
    assert "Do Read the contract." in first
    assert "said:" not in first
    assert "Do Judge the risks." in second
    assert "clerk said:\nA clerk's work." in second
    assert third.index("clerk said:\nA clerk's work.") < third.index("lawyer said:\nA lawyer's work.")


def test_an_item_reads_the_artifacts_that_it_names_alone():
    last = duty("clerk", "Write the letter", reads=[2])
    world = ran(sop(*CHECK[:2], last), SAYS)
    assert world.of(ev.TurnOpened)[-1].hears == (1,)
    assert "A clerk's work." not in "\n".join(message.text for message in world.requests[-1].messages)


def test_an_artifact_is_typed_where_its_agent_has_a_schema():
    schema = {"type": "object", "properties": {"risk": {"enum": ["low", "high"]}}, "required": ["risk"]}
    fabric = sop(*CHECK, agents={"lawyer": {"output_schema": schema}})
    wrong = json.dumps({"text": "Risky.", "citations": [], "data": {"risk": "some"}})
    right = json.dumps({"text": "Risky.", "citations": [], "data": {"risk": "high"}})
    world = ran(fabric, {"clerk": summary("Read."), "lawyer": [say(wrong), say(right)]})
    assert world.end.state is RunState.COMPLETED
    assert world.asked("lawyer") == 2
    assert '"risk":"high"' in "\n".join(message.text for message in world.requests[-1].messages)


def test_an_item_that_fails_is_the_fan_ins_row_and_nothing_after_it_begins():
    world = ran(sop(*CHECK), {**SAYS, "lawyer": fails(Cause.AUTH, "the key was refused")})
    assert world.end.state is RunState.FAILED
    assert len(world.of(ev.TurnOpened)) == 2
    partial = world.of(ev.ReactionDecided)[-1]
    assert (partial.failure_type, partial.cause.cause) == (FailureType.SCHEMA_GROUNDING, Cause.PARTIAL_FAN_IN)
    assert "lawyer in turn 2: the key was refused" in world.end.reason


def test_an_item_that_is_run_again_is_given_the_same():
    world = ran(
        sop(*CHECK), {**SAYS, "lawyer": [fails(Cause.TIMEOUT, "slow"), summary("A lawyer's work.")]}, tier=Tier.BATCH
    )
    assert world.end.state is RunState.COMPLETED
    asked = [one for one in world.requests if one.agent == "lawyer"]
    assert asked[0].messages == asked[1].messages


def test_agents_are_counted_once_however_many_items_they_have():
    world = ran(sop(*CHECK), SAYS)
    assert world.run.guards["hop_limit"].spawned == 2


@pytest.mark.parametrize(
    ("duties", "sentence"),
    [
        ((duty("clerk", "One", reads=[1]),), "topology.procedure.0.reads.0: item 1 is not done before item 1"),
        (
            (duty("clerk", "One"), duty("clerk", "Two", reads=[3])),
            "topology.procedure.1.reads.0: item 3 is not done before",
        ),
    ],
)
def test_a_procedure_that_reads_what_is_not_there_yet_is_refused(duties, sentence):
    with pytest.raises(ValidationError, match=sentence):
        sop(*duties)
