"""``bench spends`` itself: it runs on both databases, kills where it says, and would see what it is there to see."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.installation.database import ROOT, clean_environment
from tests.benchmarks.caps.spends import CHARGED, OPEN, SETTLED, SNAPSHOT, Found, Site, _judge
from tests.benchmarks.caps.spends_worker import WATCHED, append

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


def bench(db, *more):
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "spends", "--json", "--db", db, *more]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("db", ["sqlite", POSTGRESQL])
def test_processes_spend_all_that_the_caps_allow_and_no_more(db):
    found = bench(db, "--processes", "2", "--spends", "12")
    assert found["faults"] == {}
    assert found["calls"] + found["refused"] == 24
    assert found["reservations"] == 5 * found["calls"]
    assert found["refused"] > 0
    assert found["snapshots"] > 1


@pytest.mark.slow
@pytest.mark.parametrize("db", ["sqlite", POSTGRESQL])
def test_processes_killed_between_any_two_lines_leave_nothing_behind(db):
    found = bench(db, "--processes", "2", "--spends", "1000", "--kill-between", "3", "--scopes", "2")
    assert found["faults"] == {}
    assert 2 <= found["killed"] <= 3  # What is left of the work may end before the last one is due.
    assert found["killed_at_lines"] > 1


# -- the judge ---------------------------------------------------------------------------------------------------------

GOOD = {
    SNAPSHOT: [("a", 100, 60, 0, True, 0, 60)],
    OPEN: [(0,)],
    SETTLED: [("r", "c1", "g", 1), ("r", "c2", "g", 1)],
    CHARGED: [("r", "c1", "a", 40, 20, "answered"), ("r", "c2", "a", 40, 40, "unknown")],
    "SELECT count(*) FROM fabric_grant": [(1,)],
}
BAD = {
    "caps_broken": {SNAPSHOT: [("a", 59, 60, 0, True, 0, 60)]},
    "sums_wrong": {SNAPSHOT: [("a", 100, 60, 0, True, 0, 61)]},
    "still_granted_usd_micros": {SNAPSHOT: [("a", 100, 60, 5, True, 5, 60)]},
    "overspent_usd_micros": {SNAPSHOT: [("a", 59, 59, 0, False, 0, 60)]},
    "still_open": {OPEN: [(3,)]},
    "settled_again": {SETTLED: [("r", "c1", "g", 1), ("r", "c2", "g", 2)]},
    "undercharged": {CHARGED: [("r", "c1", "a", 40, 19, "answered"), ("r", "c2", "a", 40, 40, "unknown")]},
    "worst_case_missed": {CHARGED: [("r", "c1", "a", 40, 20, "reaped"), ("r", "c2", "a", 40, 40, "unknown")]},
}


def judged(folder: Path, answers) -> Found:
    append(folder / "ledger.ndjson", json.dumps({"run": "r", "command": "c1", "cost": 20}))
    site = Site("sqlite", "nowhere", folder, ("a",), 2, answers.__getitem__)
    site.look()
    _judge(site)
    return site.found


def test_what_is_right_has_no_faults(tmp_path):
    found = judged(tmp_path, GOOD)
    assert found.faults() == {}
    assert (found.calls, found.reservations, found.unknown, found.snapshots) == (1, 2, 1, 1)


@pytest.mark.parametrize("fault", BAD)
def test_each_fault_is_seen(tmp_path, fault):
    assert fault in judged(tmp_path, GOOD | BAD[fault]).faults()


def test_a_statement_that_the_database_refused_is_a_fault(tmp_path):
    append(tmp_path / "results.ndjson", json.dumps({"checks": 1, "refused": 2, "gone": 0}))
    found = judged(tmp_path, GOOD)
    assert found.faults() == {"checks_fired": 1}
    assert found.refused == 2


# -- the killing -------------------------------------------------------------------------------------------------------

DYING = """
import sys
from pathlib import Path
from tests.benchmarks.caps.spends_worker import append, arm
arm(Path(sys.argv[1]), int(sys.argv[2]))
append(Path(sys.argv[1]) / "written", "one")
append(Path(sys.argv[1]) / "written", "two")
print("alive")
"""


@pytest.mark.parametrize(("lines", "written"), [(1, []), (5, ["one"]), (100, ["one", "two"])])
def test_a_process_dies_before_the_line_it_was_told(tmp_path, lines, written):
    command = [sys.executable, "-c", DYING, str(tmp_path), str(lines)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    file = tmp_path / "written"
    assert (file.read_text().split() if file.exists() else []) == written
    assert (done.returncode == 0) == (lines == 100)
    if lines < 100:
        assert done.returncode == -9
        assert (tmp_path / "killed.txt").read_text().startswith("spends_worker.py:")


def test_the_lines_that_count_are_those_that_handle_money():
    assert {"/".join(Path(name).parts[-2:]) for name in WATCHED} == {
        "caps/spends_worker.py",
        "postgresql/grants.py",
        "process/turn_thread.py",
        "spending/grant_desk.py",
        "spending/grants.py",
        "spending/rules.py",
        "sqlite/grants.py",
    }
