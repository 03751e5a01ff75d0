"""Deadlines as the engine keeps them: instants that nothing moves, attempts that could not finish, the rows they take (docs/specification/protections.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.engine import wake_at
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, gives, planned, scored, summary

DEFAULTS = [
    (Tier.INTERACTIVE, 30, 120, 300),
    (Tier.BATCH, 120, 3_600, 86_400),
    (Tier.HIGH_STAKES, 60, 600, 3_600),
]


@pytest.mark.parametrize(("tier", "call_s", "stage_s", "run_s"), DEFAULTS)
def test_the_defaults_of_each_tier(tier, call_s, stage_s, run_s):
    world = ran(lone(), tier=tier)
    entered = world.of(ev.StageEntered)
    assert world.facts[0].deadline_at == T0 + run_s * US
    assert entered[0].deadline_at == T0 + stage_s * US
    assert world.of(ev.CallIssued)[0].deadline_at == T0 + call_s * US


def test_no_stage_outlives_the_run():
    slow = {"planner": planned().after(25), "worker": asks(call(q="x"), text='{"text": "A."}').after(25)}
    fabric = spec(deadlines={"interactive": {"call_s": 30, "stage_s": 120, "run_s": 130}})
    world = ran(fabric, {**slow, "look": gives().after(25), "aggregator": summary().after(25)})
    assert max(fact.deadline_at for fact in world.of(ev.StageEntered)) == T0 + 130 * US
    assert world.of(ev.StageEntered)[0].deadline_at == T0 + 120 * US


def test_a_retry_never_moves_the_stage_or_the_run():
    world = ran(lone(), {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=20), fails(Cause.TIMEOUT), summary()]})
    assert world.end.state is RunState.COMPLETED
    assert world.of(ev.DeadlinesReissued) == []
    stages = {(fact.stage, fact.epoch) for fact in world.of(ev.StageEntered)}
    assert len(stages) == len(world.of(ev.StageEntered))
    assert [fact.deadline_at for fact in world.of(ev.CallIssued)] == [e.at + 30 * US for e in issued(world)]


def issued(world):
    return [event for event in world.events if event.fact.kind == "call_issued"]


def test_an_attempt_never_outlives_its_stage():
    fabric = lone(deadlines={"interactive": {"call_s": 30, "stage_s": 50, "run_s": 300}})
    world = ran(fabric, {"worker": [asks(call(q="x")).after(29), HANGS]})
    assert [fact.deadline_at for fact in world.of(ev.CallIssued)][-1] == T0 + 50 * US


def test_a_tools_own_timeout_is_used_where_it_is_shorter():
    for timeout, expected in ((5, 5), (90, 30)):
        world = ran(lone(tool={"timeout_s": timeout}), {"worker": [asks().after(0), summary()]})
        assert next(f for f in world.of(ev.CallIssued) if f.call == "tool").deadline_at == T0 + expected * US


@pytest.mark.parametrize(("tier", "state"), [(Tier.INTERACTIVE, RunState.ABORTED), (Tier.BATCH, RunState.ABORTED)])
def test_a_stage_that_is_over_time_takes_the_cost_row(tier, state):
    # The stage's deadline and the call's are the same instant; whichever is noticed first, it is the stage that is over.
    times = {str(tier): {"call_s": 30, "stage_s": 30, "run_s": 300}}
    world = ran(lone(deadlines=times, stall_watchdog={"after_s": 0}), {"worker": HANGS}, tier=tier)
    decided = world.of(ev.ReactionDecided)[0]
    assert (decided.failure_type, decided.cause.cause) == (FailureType.COST_OVERRUN, Cause.STAGE_DEADLINE)
    assert world.end.state is state
    assert world.events[-1].at == T0 + 30 * US
    assert world.end.reason == "the deadline of stage fan-out at 2027-01-15 08:00:30 UTC has passed"


def test_the_run_deadline_ends_the_run_whatever_it_does():
    times = {"interactive": {"call_s": 30, "stage_s": 300, "run_s": 40}}
    world = ran(lone(deadlines=times), {"worker": lambda c: asks(call(n=c.command_id)).after(7)})
    assert world.of(ev.ReactionDecided)[-1].cause.cause in (Cause.RUN_DEADLINE, Cause.DEADLINE_NEAR)
    assert world.end.state is RunState.ABORTED
    assert world.events[-1].at <= T0 + 40 * US


def test_an_attempt_that_could_not_finish_is_not_started():
    # call_s 30: at least 3 s must remain (10 %). At 118 s of 120 only 2 do.
    world = ran(lone(), {"worker": [*[asks(call(n=n)).after(29.4) for n in range(4)], summary()]})
    decided = world.of(ev.ReactionDecided)[0]
    assert decided.cause.cause is Cause.DEADLINE_NEAR
    assert decided.cause.evidence.limit == 3.0
    assert decided.cause.evidence.observed < 3.0
    assert decided.failure_type is FailureType.COST_OVERRUN
    assert world.end.state is RunState.ABORTED
    assert len(world.requests) == 4


def test_nothing_is_issued_after_the_deadline():
    for seed in range(5):
        world = ran(lone(), {"worker": lambda c: asks(call(n=c.command_id)).after(8)}, seed=seed)
        assert all(event.at < T0 + 120 * US for event in issued(world))


def test_the_run_says_when_it_wants_to_be_stepped_again():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=1)
    assert wake_at(world.run) == T0 + 120 * US
    retrying = World(lone(), {"worker": fails(Cause.RATE_LIMIT, retry_after_s=30)}).start()
    retrying.go(until_s=2)
    assert wake_at(retrying.run) == T0 + 31 * US
    assert wake_at(ran(lone()).run) is None


def test_the_wait_for_calls_in_flight_of_an_ending_run_needs_no_clock():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start()
    world.go(until_s=5)
    assert world.run.state is RunState.UNWINDING
    assert wake_at(world.run) is None
    assert world.go().end.state is RunState.ABORTED


ESCALATES = {"cost_overrun": {"interactive": {"rungs": [{"reaction": "escalate"}]}}}


def test_a_run_deadline_is_asked_about_once_and_then_waits_for_the_answer():
    fabric = spec(table=ESCALATES, deadlines={"interactive": {"call_s": 30, "stage_s": 40, "run_s": 40}})
    world = ran(fabric, {"planner": planned().after(25), "worker": HANGS})
    (review,) = world.run.reviews.values()
    assert (review.fact.reason, review.at) == (
        "the deadline of the run at 2027-01-15 08:00:40 UTC has passed",
        T0 + 40 * US,
    )
    assert wake_at(world.run) == review.fact.remind_at
    world.wait(301)
    assert world.of(ev.ReviewOpened) == [review.fact]
    assert world.end.reason == "no one answered in time (the deadline of the run at 2027-01-15 08:00:40 UTC has passed)"


def test_a_review_without_an_answer_by_the_run_deadline_expires_and_is_not_asked_anew():
    world = ran(spec(table=ESCALATES), {"critic": scored(0.2)})
    assert world.review.fact.item == "post_stage"
    world.wait(301)
    assert (world.of(ev.ReviewWithdrawn), len(world.of(ev.ReviewOpened))) == ([], 1)
    assert world.end.reason.startswith("no one answered in time (the score is 0.20")
