import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from simulator.installation.database import ROOT, clean_environment

FIGURES = {
    "commits_per_step",
    "syncs_per_step",
    "statements_per_step",
    "bytes_per_step",
    "stored_bytes_per_run",
    "event_rows_per_run",
    "runs_per_s",
    "bare_runs_per_s",
    "ratio_to_bare",
}


DATABASES = [
    ("sqlite", ["--held"], "threads of the engine's process"),
    pytest.param("postgresql", [], "a process of their own", marks=pytest.mark.postgresql),
]


@pytest.mark.slow
@pytest.mark.parametrize(("db", "more", "clients"), DATABASES)
def test_the_last_line_has_the_figures(db, more, clients):
    command = [sys.executable, str(ROOT / "manage.py"), "dev", "bench", "flow5", "--json", "--db", db, *more]
    command += ["--runs", "4", "--rounds", "1", "--concurrency", "2"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["work"], found["db"], found["concurrency"], found["runs"]) == ("flow5", db, 2, 4)
    assert found["clients"] == clients
    assert found.keys() >= FIGURES
    assert all(found[name] > 0 for name in FIGURES)
    assert found["commits_per_step"] <= 1.0
    assert found["event_rows_per_run"] <= 11


@pytest.mark.slow
@pytest.mark.parametrize("db", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def test_the_audit_stream_told_by_many_has_neither_gap_nor_fork(db):
    """The figure of H5 is the same command with 32 writers of 10,000 lines each."""
    command = [sys.executable, str(ROOT / "manage.py"), "dev", "bench", "audit", "--json", "--db", db]
    command += ["--concurrency", "8", "--runs", "100"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["lines"], found["sealed"], found["unsealed"]) == (800, 800, 0)
    assert (found["faults"], found["false_alarms"]) == (0, 0)
    assert found["looks_meanwhile"] > 0


@pytest.mark.parametrize(("option", "given"), [("runs", 0), ("rounds", -1), ("concurrency", 0)])
def test_a_number_that_makes_no_sense_is_a_sentence(option, given):
    with pytest.raises(CommandError, match=f"--{option} {given}: give a number of at least 1") as refused:
        call_command("bench", "flow5", **{option: given})
    assert refused.value.returncode == 2


@pytest.mark.parametrize("options", [{"scopes": 6}, {"kill_between": -1}])
def test_so_many_scopes_there_are_not(options):
    with pytest.raises(CommandError, match="give --scopes of 1 to 5 and --kill-between of at least 0") as refused:
        call_command("bench", "spends", **options)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("options", [{"runs": 0}, {"delay": -1.0}, {"delay": 61.0}])
def test_the_same_for_chaos(options):
    with pytest.raises(CommandError, match="give --runs of at least 1, and --delay from 0 to 60 seconds") as refused:
        call_command("chaos", "inflight", **options)
    assert refused.value.returncode == 2


@pytest.mark.parametrize("words", [["dev", "bench", "--help"], ["help", "dev", "chaos"]])
def test_a_checkout_has_them_beside_the_products_settings(words):
    """Settings of the product alone let no process import the tests."""
    settings = {"DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, str(ROOT / "manage.py"), *words]
    done = subprocess.run(
        command, env=clean_environment() | settings, cwd=ROOT, capture_output=True, text=True, check=False
    )
    (name,) = {"bench", "chaos"} & set(words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: python3 manage.py dev {name} ")
