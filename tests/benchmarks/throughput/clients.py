"""Clients in a process of their own, as on PostgreSQL callers are: they create runs as the service does and offer them to the engine.

One line each way: the engine says ``go RUNS AT_ONCE`` and ``ended RUN``; the clients say ``offer RUN`` and ``done``.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from simulator.installation.database import ROOT

WAIT_S = 600.0


class Clients:
    """The engine's end. ``offer`` is called on a thread of this, with each new run's id."""

    def __init__(self, workspace_id: str, revision_id: str, offer: Callable[[str], None]) -> None:
        command = [sys.executable, "-m", "tests.benchmarks.throughput.clients", workspace_id, revision_id]
        self._process: subprocess.Popen[str] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
        )
        self._offer = offer
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="bench-clients", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, _, run_id = line.strip().partition(" ")
            if word == "offer":
                self._offer(run_id)
            else:
                self._done.set()

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")

    def ended(self, run_id: str) -> None:
        """Tells them that a run is over."""
        self._say(f"ended {run_id}")

    def run(self, runs: int, at_once: int) -> None:
        """Has them start so many runs, at most ``at_once`` of them unfinished; returns when all are over. TimeoutError after ten minutes."""
        self._done.clear()
        self._say(f"go {runs} {at_once}")
        if not self._done.wait(WAIT_S):
            raise TimeoutError(f"{runs} runs were not over within {WAIT_S:.0f} s")

    def stop(self) -> None:
        """Ends their process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


def serve(create: Callable[[], str], heard: TextIO, said: TextIO) -> None:
    """The clients' end: ``create`` makes a run and gives its id."""
    left = unfinished = 0

    def start() -> None:
        said.write(f"offer {create()}\n")
        said.flush()

    for line in heard:
        word, *rest = line.split()
        if word == "go":
            runs, at_once = (int(number) for number in rest)
            unfinished, left = runs, runs - min(runs, at_once)
            for _ in range(runs - left):
                start()
            continue
        unfinished -= 1
        if left:
            left -= 1
            start()
        elif not unfinished:
            said.write("done\n")
            said.flush()


def main(workspace_id: str, revision_id: str) -> None:
    """Serves on standard input and output."""
    import django

    django.setup()
    from fabric.composition import engine as wiring
    from fabric.models.fields.identities import new_id
    from tests.benchmarks.throughput.flow5 import new_run

    store: Any = wiring.store()

    def create() -> str:
        run_id = new_id()
        store.create(new_run(run_id, workspace_id, revision_id))
        return run_id

    serve(create, sys.stdin, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
