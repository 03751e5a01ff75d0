"""A worker behind a broker that loses, doubles, delays and shuffles its messages, is flushed, and goes away: each run happens once, all the same."""

import json
import os
import shutil
import signal
import subprocess

import pytest

from console.launch.processes.data_directory import ROOT
from simulator.booking import entries
from simulator.installation.workers import Site, wait_until
from tests.chaos.faults.failpoints import FOLDER
from tests.chaos.judging.judge import VERDICTS, Case, not_once
from tests.chaos.mishaps import providers as mishaps
from tests.chaos.mishaps.bad_broker import BACK, FRONT, Between, asking
from tests.chaos.rows import ChaosRows, facts_by_run, start_runs, states
from tests.chaos.servers.local import RedisServer
from tests.chaos.site import folder_of
from tests.console.launch.started_processes import PATIENCE_S, Lines, started
from tests.console.test_celery import process, worker

pytestmark = pytest.mark.slow
RUNS = 8
SEED = 4
MODEL = {"provider": "scripted", "price": {"input_usd_per_mtok": "1", "output_usd_per_mtok": "2"}}
DOUBTED = {
    "name": "chaos",
    "title": "Doubted",
    "tiers": {"default": "batch", "allowed": ["batch"]},
    "models": [{"name": "sure", **MODEL}, {"name": "doubts", "options": {"score": 0.1}, **MODEL}],
    "agents": [
        {"name": "reader", "instructions": "Read.", "model": "sure"},
        {"name": "critic", "instructions": "Judge.", "model": "doubts"},
    ],
    "topology": {
        "plan": {
            "briefs": [{"agent": "reader", "title": "All", "instructions": "Read it."}],
            "exit_criteria": ["It says something."],
        },
        "workers": ["reader"],
        "critic": "critic",
    },
    "policy": {"budget": {"run_usd_micros": 20_000_000}},
    "reviewers": ["owner"],
}
"""Its critic is never content, so that a person is asked."""


@pytest.fixture
def broker(tmp_path):
    """A Redis of the test's own."""
    if shutil.which("redis-server") is None:
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail("left out: redis-server is not installed", pytrace=False)
        pytest.skip("redis-server is not installed")
    folder = tmp_path / "redis"
    folder.mkdir()
    made = RedisServer(folder)
    made.start()
    yield made
    made.close()


@pytest.fixture
def sites(broker, tmp_path):
    """The installation as its worker sees it, and as the starter of runs does: each has a database of the broker's."""
    chaos = tmp_path / "chaos"
    chaos.mkdir()
    named = {FOLDER: str(chaos), "FABRIC_PROVIDERS": "scripted=tests.chaos.mishaps.providers.HangingProvider"}
    named["DJANGO_SETTINGS_MODULE"] = "tests.settings_running"
    at = broker.url.rpartition("/")[0]
    behind = Site(process(tmp_path, **named, CELERY_BROKER_URL=f"{at}/{BACK}", FABRIC_LOG_LEVEL="INFO")["env"])
    before = {"CELERY_BROKER_URL": f"{at}/{FRONT}", "FABRIC_FAULTS": "tests.chaos.mishaps.bad_broker.wrap"}
    behind.manage("prepare", "--json")
    return Site({**behind.environment, **before}), behind


def decided_and_cancelled(before, behind):
    """Two runs are started that ask a person: what one asks is approved, the other is cancelled, each of it twice; their ids."""
    rows = ChaosRows.from_environment(behind.environment)
    with asking(before.environment) as person:
        person.ask("publish", json.dumps(DOUBTED))
        approved, cancelled = (person.ask("start", key)["run"] for key in ("one", "other"))
        wait_until(lambda: {review.run for review in rows.asking()} == {approved, cancelled}, behind, PATIENCE_S)
        (review,) = [one for one in rows.asking() if one.run == approved]
        for what, about in 2 * (("approve", review.id), ("cancel", cancelled)):
            person.ask(what, about)
    wait_until(lambda: states(behind)[cancelled] == "cancelled", behind, PATIENCE_S)
    return approved, cancelled


def test_each_run_happens_once_whatever_becomes_of_its_messages(broker, sites):
    before, behind = sites

    def completed(runs):
        wait_until(lambda: list(states(behind).values()).count("completed") == runs, behind, PATIENCE_S)

    command = worker("--pool", "threads", "--concurrency", "1")
    between = Between(broker.port, SEED)
    with started(command, env=behind.environment, cwd=ROOT, stderr=subprocess.PIPE) as alive:
        said = Lines(alive.stderr.fileno())
        said.until("Connected to redis://")
        start_runs(before, RUNS)
        between.move(RUNS)
        assert 0 < between.lost < RUNS
        completed(RUNS)
        start_runs(before, RUNS)
        broker.flush()
        completed(2 * RUNS)
        broker.stop()
        said.until("Cannot connect to redis://")
        start_runs(before, RUNS)
        completed(3 * RUNS)
        approved, cancelled = decided_and_cancelled(before, behind)
        completed(3 * RUNS + 1)
        broker.start()
        said.until("Connected to redis://")
        for _ in range(between.deliver_late()):  # Of runs that ended long ago.
            said.until("Task fabric.drive_run[")
        start_runs(before, 1)
        completed(3 * RUNS + 2)
        alive.send_signal(signal.SIGTERM)
        assert alive.wait(PATIENCE_S) == 0
    between.close()
    journals = facts_by_run(behind)
    found = Case(
        ledger=entries(folder_of(behind) / mishaps.LEDGER),
        journals=journals,
        accepted=frozenset(journals),
        states=states(behind),
        costs=ChaosRows.from_environment(behind.environment).costs(),
    )
    assert [sentence for verdict in VERDICTS.values() for sentence in verdict(found)] == []
    assert not_once(found) == []
    arrived = {run: [fact["kind"] for fact in journals[run]] for run in (approved, cancelled)}
    assert [kinds.count("review_decided") for kinds in arrived.values()] == [1, 0]
    assert [kinds.count("cancel_accepted") for kinds in arrived.values()] == [0, 1]
    for facts in journals.values():
        kinds = [fact["kind"] for fact in facts]
        assert (kinds.count("run_started"), kinds.count("run_ended"), kinds.count("ownership_taken")) == (1, 1, 0)
