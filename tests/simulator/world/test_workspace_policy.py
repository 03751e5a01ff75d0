"""The virtual world under a workspace's policy: every check holds, the same seed is the same world, and the policy is what stops a run."""

from dataclasses import replace

import pytest

from fabric.core.mechanisms import budget, find_state
from fabric.core.values.taxonomy import Tier
from fabric.core.workspace_policy.policy import WorkspacePolicy
from simulator.swarm import fabrics as published
from simulator.swarm.setups import draw
from simulator.world.campaign import simulate_setup
from tests.simulator.world.quiet_worlds import supervisor, world

POLICY = WorkspacePolicy.model_validate(
    {
        "irreversible": ["builtin:*", "callable:*", "http:*"],
        "four_eyes": ["batch"],
        "waivers": "nobody",
        "caps": {"run_usd_micros": 40_000},
        "limits": {"turns": 3, "run_events": 400},
        "protections": ["loop_detector", "progress", "screening", "credentials"],
    }
)


def under(seed, policy):
    """The setup of a seed, of one tier, with its fabric under a policy."""
    setup = draw(seed)
    tier = setup.runs[0].tier
    fabric = published.publish(setup.fabric.compiled.spec, setup.fabric.revision_id, policy=policy, tier=tier)
    return replace(setup, fabric=fabric, runs=tuple(replace(one, tier=tier) for one in setup.runs))


@pytest.mark.parametrize("seed", range(12))
def test_every_check_holds_under_it_and_the_same_seed_is_the_same_world(seed):
    first, again = (simulate_setup(under(seed, POLICY)) for _ in range(2))
    assert first.violations == ()
    assert first.digest
    assert first == again


def test_it_makes_a_difference_that_the_revision_does_not_show():
    free, held = (under(3, policy) for policy in (WorkspacePolicy(), POLICY))
    assert free.fabric.compiled.revision == held.fabric.compiled.revision
    digests = {simulate_setup(under(seed, policy)).digest for seed in (3, 5) for policy in (WorkspacePolicy(), POLICY)}
    assert len(digests) > 2


def test_a_model_at_another_host_is_not_asked_there_either():
    spec = supervisor(
        models=[
            {
                "name": "model",
                "provider": "scripted",
                "base_url": "https://x.example/v1",
                "price": {"input_usd_per_mtok": "0", "output_usd_per_mtok": "0"},
            }
        ]
    )
    made = world(spec)
    fabric = published.publish(spec, "revision", policy=WorkspacePolicy(hosts=("y.example",)), tier=Tier.INTERACTIVE)
    setup = replace(made.setup, fabric=fabric)
    held = type(made)(setup)
    held.run()
    (run,) = held.watch.runs()
    assert (run.terminal, held.watch.violations) == (True, [])
    assert find_state(run.guards, budget).by_agent == {}, "no agent was ever asked"
