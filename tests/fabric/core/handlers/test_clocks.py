"""Clocks stand still only while people alone can move a run; they run again where it goes on without their answer."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from simulator.rules.runs.controls import clocks
from tests.fabric.core.fabrics import spec
from tests.fabric.core.handlers.test_control import pause, resume
from tests.fabric.core.harness import T0, US, World
from tests.fabric.core.scripts import fails, planned, summary

ASKS = {"provider_failure": {str(tier): {"rungs": [{"reaction": "escalate"}]} for tier in Tier}}
QUORUM = {"mode": "quorum", "k": 2}
"""Of three branches: one asks a person at once, one is done at once, one is done 20 s later."""


def meeting(tier: Tier, *, fan_in=QUORUM):
    """A run at the instant before its last branch comes in, with a person asked about the first one."""
    answers = (fails(Cause.SERVER_ERROR), summary("B."), summary("C.").after(20))
    script: dict[str, Any] = {
        "planner": planned(3),
        "worker": lambda command: answers[int(command.step_id.split(".")[1])],
    }
    world = World(spec(table=ASKS, fan_in=fan_in), script, tier).start().go(until_s=10)
    assert len(world.run.reviews) == 1
    assert world.run.suspended is None
    return world


def taken(world: World) -> World:
    """Claimed, and what has arrived is taken in: no more happens in this instant."""
    return world.go(until_s=(world.now - T0) / US)


def ran_on(world: World) -> None:
    """It went on without its review, on clocks that run."""
    assert world.end.state is RunState.COMPLETED
    assert [fact.reason for fact in world.of(ev.ReviewWithdrawn)] == ["the quorum is met"]
    assert "deadlines_suspended" not in world.kinds[world.kinds.index("review_withdrawn") :]


@pytest.mark.parametrize("tier", Tier)
def test_a_quorum_that_is_met_while_a_person_is_asked_goes_on(tier):
    world = meeting(tier).go()
    ran_on(world)
    assert world.of(ev.DeadlinesSuspended) == []


@pytest.mark.parametrize("tier", Tier)
def test_a_quorum_that_is_met_by_what_came_during_a_pause_goes_on_with_its_clocks(tier):
    world = pause(meeting(tier)).go()
    left = world.run.control.paused
    world.wait(10_000 if tier is not Tier.INTERACTIVE else 60)  # Its review is due with the stage, pause or not.
    taken(resume(world))
    assert list(clocks(world.run)) == []
    assert world.run.deadline_at == world.now + left.run_remaining_us
    assert world.run.stages[world.run.stage].deadline_at > world.now
    ran_on(world.go())


@pytest.mark.parametrize("tier", Tier)
def test_a_quorum_that_is_met_by_what_came_while_its_process_stopped_goes_on_with_its_clocks(tier):
    world = meeting(tier)
    world.drain()
    world._one(world._next())
    assert world.driver is None
    world.take_up()
    assert list(clocks(world.run)) == []
    ran_on(world.go())


def test_what_did_not_meet_it_leaves_the_clocks_to_the_person_once_the_run_may_go_on():
    world = pause(meeting(Tier.BATCH, fan_in={"mode": "all"})).go()
    left = world.run.control.paused.run_remaining_us
    world.wait(5_000)
    resume(world).go()
    assert world.run.suspended.run_remaining_us == left
    assert len(world.run.reviews) == 1
    world.wait(5_000)
    taken(world.decide("approve"))
    assert world.run.deadline_at == world.now + left
