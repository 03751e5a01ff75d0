"""Whole runs with detectors C and E and with each document's rule in their place (docs/specification/protections.md)."""

from __future__ import annotations

from itertools import count

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.journal import Document
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, gives, say, summary

DOCUMENTS = (Document("bridge.md", "The bridge is 40 metres long."),)
STEERING = "WARNING: Loop detected. You appear to be repeating the same tool calls. Please try a different approach or ask for clarification."
"""S1, word for word."""


def changing():
    """A tool that answers something else each time."""
    rows = count()
    return lambda command: gives(f"row {next(rows)}")


def cycling(names: str, last: int = 40):
    """A model that goes through those calls again and again, and answers in the end."""
    turns = count()

    def worker(command):
        turn = next(turns)
        return asks(call(q=names[turn % len(names)])) if turn < last else summary()

    return worker


def blocked(world: World) -> list[int]:
    """The turns in which the loop detector refused a call, from 1."""
    turns, found = 0, []
    for fact in world.facts:
        turns += isinstance(fact, ev.ModelAnswered)
        if isinstance(fact, ev.CallRefused) and fact.mechanism == "loop_detector":
            found.append(turns)
    return found


def detectors(world: World) -> list[str]:
    return [str(fact.cause.evidence.details.get("detector")) for fact in world.of(ev.ReactionDecided)]


# -- C -----------------------------------------------------------------------------------------------------------------


def paraphrases(*ends: str):
    about = "find one more old record about these famous lighthouse keepers"
    return [asks(call(q=f"{about} {end}")) for end in ends]


def test_c_blocks_the_third_paraphrase_of_a_call_before_it_is_executed_and_the_model_is_told():
    world = ran(lone(), {"worker": [*paraphrases("please", "now", "again"), summary()], "look": gives("nothing")})
    assert (len(world.executed), blocked(world), detectors(world)) == (2, [3], ["near_identical_calls"])
    assert (world.end.state, world.end.recovered) == (RunState.COMPLETED, True)
    told = [message.text for message in world.requests[-1].messages if message.role == "tool"]
    assert "calls like look" in told[-1]


def test_c_leaves_a_scan_over_dates_with_equal_empty_results_alone():
    dates = [f"of 2024-01-{day:02}" for day in range(1, 20)]
    world = ran(lone(), {"worker": [*paraphrases(*dates), summary()], "look": lambda c: gives([c.command_id])})
    assert (blocked(world), len(world.executed)) == ([], 19)
    empty = ran(lone(progress={"agent_turns": 50}), {"worker": [*paraphrases(*dates), summary()], "look": gives([])})
    assert (blocked(empty), empty.end.state) == ([], RunState.COMPLETED)


# -- E -----------------------------------------------------------------------------------------------------------------

THOUGHTS = "I have thought about it for a while, and I will answer in prose."


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_same_unusable_answer_for_the_third_time_is_the_schema_rows(finish):
    world = ran(lone(), {"worker": say(THOUGHTS, finish=finish)})
    assert (world.reactions, world.asked("worker")) == (["surface", "surface"], 3), "no agent is asked for a last word"
    first = world.of(ev.ReactionDecided)[0]
    assert (first.failure_type, first.cause.cause) == ("schema_grounding_fail", Cause.CORRECTIONS_SPENT)
    assert "agent worker gave the same unusable answer 3 times (limit 3): " in world.end.reason
    assert (first.cause.evidence.unit, first.cause.evidence.observed, first.cause.evidence.limit) == ("answers", 3, 3)


def test_short_or_different_unusable_answers_have_all_their_corrections():
    for said in (say("no"), [say(f"{THOUGHTS} {word}") for word in "abcd"]):
        world = ran(lone(), {"worker": said})
        assert world.asked("worker") == 4
        assert "did not give a usable answer in 4 turns" in world.end.reason


def given_back(*texts: str, rounds: int = 10) -> World:
    """An aggregator whose answers fit the schema and are given back by a gate: nothing is cited."""
    again = {"rungs": [{"reaction": "retry", "times": rounds}, {"reaction": "abort"}]}
    table = {
        "schema_grounding_fail": {"batch": again},
        "infinite_tool_loop": {"batch": {"rungs": [{"reaction": "abort"}]}},
    }
    fabric = spec(roles=("aggregator",), table=table, gates={"citations": "required"}, failure_signature={"limit": 50})
    return ran(fabric, {"aggregator": [summary(text) for text in texts]}, tier=Tier.BATCH, documents=DOCUMENTS)


def test_e_sees_the_answers_that_a_gate_gave_back_in_every_round_of_the_epoch():
    world = given_back(THOUGHTS)
    assert (world.asked("aggregator"), detectors(world)[-1]) == (3, "same_answer"), "it is not asked for a fourth time"
    assert world.end.reason == "agent aggregator gave the same answer 3 times (limit 3)"


def test_e_leaves_an_agent_alone_that_says_something_else_each_time():
    world = given_back(*[f"{THOUGHTS} {word}" for word in "abcdef"], rounds=5)
    assert (world.asked("aggregator"), "same_answer" in detectors(world)) == (6, False)


