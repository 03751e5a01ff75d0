import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from simulator.installation.database import ROOT, clean_environment
from tests.benchmarks.idle import Statements

STARTUP = (16).to_bytes(4) + b"\0\3\0\0user\0a\0\0"
PARSE = b"P" + (9).to_bytes(4) + b"x\0Q\0\0"
EXECUTE = b"E" + (9).to_bytes(4) + b"\0\0\0\0\0"
QUERY = b"Q" + (6).to_bytes(4) + b"E\0"
ENCRYPTED = (8).to_bytes(4) + (80_877_103).to_bytes(4)


@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
@pytest.mark.parametrize("first", [b"", ENCRYPTED])
def test_what_is_executed_is_counted_however_it_is_cut(size, first):
    statements = Statements()
    heard = statements.connection()
    said = first + STARTUP + PARSE + EXECUTE + QUERY + PARSE + EXECUTE
    for at in range(0, len(said), size):
        heard(said[at : at + size])
    assert statements.count == 3


def test_connections_are_told_apart():
    statements = Statements()
    one, other = statements.connection(), statements.connection()
    one(STARTUP + QUERY[:3])
    other(STARTUP + QUERY)
    one(QUERY[3:])
    assert statements.count == 2


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.redis
def test_runs_that_wait_cost_a_worker_nothing():
    """The figure of P13 is the same command with 10,000 runs."""
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "idle", "--json", "--db", "postgresql"]
    command += ["--paused", "40", "--seconds", "6"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["paused"] == 40
    assert found["none"]["statements_per_s"] > 0
    # One statement a run in all that time would already be seven a second.
    assert found["all"]["statements_per_s"] < found["none"]["statements_per_s"] + 3
    assert found["all"]["connections"] <= found["none"]["connections"] + 1


def test_sqlite_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setenv("FABRIC_BENCH_INSIDE", "1")
    with pytest.raises(
        CommandError, match=r"^--db sqlite: statements are counted on the wire, so give --db postgresql$"
    ):
        call_command("bench", "idle")
