"""A fresh run costs as many statements beside finished runs as without them. Speed is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from simulator.installation.database import ROOT, clean_environment


@pytest.mark.slow
@pytest.mark.parametrize("db", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_finished_runs_add_no_statement_to_a_fresh_one(db):
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "finished", "--json", "--db", db]
    command += ["--runs", "1000", "--rounds", "1", "--concurrency", "1"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["finished"] == 1_000
    assert found["full_statements_per_run"] == pytest.approx(found["empty_statements_per_run"], abs=0.5)
    assert found["full_statements_per_run"] > 1
