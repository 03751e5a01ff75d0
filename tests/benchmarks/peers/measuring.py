"""Ours and the peers' flow5 in interleaved rounds: runs a second, a run alone, and what is stored of one, on the same server."""

from __future__ import annotations

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import psycopg

from simulator.installation.database import ROOT, SERVER, temporary_postgresql
from tests.benchmarks.peers.environments import ensure
from tests.benchmarks.throughput.flow5 import Flow5

PEERS: Mapping[str, str] = {"dbos": "dbos_flow5", "langgraph": "langgraph_flow5"}
"""By name: the script that serves it."""
ALONE = 20
"""Runs one after another a round, for what one takes alone."""
STOP_S = 30.0


class Engine(Protocol):
    """One that runs flow5."""

    def go(self, runs: int, at_once: int) -> tuple[float, list[float]]:
        """Seconds for so many runs, so many at once, and the milliseconds of each."""
        ...

    def stored(self) -> int:
        """Bytes that its database has."""
        ...


class Ours:
    """Our engine with its callers as threads of its process, as the peers have theirs."""

    def __init__(self, engine: Flow5, where: str | Path) -> None:
        self._engine, self._where = engine, where

    def go(self, runs: int, at_once: int) -> tuple[float, list[float]]:
        """See ``Engine``."""
        if at_once > 1:
            return self._engine.run(runs, at_once)[0], []
        latencies = []
        for _ in range(runs):
            begun = time.perf_counter()
            self._engine.one()
            latencies.append(1_000 * (time.perf_counter() - begun))
        return sum(latencies) / 1_000, latencies

    def stored(self) -> int:
        """See ``Engine``."""
        return stored_at(self._where)


class Served:
    """An engine's callers in a process of their own, told by lines what to run (``serving``). RuntimeError with its last words when it ends."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                cwd=ROOT,
                env=environment,
            )

    def ready(self) -> str:
        """Waits until it can be told to run something; the engine's name and version. To be asked once, before anything else."""
        engine: str = self._said()["engine"]
        return engine

    def go(self, runs: int, at_once: int) -> tuple[float, list[float]]:
        """See ``Engine``."""
        assert self._process.stdin is not None
        print(runs, at_once, file=self._process.stdin, flush=True)
        found = self._said()
        return found["seconds"], found["latencies_ms"]

    def _said(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a peer ended: {self._log.read_text(errors='replace')[-2_000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """Ends its process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Peer(Served):
    """Another engine, in its own process, environment and database."""

    def __init__(self, name: str, where: str | Path, log: Path) -> None:
        url = where if isinstance(where, str) else f"sqlite:///{where}"
        self._where = where
        command = [str(ensure(name)), "-m", f"tests.benchmarks.peers.{PEERS[name]}", url]
        super().__init__(command, {**os.environ, "PYTHONPATH": str(ROOT)}, log)
        self.version = self.ready()

    def stored(self) -> int:
        """See ``Engine``."""
        return stored_at(self._where)


@dataclass(slots=True)
class Measured:
    """The measurements of one engine."""

    speeds: list[float] = field(default_factory=list)
    alone_ms: list[float] = field(default_factory=list)
    runs: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def figures(self) -> dict[str, Any]:
        """As they are told."""
        return {
            "runs_per_s": round(statistics.median(self.speeds), 1),
            "alone_p50_ms": round(statistics.median(self.alone_ms), 2),
            "alone_p99_ms": round(statistics.quantiles(self.alone_ms, n=100)[98], 2),
            "bytes_per_run": round((self.bytes_after - self.bytes_before) / self.runs),
        }


def measure(db: str, ours: Ours, runs: int, rounds: int, at_once: int) -> dict[str, Any]:
    """The figures of ours and of each peer, and the ratios of the rounds' speeds. PeerMissing where a peer's environment cannot be made."""
    with ExitStack() as stack:
        engines: dict[str, Engine] = {"ours": ours}
        versions = {"python": sys.version.split()[0]}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-peers-")))
        for name in PEERS:
            where = stack.enter_context(databases(db, name, folder))
            peer = Peer(name, where, folder / f"{name}.log")
            stack.callback(peer.close)
            engines[name], versions[name] = peer, peer.version
        measured = {name: Measured() for name in engines}
        for name, engine in engines.items():
            engine.go(max(at_once, runs // 5), at_once)
            measured[name].bytes_before = engine.stored()
        for _ in range(rounds):
            for name, engine in engines.items():
                _round(engine, measured[name], runs, at_once)
        for name, engine in engines.items():
            measured[name].bytes_after = engine.stored()
    return _told(measured) | {"versions": versions}


def _round(engine: Engine, measured: Measured, runs: int, at_once: int) -> None:
    seconds, latencies = engine.go(runs, at_once)
    _, alone = engine.go(ALONE, 1) if at_once > 1 else (0.0, latencies)
    measured.speeds.append(runs / seconds)
    measured.alone_ms += alone
    measured.runs += runs + (ALONE if at_once > 1 else 0)


def _told(measured: Mapping[str, Measured]) -> dict[str, Any]:
    def median(of: Callable[[int], float]) -> float:
        return round(statistics.median(of(n) for n in range(len(ours.speeds))), 2)

    ours = measured["ours"]
    ratios = {
        name: median(lambda n, speeds=measured[name].speeds: ours.speeds[n] / speeds[n])  # type: ignore[misc]
        for name in PEERS
    }
    return {**{name: one.figures() for name, one in measured.items()}, "ratios": ratios}


# -- where they store --------------------------------------------------------------------------------------------------


@contextmanager
def databases(db: str, name: str, folder: Path) -> Iterator[str | Path]:
    """An empty database of a peer's own: a connection string, or a file that is not there yet."""
    if db == "sqlite":
        yield folder / f"{name}.sqlite3"
        return
    server = os.environ.get("TEST_DATABASE_URL", SERVER)
    database = f"fabric_peer_{name}_{os.getpid()}_{secrets.token_hex(3)}"
    with temporary_postgresql(server, database):
        yield urlunsplit(urlsplit(server)._replace(path=f"/{database}"))


def stored_at(where: str | Path) -> int:
    """Bytes of a database, its log of what is not in its file yet among them."""
    if isinstance(where, Path):
        return sum(one.stat().st_size for one in where.parent.glob(f"{where.name}*"))
    with psycopg.connect(where) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    size: int = found[0]
    return size
