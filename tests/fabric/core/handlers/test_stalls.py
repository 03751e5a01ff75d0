"""A stall, by the letter of docs/specification/protections.md, is no event in the run; never for people who are waited for, never while a child lives.

The window is 10 s here, and all people who are waited for take longer than that.
"""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.bookings import Desk, at_the_desk, booking, go, travel
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.family_scenes import household, once_bad
from tests.fabric.core.harness import T0, US, World
from tests.fabric.core.scripts import HANGS, asks, fails, planned, scored, summary

WINDOW_S = 10
WATCHED: dict[str, Any] = {
    "stall_watchdog": {"after_s": WINDOW_S},
    "deadlines": {str(tier): {"call_s": 600, "stage_s": 3_600, "run_s": 7_200} for tier in Tier},
}
ASKS = {
    row: {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}
    for row in ("provider_failure", "semantic_no_progress")
}

SPOKEN = {"semantic_no_progress": {str(tier): {"rungs": [{"reaction": "terminate"}]} for tier in Tier}}


def stalls(world: Any) -> list[tuple[str, float]]:
    """Which steps stalled, and at which second since the start."""
    return [
        (event.fact.step_id, (event.at - T0) / US)
        for event in world.events
        if isinstance(event.fact, ev.ReactionDecided) and event.fact.cause.cause is Cause.STALLED
    ]


@pytest.mark.parametrize("tier", Tier)
def test_a_call_that_is_out_does_not_hold_it_off(tier):
    """Its own deadline is a minute off its window and more: the letter says *no event*, and a call that is out makes none."""
    world = World(lone(**WATCHED, table=ASKS), {"worker": HANGS}, tier).start().go(until_s=WINDOW_S - 0.000_001)
    assert stalls(world) == []
    assert len(world.run.pending) == 1
    world.go(until_s=WINDOW_S)
    assert stalls(world) == [("fan_out.0.e0.r0", WINDOW_S)]


@pytest.mark.parametrize("tier", Tier)
def test_any_event_of_another_branch_holds_it_off_for_as_long_again(tier):
    answers = (HANGS, summary().after(7), HANGS)
    script: dict[str, Any] = {"worker": lambda command: answers[int(command.step_id.split(".")[1])]}
    world = World(lone(**WATCHED, workers=3, table=ASKS), script, tier).start().go(until_s=7 + WINDOW_S - 0.000_001)
    assert stalls(world) == []
    world.go(until_s=7 + WINDOW_S)
    assert stalls(world) == [("fan_out.0.e0.r0", 7 + WINDOW_S), ("fan_out.2.e0.r0", 7 + WINDOW_S)]


@pytest.mark.parametrize("tier", Tier)
def test_a_person_who_is_asked_about_a_failure_is_waited_for(tier):
    world = World(lone(**WATCHED, table=ASKS), {"worker": fails(Cause.AUTH, "401")}, tier).start().go()
    due = world.review.fact.due_at
    world.wait((due - world.now) / US - 1)
    assert (stalls(world), len(world.run.reviews)) == ([], 1)


@pytest.mark.parametrize("tier", Tier)
def test_a_person_who_is_asked_whether_a_stage_may_pass_is_waited_for(tier):
    world = World(spec(**WATCHED), {"planner": planned(1), "critic": scored(0.2)}, tier).start().go()
    assert world.review.fact.item == "post_stage"
    world.wait((world.review.fact.due_at - world.now) / US - 1)
    assert (stalls(world), len(world.run.reviews)) == ([], 1)


@pytest.mark.parametrize("tier", Tier)
def test_a_person_who_is_asked_before_a_call_is_waited_for(tier):
    desk = Desk()
    world = go(at_the_desk(travel(**WATCHED), desk, [asks(booking(9, "pay")), summary()], tier=tier), desk)
    assert world.review.fact.item == "pre_action"
    world.wait((world.review.fact.due_at - world.now) / US - 1)
    assert (stalls(world), len(world.run.reviews)) == ([], 1)


@pytest.mark.parametrize("tier", Tier)
def test_beside_a_person_a_branch_that_hangs_is_a_stall_of_its_own(tier):
    """A question to people is never it: the branch that they are asked about is not at work."""
    answers = (fails(Cause.AUTH, "401").after(4), HANGS)
    script: dict[str, Any] = {"worker": lambda command: answers[int(command.step_id.split(".")[1])]}
    world = World(lone(**WATCHED, workers=2, table=ASKS), script, tier).start().go(until_s=4 + WINDOW_S - 0.000_001)
    assert (stalls(world), len(world.run.reviews)) == ([], 1)
    world.go(until_s=4 + WINDOW_S)
    assert stalls(world) == [("fan_out.1.e0.r0", 4 + WINDOW_S)]
    assert {review.fact.step_id for review in world.run.reviews.values()} == {
        "fan_out.0.e0.r0",
        "fan_out.1.e0.r0",
    }


@pytest.mark.parametrize("tier", [Tier.INTERACTIVE, Tier.BATCH])
def test_while_a_child_lives_its_parent_never_stalls_and_the_child_does_by_itself(tier):
    script = {"worker": once_bad(10, HANGS, summary("Found."))}
    family = household(10, script, **WATCHED, table=SPOKEN, tier=tier).go()
    root, children = family.root, family.children
    assert stalls(root) == []
    assert len(children) > 1
    for child in children:
        found = stalls(child)
        assert found
        began = (child.events[0].at - T0) / US
        assert {at for _, at in found} == {began + WINDOW_S}
    quiet = [b.at - a.at for a, b in zip(root.events, root.events[1:], strict=False)]
    assert max(quiet) >= WINDOW_S * US, "its parent was silent for longer than the window"
