"""A process stood still while something fell due and a person spoke: it hears what was said before it acts on the time."""

from __future__ import annotations

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.events.inputs import INBOX, CallFailed, CancelRequested
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from fabric.runtime.ports.calls import ModelRequest
from simulator.cast.agents import Reply
from simulator.world.campaign import simulate
from simulator.world.world import World
from tests.simulator.world.quiet_worlds import cooperative, supervisor, world

RETRY_S = 30.0


def busy_planner(request: ModelRequest) -> Reply:
    """The planner's provider is busy for half a minute at first."""
    if request.agent != "planner" or request.attempt > 1:
        return cooperative(request)
    failed = CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.SERVER_ERROR,
        message="busy",
        status=503,
        retry_after_s=RETRY_S,
    )
    return Reply(1.0, failed)


def stands_still(made: World, from_s: float, to_s: float) -> None:
    """The only process, between these seconds; its lease is not at stake, since no other is there."""

    def stop() -> None:
        made.processes[0].paused = True

    made.later(from_s, stop)
    made.later(to_s, lambda: made.processes[0].resume())  # noqa: PLW0108 - there is no process before the world runs


@pytest.mark.parametrize(("until_s", "looks"), [(31.9, 0), (50.0, 1)])
def test_a_cancel_given_while_a_process_stood_still_comes_before_its_late_retry(until_s: float, looks: int) -> None:
    made = world(supervisor(), tier=Tier.BATCH, ask=busy_planner)
    stands_still(made, 10.0, until_s)
    made.later(12.0, cancelled, made)
    made.run()
    (run,) = made.watch.runs()
    issued = [row for row in split_rows(made.store.rows(made.store.run_ids()[0])) if row.kind == "call_issued"]
    assert made.watch.violations == []
    assert made.sometimes["woke_late"] == looks
    assert run.state is RunState.CANCELLED
    assert len(issued) == 2 - looks


def test_a_review_that_is_written_once_it_is_due_is_answered_at_that_instant_and_not_before() -> None:
    """Each commit takes three seconds, and people have one: virtual time would have had to go back."""
    policy = {"budget": {"run_usd_micros": 1_000_000}, "humans": {"due_s": 1.0}}
    rates = {"unsure": 1.0, "slow_commit": 1.0}
    made = world(supervisor(policy=policy), tier=Tier.BATCH, rates=rates, ask=None)
    made.run()
    (change,) = [change for _, change in made.store.reviews.values()]
    assert made.watch.violations == []
    assert made.sometimes["slow_commit"] > 0
    assert change.decided_at is not None
    assert change.decided_at > change.due_at


def cancelled(made: World) -> None:
    """No process is told of it: the next one that looks finds it."""
    (run_id,) = made.store.run_ids()
    given = CancelRequested(input_id="cancel", actor="caller", reason="no longer needed")
    made.watch.register_input(run_id, given)
    made.store.put_input(run_id, given.input_id, INBOX.dump_json(given), delay_s=0.0, wakes=2)


@pytest.mark.parametrize("seed", [91_291, 100_408, 103_132])
def test_worlds_in_which_a_review_expired_over_an_answer(seed: int) -> None:
    assert not simulate(seed).violations
