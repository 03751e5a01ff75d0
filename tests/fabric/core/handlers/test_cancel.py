"""Cancel, at every point of a run, and what a run that has ended makes of anything that still comes."""

from __future__ import annotations

from typing import Any

import pytest

from fabric.core import events as ev
from fabric.core.engine import decide
from fabric.core.events.inputs import (
    CallFailed,
    CancelRequested,
    DecisionMade,
    ModelReplied,
    OwnerChanged,
    RunRequested,
    TimeReached,
    ToolFinished,
    WorkerStopping,
)
from fabric.core.mechanisms import budget
from fabric.core.state.context import Contents, Context
from fabric.core.values.flow import TERMINAL, RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import HANGS, asks, call, fails, planned, say, scored, summary

LIVELY: dict[str, Any] = {
    "planner": [fails(), planned(3)],
    "worker": [
        asks(call(q="x")),
        asks(call(q="y"), call(q="z")),
        fails(),
        *[asks(call(q="w"))] * 2,
        summary().after(4),
    ],
    "critic": scored(0.3),
}
STEPS = 40


def lively(**fields) -> World:
    return World(spec(), LIVELY, Tier.BATCH, **fields).start()


def test_the_lively_run_has_something_to_cancel_at_every_step():
    world = lively().go()
    assert world.run.reviews
    assert {"retry_scheduled", "tool_answered", "review_opened", "deadlines_suspended"} <= set(world.kinds)
    assert not lively().go(steps=STEPS).run.reviews or len(world.rows) > STEPS / 2


@pytest.mark.parametrize("steps", range(STEPS))
def test_cancelled_at_any_point_a_run_ends_as_cancelled_and_issues_nothing_more(steps):
    world = lively(late=True).go(steps=steps)
    out = {key for key, pending in world.run.pending.items() if not pending.failed}
    world.cancel("enough")
    assert (world.end.state, world.end.reaction, world.end.reason) == (RunState.CANCELLED, "cancel", "enough")
    accepted = world.kinds.index("cancel_accepted")
    assert "call_issued" not in world.kinds[accepted:]
    assert {fact.command_id for fact in world.of(ev.CallAborted)} >= out
    ledger = world.run.guards[budget.NAME]
    assert ledger.reserved == {}
    assert (world.run.pending, world.run.timers, world.run.reviews) == ({}, {}, {})
    assert world.kinds.count("run_ended") == 1


def test_what_was_in_flight_is_charged_at_worst_case():
    world = World(lone(), {"worker": HANGS}).start()
    world.go(until_s=5)
    world.cancel()
    issued = world.of(ev.CallIssued)[0]
    assert world.run.guards[budget.NAME].spent_usd_micros == issued.reserved_usd_micros
    assert [abort.command_id for abort in world.aborted] == [issued.command_id]


def test_cancelling_withdraws_the_open_review():
    world = ran(lone(), {"worker": say("no")}, tier=Tier.HIGH_STAKES)
    world.cancel()
    assert world.of(ev.ReviewWithdrawn)[0].reason == "the run is ending"
    assert world.end.state is RunState.CANCELLED


def test_a_partial_result_survives_a_cancel():
    world = World(spec(), {"planner": planned(2), "worker": [summary("One."), HANGS]}).start()
    world.go(until_s=5)
    world.cancel()
    assert world.end.partial
    assert world.outcome["text"] == "One."


def test_a_cancelled_run_that_never_started_ends_at_once():
    world = World(lone())
    world.put(CancelRequested(input_id="cancel", actor="alice"))
    world.go()
    assert world.kinds == ["cancel_accepted", "run_ending", "run_ended"]
    assert world.end.reason == "cancelled by alice"


def test_cancelling_an_ending_run_ends_it_sooner_and_not_otherwise():
    table = {"provider_failure": {"interactive": {"rungs": [{"reaction": "abort"}]}}}
    world = World(lone(workers=2, table=table), {"worker": [fails(Cause.AUTH), HANGS]}).start()
    world.go(until_s=5)
    assert world.run.state is RunState.UNWINDING
    world.cancel()
    assert (world.end.state, world.elapsed_s) == (RunState.ABORTED, 5)
    assert len(world.of(ev.RunEnding)) == 1


# -- terminal absorbs ------------------------------------------------------------------------------------------------

ARRIVALS = [
    RunRequested(input_id="i", request={"text": "x"}, deadline_at=T0),
    DecisionMade(input_id="i", review_id="e", verb="approve", actor="bob", digest="d"),
    CancelRequested(input_id="i", actor="bob"),
    ModelReplied(command_id="fan_out.0.e0.r0.t1", attempt=1, text="late"),
    ToolFinished(command_id="fan_out.0.e0.r0.t1.c0", attempt=1, result="late"),
    CallFailed(command_id="fan_out.0.e0.r0.t1", attempt=1, cause=Cause.TIMEOUT, message="late"),
    OwnerChanged(input_id="i", fence=9, incarnation="other"),
    WorkerStopping(),
    TimeReached(),
]


def ended(state: RunState) -> World:
    if state is RunState.STOPPED:
        return ran(lone(limits={"turns": 1}), {"worker": [asks(call(q="x")), summary()]})
    if state is RunState.COMPLETED:
        return ran(lone())
    if state is RunState.CANCELLED:
        world = World(lone(), {"worker": HANGS}).start()
        world.go(until_s=2)
        return world.cancel()
    if state is RunState.FAILED:
        return ran(lone(), {"worker": fails(Cause.AUTH)})
    return ran(lone(), {"worker": fails(Cause.QUOTA)})


@pytest.mark.parametrize("state", sorted(TERMINAL))
@pytest.mark.parametrize("given", ARRIVALS, ids=lambda given: given.kind)
def test_nothing_leaves_a_terminal_state(state, given):
    world = ended(state)
    assert world.run.state is state
    ctx = Context(world.now + 10**9 * US, "run-1", "t" * 32, 7, world.compiled, Contents())
    decision = decide(world.run, given, ctx)
    assert decision.run is world.run
    assert (decision.emitted, decision.commands) == ((), ())


def test_a_late_result_of_a_cancelled_run_changes_nothing():
    world = World(lone(), {"worker": summary().after(9)}, late=True).start()
    world.go(until_s=2)
    world.cancel()
    assert world.go().kinds[-1] == "run_ended"
