"""Terminate, pause and resume, at every point of a run."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.engine import wake_at
from fabric.core.events.inputs import PauseRequested, ResumeRequested, TerminateRequested
from fabric.core.state.living import visible_state
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.journal import projection
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.handlers.test_cancel import STEPS, lively
from tests.fabric.core.harness import US, World
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, scored, summary


def terminate(world: World, reason: str = "") -> World:
    world.put(TerminateRequested(input_id="terminate", actor="olga", reason=reason))
    return world.go()


def pause(world: World, number: int = 1, reason: str = "") -> World:
    world.put(PauseRequested(input_id=f"pause:{number}", actor="olga", reason=reason))
    return world


def resume(world: World, number: int = 1) -> World:
    world.put(ResumeRequested(input_id=f"resume:{number}", actor="olga"))
    return world


# -- terminate -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(STEPS))
def test_terminated_at_any_point_a_run_ends_as_aborted_at_once_and_issues_nothing_more(steps):
    world = terminate(lively(late=True).go(steps=steps), "it is the wrong customer")
    end = world.end
    assert (end.state, end.reaction) == (RunState.ABORTED, "terminated")
    assert end.reason == "terminated by olga: it is the wrong customer"
    assert "call_issued" not in world.kinds[world.kinds.index("terminate_accepted") :]
    assert world.events[-1].at == world.events[world.kinds.index("terminate_accepted")].at


def test_terminating_while_it_is_being_cancelled_leaves_the_cancel_in_force():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start().go(until_s=5)
    assert world.run.ending is not None
    terminate(world)
    assert world.end.reaction == "abort"
    assert world.of(ev.CallAborted)[-1].reason == "terminated"


# -- pause -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", range(STEPS))
def test_paused_at_any_point_a_run_issues_nothing_until_it_is_resumed_and_then_ends_as_ever(steps):
    undisturbed = lively().go()
    world = pause(lively().go(steps=steps)).go()
    assert "call_issued" not in world.kinds[world.kinds.index("run_paused") :]
    assert world.driver is None
    assert visible_state(world.run) is RunState.PAUSED
    resume(world).go()
    assert world.run.control.paused is None
    assert visible_state(world.run) is visible_state(undisturbed.run) is RunState.WAITING
    assert [q.fact.reason for q in world.run.reviews.values()] == [
        q.fact.reason for q in undisturbed.run.reviews.values()
    ]


def test_the_calls_of_an_answer_that_came_during_the_pause_go_out_at_its_end():
    world = World(lone(), {"worker": [asks(call(q="x")).after(2), summary()]}).start().go(until_s=1)
    pause(world).go()
    assert (world.kinds[-1], world.executed) == ("model_answered", [])
    resume(world).go()
    assert len(world.executed) == 1
    assert world.end.state is RunState.COMPLETED


def test_a_retry_that_falls_due_during_the_pause_goes_out_at_its_end():
    world = World(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=20), summary()]}).start().go(until_s=5)
    pause(world).go()
    world.wait(60)
    assert len(world.of(ev.CallIssued)) == 1
    at = world.now
    resume(world).go()
    assert (
        next(event.at for event in world.events if event.fact.kind == "call_issued" and event.fact.attempt == 2) == at
    )


def test_a_process_that_is_lost_during_the_pause_costs_its_calls_which_go_out_again_at_the_end():
    world = World(lone(), {"worker": [HANGS, summary()]}).start().go(until_s=5)
    pause(world)
    world.crash()
    assert world.kinds[-1] == "attempt_interrupted"
    assert world.driver is None
    resume(world).go()
    assert [fact.attempt for fact in world.of(ev.CallIssued)] == [1, 2]
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize("tier", Tier)
def test_the_clocks_stand_still_while_it_is_paused(tier):
    world = World(lone(), {"worker": [summary().after(2), summary()]}, tier).start().go(until_s=1)
    left = world.run.deadline_at - world.now
    pause(world).go()
    assert wake_at(world.run) is None
    world.wait(2 * left / US)
    at = world.now
    resume(world).go()
    (reissued,) = world.of(ev.DeadlinesReissued)
    assert reissued.run_deadline_at - at == left
    assert world.end.state is RunState.COMPLETED


def test_a_review_can_be_answered_during_the_pause_and_what_follows_waits_for_its_end():
    world = lively().go()
    pause(world).go()
    world.decide("approve").go()
    assert world.run.reviews == {}
    assert world.of(ev.DeadlinesReissued) == []
    assert visible_state(world.run) is RunState.PAUSED
    resume(world).go()
    assert world.end.state is RunState.COMPLETED
    assert len(world.of(ev.DeadlinesReissued)) == 1


def test_a_review_expires_although_its_run_is_paused():
    world = lively().go()
    due = world.review.fact.due_at
    pause(world).go()
    world.wait((due - world.now) / US + 1)
    assert world.end.state is RunState.ABORTED
    assert world.of(ev.ReviewDecided)[-1].system


def test_a_waiting_run_that_was_paused_waits_on_with_its_clocks_stopped():
    world = lively().go()
    assert world.run.suspended is not None
    resume(pause(world).go()).go()
    assert world.run.suspended is not None
    assert world.of(ev.DeadlinesReissued) == []
    assert visible_state(world.run) is RunState.WAITING


def test_pausing_twice_and_resuming_what_is_not_paused_change_nothing():
    world = World(lone(), {"worker": HANGS}).start().go(until_s=1)
    resume(world)
    pause(world, 1)
    pause(world, 2)
    assert [fact.reason for fact in world.of(ev.InputIgnored)] == [
        "the run is not paused",
        "the run is paused already",
    ]


def test_a_paused_run_can_be_cancelled_and_terminated():
    world = pause(World(lone(), {"worker": HANGS}).start().go(until_s=1))
    assert world.cancel().end.state is RunState.CANCELLED
    world = pause(World(lone(), {"worker": HANGS}).start().go(until_s=1))
    assert terminate(world).end.reaction == "terminated"


def test_an_ending_run_is_not_paused():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start().go(until_s=5)
    pause(world)
    assert world.of(ev.InputIgnored)[-1].reason == "the run is ending"


def test_the_row_says_who_paused_it_and_why():
    world = pause(World(lone(), {"worker": HANGS}).start().go(until_s=1), reason="the endpoint is being moved")
    columns = projection.columns(world.run)
    assert (columns.state, columns.reason) == (RunState.PAUSED, "paused by olga: the endpoint is being moved")


def test_a_run_with_two_branches_out_takes_both_in_while_it_is_paused():
    script = {"planner": planned(2), "worker": [summary().after(3), summary().after(5)], "critic": scored(0.9)}
    world = World(spec(), script).start().go(until_s=2)
    pause(world).go()
    assert world.kinds[-2:] == ["model_answered", "model_answered"]
    assert resume(world).go().end.state is RunState.COMPLETED
