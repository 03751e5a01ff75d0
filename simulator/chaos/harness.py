"""Starts real workers on a database of their own and gives them runs; nothing disturbs them but their providers. See ``installation`` for chaos."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulator.bench.database import MANAGE, ROOT, fresh
from simulator.chaos.failpoints import FOLDER

WORKER = "celery --quiet -A console worker --pool threads --concurrency 4 --loglevel WARNING"
WORKER_MORE = " --without-gossip --without-mingle --without-heartbeat"


@dataclass(slots=True)
class Site:
    """One installation under test: its environment and its worker processes."""

    environment: dict[str, str]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    restarts: int = 0

    @property
    def folder(self) -> Path:
        """Where the chaos providers keep their files."""
        return Path(self.environment[FOLDER])

    def start_worker(self) -> None:
        """One more worker process."""
        command = [
            sys.executable,
            "-m",
            *(WORKER + WORKER_MORE).split(),
            "-n",
            f"w{len(self.workers)}-{self.restarts}@%h",
        ]
        log = (self.folder / "worker.log").open("ab")
        self.workers.append(
            subprocess.Popen(command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
        )

    def replace_the_dead(self) -> int:
        """Starts a worker for each that has ended, as a supervisor would; how many."""
        dead = [worker for worker in self.workers if worker.poll() is not None]
        for worker in dead:
            self.workers.remove(worker)
            self.restarts += 1
            self.start_worker()
        return len(dead)

    def deaths(self) -> int:
        """Workers that ended without being told to, those that were replaced included."""
        return self.restarts + sum(worker.poll() is not None for worker in self.workers)

    def said(self, *words: str) -> list[str]:
        """Lines of the workers' log that hold one of these words."""
        lines = (self.folder / "worker.log").read_text(errors="replace").splitlines()
        return [line for line in lines if any(word in line for word in words)]

    def manage(self, *arguments: str) -> dict[str, Any]:
        """Runs a command that ends with one line of JSON, and gives that line; RuntimeError with its words when it fails."""
        done = subprocess.run(
            [*MANAGE, *arguments],
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"manage.py {' '.join(arguments)}: exit {done.returncode}: {done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
        return found

    def stop(self) -> None:
        """Ends the workers: SIGTERM, then SIGKILL."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            try:
                worker.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait(10)


@contextmanager
def site(db: str, *, provider: str, workers: int, more: dict[str, str] | None = None) -> Iterator[Site]:
    """A fresh installation on ``sqlite`` or ``postgresql`` (with Redis as broker) whose scripted agents are ``provider``."""
    with fresh(db) as environment:
        chaos = Path(environment["FABRIC_DATA"]) / "chaos"
        chaos.mkdir()
        environment |= {FOLDER: str(chaos), "FABRIC_PROVIDERS": f"scripted={provider}", **(more or {})}
        if db == "postgresql":
            environment["CELERY_BROKER_URL"] = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/15")
        made = Site(environment)
        made.manage("prepare", "--json")
        try:
            for _ in range(workers):
                made.start_worker()
            yield made
        finally:
            made.stop()


def until(done: Callable[[], bool], site_: Site, timeout_s: float) -> None:
    """Waits for a condition of the outside world, replacing workers that died meanwhile; TimeoutError after ``timeout_s``."""
    give_up = time.monotonic() + timeout_s
    while not done():
        site_.replace_the_dead()
        if time.monotonic() > give_up:
            log = site_.folder / "worker.log"
            tail = log.read_text(errors="replace")[-3000:] if log.exists() else "nothing"
            raise TimeoutError(f"not done within {timeout_s:.0f} s; the workers said: {tail}")
        time.sleep(0.1)
