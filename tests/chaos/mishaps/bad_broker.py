"""A relay stands between workers and those who wake them: it loses, doubles, keeps and shuffles messages of a real broker. A second process asks."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import redis

from console.launch.processes.data_directory import ROOT
from fabric.composition import engine as wiring
from tests.console.launch.started_processes import Lines, started

QUEUE = "default"
WAIT_S = 60
FRONT, BACK = 0, 1
"""The broker's databases: one takes the messages, the workers listen to the other."""


class OnlyBroker:
    """A nudge that goes by the broker alone, and says nothing on the machine itself."""

    def wake(self, run_id: str) -> None:
        """One message, if a consumer takes it."""
        with contextlib.suppress(Exception):
            wiring.send_wake(run_id)

    def announce(self, run_seqs: Any) -> None:
        """Nothing."""


def wrap(name: str, port: Any) -> Any:
    """Return what FABRIC_FAULTS names, in the process that starts runs."""
    return OnlyBroker() if name == "nudge" else port


class Asking:
    """A process that starts, cancels and answers by the services (``tests.chaos.processes.starter``), as a web server does."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._asks, self._said = process.stdin, Lines(process.stdout.fileno())

    def ask(self, what: str, about: str) -> dict[str, Any]:
        """Asks, and gives the answer."""
        self._asks.write(json.dumps({what: about}).encode() + b"\n")
        self._asks.flush()
        said: dict[str, Any] = json.loads(self._said.next())
        assert "error" not in said, said
        return said


@contextlib.contextmanager
def asking(environment: Mapping[str, str]) -> Iterator[Asking]:
    """One while the block runs."""
    command, pipe = [sys.executable, "-m", "tests.chaos.processes.starter"], subprocess.PIPE
    with started(command, env={**environment, "PYTHONPATH": str(ROOT)}, cwd=ROOT, stdin=pipe, stdout=pipe) as process:
        yield Asking(process)


class Between:
    """Moves messages from the front to the back, as badly as a seed says."""

    def __init__(self, port: int, seed: int) -> None:
        self._front, self._back = redis.Redis(port=port, db=FRONT), redis.Redis(port=port, db=BACK)
        self._random = random.Random(seed)
        self.kept: list[bytes] = []
        self.lost = 0

    def move(self, messages: int) -> None:
        """Waits for so many messages, and passes on what becomes of them: some at once, some twice, some later, some never."""
        taken = [self._next() for _ in range(messages)]
        self._random.shuffle(taken)
        for message in taken:
            times = self._random.choice((0, 0, 1, 2))
            self.lost += times == 0
            for _ in range(times):
                self._back.lpush(QUEUE, message)
            if times:
                self.kept.append(message)

    def _next(self) -> bytes:
        found: Any = self._front.brpop([QUEUE], timeout=WAIT_S)
        assert found is not None, f"no message came within {WAIT_S} s"
        message: bytes = found[1]
        return message

    def deliver_late(self) -> int:
        """Everything that was passed on once more, in any order; how many."""
        self._random.shuffle(self.kept)
        for message in self.kept:
            self._back.lpush(QUEUE, message)
        return len(self.kept)

    def close(self) -> None:
        """Lets go of the broker."""
        self._front.close()
        self._back.close()
