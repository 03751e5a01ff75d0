"""A long run costs no more a step than a short one: what is counted is equal; time is printed, not asserted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from fabric.core.mechanisms import progress
from fabric.stores.postgresql.journal import PostgresqlStore
from fabric.stores.sqlite.journal import SqliteStore
from simulator.installation.database import ROOT, clean_environment
from tests.benchmarks import long_run
from tests.benchmarks.across import TIMES
from tests.benchmarks.management.commands import bench
from tests.fabric.stores.journal_worlds import REVISION, WORKSPACE

POSTGRESQL = pytest.param("postgresql", marks=pytest.mark.postgresql)


@pytest.fixture(params=["sqlite", POSTGRESQL])
def store(request, tmp_path):
    if request.param == "sqlite":
        path = tmp_path / "bench.sqlite3"
        path.write_bytes(request.getfixturevalue("sqlite_template").read_bytes())
        made = SqliteStore(path)
    else:
        made = PostgresqlStore(request.getfixturevalue("postgresql_dsn"))
    yield made
    made.close()


def test_statements_and_rows_read_a_step_do_not_grow_with_the_journal(store):
    found = long_run.measure(store, WORKSPACE, REVISION, [100, 2_000])
    print(f"\n{type(store).__name__}: {found}")
    first, last = found["marks"]["100"], found["marks"]["2000"]
    assert last["from_event"] > 2_000
    for name in ("statements_per_step", "rows_read_per_step"):
        assert first[name] == last[name] > 0
    assert found["time_ratio"] > 0


def test_a_resume_reads_what_came_after_the_snapshot(store):
    run = long_run.LongRun(store, WORKSPACE, REVISION)
    run.until(1_000)
    run.until_snapshot()
    before = run.read.rows
    assert len(list(run.resumes(3))) == 3
    quick = (run.read.rows - before) / 3
    before, whole = run.read.rows, len(store.journal(run.run_id))
    list(run.resumes(1, digest=""))
    assert run.read.rows - before == whole > 500
    assert quick < 100


def test_a_state_remembers_no_turns_of_agents_whose_place_others_took(store):
    run = long_run.LongRun(store, WORKSPACE, REVISION)
    run.until(500)
    run._decide("another review", "")  # What it is claimed for.
    driver, _ = run.claim()
    [step] = driver.run.steps
    assert set(driver.run.guards[progress.NAME].turns) == {step}


def test_the_command_has_both():
    assert {"long", "resume"} <= set(bench.WORKS)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.redis
def test_an_answer_in_one_process_is_gone_on_with_in_another_without_a_sweep():
    """The figure of P9 is the same command on a machine where nothing else runs; a sweep would come seconds later."""
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "resume", "--json", "--db", "postgresql"]
    done = subprocess.run(
        [*command, "--events", "50"], env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["across_times"] == TIMES
    assert 0 < found["across_p50_ms"] <= found["across_p99_ms"] <= found["across_max_ms"]
    assert found["across_p50_ms"] < 1_000