def test_a_persons_word_begins_es_window_anew():
    asked = {"rungs": [{"reaction": "escalate"}]}
    fabric = spec(
        roles=("aggregator",),
        table={"schema_grounding_fail": {"batch": asked}},
        gates={"citations": "required"},
        humans={"failure_rounds": 9},
        failure_signature={"limit": 50},
    )
    world = ran(fabric, {"aggregator": summary(THOUGHTS)}, tier=Tier.BATCH, documents=DOCUMENTS)
    for _ in range(5):
        world.decide("approve").go()
    assert (world.asked("aggregator"), "same_answer" in detectors(world)) == (6, False)


# -- I -----------------------------------------------------------------------------------------------------------------

SOON = "Let me look this up in the register of lighthouses, it must stand there somewhere."
QUERIES = ("old keepers of the northern lighthouse", "the names of keepers of old", "families of keepers of old times")


def announced(*said: str, queries=QUERIES, look=None, **fields) -> World:
    worker = [asks(call(q=query), text=text) for text, query in zip(said, queries, strict=False)]
    return ran(lone(**fields), {"worker": [*worker, summary()], "look": look or gives("nothing")})


def test_i_blocks_the_call_of_the_third_equal_announcement_where_nothing_came_of_the_calls():
    world = announced(SOON, SOON.replace("somewhere", "somehow"), SOON)
    assert (len(world.executed), blocked(world), detectors(world)) == (2, [3], ["same_words_before_calls"])
    [told] = [fact.cause for fact in world.of(ev.ReactionDecided)]
    assert told.message == (
        "agent worker said the same before its calls 3 times within 5 turns, and the calls failed or came to the same (limit 3)"
    )
    words = iter(["the line is dead", "the shelf is empty", "the clerk is out"])
    failing = announced(SOON, SOON, SOON, look=lambda c: gives(error=next(words)))
    assert detectors(failing) == ["same_words_before_calls"]


@pytest.mark.parametrize(
    ("said", "more"),
    [
        ((SOON, SOON, "Now I will ask the harbour office for what it has on them."), {}),
        ((SOON, SOON), {}),
        (("Once more.",) * 3, {}),
        ((SOON,) * 3, {"look": lambda c: gives([c.command_id])}),
        ((SOON,) * 3, {"queries": [f"page {n}" for n in range(3)]}),
        ((SOON,) * 3, {"queries": ["keepers", "towers", "storms"]}),
        ([f"{SOON} Page {n}." for n in range(3)], {}),
        ((SOON,) * 3, {"loop_detector": {"detectors": ["identical_calls"]}}),
    ],
    ids=["other words", "twice", "short", "news", "a scan", "other questions", "a number", "off"],
)
def test_i_leaves_alone_who_gets_on(said, more):
    assert detectors(announced(*said, **more)) == []


# -- presets -----------------------------------------------------------------------------------------------------------


def preset(name: str, calls: str, look=None, **fields) -> World:
    fabric = lone(loop_detector={"preset": name}, **fields)
    return ran(fabric, {"worker": cycling(calls), "look": look or changing()})


def test_flow_is_s0s_rule_with_results_ignored():
    world = preset("flow", "a")
    assert (blocked(world)[0], detectors(world)[0]) == (3, "flow")
    assert len(world.executed) == 2
    assert blocked(preset("flow", "ab"))[0] == 5, "the third a among the last five calls"
    assert blocked(preset("flow", "abc")) == [], "of three in a circle no one stands three times among five"


@pytest.mark.parametrize("calls", ["a", "ab", "abc"])
def test_fabro_needs_its_ten_turns_and_blocks_the_tenth_whatever_the_results(calls):
    world = preset("fabro", calls)
    assert (blocked(world)[0], detectors(world)[0]) == (10, "fabro")
    before = world.facts[: next(n for n, fact in enumerate(world.facts) if isinstance(fact, ev.CallRefused))]
    assert sum(isinstance(fact, ev.ToolAnswered) for fact in before) == 9


def test_fabro_asks_all_complete_groups_of_the_window():
    assert blocked(preset("fabro", "abcd")) == [], "a period of four is none of its"
    turns = iter("xx" + "ab" * 40)
    world = ran(
        lone(loop_detector={"preset": "fabro"}), {"worker": lambda c: asks(call(q=next(turns))), "look": changing()}
    )
    assert blocked(world)[0] == 12, "until the two others have left the window"


def test_fabro_steers_with_s1s_words():
    world = preset("fabro", "a")
    assert world.content_of(ev.MessageInjected) == [{"text": STEERING}]
    after = next(request for request in world.requests if any(STEERING in message.text for message in request.messages))
    assert after is world.requests[10]


def test_ag2_warns_once_and_then_leaves_the_step_alone():
    world = preset("ag2", "a", limits={"turns": 12})
    assert (blocked(world), detectors(world)[0]) == ([3], "ag2")
    assert len(world.of(ev.MessageInjected)) == 1
    assert len(world.executed) == 11, "twelve turns, one of them blocked"
    assert "turn" in world.end.reason


def test_ag2_wants_them_in_a_row():
    assert blocked(preset("ag2", "ab")) == []


@pytest.mark.parametrize("name", ["flow", "fabro", "ag2"])
def test_a_preset_stands_in_place_of_the_detectors(name):
    """Answers of an agent that repeats itself are E's business, which no document has."""
    world = ran(lone(loop_detector={"preset": name}, limits={"corrections_per_step": 5}), {"worker": say(THOUGHTS)})
    assert world.asked("worker") == 6
    assert "loop_detector" not in {fact.cause.mechanism for fact in world.of(ev.ReactionDecided)}
