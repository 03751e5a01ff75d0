"""Forks of runs whose workers take turns: from any event they come to what their origin came to, and speak of what was said only anew where they must."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import INBOX, ForkRequested, Kept
from fabric.core.values.fingerprint import content_ref, encode
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.graph.factories import sequence
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import fails, summary
from tests.fabric.core.stages.test_forks import forked, forks_at
from tests.fabric.core.topologies.fabrics import sop
from tests.fabric.core.topologies.graph.test_turns import SAYS as TALKS
from tests.fabric.core.topologies.graph.test_turns import of_graph
from tests.fabric.core.topologies.test_debate import GONE, TWO, debate, speaks, verdict
from tests.fabric.core.topologies.test_sop import CHECK
from tests.fabric.core.topologies.test_sop import SAYS as DOES

LAX = {"mode": "best_effort"}
THREE = {name: speaks(name, verdict("c" if name == "a" else "a")) for name in "abc"}
KEPT = {
    "a debate with a judge": (
        debate(judge="jo", critics=["eve"]),
        {**TWO, "eve": summary("No."), "jo": verdict("ann")},
    ),
    "a debate with a vote": (debate(), TWO),
    "a debate without its critic": (debate("a", "b", "c", critics=["eve"], fan_in=LAX), {**THREE, "eve": GONE}),
    "a procedure": (sop(*CHECK), DOES),
}
"""Who speaks next is known without what was called."""


def ended(fabric, script):
    return World(fabric, script).start().go()


def passed_at(world):
    """The event with which the fan-out was left."""
    left = ((one.seq, one.fact) for one in world.events if isinstance(one.fact, ev.StageLeft))
    return next(seq for seq, fact in left if fact.stage is Stage.FAN_OUT)


@pytest.mark.parametrize("name", KEPT)
def test_from_any_event_what_was_said_is_kept_and_only_what_was_not_is_asked_for(name):
    fabric, script = KEPT[name]
    first = ended(fabric, script)
    assert first.end.state is RunState.COMPLETED
    whole = len(first.of(ev.TurnOpened))
    for seq in forks_at(first):
        world = forked(first, seq, script).go()
        assert (world.end.state, world.outcome) == (first.end.state, first.outcome), f"from event {seq}"
        before = [one.fact for one in first.events[:seq]]
        said = sum(isinstance(one, ev.ModelAnswered) and one.step_id.startswith("fan_out") for one in before)
        opened, kept = world.of(ev.TurnOpened), [one.step_id for one in world.of(ev.OutputKept)]
        if seq >= passed_at(first):
            assert (opened, kept) == ([], [])
        elif name == "a debate without its critic":
            assert set(kept) <= {one.step_id for one in opened}
        else:
            assert (len(opened), len(kept)) == (whole, said), f"from event {seq}"
        asked = [one.step_id for one in world.of(ev.CallIssued)]
        assert not set(kept) & set(asked)


def test_what_was_said_after_something_that_is_said_anew_is_said_anew():
    """The critic is asked again, and answers: an agent that goes by that goes by something else than in the origin."""
    fabric, script = KEPT["a debate without its critic"]
    first = ended(fabric, script)
    world = forked(first, passed_at(first) - 1, {**script, "eve": summary("No.")}).go()
    assert [one.step_id for one in world.of(ev.OutputKept)] == [f"fan_out.{n}.e0.r0" for n in range(3)]
    assert [one.agent for one in world.requests][:4] == ["eve", "a", "b", "c"]


@pytest.mark.parametrize(("says", "kept"), [("Taken over.", [1, 2]), ("Otherwise.", [1])])
def test_a_turn_that_was_taken_over_is_spoken_anew_and_what_went_by_it_where_it_says_something_else(says, kept):
    rungs = {"rungs": [{"reaction": "handover", "times": 1}, {"reaction": "surface"}]}
    fabric = debate(judge="jo", rounds=1, handover="max", table={"provider_failure": {"interactive": rungs}})
    script = {**TWO, "ann": fails(), "max": summary("Taken over."), "jo": verdict("ann")}
    first = ended(fabric, script)
    assert first.end.state is RunState.COMPLETED
    world = forked(first, passed_at(first) - 1, {**script, "max": summary(says)}).go()
    assert [one.step_id for one in world.of(ev.OutputKept)] == [f"fan_out.{n}.e0.r0" for n in kept]
    assert world.end.state is RunState.COMPLETED


def test_a_fork_that_begins_anew_keeps_nothing_of_its_origin_any_more():
    asks = {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}
    fabric = debate(judge="jo", rounds=1, table={"schema_grounding_fail": asks}, gates={"max_outcome_chars": 30})
    short, long = verdict("ann", "So."), verdict("ann", "So it is, for all that was said.")
    first = ended(fabric, {**TWO, "jo": short})
    world = forked(first, passed_at(first) - 2, {**TWO, "jo": [long, short]}).go()
    assert [one.step_id for one in world.of(ev.OutputKept)] == [f"fan_out.{n}.e0.r0" for n in range(2)]
    world.decide("approve").go()
    assert (world.end.state, world.run.epoch) == (RunState.COMPLETED, 1)
    assert (world.asked("ann"), world.asked("jo"), len(world.of(ev.OutputKept))) == (1, 2, 2)


def test_parts_that_do_not_say_yet_which_brief_they_are_go_by_their_titles():
    fabric, script = KEPT["a debate with a vote"]
    first = ended(fabric, script)
    seq = passed_at(first)
    [output] = [one for one in first.content_of(ev.StageLeft) if isinstance(one["output"], list)]
    old = {"output": [{key: held for key, held in part.items() if key != "brief"} for part in output["output"]]}
    assert old != output
    given = forked(first, seq, script)
    [asked] = [INBOX.validate_json(one.body) for one in given.inbox]
    assert isinstance(asked, ForkRequested)
    ref = content_ref(encode(old))
    stages = tuple((stage, ref if stage == "fan_out" else kept) for stage, kept in asked.stages)
    contents = tuple(Kept(what=one.what, content=old) if one.what == "fan_out" else one for one in asked.contents)
    world = forked(first, seq, script, stages=stages, contents=contents).go()
    assert world.outcome == first.outcome


def test_a_graph_begins_its_conversation_anew():
    """The next speaker follows from the calls of a turn, and of those an output says nothing."""
    first = ended(of_graph(sequence(["alice", "bob", "carol"])), TALKS)
    for seq in forks_at(first):
        world = forked(first, seq, TALKS).go()
        assert (world.end.state, world.outcome) == (first.end.state, first.outcome)
        assert world.of(ev.OutputKept) == []
        assert len(world.of(ev.TurnOpened)) in (0, 3)
        [fact] = world.of(ev.RunForked)
        kept = {one.stage for one in fact.stages}
        assert len(fact.branches) == (3 if Stage.FAN_OUT in kept else 0)
