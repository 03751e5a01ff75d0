"""The runtime keeps its promises in runs of the simulator: their fabrics draw gates that ask libraries."""

from __future__ import annotations

import pytest

from simulator.rules.durability import checks as damage_checks
from simulator.swarm import setups as swarm
from simulator.world.world import World

# -- two versions of the program in one fleet --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed_worlds():
    worlds = []
    for seed in range(3, 400, 4):
        setup = swarm.draw(seed)
        if damage_checks.is_mixed(setup.processes, seed):
            world = World(setup)
            world.run()
            worlds.append(world)
    return worlds


def test_no_run_is_lost_in_a_fleet_of_two_versions(mixed_worlds):
    assert [world.watch.violations for world in mixed_worlds if world.watch.violations] == []
    assert all(run.terminal for world in mixed_worlds for run in world.watch.runs())


def test_newer_inputs_were_met_by_the_older_version_and_taken_by_the_newer(mixed_worlds):
    handed = [
        run_id
        for world in mixed_worlds
        for run_id in world.store.run_ids()
        if world.store.tables.runs[run_id].format == damage_checks.NEXT
    ]
    assert sum(world.sometimes["newer_input"] for world in mixed_worlds) >= 3
    assert handed


# -- a state that does not grow ----------------------------------------------------------------------------------------


def test_a_replan_leaves_nothing_of_the_epoch_before_but_what_its_branches_spent():
    found = 0
    for seed in range(400):
        world = World(swarm.draw(seed))
        world.run()
        for run in world.watch.runs():
            if not run.epoch:
                continue
            found += 1
            epochs = {f".e{epoch}." for epoch in range(run.epoch)}
            held = [*(f"{key}." for key in run.guards), *(f"{key}." for key in run.spent_rungs), *run.steps]
            assert not [key for key in held for epoch in epochs if epoch in key]
        if found >= 3:
            return
    raise AssertionError("no seed replanned")
