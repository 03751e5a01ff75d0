"""A person's words about a try hold for whatever is tried after it, until a person says something else (docs/specification/reviews.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal.snapshots import Cadence
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import fails, planned, say, summary
from tests.fabric.core.spec.test_retry_layers import DOWN, one

BAD = [say(f"No JSON, {why}.") for why in ("once", "twice", "three times", "again")]
WORSE = [say(f"No JSON still, {why}.") for why in ("once", "twice", "three times", "again")]
WORDS = "Look into the ledger."


def rows(*reactions, row="schema_grounding_fail"):
    return {row: {str(tier): {"rungs": list(reactions)} for tier in Tier}}


def asked(fabric, *answers, until_s=None, **script):
    """A worker that gave no usable answer, about which a person is asked; memory is let go of as early as may be."""
    script = {"worker": [*BAD, *answers], **script}
    world = World(fabric, script, cadence=Cadence(on_release=1, while_owned=1)).start().go(until_s=until_s)
    assert world.run.reviews
    return world


def told(world, agent="worker", nth=-1):
    return "\n".join(message.text for message in [one for one in world.requests if one.agent == agent][nth].messages)


ESCALATE = {"reaction": "escalate"}


@pytest.mark.parametrize("dies", [False, True])
def test_a_node_that_runs_once_more_begins_with_what_a_person_said(dies):
    fabric = one({"retry_policy": "standard"}, table=rows(ESCALATE))
    world = asked(fabric, *[DOWN] * 4, summary("At last."))
    world.decide("respond", message=WORDS)
    while not world.of(ev.NodeRetryScheduled):
        world.go(steps=1)
    if dies:
        world.crash()
    world.go()
    assert world.end.state is RunState.COMPLETED
    assert WORDS in told(world)


def test_other_words_take_the_place_of_earlier_ones():
    world = asked(lone(table=rows(ESCALATE)), *WORSE, summary("At last."))
    world.decide("respond", message=WORDS).go()
    world.decide("respond", message="The ledger of May.", input_id="second").go()
    assert world.end.state is RunState.COMPLETED
    assert "The ledger of May." in told(world)
    assert WORDS not in told(world)


@pytest.mark.parametrize("dies", [False, True])
def test_the_agent_that_takes_over_reads_them_too(dies):
    hands = rows({"reaction": "handover", "times": 1}, {"reaction": "surface"}, row="provider_failure")
    fabric = spec(table=rows(ESCALATE) | hands, topology={"handover": "finalizer"})
    gone = fails().after(20)
    world = asked(fabric, gone, finalizer=[summary("At last."), summary("In sum.")])
    world.decide("respond", message=WORDS).go(until_s=10)
    if dies:
        world.crash()
    world.go()
    assert world.end.state is RunState.COMPLETED
    assert f"A person had said about it: {WORDS}" in told(world, "finalizer", 0)


@pytest.mark.parametrize(("words", "there"), [("", False), (WORDS, True)])
def test_what_the_engine_says_of_an_approval_is_no_persons_words(words, there):
    hands = rows({"reaction": "handover", "times": 1}, {"reaction": "surface"}, row="provider_failure")
    fabric = spec(table=rows(ESCALATE) | hands, topology={"handover": "finalizer"})
    world = asked(fabric, *[fails()] * 2, finalizer=[summary("At last."), summary("In sum.")])
    world.decide("edit", edited={"agent": "worker", "title": "Part", "instructions": "Read."}, message=words).go()
    assert world.end.state is RunState.COMPLETED
    assert ("A person had said about it: " + WORDS in told(world, "finalizer", 0)) is there
    assert ("A person had said" in told(world, "finalizer", 0)) is there


def test_what_a_gate_takes_back_is_written_anew_by_them_as_often_as_it_is():
    """When it does the branch has been done for long, and memory holds of it what is still needed alone."""
    table = rows(ESCALATE) | rows({"reaction": "retry", "times": 2}, {"reaction": "surface"}, row="unsafe_output")
    group = {"places": ["fan_out"], "rules": ["credentials"]}
    fabric = spec(table=table, gates={"guardrails": [group]})
    key = "ghp_" + "k7Qw9Zr2" * 4 + "Tt5m"
    said = iter([*BAD, *(summary(f"The key is {key}{n}.") for n in range(2)), summary("At last.")])
    slow = summary("Slow.").after(25)
    world = asked(
        fabric,
        until_s=10,
        planner=planned(2),
        worker=lambda command: slow if command.step_id.startswith("fan_out.1") else next(said),
    )
    world.decide("respond", message=WORDS).go()
    assert world.end.state is RunState.COMPLETED
    notes = [world.contents(step)["text"] for step in opened(world)]
    assert [text.count(WORDS) for text in notes] == [1, 1, 1]
    assert "credentials" in notes[1]
    assert "credentials" in notes[2]


def opened(world):
    """The notes that steps were opened with."""
    return [one.content_ref for one in world.events if isinstance(one.fact, ev.StepOpened)]
