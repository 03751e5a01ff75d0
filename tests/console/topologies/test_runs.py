"""The topology of a run: nodes with their states, edges with their counts, a picture and its table."""

from __future__ import annotations

import re

from console.topologies.runs import NODE_STATES, WORKERS_MAX, topology
from fabric.core import events as ev
from fabric.core.schema.topology import SupervisorTopology
from fabric.core.spec.topologies.debate import DebateTopology
from fabric.core.values.branches import UNMET
from fabric.core.values.flow import Stage, StageOutcome
from fabric.core.values.taxonomy import Cause
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.selectors.journals import REFUSED, Teller

NAMED = SupervisorTopology(planner="planner", workers=("reader", "writer"), critic="critic")


def seen(teller: Teller, named: SupervisorTopology = NAMED):
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    return topology(story, named)


def states(picture):
    return {node.key: node.state for node in picture.nodes}


def test_before_it_begins_it_shows_who_may_be_asked():
    picture = seen(Teller())
    assert [node.name for node in picture.nodes] == ["planner", "reader", "writer", "engine", "critic", "engine"]
    assert set(states(picture).values()) == {"ahead"}
    assert picture.svg.count('class="e ctx"') == 6


def test_states_and_counts():
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "writer")
    teller.ask("fan_out.0.e0.r0", 1, "reader").ask("fan_out.1.e0.r0", 1, "writer").wait(1)
    teller.answer("fan_out.0.e0.r0", 1, calls=2).use("fan_out.0.e0.r0", 1, 0, "reader").use(
        "fan_out.0.e0.r0", 1, 1, "reader"
    )
    teller.fail("fan_out.1.e0.r0", 1).put_to("owner", Stage.FAN_OUT, "fan_out.1.e0.r0")
    picture = seen(teller)
    assert states(picture) == {
        "plan": "done", "fan_out.0": "active", "fan_out.1": "waiting", "fan_in": "ahead", "validate": "ahead", "finalize": "ahead",
    }  # fmt: skip
    writer = next(node for node in picture.nodes if node.key == "fan_out.1")
    assert (writer.name, writer.calls, writer.failed) == ("writer 2", 1, 1)
    assert ("planner", "reader 1", "brief", 1) in picture.table
    assert ("reader 1", "read_document", "tool call", 2) in picture.table
    assert ("reader 1", "engine, fan-in", "summary", 0) in picture.table


def test_a_worker_that_was_stopped_for_another_is_grey_and_says_why():
    teller = Teller().start().planned().enter(Stage.FAN_OUT, "reader", "writer")
    teller.tell(ev.StepFailed(step_id="fan_out.0.e0.r0", cause=Cause.AUTH, message="the key was refused"))
    teller.tell(ev.StepFailed(step_id="fan_out.1.e0.r0", cause=Cause.PARTIAL_FAN_IN, message=UNMET))
    reader, writer = (node for node in seen(teller).nodes if node.key.startswith("fan_out."))
    assert (reader.word, reader.tone) == ("failed", "danger")
    assert (writer.word, writer.tone) == ("stopped: its sister failed", "neutral")


def test_a_stage_whose_output_waits_for_a_person_waits():
    teller = (
        Teller().start().planned().working(1, 1).enter(Stage.FAN_IN).leave(Stage.FAN_IN).enter(Stage.VALIDATE, "critic")
    )
    teller.ask("validate.0.e0.r0", 1, "critic").answer("validate.0.e0.r0", 1).put_to("owner", Stage.VALIDATE)
    assert states(seen(teller))["validate"] == "waiting"
    assert states(seen(teller.decided()))["validate"] == "done"


def test_a_replan_is_an_edge_back_and_the_newest_epoch_counts():
    teller = Teller().start().planned().working(3, 1).enter(Stage.FAN_IN)
    teller.leave(Stage.FAN_IN, outcome=StageOutcome.REPLAN, gate=REFUSED).replan(Stage.FAN_IN, 1).planned(1)
    teller.enter(Stage.FAN_OUT, "writer", epoch=1)
    picture = seen(teller)
    assert [node.name for node in picture.nodes if node.key.startswith("fan_out.")] == ["writer 1"]
    assert ("engine, fan-in", "planner", "replan", 1) in picture.table
    assert ("planner", "writer 1", "brief", 1) in picture.table
    assert states(picture)["fan_in"] == "ahead"
    assert "replanned 1 ×" in picture.svg


def test_many_workers_are_one_node_in_the_picture_and_all_in_the_table():
    picture = seen(Teller().start().planned().working(40, 1))
    assert picture.more == 40 - WORKERS_MAX
    assert "32 more" in picture.svg
    assert picture.svg.count('class="node"') == WORKERS_MAX + 1 + 4
    assert sum(1 for line in picture.table if line[2] == "brief") == 40


def test_every_state_of_a_lane_has_a_word_a_tone_and_an_icon():
    assert set(NODE_STATES) >= {"active", "waiting", "done", "failed", "void", "ahead"}
    assert all(all(row) for row in NODE_STATES.values())


def test_names_are_inert():
    named = SupervisorTopology.model_construct(
        planner="<b>\u202e", workers=("reader",), aggregator=None, critic=None, finalizer=None
    )
    picture = seen(Teller(), named)
    assert "<b>" not in picture.svg
    assert "&lt;b&gt;⟨U+202E⟩" in picture.svg


def test_counts_stand_beside_the_lines_and_not_over_each_other():
    teller = Teller().start().planned().enter(Stage.FAN_OUT)
    for n, who in enumerate(("ana", "ben", "cy", "ana", "ben", "cy", "ana")):
        step = f"fan_out.{n}.e0.r0"
        teller.tell(ev.TurnOpened(step_id=step, branch=n, agent=who, brief=0)).ask(step, 1, who).wait(1).answer(step, 1)
    named = DebateTopology(workers=("ana", "ben"), critics=("cy",), rounds=2)
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    svg = topology(story, named).svg
    found = [(int(x), int(y)) for x, y in re.findall(r'<text class="t2 n" x="(\d+)" y="(\d+)">×', svg)]
    assert len(found) == 6, "three to the workers and three from them"
    assert len(set(found)) == len(found)
    bends = {int(x) for x in re.findall(r'd="M\d+ \d+H(\d+)V', svg)}
    assert not [x for x, _ in found if any(x <= bend <= x + 12 for bend in bends)], "a line runs through it"
