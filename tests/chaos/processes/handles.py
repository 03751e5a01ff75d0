"""Chaos's own processes seen from the harness: those that speak in lines of JSON, the nursery, and the workers of one slot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from queue import Queue
from typing import Any

from simulator.installation.database import ROOT
from tests.chaos.faults.failpoints import DEATHS
from tests.chaos.judging.judge import Kill
from tests.chaos.processes import skew

WORKER = "-A console worker --pool threads --concurrency 4 --loglevel WARNING --without-gossip --without-mingle --without-heartbeat"
STOP_S = 15.0
MANAGE_S = 300.0


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
        root: Path = ROOT,
    ) -> None:
        ours, its = socket.socketpair()
        with log.open("ab") as said, its:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                # A checkout of before has its own product; what it lacks of the tests is this one's.
                env={**environment, "PYTHONPATH": os.pathsep.join(dict.fromkeys((str(root), str(ROOT))))},
                cwd=root,
                stdin=its.fileno(),
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        self._line = Line(ours, self.process.stdout, on_line, self._ended)
        self._on_end = on_end
        self.tell = self._line.tell

    def stop(self) -> None:
        """Closes its standard input and waits for its end."""
        self._on_end = lambda: None
        self._line.hang_up()
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(STOP_S)
        self._line.join(STOP_S)

    def _ended(self) -> None:
        self.process.wait()
        self._on_end()


class Line:
    """Lines of JSON to a process, and from it: each is given to ``on_line`` on a thread of its own, and ``on_end`` is called there when no more can come."""

    def __init__(
        self,
        tells: socket.socket,
        hears: Iterable[bytes],
        on_line: Callable[[dict[str, Any]], None],
        on_end: Callable[[], None],
    ) -> None:
        self._tells, self._hears, self._on_line, self._on_end = tells, hears, on_line, on_end
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._listen, name="chaos-line", daemon=True)
        self._thread.start()

    def tell(self, line: Any, *passed: socket.socket) -> None:
        """Says something to it, and passes sockets on; one that has ended does not hear it."""
        with self._lock, suppress(OSError):
            said = json.dumps(line).encode() + b"\n"
            if passed:
                socket.send_fds(self._tells, [said], [one.fileno() for one in passed])
            else:
                self._tells.sendall(said)

    def hang_up(self) -> None:
        """Tells it nothing any more, which it hears."""
        with self._lock, suppress(OSError):
            self._tells.shutdown(socket.SHUT_WR)

    def join(self, timeout_s: float) -> None:
        """Waits until it says nothing any more."""
        self._thread.join(timeout_s)

    def _listen(self) -> None:
        with self._tells:
            try:
                for line in self._hears:
                    self._on_line(json.loads(line))
            except ConnectionResetError:
                pass  # It was killed with lines unread.
        self._on_end()


class Nursery:
    """Where workers and starters are born in a moment, and what becomes of each: ``nursery.py``. ``root``: the checkout that they run."""

    def __init__(self, environment: Mapping[str, str], folder: Path, root: Path = ROOT) -> None:
        self._heard: dict[str, Callable[[dict[str, Any]], None]] = {}
        log = folder / "worker.log"
        self._process = Talking(
            "tests.chaos.processes.nursery", str(log), environment=environment, log=log, on_line=self._said, root=root
        )

    def bear(
        self, name: str, work: str, on_said: Callable[[dict[str, Any]], None], *speaks: socket.socket, **how: Any
    ) -> None:
        """Has one born. ``on_said`` is given its number, and then its end, that on a thread of its own; ``speaks``: its standard input and output."""
        self._heard[name] = on_said
        self._process.tell({"name": name, "work": work, "speaks": bool(speaks), **how}, *speaks)

    def manage(self, *arguments: str) -> None:
        """Runs a management command to its end; RuntimeError when it fails, and its words are in the log."""
        over: Queue[int] = Queue()
        self.bear(
            "manage",
            "manage",
            lambda said: over.put(said["status"]) if "ended" in said else None,
            arguments=arguments,
        )
        if status := over.get(timeout=MANAGE_S):
            raise RuntimeError(f"manage.py {' '.join(arguments)}: exit {status}")

    def stop(self) -> None:
        """Ends it, and each of its children that still lives."""
        self._process.stop()

    def _said(self, said: dict[str, Any]) -> None:
        heard = self._heard[said["name"]]
        if "ended" in said:  # Looking into a death may take as long as the database is away.
            threading.Thread(target=heard, args=(said,), name="chaos-end", daemon=True).start()
        else:
            heard(said)


class Starter:
    """A starter that was born in the nursery. ``on_line``: what it says; ``on_end``: when it has ended."""

    def __init__(self, nursery: Nursery, on_line: Callable[[dict[str, Any]], None], on_end: Callable[[], None]) -> None:
        ours, its = socket.socketpair()
        self._on_end = on_end
        with its:
            nursery.bear("starter", "starter", lambda said: None, its)
        self._line = Line(ours, ours.makefile("rb"), on_line, self._ended)
        self.tell = self._line.tell

    def stop(self) -> None:
        """Lets it end, and waits for that."""
        self._on_end = lambda: None
        self._line.hang_up()
        self._line.join(STOP_S)

    def _ended(self) -> None:
        self._on_end()


class Slot:
    """One place for a worker: whenever the worker there dies, its death is looked into and another one is started."""

    def __init__(
        self,
        name: str,
        nursery: Nursery,
        folder: Path,
        on_death: Callable[[Slot, int, int], None],
        *,
        database: str | None = None,
    ) -> None:
        self.name = name
        self.pid = 0
        """The worker's process number; 0: there is none."""
        self.born = 0
        self._on_death = on_death
        self._stopping = False
        self._changed = threading.Condition()
        self._nursery, self._database = nursery, database
        self._wall = folder / f"wall-{name}"
        self.set_wall(0.0)
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

    def move(self, nursery: Nursery) -> None:
        """Has those who take the worker's place born elsewhere: in another version's nursery."""
        self._nursery = nursery

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

    def _start(self) -> None:
        self.born += 1
        self._nursery.bear(
            self.name,
            "worker",
            self._said,
            arguments=[*WORKER.split(), "-n", f"{self.name}-{self.born}@localhost"],
            wall=str(self._wall),
            database=self._database,
        )

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
