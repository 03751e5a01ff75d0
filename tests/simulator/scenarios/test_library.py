"""The shipped scenarios: each can be read, each row of the table and each fault has one, and each is written as it was read."""

from __future__ import annotations

import pytest

from fabric.core.values.taxonomy import FailureType, Tier
from simulator.faults.fault import PORTS
from simulator.scenarios.spec.collection import FOLDER, find_shipped, library
from simulator.scenarios.spec.toml import dump, parse_scenario

WORLD = {"store", "broker", "worker", "clock"}
"""Ports whose faults promise no decision."""


def test_every_file_is_a_scenario_of_its_own_name():
    files = sorted(path.stem for path in FOLDER.iterdir())
    assert files
    assert list(library()) == files
    assert [scenario.name for scenario in library().values()] == files
    assert len({scenario.title for scenario in library().values()}) == len(files)


def test_every_row_of_the_table_has_a_scenario():
    assert {scenario.failure for scenario in library().values()} == {*FailureType, None}


def test_every_port_has_a_scenario():
    used = {one.fault.port for scenario in library().values() for one in scenario.disturbances()}
    assert used == set(PORTS)


@pytest.mark.parametrize("name", library())
def test_a_scenario_reads_back_as_it_was_written(name):
    assert parse_scenario(dump(find_shipped(name))) == find_shipped(name)


@pytest.mark.parametrize("name", library())
def test_a_scenario_is_whole(name):
    scenario = find_shipped(name)
    ports = {one.fault.port for one in scenario.disturbances()}
    asks = "person" in ports and scenario.failure is not None
    undoes = name == "undoing-fails"
    # In the other tier no person is asked about a failure, and nothing is undone.
    assert scenario.tiers == ((Tier.BATCH, Tier.HIGH_STAKES) if asks or undoes else tuple(Tier))
    assert scenario.steady_state.probes
    assert scenario.abort.virtual_s
    assert scenario.failure is None or not ports <= WORLD, "a fault of the world promises no decision"
    assert bool(scenario.only_virtual()) == bool(ports - {"model", "answer"})


def test_a_scenario_that_is_not_shipped_is_told_with_the_one_that_is_like_it():
    with pytest.raises(LookupError, match="there is no scenario 'rate-limit-strom'; did you mean 'rate-limit-storm'?"):
        find_shipped("rate-limit-strom")
