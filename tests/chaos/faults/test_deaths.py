"""A worker's end: intended, its own, or one that no strike intended."""

import json
import signal
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from tests.chaos.faults.failpoints import DEATHS
from tests.chaos.installation import Installation, Plan
from tests.chaos.rows import ChaosRows

PID = 7
SLOT = SimpleNamespace(name="w0", pid=PID)


@pytest.fixture
def made(tmp_path):
    """An installation of which only the rows of its runs are there."""
    with closing(sqlite3.connect(tmp_path / "fabric.sqlite3")) as file:
        file.execute("CREATE TABLE fabric_run (id TEXT, incarnation TEXT, state TEXT)")
        file.execute("CREATE TABLE fabric_incarnation (name TEXT, pid INTEGER)")
    return Installation(Plan(), tmp_path, {}, ChaosRows(tmp_path))


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


def left(made, *lines):
    """Write the lines of processes that kill themselves, each ``(instant, failpoint)``."""
    with (made.folder / DEATHS).open("a") as file:
        file.writelines(json.dumps({"pid": PID, "at": at, "place": place}) + "\n" for at, place in lines)


def test_a_death_at_a_failpoint_is_when_and_where_it_says(made):
    left(made, (5, "write.after"))
    made.died(SLOT, PID, -signal.SIGKILL)
    assert [(kill.at, kill.place) for kill in made.kills] == [(5, "write.after")]


def test_another_process_with_the_same_number_dies_its_own_death(made):
    left(made, (5, "write.after"))
    made.died(SLOT, PID, -signal.SIGKILL)
    made.meant[PID] = 900
    made.died(SLOT, PID, -signal.SIGKILL)
    left(made, (1_000, "grant.take.after"))
    made.died(SLOT, PID, -signal.SIGKILL)
    assert [kill.at for kill in made.kills] == [5, 900, 1_000]
    made.died(SLOT, PID, -signal.SIGKILL)
    assert len(made.crashes) == 1


def test_one_that_was_told_to_stop_lends_its_number_to_no_process(made):
    made.restarted.add(PID)
    made.died(SLOT, PID, 0)
    made.died(SLOT, PID, 0)
    assert len(made.crashes) == 1


def test_those_that_lose_their_runs_alive_are_noted(made):
    owns_a_run(made)
    made.parts("cut", SLOT, SimpleNamespace(name="w1", pid=0))
    assert [(one.place, one.pid, one.runs) for one in made.parted] == [("cut", PID, ("r1",)), ("cut", 0, ())]
