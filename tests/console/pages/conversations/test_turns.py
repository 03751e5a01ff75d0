"""The strip of turns: who spoke after whom, who speaks now, and where it goes round in a circle."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from console.pages.conversations.turns import WAVES_MAX, find_circling_turns, find_way, turns
from console.pages.runs.timeline.lanes import lane_told
from console.topologies.runs import topology
from console.words.graphs import WHY, reason_words
from fabric.core import events as ev
from fabric.core.graph.state import SpeakerReason
from fabric.core.spec.topologies.graph import GraphTopology
from fabric.core.spec.topologies.sop import SopTopology
from fabric.core.values.flow import RunState, Stage
from fabric.selectors.runs.story.fold import RunStory
from tests.fabric.core.topologies.fabrics import duty
from tests.fabric.selectors.journals import Teller

NAMED = SopTopology(workers=("ana", "ben", "cy"), procedure=(duty("ana", "A"),))


def conversation(*speakers: str, handed: bool = False, over: bool = True) -> Teller:
    teller = Teller().start().planned().enter(Stage.FAN_OUT)
    for n, who in enumerate(speakers):
        step = f"fan_out.{n}.e0.r0"
        teller.tell(ev.TurnOpened(step_id=step, branch=n, agent=who, brief=0, hears=tuple(range(n))))
        teller.ask(step, 1, who).wait(1)
        if over or n + 1 < len(speakers):
            teller.answer(step, 1)
        if handed and n + 1 < len(speakers):
            teller.tell(ev.HandedOff(step_id=step, from_agent=who, to_agent=speakers[n + 1]))
    return teller


def seen(teller: Teller):
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    found = turns(story, NAMED)
    assert found is not None
    return story, found


def test_each_turn_is_a_row_with_what_it_reads_and_its_event():
    _, found = seen(conversation("ana", "ben", "ana", over=False))
    assert [(row.number, row.agent, row.reads, row.state) for row in found.rows] == [
        (1, "ana", (), "done"),
        (2, "ben", (1,), "done"),
        (3, "ana", (1, 2), "active"),
    ]
    assert found.speakers == ("ana",)
    assert len({row.seq for row in found.rows}) == 3
    assert not found.circles


def test_a_turn_that_a_fork_keeps_is_done_before_the_first_turn():
    teller = Teller().start().planned().enter(Stage.FAN_OUT)
    for n, who in enumerate(("ana", "ben")):
        teller.tell(ev.TurnOpened(step_id=f"fan_out.{n}.e0.r0", branch=n, agent=who, brief=0))
    teller.tell(ev.OutputKept(step_id="fan_out.0.e0.r0", answer_ref="0" * 32))
    story, found = seen(teller)
    assert [(row.state, row.kept) for row in found.rows] == [("done", True), ("active", False)]
    assert found.speakers == ("ben",)
    assert found.rows[0].seq == teller.events[-1].seq
    assert "turn 1, ana: done, kept" in found.svg
    lane, other = (story.lanes[f"fan_out.{n}.e0.r0"] for n in (0, 1))
    assert lane_told(story, lane) == "done, kept from the run that this one goes on from"
    assert "kept" not in lane_told(story, other)


def test_an_agent_is_one_node_of_the_runs_picture_however_many_turns_it_has():
    story, _ = seen(conversation("ana", "ben", "ana"))
    picture = topology(story, NAMED)
    assert [(node.name, node.role) for node in picture.nodes[1:4]] == [
        ("ana", "2 turns"),
        ("ben", "1 turn"),
        ("cy", "no turn"),
    ]
    assert ("engine, plan", "ana", "turn", 2) in picture.table


def test_a_supervisors_branches_are_no_turns():
    story = RunStory("r")
    for event in Teller().start().planned().working(2, 1).events:
        story.add(event)
    assert turns(story, NAMED) is None


@pytest.mark.parametrize(
    ("walk", "places"),
    [
        ("aba", set()),
        ("abab", set()),
        ("ababa", {0, 1, 2, 3, 4}),
        ("cababa", {1, 2, 3, 4, 5}),
        ("abcabca", {0, 1, 2, 3, 4, 5, 6}),
        ("abcabc", set()),
        ("abcacba", set()),
        ("abcdabcda", set()),
    ],
)
def test_a_circle_is_one_when_it_closes_for_the_second_time(walk, places):
    assert find_circling_turns(walk, [True] * len(walk)) == places


@pytest.mark.parametrize(
    ("walk", "way", "places"),
    [
        ("abab", "aba", {0, 1, 2, 3}),  # The fourth would have closed it again.
        ("xabab", "aba", {1, 2, 3, 4}),
        ("abcabc", "abca", {0, 1, 2, 3, 4, 5}),
        ("abxab", "aba", {0, 1, 3, 4}),  # Closed before, wherever it began.
        ("aba", "ab", {0, 1, 2}),  # The same brief, to the same target.
        ("abcda", "ab", {0, 1, 2, 3, 4}),
        ("ab", "bc", {1}),
    ],
)
def test_what_the_deadlock_monitor_stops_is_a_circle_though_it_never_closed(walk, way, places):
    last = len(walk) - 1
    assert find_circling_turns(walk, [True] * last + [False], {last: tuple(way)}) == places
    assert find_circling_turns(walk, [True] * last + [False]) == set()


def test_a_trip_about_something_else_is_no_circle():
    assert find_way("handoff_cycle", ("a", "b", "a")) == ("a", "b", "a")
    assert find_way("supervisor_stuck", ("a", "b", "a")) == ()
    assert find_way("handoff_cycle", ()) == ()


def test_turns_without_a_hand_over_are_is_no_circle():
    assert find_circling_turns("ababa", [True, True, False, True, True]) == set()
    _, by_rule = seen(conversation("ana", "ben", "ana", "ben", "ana"))
    assert not by_rule.circles
    _, by_hand = seen(conversation("ana", "ben", "ana", "ben", "ana", handed=True))
    assert by_hand.circles
    assert sum(bool(row.handed_to) for row in by_hand.rows) == 4
    assert by_hand.svg.count('data-tone="danger"') == 5 + 4


def test_the_picture_keeps_the_newest_and_the_table_has_all():
    _, found = seen(conversation(*("ana", "ben") * 30))
    assert len(found.rows) == 60
    assert found.earlier == 60 - WAVES_MAX
    root = ET.fromstring(found.svg)
    width, height = (int(part) for part in root.attrib["viewBox"].split()[2:])
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter("circle")]
    assert len(dots) == WAVES_MAX
    assert all(0 < x < width and 0 < y < height for x, y in dots)


def test_turns_that_begin_together_stand_together():
    teller = Teller().start().planned().enter(Stage.FAN_OUT)
    for n, who in enumerate(("ana", "ben")):
        teller.tell(ev.TurnOpened(step_id=f"fan_out.{n}.e0.r0", branch=n, agent=who, brief=0))
    _, found = seen(teller)
    dots = {dot.attrib["cx"] for dot in ET.fromstring(found.svg).iter("circle")}
    assert len(dots) == 1


def test_a_turn_that_is_begun_once_more_is_one_turn():
    teller = conversation("ana", "ben", over=False)
    teller.tell(ev.StepOpened(step_id="fan_out.1.e0.r1", stage=Stage.FAN_OUT, branch=1, agent="ben", round=1))
    _, found = seen(teller)
    assert [(row.agent, row.reads, row.state) for row in found.rows] == [("ana", (), "done"), ("ben", (1,), "active")]


# -- why this speaker --------------------------------------------------------------------------------------------------

DESK = GraphTopology.model_validate(
    {
        "workers": ["ana", "ben"],
        "initial_speaker": "ana",
        "transitions": [
            {"when": {"kind": "tool_called", "tool": "look"}, "then": {"kind": "agent", "agent": "ben"}},
            {"when": {"kind": "from_speaker", "agent": "ben"}, "then": {"kind": "terminate", "reason": "done"}},
        ],
    }
)


def test_each_turn_says_why_its_agent_had_it_and_the_last_why_no_agent_has() -> None:
    teller = conversation("ana", "ben")
    teller.tell(
        ev.SpeakerChosen(
            step_id="fan_out.0.e0.r0",
            from_agent="ana",
            speaker="ben",
            why=SpeakerReason.TRANSITION,
            transition=0,
            turn=1,
        ),
        ev.SpeakerChosen(
            step_id="fan_out.1.e0.r0",
            from_agent="ben",
            why=SpeakerReason.TRANSITION,
            transition=1,
            close_reason="done",
            turn=1,
        ),
    )
    story = RunStory("r")
    for event in teller.events:
        story.add(event)
    found = turns(story, DESK)
    assert found is not None
    assert [row.why for row in found.rows] == ["", "rule 1: look was called, so ben speaks next"]
    assert found.rows[1].why_seq == teller.events[-2].seq
    assert found.closed == "done: rule 2: ben spoke, so it ends: done"
    assert found.closed_seq == teller.events[-1].seq


def test_where_no_rule_held_it_says_who_speaks_or_that_no_agent_had_it() -> None:
    fact = ev.SpeakerChosen(step_id="s", turn=1, from_agent="ana", speaker="ben", why=SpeakerReason.DEFAULT)
    over = ev.SpeakerChosen(step_id="s", turn=1, from_agent="ana", why=SpeakerReason.DEFAULT, close_reason="answered")
    assert reason_words(fact, DESK.transitions) == "no rule matched; then ben speaks"
    assert reason_words(over, DESK.transitions) == "no rule matched; then it ends"
    assert reason_words(over, ()) == "ana handed over to no agent"


def test_every_reason_has_its_words() -> None:
    assert set(WHY) == set(SpeakerReason)
    fact = ev.SpeakerChosen(step_id="s", turn=1, from_agent="ana", why=SpeakerReason.MAX_TURNS)
    assert all(say(fact, ()) for say in WHY.values())


# -- what people said --------------------------------------------------------------------------------------------------


def test_what_a_person_said_stands_after_the_turn_in_flight_and_says_who_read_it() -> None:
    teller = conversation("ana", over=False)
    teller.tell(ev.PersonSaid(actor="pia"), ev.PersonSaid(actor="quin"))
    _, waits = seen(teller)
    assert [(one.who, one.after, one.read_in, one.fate.word) for one in waits.said] == [
        ("pia", 1, 0, "waits for the turn in flight (ana)"),
        ("quin", 1, 0, "waits for the turn in flight (ana)"),
    ]
    assert waits.svg.count("said-mark") == 1
    teller.answer("fan_out.0.e0.r0", 1)
    teller.tell(ev.TurnOpened(step_id="fan_out.1.e0.r0", branch=1, agent="ben", brief=0, hears=(0,)))
    teller.tell(ev.PersonSaid(actor="rolf"))
    _, found = seen(teller)
    assert [(one.who, one.fate.word) for one in found.said] == [
        ("pia", "read by ben in turn 2"),
        ("quin", "read by ben in turn 2"),
        ("rolf", "waits for the turn in flight (ben)"),
    ]
    order = [row.agent if row else said.who for row, said in found.lines if row or said]
    assert order == ["ana", "pia", "quin", "ben", "rolf"]
    root = ET.fromstring(found.svg)
    assert found.svg.count("said-mark") == 2
    assert "pia, a person: read by ben in turn 2; quin, a person: read by ben in turn 2" in "".join(root.itertext())


def test_a_message_unread_before_the_run_ended_says_so() -> None:
    teller = conversation("ana", over=False)
    teller.tell(ev.PersonSaid(actor="pia"), ev.InputIgnored(input_kind="person_spoke", reason="the run is ending"))
    teller.tell(ev.InputIgnored(input_kind="pause_requested", reason="the run is ending"))
    story, found = seen(teller)
    assert [one.refused for one in story.said] == ["", "the run is ending"]
    assert len(found.said) == 1
    teller.tell(ev.RunEnded(state=RunState.ABORTED, reason="x", reaction="abort"))
    _, found = seen(teller)
    assert [one.fate.word for one in found.said] == ["unread: the run has ended"]
