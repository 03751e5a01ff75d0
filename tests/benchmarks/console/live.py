"""The live hub under load (performance.md P14): a run that is fed events, one web server, and viewers that are real WebSocket clients.

Measured from the moment a COMMIT has returned in the feeding process to the moment a viewer's process has the frame. The server is the one
that ``up`` starts, over the same database; feeder, server and viewers share the machine, and so do their figures.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlencode

from fabric.core.events import InputIgnored
from fabric.core.events.envelope import Event, to_row
from fabric.core.values.fingerprint import ZERO_HASH
from fabric.core.values.flow import RunState
from fabric.models import Fabric, Revision
from fabric.models.fields.identities import new_id
from fabric.runtime.ports.batch_parts import RunColumns
from fabric.runtime.ports.journal import Batch, BatchFate, JournalStore, Nudge
from fabric.stores.writer import JournalWriter
from simulator.installation.database import ROOT
from tests.benchmarks.throughput import flow5
from tests.benchmarks.throughput.spec import SPEC

BURST = 10_000
BURST_BATCH = 100
PER_SIGN_IN = 20
"""Sockets of one user, at most as many as the console lets one have."""
WAIT_S = 60.0
REASON = "A line as long as the reasons and summaries that events usually carry, no more and no less."


class Feeder:
    """Extends one run's journal as its owner would, and remembers when each event was committed."""

    def __init__(self, store: JournalStore, nudge: Nudge, workspace_id: str, revision_id: str) -> None:
        self.run_id = new_id()
        self.seq = 0
        self.committed: dict[int, int] = {}
        self._head = ZERO_HASH
        self._done = threading.Semaphore(0)
        self._refused: list[object] = []
        self._writer = JournalWriter(store, nudge)
        self._writer.start()
        store.register("bench-feeder", lease_s=3_600)
        store.create(flow5.new_run(self.run_id, workspace_id, revision_id))
        (claimed,) = store.claim("bench-feeder", limit=1, queues=["default"])
        self._fence = claimed.fence

    def feed(self, count: int) -> None:
        """Submits one batch of so many events."""
        before, rows = self.seq, []
        for _ in range(count):
            self.seq += 1
            fact = InputIgnored(input_kind="bench", reason=f"{REASON} ({self.seq})")
            rows.append(to_row(Event(self.seq, time.time_ns() // 1_000, fact), None, self._head))
            self._head = rows[-1].hash
        columns = RunColumns(state=RunState.RUNNING, stage="plan", epoch=0, cost_usd_micros=0, tokens=0)
        batch = Batch(
            run_id=self.run_id, fence=self._fence, last_seq=before, rows=tuple(rows), head=self._head, columns=columns
        )
        self._writer.submit(batch, lambda outcome: self._written(before, count, outcome))

    def _written(self, before: int, count: int, outcome: BatchFate | Exception) -> None:
        now = time.monotonic_ns()
        if outcome is not BatchFate.COMMITTED:
            self._refused.append(outcome)
        self.committed.update(dict.fromkeys(range(before + 1, before + count + 1), now))
        self._done.release()

    def settle(self, batches: int) -> None:
        """Waits until so many batches have been written. RuntimeError when one was not taken, TimeoutError after a minute."""
        for _ in range(batches):
            if not self._done.acquire(timeout=WAIT_S):
                raise TimeoutError("the feeder's events were not written within a minute")
            if self._refused:
                raise RuntimeError(f"the feeder's batch was not written: {self._refused[0]}")

    def close(self) -> None:
        """Ends its thread. TimeoutError when it does not end within a minute."""
        if not self._writer.close(WAIT_S):
            raise TimeoutError("the feeder's writer did not end within a minute")

    def at_rate(self, per_s: int, seconds: float) -> None:
        """One event at a time, evenly spaced."""
        begun, count = time.monotonic(), round(per_s * seconds)
        for number in range(count):
            time.sleep(max(0.0, begun + number / per_s - time.monotonic()))
            self.feed(1)
        self.settle(count)

    def taken(self) -> dict[int, int]:
        """The instants since it was last asked."""
        found, self.committed = self.committed, {}
        return found


class Server:
    """The web server, as ``up`` starts it, on a socket that outlives it. ``beside``: it answers for the same public address as that one."""

    def __init__(self, beside: Server | None = None, **environment: str) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
        self.port = self.listener.getsockname()[1]
        self.public_port: int = beside.public_port if beside else self.port
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and returns when it answers, however many others ask it first. RuntimeError where it ends before."""
        environment = {**os.environ, **self.environment, "FABRIC_PORT": str(self.public_port)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "console.web_server", "--fd", str(self.listener.fileno())],
            env=environment,
            cwd=ROOT,
            pass_fds=(self.listener.fileno(),),
        )
        while not self._answers():
            if (code := self.process.poll()) is not None:
                raise RuntimeError(f"the server ended with exit code {code} before it answered")

    def _answers(self) -> bool:
        try:
            self.ask("GET", "/healthz")
        except TimeoutError:
            return False
        return True

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(WAIT_S)

    def ask(self, method: str, path: str, **more: Any) -> tuple[str, str]:
        """One request: the answer's body and its cookies as a header."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        connection.request(method, path, **more)
        answer = connection.getresponse()
        body = answer.read().decode()
        cookies = [value.partition(";")[0] for name, value in answer.getheaders() if name.lower() == "set-cookie"]
        connection.close()
        return body, "; ".join(cookies)

    def signed_in(self, token: str) -> str:
        """The cookies of a browser that used a one-time link."""
        page, cookie = self.ask("GET", "/login/link")
        form = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert form is not None
        headers = {
            "Cookie": cookie,
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": self.origin,
        }
        body = urlencode({"csrfmiddlewaretoken": form[1], "token": token})
        return self.ask("POST", "/login/link", body=body, headers=headers)[1]

    @property
    def origin(self) -> str:
        """Of its pages, as a browser says it."""
        return f"http://127.0.0.1:{self.public_port}"

    def resident_bytes(self) -> int:
        """Memory of the process; 0 where the system does not tell."""
        assert self.process is not None
        try:
            pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        except OSError:
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")


class Viewers:
    """The benchmark's end of the viewers' process."""

    def __init__(self, server: Server, run_id: str, after: int, cookies: list[str], count: int) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.console.viewers"]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._said: IO[str] = self._process.stdin
        self._heard: IO[str] = self._process.stdout
        address = f"ws://127.0.0.1:{server.port}/live/runs/{run_id}"
        self.ask(
            address=address,
            origin=f"http://127.0.0.1:{server.port}",
            cookies=cookies,
            after=after,
            viewers=count,
        )

    def ask(self, **what: Any) -> dict[str, Any]:
        """One question, one answer."""
        self._said.write(json.dumps(what) + "\n")
        answer: dict[str, Any] = json.loads(self._heard.readline())
        return answer

    def reached(self, seq: int, connections: int = 0) -> int:
        """The instant at which all of them have everything up to this event."""
        return int(self.ask(reach=seq, connections=connections)["at"])

    def counted(self, committed: dict[int, int]) -> dict[str, Any]:
        """Return what they saw since they were last asked."""
        return self.ask(count=committed)

    def stop(self) -> None:
        """Ends the process."""
        self._said.close()
        self._process.wait(WAIT_S)


@contextmanager
def _signed_in(server: Server, count: int) -> Iterator[list[str]]:
    from django.contrib.auth.models import User

    from fabric.services.actors import login_link_create, workspace_default
    from fabric.services.people.members import member_add

    people = [User.objects.create_user(f"viewer-{n}") for n in range(-(-count // PER_SIGN_IN))]
    for user in people:
        member_add(workspace_default(), user, ["viewer"], by="bench")
    yield [server.signed_in(login_link_create(user)) for user in people]


def measure(db: str, *, viewers: int, rate: int, seconds: int) -> dict[str, Any]:
    """The figures, in the database that Django is connected to: at a steady rate, in a burst, and after a restart of the server."""
    from fabric.composition import engine as wiring
    from fabric.services.actors import workspace_default

    workspace = workspace_default()
    fabric = Fabric.objects.create(workspace_id=workspace, name=SPEC.name, title=SPEC.title)
    revision = Revision.objects.create(
        workspace_id=workspace, fabric=fabric, number=1, digest=SPEC.digest(), spec=SPEC.model_dump_json()
    )
    feeder = Feeder(wiring.store(), wiring._local_nudge(), workspace, revision.id)
    feeder.feed(50)
    feeder.settle(1)
    server = Server()
    server.start()
    try:
        with _signed_in(server, viewers) as cookies:
            lone = server.resident_bytes()
            watching = Viewers(server, feeder.run_id, feeder.seq, cookies, viewers)
            try:
                return _figures(_Bench(feeder, server, watching, viewers), db, rate, seconds, lone)
            finally:
                watching.stop()
    finally:
        server.stop()


@dataclass(frozen=True, slots=True)
class _Bench:
    """Everything that takes part."""

    feeder: Feeder
    server: Server
    watching: Viewers
    viewers: int

    def steady(self, rate: int, seconds: int) -> dict[str, Any]:
        """At a steady rate."""
        self.feeder.taken()
        self.feeder.at_rate(rate, seconds)
        self.watching.reached(self.feeder.seq)
        seen = self.watching.counted(self.feeder.taken())
        return {
            "commit_to_browser_p50_ms": seen["p50_ms"],
            "commit_to_browser_p99_ms": seen["p99_ms"],
            "commit_to_browser_max_ms": seen["max_ms"],
            "frames_per_viewer_s": round(seen["frames_per_viewer"] / seconds, 1),
        }

    def burst(self) -> dict[str, Any]:
        """10,000 events as fast as they can be written."""
        begun = time.monotonic_ns()
        for _ in range(BURST // BURST_BATCH):
            self.feeder.feed(BURST_BATCH)
        self.feeder.settle(BURST // BURST_BATCH)
        written = time.monotonic_ns()
        shown = self.watching.reached(self.feeder.seq)
        seen = self.watching.counted(self.feeder.taken())
        return {
            "burst_events": BURST,
            "burst_written_ms": round((written - begun) / 1e6),
            "burst_shown_ms": round((shown - begun) / 1e6),
            "burst_frames_per_viewer": seen["frames_per_viewer"],
        }

    def restart(self) -> dict[str, Any]:
        """The server is stopped and started; all viewers come back at once to events that they missed."""
        before = self.watching.counted({})["connections"]
        stopped = time.monotonic_ns()
        self.server.stop()
        self.feeder.feed(60)
        self.feeder.settle(1)
        self.server.start()
        back = self.watching.reached(self.feeder.seq, before + 1)
        seen = self.watching.counted(self.feeder.taken())
        return {
            "restart_all_back_ms": round((back - stopped) / 1e6),
            "wrong_cursors": seen["wrong"],
            "missing": self.feeder.seq - seen["cursors"][0],
        }


def _figures(bench: _Bench, db: str, rate: int, seconds: int, lone: int) -> dict[str, Any]:
    opened = bench.watching.counted({})
    grown = bench.server.resident_bytes() - lone
    return {
        "work": "live",
        "db": db,
        "viewers": bench.viewers,
        "rate_per_s": rate,
        "seconds": seconds,
        "first_frame_p50_ms": opened["first_p50_ms"],
        "first_frame_p99_ms": opened["first_p99_ms"],
        "server_bytes_per_viewer": round(grown / bench.viewers),
        **bench.steady(rate, seconds),
        **bench.burst(),
        **bench.restart(),
    }
