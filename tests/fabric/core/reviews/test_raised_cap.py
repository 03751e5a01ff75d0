"""Finance approves a cost overrun and names the new cap: what is taken, what is refused, what then holds (docs/specification/reviews.md)."""

from __future__ import annotations

import pytest

from fabric.core import events as ev
from fabric.core.mechanisms import budget, find_state
from fabric.core.spec.policies.budgets import NamedCap
from fabric.core.values.flow import RunState
from fabric.core.values.taxonomy import Cause, Tier
from tests.fabric.core.fabrics import lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import fails
from tests.fabric.core.spenders import spender


def poor(**more) -> World:
    """A run whose first call is too dear."""
    return ran(lone(budget={"run_usd_micros": 100, **more}), tier=Tier.HIGH_STAKES)


def ignored(world):
    return [fact.reason for fact in world.of(ev.InputIgnored)]


def test_finance_is_asked():
    world = poor()
    assert world.review.fact.required_role == "finance"
    assert world.reactions == ["escalate"]


def test_the_run_goes_on_under_the_new_cap_and_no_further():
    world = poor().decide(cap_usd_micros=1_000_000).go()
    assert world.end.state is RunState.COMPLETED
    assert budget.cap(world.spec.policy.budget, find_state(world.run.guards, budget)) == 1_000_000
    again = poor().decide(cap_usd_micros=101).go()
    assert again.of(ev.CapRaised)[0].cap_usd_micros == 101
    assert again.of(ev.ReactionDecided)[-1].cause.evidence.limit == 101


def test_a_spent_budget_is_not_approved_without_a_new_cap():
    world = poor().decide().go()
    assert ignored(world) == ["the run has spent its budget of $0.0001: name a higher cap with the approval"]
    assert (world.of(ev.ReviewDecided), world.reactions) == ([], ["escalate"])
    assert world.decide(cap_usd_micros=1_000_000).go().end.state is RunState.COMPLETED


def test_a_spent_cap_of_a_stage_is_the_one_that_has_to_be_named():
    world = ran(lone(budget={"run_usd_micros": 10**6, "stage_usd_micros": 100}), tier=Tier.HIGH_STAKES)
    world.decide(cap_usd_micros=2 * 10**6).go()
    assert ignored(world) == ["stage fan_out has spent its budget of $0.0001: name a higher cap with the approval"]
    world.decide(caps=[NamedCap("stage:fan_out", "usd_micros", 10**6)]).go()
    assert world.end.state is RunState.COMPLETED


@pytest.mark.parametrize(
    "budget", [{"run_usd_micros": 100, "session_usd_micros": 100}, {"run_usd_micros": 10**6, "call_usd_micros": 1}]
)
def test_where_no_one_can_raise_it_here_an_approval_names_none(budget):
    """The session has no more, or it is the cap of one call."""
    world = ran(lone(budget=budget), tier=Tier.HIGH_STAKES).decide().go()
    assert (ignored(world), world.reactions) == ([], ["escalate", "escalate"])


def test_a_rate_may_be_approved_as_it_is():
    fabric, script = spender()
    world = ran(fabric, script, tier=Tier.HIGH_STAKES).decide().go()
    assert (ignored(world), world.reactions, world.end.state) == ([], ["escalate"], RunState.COMPLETED)


@pytest.mark.parametrize(
    ("cap", "more", "said"),
    [
        (99, {}, "is not above the present one of $0.0001"),
        (100, {}, "is not above the present one of $0.0001"),
        (501, {"session_usd_micros": 500}, "is above the $0.0005 that its session may spend"),
        (10**15 + 1, {}, "any run may spend"),
    ],
)
def test_a_cap_that_cannot_be_given_changes_nothing_and_the_review_stays(cap, more, said):
    world = poor(**more)
    world.decide(cap_usd_micros=cap).go()
    assert said in ignored(world)[0]
    assert world.of(ev.CapRaised) == world.of(ev.ReviewDecided) == []
    assert world.run.reviews


@pytest.mark.parametrize("cap", [101, 500])
def test_a_session_has_room_for_it_or_not(cap):
    world = poor(session_usd_micros=500).decide(cap_usd_micros=cap).go()
    assert world.of(ev.CapRaised)[0].cap_usd_micros == cap


def test_a_rejection_and_another_review_take_none():
    world = poor().decide("reject", cap_usd_micros=1_000_000).go()
    assert "a new cap goes with the approval of a cost overrun" in ignored(world)[0]
    other = ran(lone(), {"worker": fails(Cause.AUTH)}, tier=Tier.HIGH_STAKES)
    other.decide(cap_usd_micros=10**9).go()
    assert "a new cap goes with the approval of a cost overrun" in ignored(other)[0]


def test_the_cap_outlives_the_process():
    world = poor().decide(cap_usd_micros=1_000_000).go(steps=1)
    assert world.crash().go().end.state is RunState.COMPLETED
