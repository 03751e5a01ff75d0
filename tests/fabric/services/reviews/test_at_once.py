"""Sixteen people at the same reviews in one moment, on both databases: one holder, one decision, all others get the truth about it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.installation.database import temporary_database
from tests import sets
from tests.fabric.services.reviews.racing_program import PEOPLE, ROUNDS, SCENES

pytestmark = pytest.mark.slow

REVIEWS = 200 if sets.is_nightly() else 24
TOLD = {
    "claims": [[1] * ROUNDS] * 2,
    "nexts": [[PEOPLE, PEOPLE, PEOPLE], [PEOPLE - 5, PEOPLE - 5, PEOPLE - 5]],
    "pairs": [[[[1, ROUNDS]]] * 2, ROUNDS, True],
    "decisions": [[[1, REVIEWS]], REVIEWS, REVIEWS * (PEOPLE - 1), True],
}
"""The outcome of each race, in any order of its racers."""


def test_every_race_has_its_end():
    assert set(TOLD) == {scene.__name__ for scene in SCENES}


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_one_is_first(kind):
    command = [sys.executable, "-m", "tests.fabric.services.reviews.racing_program", str(REVIEWS)]
    with temporary_database(kind) as environment:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout.splitlines()[-1]) == TOLD
