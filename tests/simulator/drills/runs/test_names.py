"""A drill's runs have names: ids of their own where they are kept, and nothing else is another for it."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from fabric.core.events.envelope import split_rows
from fabric.core.values.fingerprint import digest
from simulator.drills.fabrics import default_table, samples
from simulator.scenarios.baseline.work import observe_chain
from simulator.scenarios.play.cells import drill_told
from simulator.scenarios.promises.digests import CELLS
from simulator.swarm import setups as swarm
from simulator.swarm.setups import WorldNames
from simulator.world.campaign import campaign
from simulator.world.world import World
from tests.console.nasty import crossed

SPECS = {spec.name: spec for spec in (default_table(), *samples())}


def kinds(world):
    """Return what each run's journal says happened, and when."""
    return [[(row.kind, row.at) for row in split_rows(world.store.rows(run_id))] for run_id in world.store.run_ids()]


def told(world, children):
    """The same; with children what happened alone: which of several is first is their ids' order, and with it what is drawn for each."""
    found = kinds(world)
    return sorted([kind for kind, _ in run] for run in found) if children else found


@pytest.mark.parametrize("name", SPECS)
def test_no_decision_and_no_instant_of_any_cell_depends_on_what_its_runs_are_called(name):
    met = 0
    children = SPECS[name].topology.kind == "hierarchical"
    cells = [cell for shown, cell in crossed(SPECS, CELLS, each=6) if shown == name]
    for failure, tier in cells:
        plain = drill_told(SPECS[name], failure, tier, seed=5)
        named = drill_told(SPECS[name], failure, tier, seed=5, names=WorldNames("drill-1", "w"))
        assert named.cell == plain.cell, (failure, tier)
        for one, other in ((plain.before, named.before), (plain.world, named.world)):
            assert one is not None
            assert other is not None
            assert told(one, children) == told(other, children), (failure, tier)
            assert not set(one.store.run_ids()) & set(other.store.run_ids())
        met += bool(observe_chain(named.world).links)
    assert met == len(cells) >= len(CELLS) // 6, "each of them decided something"


def test_runs_with_names_are_uuids_of_their_workspace_and_no_two_worlds_share_one():
    failure, tier = CELLS[0]
    tolds = [drill_told(default_table(), failure, tier, seed=5, names=WorldNames(salt, "w")) for salt in ("a", "b")]
    ids = [run_id for told in tolds for world in (told.before, told.world) for run_id in world.store.run_ids()]
    assert len(set(ids)) == len(ids) == 6
    assert all(str(UUID(run_id)) == run_id for run_id in ids)
    assert {told.world.store.tables.runs[run_id].new.workspace_id for told in tolds for run_id in told.world.store.run_ids()} == {"w"}  # fmt: skip


@pytest.mark.parametrize("seed", [11, 40, 45])
def test_a_world_without_names_is_the_seeds_alone_and_with_them_as_much_happens(seed):
    """The seed of a campaign finds its runs again: ids are digests of it, as ever. 40 and 45 have a workspace with a cap."""
    setup = swarm.draw(seed)
    plain, named = World(setup), World(replace(setup, names=WorldNames("a salt", "w")))
    for world in (plain, named):
        world.run()
        assert not world.watch.violations
    (report,) = campaign([seed])
    assert plain.digest() == report.digest != named.digest()
    assert digest(seed, "run", 0) in plain.store.run_ids()
    capped = [scope for scope, _ in named.grants.all_budgets() if scope.startswith("workspace:")]
    assert capped == (["workspace:w"] if seed % 5 == 0 else [])
