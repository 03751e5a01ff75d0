"""flow5 through Celery beside a Celery chord: what is counted is the same on every machine; speed is looked at by hand."""

import json
import os
import subprocess
import sys

import pytest
import redis
from django.core.management import CommandError, call_command

from simulator.installation.database import ROOT, clean_environment
from tests.benchmarks.redis_database import MARK, empty_redis
from tests.benchmarks.throughput.answers import STEPS
from tests.benchmarks.throughput.chord import POOLS, Dispatched, ratio


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.redis
def test_a_run_is_one_message_and_never_one_a_step():
    """The figure of P3 is the same command with 200 runs a round, 3 rounds, 8 at once."""
    command = [sys.executable, str(ROOT / "manage.py"), "bench", "chord", "--json", "--db", "postgresql"]
    command += ["--runs", "6", "--rounds", "1", "--concurrency", "2"]
    done = subprocess.run(command, env=clean_environment(), cwd=ROOT, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["work"], found["db"], found["concurrency"], found["runs"]) == ("chord", "postgresql", 2, 6)
    ours, chords = found["ours"], found["chord"]
    # The first two of each are not timed.
    assert (ours["finished"], ours["messages_per_run"]) == (8, 1.0)
    assert chords.keys() == POOLS.keys()
    for chord in chords.values():
        assert (chord["finished"], chord["messages_per_run"], chord["results_per_run"]) == (8, STEPS, STEPS)
    assert found["ratio"] == chords[found["pool"]]["ratio"] == min(chord["ratio"] for chord in chords.values()) > 0


def test_the_ratio_is_the_median_of_the_rounds():
    def engine(*speeds):
        return Dispatched("one", "", None, None, None, speeds=list(speeds))

    assert ratio(engine(100, 50, 400), engine(10, 10, 10)) == 10.0


@pytest.mark.redis
def test_a_redis_database_belongs_to_one_test_and_is_emptied_afterwards():
    server = os.environ["TEST_REDIS_URL"]
    with empty_redis(server) as one, empty_redis(server) as other:
        assert len({one, other, server}) == 3
        with redis.Redis.from_url(one) as client:
            assert client.keys() == [MARK.encode()]
            client.set("left", "behind")
    with redis.Redis.from_url(one) as client:
        # By now it may be another process's.
        assert client.get("left") is None


def test_sqlite_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setenv("FABRIC_BENCH_INSIDE", "1")
    with pytest.raises(
        CommandError, match=r"^--db sqlite: workers behind a broker share a server, so give --db postgresql$"
    ):
        call_command("bench", "chord")
