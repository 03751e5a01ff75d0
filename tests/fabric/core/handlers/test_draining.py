"""A process that stops: what came is kept, nothing is issued that it will not send, and the next one goes on as if nothing had been."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import budget
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.happenings import Due
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World
from tests.fabric.core.scripts import HANGS, asks, call, fails, gives, planned, scored, summary

SCRIPT = {
    "planner": planned(2),
    "worker": lambda command: (
        asks(call(call_id="c", q=command.step_id)) if command.command_id.endswith("t1") else summary()
    ),
    "look": gives().after(3),
    "critic": scored(0.9),
}


def attempts(world) -> list[tuple[str, int]]:
    return [(command.command_id, command.attempt) for command in world.performed if command.kind != "abort_call"]


@pytest.mark.parametrize("steps", range(1, 10))
def test_a_stop_at_any_point_repeats_nothing_when_the_calls_come_in_time(steps):
    world = World(spec(), SCRIPT).start().go(steps=steps)
    world.drain()
    for _ in range(20):
        if world.driver is None:
            break
        world._one(world._next())
    assert world.driver is None, "it is given back when its calls have come in"
    world.take_up().go()
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.AttemptInterrupted) == []
    assert len(attempts(world)) == len(set(attempts(world))) == len(world.of(ev.CallIssued))
    assert {attempt for _, attempt in attempts(world)} == {1}


def test_the_answer_is_journaled_and_what_follows_from_it_is_the_next_owner_s():
    world = World(lone(), {"worker": asks(), "look": gives().after(3)}).start()
    world.go(until_s=2)
    world.drain()
    world._one(world._next())
    assert world.kinds[-1] == "tool_answered"
    assert world.driver is None
    assert world._resting_wake == world.now
    asked = len(world.requests)
    world.take_up()
    assert len(world.requests) == asked + 1


def test_the_calls_of_an_answer_that_was_waited_for_are_the_next_owner_s():
    world = World(lone(), {"worker": [asks().after(2), summary()]}).start()
    world.go(until_s=1)
    world.drain()
    world._one(world._next())
    assert world.kinds[-1] == "model_answered"
    assert world.executed == []
    assert world.driver is None
    assert world.take_up().go().end.state is RunState.COMPLETED
    assert len(world.executed) == 1
    assert world.of(ev.AttemptInterrupted) == []


def test_a_run_that_waits_for_a_retry_is_given_back_at_once_and_its_retry_keeps_its_instant():
    world = World(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=20), summary()]}).start()
    world.go(until_s=5)
    at = world.of(ev.RetryScheduled)[0].not_before
    world.drain()
    assert world.driver is None
    rows = len(world.rows)
    world.take_up()
    assert len(world.rows) == rows
    world.go()
    assert next(e.at for e in world.events if e.fact.kind == "call_issued" and e.fact.attempt == 2) == at


def test_a_retry_that_falls_due_while_it_drains_is_the_next_owner_s():
    script = [fails(Cause.RATE_LIMIT, retry_after_s=2), HANGS, summary()]
    world = World(lone(workers=2), {"worker": script}).start()
    world.go(until_s=1)
    world.drain()
    issued = len(world.of(ev.CallIssued))
    world.wake = None
    world.now += 3_000_000
    world._step(Due())
    assert len(world.of(ev.CallIssued)) == issued


def test_what_is_out_at_the_end_is_interrupted_once_and_goes_out_again_under_its_key():
    world = World(lone(), {"worker": [HANGS, summary()]}).start()
    world.go(until_s=5)
    world.drain()
    assert world.driver is not None
    world.cut()
    assert world.kinds[-1] == "attempt_interrupted"
    assert world.driver is None
    world.take_up().go()
    first, second = world.of(ev.CallIssued)
    (lost,) = world.of(ev.AttemptInterrupted)
    assert (second.command_id, second.attempt, second.key) == (first.command_id, 2, first.key)
    assert lost.charged_usd_micros == first.reserved_usd_micros
    assert world.of(ev.OwnershipTaken) == []  # It was given back, not lost.
    assert world.end.state is RunState.COMPLETED
    assert world.run.guards[budget.NAME].reserved == {}


def test_what_was_never_sent_costs_nothing():
    world = World(lone(), {"worker": [HANGS, summary()]}).start()
    world.go(until_s=5)
    (issued,) = world.of(ev.CallIssued)
    world.cut((issued.command_id, 1))
    (lost,) = world.of(ev.AttemptInterrupted)
    assert (lost.charged_usd_micros, lost.charged_tokens) == (0, 0)
    assert world.take_up().go().end.state is RunState.COMPLETED


def test_a_tool_that_was_cut_goes_out_again():
    world = World(lone(), {"worker": [asks(), summary()], "look": [gives().after(9), gives("again")]}).start()
    world.go(until_s=5)
    world.cut().take_up().go()
    first, second = (fact for fact in world.of(ev.CallIssued) if fact.call == "tool")
    assert (first.key, first.attempt, second.attempt) == (second.key, 1, 2)
    assert world.end.state is RunState.COMPLETED


def test_an_ending_run_is_over_when_its_last_call_is_cut():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start()
    world.go(until_s=5)
    world.cut()
    assert world.end.state is RunState.ABORTED
    assert world.of(ev.AttemptInterrupted) == []
    assert [fact.reason for fact in world.of(ev.CallAborted)][-1] == "its process stops and the run is ending"


def test_a_cancel_is_obeyed_while_it_drains():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=5)
    world.drain().cancel()
    assert world.end.state is RunState.CANCELLED


def test_the_clocks_of_a_review_stop_although_it_drains():
    """A branch that went to a person as the last thing before the stop: its run's deadline must not go on running."""
    table = {"provider_failure": {"high_stakes": {"rungs": [{"reaction": "escalate"}]}}}
    refuses = fails(Cause.SERVER_ERROR).after(2)
    world = World(lone(table=table), {"worker": refuses}, tier=Tier.HIGH_STAKES).start().go(until_s=1)
    world.drain()
    world._one(world._next())
    assert world.driver is None
    assert len(world.run.reviews) == 1
    assert world.run.suspended is not None
