"""Another process goes on: what was journaled is never done again, what was in flight goes out once more under its key."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.events.inputs import ModelReplied
from fabric.core.mechanisms import budget
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.happenings import PortAnswered
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, gives, planned, say, scored, summary

SCRIPT = {
    "planner": planned(2),
    "worker": lambda command: (
        asks(call(call_id="c", q=command.step_id)) if command.command_id.endswith("t1") else summary()
    ),
    "look": gives().after(3),
    "critic": scored(0.9),
}


def answers(world) -> list[str]:
    return [fact.command_id for fact in world.facts if fact.kind in ("model_answered", "tool_answered")]


@pytest.mark.parametrize("steps", range(1, 12))
def test_a_crash_at_any_point_costs_at_most_what_was_in_flight(steps):
    world = World(spec(), SCRIPT).start().go(steps=steps)
    in_flight = {key for key, pending in world.run.pending.items() if not pending.failed}
    journaled = set(answers(world))
    performed = len(world.performed)
    world.crash()
    again = {command.command_id for command in world.performed[performed:]}
    assert again == in_flight
    world.go()
    assert world.end.state is RunState.COMPLETED
    assert len(answers(world)) == len(set(answers(world)))
    assert not journaled & {command.command_id for command in world.performed[performed:]}
    assert world.outcome["text"] == "The answer."


def test_a_call_in_flight_goes_out_again_as_the_next_attempt_of_the_same_key():
    world = World(lone(), {"worker": [HANGS, summary()]}).start()
    world.go(until_s=5)
    world.crash().go()
    first, second = world.of(ev.CallIssued)
    assert (second.command_id, second.attempt, second.key) == (first.command_id, 2, first.key)
    taken = world.of(ev.OwnershipTaken)[0]
    assert (taken.fence, taken.incarnation) == (2, "process-2")
    assert world.end.state is RunState.COMPLETED
    assert not world.end.recovered


def test_the_first_reservation_is_settled_at_worst_case():
    world = World(lone(), {"worker": [HANGS, summary()]}).start()
    world.go(until_s=5)
    world.crash().go()
    first = world.of(ev.CallIssued)[0]
    lost = world.of(ev.AttemptInterrupted)[0]
    assert (lost.charged_usd_micros, lost.charged_tokens) == (first.reserved_usd_micros, first.reserved_tokens)
    answered = world.of(ev.ModelAnswered)[0]
    spent = world.run.guards[budget.NAME]
    assert spent.spent_usd_micros == lost.charged_usd_micros + answered.cost_usd_micros
    assert spent.reserved == {}


def test_a_tool_call_in_flight_goes_out_again_under_its_key():
    world = World(lone(), {"worker": [asks(), summary()], "look": [gives().after(9), gives("again")]}).start()
    world.go(until_s=5)
    world.crash().go()
    first, second = (fact for fact in world.of(ev.CallIssued) if fact.call == "tool")
    assert (first.key, first.attempt, second.attempt) == (second.key, 1, 2)
    assert world.end.state is RunState.COMPLETED


def test_replays_are_not_what_the_detectors_count():
    world = World(lone(), {"worker": [asks(), asks(call(q="x")), summary()], "look": gives().after(9)}).start()
    world.go(until_s=5)
    for _ in range(4):
        world.crash()
        world.go(until_s=world.elapsed_s + 1)
    assert world.go().end.state is RunState.COMPLETED
    assert world.reactions == []


def test_a_retry_that_waits_keeps_its_instant():
    world = World(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=20), summary()]}).start()
    world.go(until_s=5)
    at = world.of(ev.RetryScheduled)[0].not_before
    rows = len(world.rows)
    world.crash()
    assert len(world.rows) == rows, "nothing was in flight, so there is nothing to say"
    world.go()
    assert next(e.at for e in world.events if e.fact.kind == "call_issued" and e.fact.attempt == 2) == at


def test_what_fell_due_meanwhile_is_done_on_taking_over():
    world = World(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=20), summary()]}).start()
    world.go(until_s=5)
    world.now += 30 * 1_000_000
    world.crash()
    assert world.kinds[-1] == "call_issued"
    assert world.go().end.state is RunState.COMPLETED


def test_after_the_deadline_nothing_goes_out_again():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=5)
    world.now += 3_600 * 1_000_000
    performed = len(world.performed)
    world.crash().go()
    assert world.end.state is RunState.ABORTED
    assert world.performed[performed:] == []


def test_a_review_is_still_open_for_the_next_owner():
    world = ran(lone(), {"worker": [say("no")] * 4 + [summary()]}, tier=Tier.HIGH_STAKES)
    rows = len(world.rows)
    world.crash().go()
    assert len(world.rows) == rows
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_an_ending_run_lets_go_of_what_the_dead_process_held():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start()
    world.go(until_s=5)
    performed = len(world.performed)
    world.crash().go()
    assert world.end.state is RunState.ABORTED
    assert all(command.kind == "abort_call" for command in world.performed[performed:])


def test_results_of_attempts_that_were_replaced_are_dropped():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=5)
    command = world.of(ev.CallIssued)[0].command_id
    world.crash()
    rows = len(world.rows)
    for attempt, taken in ((1, False), (3, False), (2, True), (2, False)):
        before = len(world.rows)
        world._step(PortAnswered(ModelReplied(command_id=command, attempt=attempt, text='{"text": "x"}')))
        assert (len(world.rows) > before) is taken, attempt
        if world.driver is None:
            break
    assert len(world.rows) > rows
