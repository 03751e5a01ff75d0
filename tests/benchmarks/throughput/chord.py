"""flow5 dispatched through Celery, here and as a Celery chord, in interleaved rounds on one Redis server (performance.md P3).

Ours: a worker as ``up`` starts it, runs started by the service in another process. The chord: a worker of each pool of ``POOLS``, and ours is beside
the faster one. Messages are what each worker says that it took, and what still lies in its broker.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis
from celery import Celery

from fabric.core.values.flow import RunState
from simulator.installation.database import ROOT
from simulator.installation.workers import WORKER, WORKER_MORE
from tests.benchmarks.peers.measuring import Served
from tests.benchmarks.redis_database import REDIS, empty_redis

POOLS: Mapping[str, str] = {"threads": "--pool threads --concurrency 8", "prefork": "--pool prefork"}
"""By name: the options of the chord's worker. As many processes as there are processors, which is Celery's own choice."""
CHORD = "tests.benchmarks.peers.celery_chord"
CALLERS = "tests.benchmarks.peers.our_callers"
INSTANT = "instant=tests.benchmarks.throughput.flow5.InstantModels"
OURS = "ours"
RESULTS = "celery-task-meta-*"
UNACKED = "unacked"
"""Where Kombu keeps what a worker has fetched and not yet taken."""
ASK_S = 2.0
ANSWERS_MAX = 60
STOP_S = 20.0


@dataclass(slots=True)
class Dispatched:
    """An engine behind a broker of its own: its callers, its worker, and what was measured of it."""

    name: str
    url: str
    callers: Served
    worker: subprocess.Popen[bytes]
    log: Path
    speeds: list[float] = field(default_factory=list)
    runs: int = 0

    def go(self, runs: int, at_once: int) -> float:
        """Runs a second."""
        seconds, latencies = self.callers.go(runs, at_once)
        self.runs += len(latencies)
        return runs / seconds

    def taken(self) -> int:
        """Messages of tasks that its worker has taken since its start. RuntimeError with its last words when it does not answer."""
        with Celery(broker=self.url, set_as_current=False) as client:
            for _ in range(ANSWERS_MAX):
                answer = client.control.inspect(timeout=ASK_S, limit=1).stats()
                if answer:
                    return sum(sum(one["total"].values()) for one in answer.values())
                if self.worker.poll() is not None:
                    break
        raise RuntimeError(
            f"the worker of {self.name} does not answer: {self.log.read_text(errors='replace')[-2_000:]}"
        )

    def messages(self) -> int:
        """Messages of tasks in all: those that were taken, once it takes no more, and those that no process takes."""
        last = -1
        with redis.Redis.from_url(self.url, decode_responses=True) as client:
            for _ in range(ANSWERS_MAX):
                # Its answer comes after what it fetched before it was asked; asked twice, nothing is on its way between.
                taken = self.taken()
                if taken == last and not client.hlen(UNACKED):
                    break
                last = taken
            return last + sum(client.llen(key) for key in client.scan_iter(_type="list"))

    def results(self) -> int:
        """Results that are kept."""
        with redis.Redis.from_url(self.url) as client:
            return sum(1 for _ in client.scan_iter(RESULTS, count=1_000))

    def figures(self) -> dict[str, float]:
        """As they are told."""
        return {
            "runs_per_s": round(statistics.median(self.speeds), 1),
            "finished": self.runs,
            "messages_per_run": self.messages() / self.runs,
        }


def measure(runs: int, rounds: int, at_once: int) -> dict[str, Any]:
    """The figures of both in the installation of this process, which must be on PostgreSQL. RuntimeError when not each run was completed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-chord-")))
        ours = stack.enter_context(_ours(folder))
        chords = {name: stack.enter_context(_chord(name, folder)) for name in POOLS}
        engines = [ours, *chords.values()]
        versions = {engine.callers.ready() for engine in engines}
        for engine in engines:
            engine.taken()
            engine.go(max(at_once, runs // 5), at_once)
        for _ in range(rounds):
            for engine in engines:
                engine.speeds.append(engine.go(runs, at_once))
        if (completed := _completed()) != ours.runs:
            raise RuntimeError(f"{completed} of {ours.runs} runs were completed: {ours.log.read_text()[-2_000:]}")
        told = {
            name: {**chord.figures(), "results_per_run": chord.results() / chord.runs, "ratio": ratio(ours, chord)}
            for name, chord in chords.items()
        }
        pool = min(told, key=lambda name: told[name]["ratio"])
        return {
            OURS: ours.figures(),
            "chord": told,
            "pool": pool,
            "ratio": told[pool]["ratio"],
            "versions": sorted(versions),
        }


def ratio(ours: Dispatched, other: Dispatched) -> float:
    """The median of the rounds' ratios."""
    return round(statistics.median(mine / its for mine, its in zip(ours.speeds, other.speeds, strict=True)), 2)


def _completed() -> int:
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT count(*) FROM fabric_run WHERE state = %s", [RunState.COMPLETED]).fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _ours(folder: Path) -> Iterator[Dispatched]:
    with empty_redis(os.environ.get("TEST_REDIS_URL", REDIS)) as url:
        environment = {**os.environ, "CELERY_BROKER_URL": url, "FABRIC_PROVIDERS": INSTANT}
        command = [*(WORKER + WORKER_MORE).split(), "-n", f"{OURS}@%h"]
        with behind_broker(OURS, url, command, [CALLERS], environment, folder) as engine:
            yield engine


@contextmanager
def _chord(pool: str, folder: Path) -> Iterator[Dispatched]:
    with empty_redis(os.environ.get("TEST_REDIS_URL", REDIS)) as url:
        command = ["celery", "--quiet", "-A", CHORD, "-b", url, "--result-backend", url, "worker"]
        command += [*POOLS[pool].split(), "--loglevel", "WARNING", *WORKER_MORE.split(), "-n", f"{pool}@%h"]
        # With settings of Django's in its environment Celery would load the product into it.
        environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        with behind_broker(pool, url, command, [CHORD, url], environment, folder) as engine:
            yield engine


@contextmanager
def behind_broker(
    name: str, url: str, worker: Sequence[str], callers: Sequence[str], environment: dict[str, str], folder: Path
) -> Iterator[Dispatched]:
    """Its worker and its callers, starting; they end with the block."""
    log = folder / f"{name}.worker.log"
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *worker], env=environment, cwd=ROOT, stdout=said, stderr=said, start_new_session=True
        )
    try:
        served = Served([sys.executable, "-m", *callers], environment, folder / f"{name}.callers.log")
        try:
            yield Dispatched(name, url, served, process, log)
        finally:
            served.close()
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
