"""A person lets a call go on that was stopped as a loop or as a standstill: a poll that nobody declared (semantics.md 4 "Human waits")."""

from __future__ import annotations

from itertools import count

import pytest

from fabric.core import events as ev
from fabric.core.flow import RunState
from fabric.core.taxonomy import Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, gives, summary

ASKED = {"rungs": [{"reaction": "escalate"}], "deviation": "A person is asked first."}
TABLE = {row: dict.fromkeys(Tier, ASKED) for row in ("infinite_tool_loop", "semantic_no_progress")}
UNDETECTED = {"loop_detector": {"detectors": ["E"]}}


def until_done(nth: int):
    """A model that asks for the same until it is done, and a tool that says so at the n-th call."""
    calls = count(1)
    done: list[bool] = []

    def look(command):
        done.extend([True] * (next(calls) == nth))
        return gives("done" if done else "not yet")

    return {"worker": lambda command: summary() if done else asks(call(job="export")), "look": look}


def polls(tier: Tier, nth: int = 9, **fields) -> World:
    return ran(lone(table=TABLE, **fields), until_done(nth), tier=tier)


@pytest.mark.parametrize("tier", Tier)
def test_an_approval_lets_the_call_that_looped_go_on_to_its_end(tier):
    world = polls(tier)
    assert (world.reactions, len(world.executed)) == (["escalate"], 2)
    assert (
        "runs once more, and may go on making the same call of look: resumes"
        in world.content_of(ev.EscalationOpened)[0]["approve"]
    )
    world.decide("approve").go()
    assert (world.end.state, world.reactions, len(world.executed)) == (RunState.COMPLETED, ["escalate"], 9)


@pytest.mark.parametrize("tier", Tier)
def test_an_approval_lets_the_call_that_came_to_nothing_new_go_on_to_its_end(tier):
    world = polls(tier, 20, **UNDETECTED)
    assert (world.reactions, len(world.executed)) == (["escalate"], 6)
    assert world.of(ev.ReactionDecided)[0].cause.mechanism == "progress"
    world.decide("approve").go()
    assert (world.end.state, world.reactions, len(world.executed)) == (RunState.COMPLETED, ["escalate"], 20)


def test_what_is_let_pass_is_that_call_alone():
    other = iter(["export", "export", "export", "import", "import", "import", "import"])
    script = {"worker": lambda command: asks(call(job=next(other))), "look": gives("not yet")}
    world = ran(lone(table=TABLE, humans={"failure_rounds": 5}), script)
    world.decide("approve").go()
    assert world.reactions == ["escalate", "escalate"]
    assert [args["job"] for _, args in world.executed] == ["export", "export", "import", "import"]


def test_other_questions_each_time_are_about_no_call():
    words = iter("abcdefghijklmnopqrstuvwxyz" * 3)
    script = {"worker": lambda command: asks(call(job=f"the {next(words)} of it")), "look": gives("nothing")}
    world = ran(lone(table=TABLE, humans={"failure_rounds": 5}), script)
    assert "same call" not in world.content_of(ev.EscalationOpened)[0]["approve"]
    world.decide("approve").go()
    assert (world.reactions, len(world.executed)) == (["escalate", "escalate"], 12)


def test_an_answer_in_words_lets_nothing_pass():
    world = polls(Tier.BATCH)
    world.decide("respond", message="Look elsewhere.").go()
    assert (world.reactions, len(world.executed)) == (["escalate", "escalate"], 4)


def test_a_cycle_that_it_is_part_of_is_no_long_loop():
    """Detector F looks at the calls in between, not at the proposed one alone."""
    turns = count()

    def worker(command):
        turn = next(turns)
        return asks(call(job="export"), call(job=f"step {turn % 3}")) if turn < 20 else summary()

    fabric = lone(table=TABLE, loop_detector={"detectors": ["A", "F"]})
    world = ran(fabric, {"worker": worker, "look": gives("not yet")})
    world.decide("approve").go()
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, ["escalate"])
