"""A person lets a call go on that was stopped as a loop or as a standstill: a poll that no author declared (docs/specification/reviews.md)."""

from __future__ import annotations

from itertools import count

import pytest

from fabric.core import events as ev
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import asks, call, gives, summary

ASKED = {"rungs": [{"reaction": "escalate"}], "deviation": "A person is asked first."}
TABLE = {row: dict.fromkeys(Tier, ASKED) for row in ("infinite_tool_loop", "semantic_no_progress")}
UNDETECTED = {"loop_detector": {"detectors": ["same_answer"]}}


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
        "the agent may repeat the same call of look, and its earlier changes stay (2 tool calls): resumes"
        in world.content_of(ev.ReviewOpened)[0]["approve"]
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
    assert [args["job"] for _, args in world.executed] == ["export", "export", "export", "import", "import"]


def test_other_reviews_each_time_are_about_no_call():
    words = iter("abcdefghijklmnopqrstuvwxyz" * 3)
    script = {"worker": lambda command: asks(call(job=f"the {next(words)} of it")), "look": gives("nothing")}
    world = ran(lone(table=TABLE, humans={"failure_rounds": 5}), script)
    assert "same call" not in world.content_of(ev.ReviewOpened)[0]["approve"]
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

    fabric = lone(table=TABLE, loop_detector={"detectors": ["identical_calls", "nothing_new_in_a_row"]})
    world = ran(fabric, {"worker": worker, "look": gives("not yet")})
    world.decide("approve").go()
    assert (world.end.state, world.reactions) == (RunState.COMPLETED, ["escalate"])


# -- the default table: a person is asked before anything is stopped -------------------------------------------------

WITH_INJECT = (Tier.INTERACTIVE, Tier.BATCH)
DAY_S = 25 * 3_600


@pytest.mark.parametrize(("tier", "requests"), [(Tier.INTERACTIVE, 10), (Tier.BATCH, 10), (Tier.HIGH_STAKES, 9)])
def test_a_undeclared_poll_parks_and_one_approval_lets_it_run_to_its_end(tier, requests):
    world = ran(lone(), until_done(8), tier=tier)
    assert (world.reactions[-1], len(world.executed)) == ("escalate", 2)
    assert visible_state(world.run) is RunState.WAITING
    world.decide("approve").go()
    assert (world.end.state, world.reactions[-1]) == (RunState.COMPLETED, "escalate")
    assert (len(world.requests), len(world.executed)) == (requests, 8), "the refused call is made, and no other again"
    opened = world.of(ev.StepOpened)[-1]
    assert (opened.keeps, len(opened.passes)) == (True, 1)


@pytest.mark.parametrize("tier", Tier)
def test_a_poll_whose_result_changes_is_asked_about_too(tier):
    calls = count(1)
    script = {
        "worker": lambda command: asks(call(job="export")),
        "look": lambda command: gives(f"{next(calls)} % done"),
    }
    world = ran(lone(), script, tier=tier)
    assert world.reactions[-1] == "escalate"
    assert len(world.requests) <= 6


def test_without_an_answer_an_interactive_agent_answers_with_what_it_has():
    script = {"worker": lambda command: asks(call(q="x")) if command.tools else summary("What I have.")}
    world = ran(lone(), script)
    review = world.of(ev.ReviewOpened)[0]
    assert review.on_expiry == "next"
    assert world.content_of(ev.ReviewOpened)[0]["expiry"].startswith("the call may not be made again")
    world.wait(DAY_S)
    assert (world.reactions, world.end.state) == (["inject", "escalate", "terminate"], RunState.STOPPED)
    assert world.outcome["text"] == "What I have."
    assert "no one decided in time" in world.end.reason


def test_without_an_answer_a_batch_run_is_aborted_with_the_call_named():
    world = ran(lone(), {"worker": lambda command: asks(call(q="x"))}, tier=Tier.BATCH).wait(DAY_S)
    assert (world.reactions, world.end.state) == (["inject", "escalate", "abort"], RunState.ABORTED)
    assert world.end.reason.startswith('agent worker asked for look({"q":"x"}) 3 times')


def test_a_person_who_rejects_it_aborts_the_run():
    world = ran(lone(), {"worker": lambda command: asks(call(q="x"))}).decide("reject").go()
    assert world.end.state is RunState.ABORTED


@pytest.mark.parametrize("tier", WITH_INJECT)
def test_no_person_is_asked_about_a_cycle(tier):
    turns = count()
    script = {"worker": lambda command: asks(call(q="xy"[next(turns) % 2])) if command.tools else summary()}
    world = ran(lone(loop_detector={"detectors": ["repeated_cycle"]}), script, tier=tier)
    assert "escalate" not in world.reactions
    assert "there is no call that a person could allow" in {fact.reason for fact in world.of(ev.RungSkipped)}


@pytest.mark.parametrize("tier", WITH_INJECT)
def test_no_person_is_asked_whether_a_call_that_changes_something_may_go_on(tier):
    changes = {"effect": "mutating", "compensation": "undo"}
    script = {"worker": lambda command: asks(call(q="x")) if command.tools else summary()}
    world = ran(lone(tool=changes, tools=("look", "undo")), script, tier=tier)
    assert "escalate" not in world.reactions
    assert "look changes something, so it is no poll" in {fact.reason for fact in world.of(ev.RungSkipped)}


def test_each_branch_is_asked_about_for_itself():
    world = ran(lone(workers=2), {"worker": lambda command: asks(call(q="x"))})
    assert sorted(fact.step_id for fact in world.of(ev.ReviewOpened)) == ["fan_out.0.e0.r0", "fan_out.1.e0.r0"]
