"""`manage.py up` itself restarts a worker that was killed, and the run goes on from its journal."""

import json
import os
import signal
import subprocess
import sys

import pytest

from simulator.bench.database import ROOT
from simulator.chaos.harness import Site, judge, until
from simulator.chaos.providers import FOLDER
from simulator.chaos.rows import facts_by_run, start_runs, states
from tests.console.launch.processes import PATIENCE_S, Lines, free_port, started

KILLING = "scripted=simulator.chaos.providers.KillingProvider"
LEFT_OUT = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_URL", "FABRIC_PORT", "FABRIC_PUBLIC_URL")


@pytest.mark.slow
def test_up_restarts_a_killed_worker_and_the_run_goes_on(tmp_path):
    data, chaos = tmp_path / "data", tmp_path / "chaos"
    chaos.mkdir()
    inherited = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
    environment = inherited | {"DJANGO_SETTINGS_MODULE": "console.settings", "FABRIC_DATA": str(data)}
    environment |= {FOLDER: str(chaos), "FABRIC_PROVIDERS": KILLING}
    command = [sys.executable, str(ROOT / "manage.py"), "up", "--no-browser", "--data", str(data)]
    command += ["--port", str(free_port())]
    with started(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert Lines(process.stdout.fileno()).next().startswith("Fabric Flow runs at ")
        (chaos / "kill-0000").touch()
        site = Site(environment)
        start_runs(site, 10)  # A quarter of their forty calls would kill: one of them will.
        said = Lines(process.stderr.fileno())
        while "The worker was killed (signal 9" not in (line := said.next()):
            assert line, "nothing was said about the worker"
        until(lambda: set(states(site).values()) == {"completed"}, site, 2 * PATIENCE_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(2 * PATIENCE_S) == 0
    entries = [json.loads(line) for line in (chaos / "ledger.ndjson").read_text().splitlines()]
    found = judge(entries, facts_by_run(site), 1)
    assert found.ended == {"completed": 10}
    assert found.interrupted  # The worker was killed in the middle of something.
    assert found.asked_twice == found.asked_after_journaled == found.not_intended == []
    assert list(chaos.glob("kill-*")) == []
    assert site.manage("replay_run", "--all", "--json")["differences"] == 0
