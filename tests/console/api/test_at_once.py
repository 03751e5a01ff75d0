"""Several threads in one moment, on both databases: what can be done once is done once, and all threads get the truth about it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import temporary_database
from tests.console.api.racing import CROWD, ROUNDS, SCENES, THREADS
from tests.fabric.stores.journal_worlds import installed
from tests.servers.own_server import own_server

pytestmark = pytest.mark.slow

AGAIN = THREADS - 1
HALF = THREADS // 2
TOLD = {
    "starts": [[200] * AGAIN + [201], 1],
    "other_starts": [[200, True]] * (HALF - 1) + [[201, True]] + [[409, False]] * HALF,
    "cancels": [[202, False]] * AGAIN + [[202, True]],
    "decisions": [[[200, False]] * AGAIN + [[200, True]], 1],
    "other_decisions": [[200] + [409] * AGAIN, True, 1],
    "unread_decisions": [["conflict"] * AGAIN, 1],
    "revocation": [[], True, 401],
}
"""The outcome of each round of each race, in any order of its racers."""


def test_every_race_has_its_end():
    assert set(TOLD) == {scene.__name__ for scene in SCENES}


def raced(environment, *scenes):
    command = [sys.executable, "-m", "tests.console.api.racing", *scenes]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_it_is_done_once(kind):
    with temporary_database(kind) as environment:
        told = raced(environment)
    assert told.pop("runs") == ROUNDS
    assert told == {name: [came_of] * ROUNDS for name, came_of in TOLD.items()}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_sixty_four_starts_with_one_key_are_one_run_and_one_answer(kind, tmp_path):
    with temporary_database("sqlite") if kind == "sqlite" else roomy(tmp_path) as environment:
        told = raced(environment, "crowd")
    assert told["crowd"] == [[[200] * (CROWD - 1) + [201], 1, 1, 409, True]] * ROUNDS


@contextmanager
def roomy(data):
    """A server of the test's own: the shared one does not have two connections for each of so many."""
    with own_server() as server:
        yield installed(data, DATABASE_URL=server.url())
