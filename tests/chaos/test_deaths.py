"""What a worker's end was: meant, its own, or one that nobody meant."""

import signal
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from simulator.chaos.installation import Installation, Plan
from simulator.chaos.rows import Rows

PID = 7
SLOT = SimpleNamespace(name="w0", pid=PID)


@pytest.fixture
def made(tmp_path):
    """An installation of which only the rows of its runs are there."""
    with closing(sqlite3.connect(tmp_path / "fabric.sqlite3")) as file:
        file.execute("CREATE TABLE fabric_run (id TEXT, incarnation TEXT, state TEXT)")
        file.execute("CREATE TABLE fabric_incarnation (name TEXT, pid INTEGER)")
    return Installation(Plan(), tmp_path, {}, Rows(tmp_path))


def owns_a_run(made):
    with closing(sqlite3.connect(made.folder / "fabric.sqlite3", isolation_level=None)) as file:
        file.execute("INSERT INTO fabric_incarnation VALUES ('w', ?)", (PID,))
        file.execute("INSERT INTO fabric_run VALUES ('r1', 'w', 'running')")


@pytest.mark.parametrize("status", [0, -signal.SIGTERM])
def test_one_that_was_told_to_stop_and_has_left_nothing_is_no_crash(made, status):
    made.restarted.add(PID)
    made.died(SLOT, PID, status)
    assert (made.crashes, made.kills) == ([], [])


def test_one_that_left_its_runs_when_it_was_told_to_stop_has_crashed(made):
    owns_a_run(made)
    made.restarted.add(PID)
    made.died(SLOT, PID, -signal.SIGTERM)
    assert made.crashes == [f"worker w0 (process {PID}) ended by itself with -15"]


@pytest.mark.parametrize("status", [0, 1, -signal.SIGTERM, -signal.SIGSEGV])
def test_one_that_ended_and_was_told_nothing_has_crashed(made, status):
    made.died(SLOT, PID, status)
    assert made.crashes == [f"worker w0 (process {PID}) ended by itself with {int(status)}"]


def test_one_that_was_killed_leaves_its_runs_behind(made):
    owns_a_run(made)
    made.meant[PID] = 3
    made.died(SLOT, PID, -signal.SIGKILL)
    assert [(kill.at, kill.place, kill.runs) for kill in made.kills] == [(3, "random", ("r1",))]
    assert made.crashes == []
