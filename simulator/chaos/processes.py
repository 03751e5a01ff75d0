"""Chaos's own processes seen from the harness: those that speak in lines of JSON, and the workers of one slot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from simulator.bench.database import ROOT
from simulator.chaos import skew
from simulator.chaos.failpoints import DEATHS
from simulator.chaos.judge import Kill

WORKER = "-A console worker --pool threads --concurrency 4 --loglevel WARNING --without-gossip --without-mingle --without-heartbeat"
STOP_S = 15.0


class Talking:
    """A process that is told and says lines of JSON. ``on_line`` is called on a thread of its own; ``on_end`` when it has ended."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        environment: Mapping[str, str],
        log: Path,
        on_line: Callable[[dict[str, Any]], None],
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        with log.open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                env={**environment, "PYTHONPATH": str(ROOT)},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        self._on_line, self._on_end = on_line, on_end
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name=module, daemon=True)
        self._thread.start()

    def tell(self, line: Any) -> None:
        """Says something to it; one that has ended does not hear it."""
        assert self.process.stdin is not None
        with self._lock:
            try:
                self.process.stdin.write(json.dumps(line).encode() + b"\n")
                self.process.stdin.flush()
            except OSError:
                pass

    def stop(self) -> None:
        """Closes its standard input and waits for its end."""
        assert self.process.stdin is not None
        self._on_end = lambda: None
        with self._lock:
            try:
                self.process.stdin.close()
            except OSError:
                pass
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)
        self._thread.join(STOP_S)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._on_line(json.loads(line))
        self.process.wait()
        self._on_end()


class Slot:
    """One place for a worker: whenever the worker there dies, its death is looked into and another one is started."""

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str],
        folder: Path,
        on_death: Callable[[Slot, int, int], None],
    ) -> None:
        self.name = name
        self.pid = 0
        """The worker's process number; 0: there is none."""
        self.born = 0
        self._on_death = on_death
        self._stopping = False
        self._changed = threading.Condition()
        self._log = folder / "worker.log"
        self._wall = folder / f"wall-{name}"
        self.set_wall(0.0)
        self._nursery = Talking(
            "simulator.chaos.nursery",
            str(self._log),
            str(self._wall),
            environment=environment,
            log=self._log,
            on_line=self._said,
        )
        self._start()

    def signal(self, number: int) -> bool:
        """Sends a signal to the worker; False: there is none."""
        with self._changed:
            if not self.pid:
                return False
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return False
            return True

    def set_wall(self, off_s: float) -> None:
        """Sets the wall clock of the worker, and of those who take its place, so many seconds forward or back of the machine's."""
        skew.set_wall(self._wall, off_s)

    def wait_for_birth(self, timeout_s: float) -> bool:
        """Waits until there is a worker."""
        with self._changed:
            return self._changed.wait_for(lambda: self.pid > 0, timeout_s)

    def wait_for_another(self, pid: int, timeout_s: float) -> bool:
        """Waits until there is a worker that is not this process."""
        with self._changed:
            return self._changed.wait_for(lambda: self.pid not in (0, pid), timeout_s)

    def stop(self) -> None:
        """Ends the worker, SIGTERM first, and takes no other."""
        with self._changed:
            self._stopping = True
        if self.signal(signal.SIGTERM):
            with self._changed:
                self._changed.wait_for(lambda: self.pid == 0, STOP_S)
        self._nursery.stop()

    def _start(self) -> None:
        self.born += 1
        self._nursery.tell([*WORKER.split(), "-n", f"{self.name}-{self.born}@localhost"])

    def _said(self, said: dict[str, Any]) -> None:
        if "pid" in said:
            with self._changed:
                self.pid = said["pid"]
                self._changed.notify_all()
            return
        with self._changed:
            self.pid = 0
            stopping = self._stopping
            self._changed.notify_all()
        if not stopping:
            self._on_death(self, said["ended"], said["status"])
            self._start()


def own_death(folder: Path, pid: int, known: Collection[int] = ()) -> Kill | None:
    """The line that a process wrote before it killed itself at a failpoint; None when it did not.

    ``known``: instants of deaths that were found before. A number is given to another process in time, whose death is not the first one's.
    """
    file = folder / DEATHS
    for line in reversed(file.read_text().splitlines() if file.exists() else []):
        said = json.loads(line)
        if said["pid"] == pid and said["at"] not in known:
            return Kill(said["at"], pid, said["place"], ())
    return None


def now_us() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1_000
