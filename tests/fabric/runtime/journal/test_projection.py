"""The tables beside the journal show what the journal says."""

from __future__ import annotations

import json

import pytest

from fabric.core.decision.work import EmittedFact
from fabric.core.events.envelope import split_rows
from fabric.core.state.context import CompiledFabric
from fabric.core.state.run import Run
from fabric.core.values.flow import RunState, Stage
from fabric.core.values.taxonomy import Tier
from fabric.runtime.journal import projection
from tests.fabric.core.fabrics import lone, spec
from tests.fabric.core.harness import T0, US, World, ran
from tests.fabric.core.scripts import HANGS, fails, say, scored, summary


def columns(world: World):
    return projection.columns(world.run)


def changes(world: World):
    return projection.review_changes(
        [EmittedFact(e, r.payload) for e, r in zip(world.events, split_rows(world.rows), strict=True)]
    )


def test_a_run_that_never_started():
    empty = projection.columns(Run("run-1"))
    assert (empty.state, empty.started_at, empty.ended_at, empty.cost_usd_micros) == (RunState.QUEUED, None, None, 0)
    assert (empty.stage, empty.cause, empty.failure, empty.fired) == ("", "", "", "")


def test_a_run_on_its_way():
    world = World(spec(), {"worker": HANGS}).start()
    world.go(until_s=5)
    now = columns(world)
    assert (now.state, now.stage, now.epoch, now.started_at) == (RunState.RUNNING, Stage.FAN_OUT, 0, T0)
    assert (now.tokens, now.cost_usd_micros, now.deadline_at) == (70, 90, T0 + 300 * US)
    assert (now.ended_at, now.reason) == (None, "")


def test_a_run_that_waits_says_for_what():
    world = ran(spec(), {"critic": scored(0.25)})
    now = columns(world)
    assert (now.state, now.reason) == (
        RunState.WAITING,
        "the score is 0.25, and the fabric needs at least 0.70",
    )
    (opened,) = changes(world)
    fact = world.review.fact
    assert (opened.review_id, opened.item, opened.stage) == (fact.review_id, "post_stage", "validate")
    assert (opened.due_at, opened.digest, opened.verbs) == (
        fact.due_at,
        fact.digest,
        ("approve", "edit", "respond", "reject"),
    )
    assert json.loads(opened.content)["message"] == "the score is 0.25, and the fabric needs at least 0.70"
    assert opened.decided_at is None


@pytest.mark.parametrize(("verb", "state"), [("approve", RunState.COMPLETED), ("reject", RunState.ABORTED)])
def test_a_decision_closes_its_row(verb, state):
    world = ran(spec(), {"critic": scored(0.25)}).wait(60).decide(verb).go()
    opened, closed = changes(world)
    assert (closed.review_id, closed.verb, closed.decided_by, closed.by_system) == (
        opened.review_id,
        verb,
        "bob",
        False,
    )
    assert closed.decided_at is not None
    assert columns(world).state is state


def test_what_the_system_decides_and_withdraws_is_marked_as_its_own():
    expired = ran(lone(), {"worker": say("no")}, tier=Tier.HIGH_STAKES).wait(10**5)
    reminded, passed_on, closed = changes(expired)[1:]
    assert (reminded.reminded, reminded.onward) == (True, False)
    assert (passed_on.reminded, passed_on.onward) == (True, True)
    assert (closed.verb, closed.by_system) == ("reject", True)
    cancelled = ran(lone(), {"worker": say("no")}, tier=Tier.HIGH_STAKES).cancel()
    assert [(one.verb, one.by_system) for one in changes(cancelled)[1:]] == [("withdrawn", True)]


def test_a_run_that_has_ended():
    world = ran(lone(), {"worker": [fails(), summary()]})
    now = columns(world)
    assert (now.state, now.recovered, now.truncated, now.reason) == (RunState.COMPLETED, True, False, "finished")
    assert (now.cause, now.failure, now.fired) == ("rate_limit", "provider_failure", "\nretry\n")
    assert now.ended_at == world.events[-1].at
    assert now.breakers == ""


def test_a_row_has_its_cost_by_agent_and_model_and_the_part_that_no_bill_confirms():
    now = columns(ran(lone(), {"worker": [HANGS, summary()]}))
    spent = json.loads(now.spent_on)
    assert list(spent) == ["agent", "model"]
    assert sum(spent["agent"].values()) == sum(spent["model"].values()) == now.cost_usd_micros
    assert 0 < now.unconfirmed_usd_micros < now.cost_usd_micros
    assert columns(ran(lone())).unconfirmed_usd_micros == 0


def test_a_run_that_waits_after_a_decision_has_not_recovered():
    world = ran(lone(), {"worker": say("no")}, tier=Tier.HIGH_STAKES)
    now = columns(world)
    assert (world.run.recovered, now.state, now.recovered) == (True, RunState.WAITING, False)


def test_a_reason_is_cut_to_what_a_row_holds():
    world = ran(lone(), {"worker": fails(message="x" * 2_000)})
    assert len(columns(world).reason) == 500
    assert len(world.end.reason) > 500


def test_every_batch_carries_the_columns_after_it():
    world = ran(lone())
    assert isinstance(world.compiled, CompiledFabric)
    assert columns(world).ended_at == world.run.ended_at
