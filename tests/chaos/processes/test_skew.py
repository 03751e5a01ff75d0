"""A process that wears a wall clock sees what it is set to, at once, and the time that passes as it is."""

import json
import subprocess
import sys

import pytest

from simulator.installation.database import ROOT
from tests.chaos.processes.skew import set_wall, wear

LOOKS = """
import json, sys, time
from pathlib import Path
from fabric.worker.process.clock import SYSTEM_CLOCK
from fabric.worker.process.clock import elapsed_s
from tests.chaos.faults import failpoints
from tests.chaos.processes import skew
skew.wear(Path(sys.argv[1]))
began, places = elapsed_s(), failpoints.Failpoints(Path(sys.argv[1]).parent)
for _ in sys.stdin:
    true = time.clock_gettime(time.CLOCK_REALTIME)
    shown = [time.time(), time.time_ns() / 1e9, SYSTEM_CLOCK.now() / 1e6]
    places.note("seen.ndjson")
    print(json.dumps([[one - true for one in shown], elapsed_s() - began]), flush=True)
"""
"""Says how far each of its clocks is off, and how much time has passed, whenever it is asked."""


@pytest.fixture
def wall(tmp_path):
    file = tmp_path / "wall"
    set_wall(file, 0.0)
    return file


def test_a_clock_that_is_set_is_off_at_once_and_back_again_and_nothing_else_is(wall):
    command = [sys.executable, "-c", LOOKS, str(wall)]
    ends = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdin=ends, stdout=ends, text=True) as worn:
        for off_s in (0.0, 300.0, -90.5, 0.0):
            set_wall(wall, off_s)
            worn.stdin.write("look\n")
            worn.stdin.flush()
            shown, passed_s = json.loads(worn.stdout.readline())
            assert shown == pytest.approx([off_s] * 3, abs=10.0)
            assert 0 <= passed_s < 60
        worn.stdin.close()
    noted = [json.loads(line)["at"] for line in (wall.parent / "seen.ndjson").read_text().splitlines()]
    assert max(noted) - min(noted) < 60_000_000, "what the harness notes goes by the machine's clock"


def test_a_clock_that_was_not_made_is_not_used(tmp_path):
    with pytest.raises(FileNotFoundError):
        wear(tmp_path / "wall")
