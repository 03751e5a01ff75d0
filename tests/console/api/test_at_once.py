"""The same request from several threads at once, on both databases: it is done once, and told alike."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from console.launch.paths import ROOT
from simulator.bench.database import fresh
from tests.console.api.racing import ROUNDS, THREADS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_it_is_done_once(kind):
    with fresh(kind) as environment:
        command = [sys.executable, "-m", "tests.console.api.racing"]
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    again = THREADS - 1
    assert told["starts"] == [[200] * again + [201]] * ROUNDS
    assert told["runs"] == ROUNDS
    assert told["cancels"] == [[[202, False]] * again + [[202, True]]] * ROUNDS
    assert told["decisions"] == [[200, False]] * again + [[200, True]]
    assert told["answers"] == 1
