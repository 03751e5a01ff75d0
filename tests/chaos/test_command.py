"""`manage.py dev chaos`: what it refuses, and what it ends with."""

import json
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command

from simulator.installation.database import ROOT, clean_environment
from tests.chaos.judging import judge
from tests.chaos.judging.judge import Case


def chaos(tmp_path, *options):
    environment = clean_environment() | {"FABRIC_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, str(ROOT / "manage.py"), "dev", "chaos", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--only", "kill,flood"], "there is no strike 'flood'; there are: kill, failpoint"),
        (["--only", "restarts"], "none of the strikes that are wanted makes sense here"),
        (["--broker", "redis"], "a broker beside SQLite is of no use"),
        (["--workers", "2"], "on SQLite one worker has all runs"),
        (["--minutes", "0"], "give --minutes over 0"),
        (["--kills", "0"], "--kills and --workers of at least 1"),
        (["inflight", "--delay", "61"], "--delay from 0 to 60 seconds"),
        (["zombies"], "zombies wants several workers: give --db postgresql"),
        (["zombies", "--db", "postgresql", "--trials", "0"], "--trials and --kills of at least 1"),
        (["zombies", "--db", "postgresql", "--workers", "1"], "--workers of at least 2"),
        (["outage", "--db", "postgresql", "--away", "0"], "--away from 1 to 3600 seconds"),
        (["takeover", "--db", "postgresql", "--kills", "0"], "--trials and --kills of at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_put_up(options, sentence):
    with pytest.raises(CommandError, match=sentence) as refused:
        call_command("chaos", *options)
    assert refused.value.returncode == 2


@pytest.mark.slow
def test_a_run_ends_with_the_line_alone_and_keeps_what_was_seen(tmp_path):
    kept = tmp_path / "kept"
    done = chaos(tmp_path, "--minutes", "0.05", "--only", "lock", "--seed", "7", "--keep", str(kept), "--json")
    assert done.returncode == 0, done.stderr
    (said,) = done.stdout.splitlines()
    line = json.loads(said)
    assert list(line) == list(judge.line(Case(ledger=(), journals={}), is_void=True))
    assert (line["kills"], line["void"], line["lost"]) == (0, False, 0)
    assert line["runs"] > 0
    assert done.stderr.startswith("seed 7: lock")
    assert {"ledger.ndjson", "journals.json", "kills.json", "worker.log"} <= {file.name for file in kept.iterdir()}
