"""A run takes a policy up at its start and at its next claim: what a person raised before holds no longer than the policy lets it."""

from __future__ import annotations

from fabric.core import events as ev
from fabric.core.mechanisms import budget, find_state
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import PolicyCaps, WorkspacePolicy
from fabric.core.workspace_policy.under import tighten_fabric
from tests.fabric.core.deriving import Deriving
from tests.fabric.core.fabrics import compiled_under, lone
from tests.fabric.core.harness import World, ran
from tests.fabric.core.scripts import HANGS, summary


def capped(most: int | None) -> WorkspacePolicy:
    return WorkspacePolicy(caps=PolicyCaps(run_usd_micros=most))


def claimed_under(world: World, policy: WorkspacePolicy, number: int) -> World:
    """The run as another process claims it, after a policy was set."""
    how = {"prices": world.prices, "validators": world.validators, "prompt_overhead": world.compiled.prompt_overhead}
    world.compiled = compiled_under(world.spec, policy, world.tier, number, **how)
    world.deriving.compiled = world.compiled
    return world.crash()


def raised() -> World:
    """A run whose cap of 100 was raised to 1,000,000, and whose first call hangs since."""
    world = ran(lone(budget={"run_usd_micros": 100}), {"worker": [HANGS, summary()]}, tier=Tier.HIGH_STAKES)
    return world.decide(cap_usd_micros=1_000_000).go(until_s=5)


def cap_of(world: World) -> int:
    return budget.cap(world.compiled.spec.policy.budget, find_state(world.run.guards, budget))


def test_a_cap_that_was_raised_before_is_held_to_the_policys():
    world = claimed_under(raised(), capped(500), 1)
    assert [(one.number, one.run_usd_micros) for one in world.of(ev.PolicyTakenUp)] == [(1, 500)]
    assert cap_of(world) == 500
    world.go()
    assert world.of(ev.ReactionDecided)[-1].cause.evidence.limit == 500
    assert len(world.of(ev.CallIssued)) == 1, "no call went out after the policy was taken up"


def test_a_raised_cap_below_the_policys_stays():
    world = claimed_under(raised(), capped(2_000_000), 1).go()
    assert cap_of(world) == 1_000_000
    assert world.of(ev.ModelAnswered)


def test_a_policy_that_lets_more_gives_back_what_was_raised():
    world = claimed_under(claimed_under(raised(), capped(500), 1), capped(None), 2)
    assert [(one.number, one.run_usd_micros) for one in world.of(ev.PolicyTakenUp)] == [(1, 500), (2, None)]
    assert cap_of(world) == 1_000_000


def test_a_version_that_was_taken_up_is_not_journaled_again():
    world = claimed_under(claimed_under(raised(), capped(500), 1), capped(500), 1)
    assert len(world.of(ev.PolicyTakenUp)) == 1
    assert world.run.policy == 1


def test_a_run_that_begins_under_a_policy_says_so_right_after_its_start():
    fabric = lone()
    how = {"prices": World(fabric).prices, "prompt_overhead": World(fabric).compiled.prompt_overhead}
    world = World(fabric)
    world.compiled = compiled_under(fabric, capped(500_000), world.tier, 3, **how)
    world.deriving = Deriving(world.compiled, world.tier)
    world.start().go()
    assert [fact.kind for fact in world.facts[:2]] == ["run_started", "policy_taken_up"]
    assert (world.run.policy, cap_of(world)) == (3, min(500_000, fabric.policy.budget.run_usd_micros))


def test_the_number_goes_with_what_is_compiled():
    assert tighten_fabric(lone(), capped(5), Tier.BATCH, 7)[1].number == 7
