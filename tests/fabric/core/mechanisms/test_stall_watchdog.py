"""min(30 min, half the stage deadline) without an event is a stall; what another mechanism ends is none (docs/specification/protections.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.engine import wake_at
from fabric.core.mechanisms import stall_watchdog
from fabric.core.spec.policies.flow_policy import FlowPolicy
from fabric.core.state.run import Run, Step
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import PASS, Cause, FailureType, Tier
from tests.fabric.core.fabrics import lone, proposal, spec, view
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, scored, summary

POLICY = lone().policy
REASONS = {Cause.STALLED: lambda: ran(lone(stall_watchdog={"after_s": 5}), {"worker": HANGS})}


def at_work(**fields) -> Run:
    step = Step("fan_out.0.e0.r0", Stage.FAN_OUT, 0, 0, 0, "worker")
    return Run("run", **{"state": RunState.RUNNING, "tier": Tier.BATCH, "steps": {step.id: step}, **fields})


def check(run: Run, now_s: float, policy: FlowPolicy = POLICY):
    judged = proposal(kind="wait", target="small")
    config = stall_watchdog.config(policy)
    return stall_watchdog.check(config, stall_watchdog.State(), judged, view(run, int(now_s * US)))


@pytest.mark.parametrize(
    ("tier", "fields", "window"),
    [
        (Tier.INTERACTIVE, {}, 60),
        (Tier.BATCH, {}, 1_800),
        (Tier.HIGH_STAKES, {}, 300),
        (Tier.BATCH, {"deadlines": {"batch": {"call_s": 1, "stage_s": 86_400, "run_s": 86_400}}}, 1_800),
        (Tier.BATCH, {"stall_watchdog": {"after_s": 7.5}}, 7.5),
        (Tier.BATCH, {"stall_watchdog": {"after_s": 0}}, 0),
    ],
)
def test_the_window_of_each_tier(tier, fields, window):
    assert stall_watchdog.window_s(lone(**fields).policy, tier) == window


def test_it_acts_at_the_instant_and_not_before():
    assert check(at_work(), 1_799.999999) is PASS
    verdict = check(at_work(), 1_800)
    assert (verdict.cause, verdict.evidence.limit, verdict.evidence.observed) == (Cause.STALLED, 1_800, 1_800)
    assert verdict.evidence.unit == "s"
    assert check(at_work(at=US), 1_800) is PASS


@pytest.mark.parametrize(
    "fields",
    [
        {"state": RunState.QUEUED},
        {"state": RunState.COMPLETED},
        {"timers": {"fan_out.0.e0.r0.t1": 9}},
        {"ending": ev.RunEnding(state=RunState.ABORTED, reaction="abort", reason="")},
        {"suspended": ev.DeadlinesSuspended(run_remaining_us=1, stage_remaining_us=1)},
        {"steps": {}},
    ],
)
def test_a_call_that_is_ended_elsewhere_is_no_stall(fields):
    assert check(at_work(**fields), 10**9) is PASS


def test_zero_is_off():
    assert check(at_work(), 10**9, lone(stall_watchdog={"after_s": 0}).policy) is PASS


# -- in the engine -----------------------------------------------------------------------------------------------------

LONG = {str(tier): {"call_s": 3_600, "stage_s": 3_600, "run_s": 86_400} for tier in Tier}


def decided(world) -> ev.ReactionDecided:
    return world.of(ev.ReactionDecided)[0]


def test_a_call_that_hangs_is_let_go_of_after_half_an_hour_and_the_agent_answers_with_what_it_has():
    world = ran(lone(deadlines=LONG), {"worker": [asks(call(q="x")), HANGS, summary()]})
    assert (decided(world).failure_type, decided(world).cause.cause) == (FailureType.NO_PROGRESS, Cause.STALLED)
    assert decided(world).cause.evidence.details["target"] == "small"
    issued, tripped = (e for e in world.events if e.fact is decided(world) or e.seq == _last_call(world).seq)
    assert tripped.at - issued.at == 1_800 * US
    assert world.reactions == ["terminate"]
    assert [command.command_id for command in world.aborted] == ["fan_out.0.e0.r0.t2"]
    assert (world.end.state, world.end.truncated) == (RunState.STOPPED, True)


def _last_call(world):
    """The last event before the silence."""
    before = [event for event in world.events if event.seq < _event_of(world, decided(world)).seq]
    assert before[-1].fact.kind == "call_issued"
    return before[-1]


def _event_of(world, fact):
    return next(event for event in world.events if event.fact is fact)


def test_a_call_that_comes_back_just_in_time_is_no_stall():
    world = ran(lone(deadlines=LONG), {"worker": [asks(call(q="x")).after(1_799.9), summary().after(1_799.9)]})
    assert world.end.state is RunState.COMPLETED
    assert world.reactions == []


def test_batch_replans_once_and_then_asks_a_person():
    script = {"planner": planned(2), "worker": HANGS}
    world = ran(spec(deadlines=LONG), script, tier=Tier.BATCH)
    assert world.reactions == ["replan", "escalate", "escalate"]
    assert {fact.cause.cause for fact in world.of(ev.ReactionDecided)} == {Cause.STALLED}
    world.decide("reject").go()
    assert world.end.state is RunState.ABORTED


def test_high_stakes_asks_at_once_and_a_person_who_takes_hours_is_no_stall():
    world = ran(lone(deadlines=LONG), {"worker": [HANGS, summary()]}, tier=Tier.HIGH_STAKES)
    assert world.reactions == ["escalate"]
    world.wait(7 * 3_600)
    assert world.reactions == ["escalate"]
    world.decide("approve").go()
    assert world.end.state is RunState.COMPLETED


def test_each_silent_branch_has_its_own_reaction():
    script = {"worker": [HANGS, HANGS, summary("One."), summary("Two.")]}
    world = ran(lone(workers=2, deadlines=LONG), script)
    assert [(fact.step_id, fact.reaction) for fact in world.of(ev.ReactionDecided)] == [
        ("fan_out.0.e0.r0", "terminate"),
        ("fan_out.1.e0.r0", "terminate"),
    ]
    assert world.end.state is RunState.STOPPED


def test_off_it_is_the_stages_deadline_that_ends_the_silence():
    world = ran(lone(deadlines=LONG, stall_watchdog={"after_s": 0}), {"worker": HANGS}, tier=Tier.HIGH_STAKES)
    assert decided(world).cause.cause is Cause.STAGE_DEADLINE


def test_a_pause_and_a_scheduled_retry_are_no_stall():
    fabric = lone(stall_watchdog={"after_s": 10})
    world = ran(fabric, {"worker": [fails(Cause.RATE_LIMIT, retry_after_s=45), summary()]})
    assert world.reactions == ["retry"]
    assert world.end.state is RunState.COMPLETED


def test_the_run_says_when_its_silence_would_be_a_stall():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=1)
    assert wake_at(world.run, policy=world.spec.policy) == world.run.at + 60 * US
    assert wake_at(world.run) == T0 + 120 * US
    waiting = ran(spec(), {"critic": scored(0.2)})
    assert stall_watchdog.due_at(waiting.run, 1.0) is None
