"""A process that extends a run's journal in a running installation, as its owner would, line by line as it is asked.

``make LIKE COUNT STATE`` is answered with the new run's id, ``add COUNT SIZE`` with the seq that the journal reaches once all of it is committed.
A run in state completed has a deep value as the content of its first event.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from console.launch.processes.data_directory import ROOT
from tests.console.launch.started_processes import Lines, started
from tests.e2e.installation import Installation

DEEP = {"rows": [{"id": n, "deep": {"a": {"b": {"c": [n]}}}} for n in range(600)]}


class Feeder:
    """The test's end. One run at a time."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._said, self._heard = process.stdin, Lines(process.stdout.fileno())
        self._under_way = 0

    def make(self, like: str, count: int, state: str = "running") -> str:
        """A run of its own, like another one, that goes on for ever or has ended."""
        self._say(f"make {like} {count} {state}")
        return self._heard.next()

    def begin(self, count: int, size: int = 1) -> None:
        """Adds so many events, committed so many at a time, and does not wait for it."""
        self._say(f"add {count} {size}")
        self._under_way += 1

    def end(self) -> int:
        """Waits for everything that was begun; the journal's last seq."""
        reached = 0
        while self._under_way:
            reached = int(self._heard.next())
            self._under_way -= 1
        return reached

    def add(self, count: int, size: int = 1) -> int:
        """Adds so many events; the journal's last seq."""
        self.begin(count, size)
        return self.end()

    def _say(self, line: str) -> None:
        self._said.write(f"{line}\n".encode())
        self._said.flush()


@contextmanager
def feeding(installation: Installation) -> Iterator[Feeder]:
    """A feeder of this installation."""
    environ = installation.environ | {"DJANGO_SETTINGS_MODULE": "console.settings"}
    command = [sys.executable, "-m", "tests.e2e.runs.feeder"]
    with started(command, env=environ, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Feeder(process)


def serve() -> None:
    """The far end, on standard input and output."""
    import django

    django.setup()
    from fabric.composition import engine as wiring
    from fabric.core.events import Fact, InputIgnored, ToolAnswered
    from fabric.models import Run
    from fabric.services.actors import owner_actor
    from tests.console.pages.runs.journals import append, journal

    actor, run_id = owner_actor(), ""
    result = ToolAnswered(
        command_id="c", attempt=1, step_id="plan.0.e0.r0", call_id="x", tool="t", args_hash="", masked_hash=""
    )

    def fact(number: int) -> tuple[Fact, Any]:
        return InputIgnored(input_kind="decision_made", reason=f"number {number}"), None

    for line in sys.stdin:
        word, *given = line.split()
        if word == "make":
            facts = [fact(number) for number in range(1, int(given[1]) + 1)]
            if given[2] == "completed":
                facts[0] = result, DEEP
            run_id = journal(actor, given[0], facts, state=given[2])
            print(run_id, flush=True)
            continue
        begin = Run.objects.get(id=run_id).last_seq
        end, size = begin + int(given[0]), int(given[1])
        for first in range(begin + 1, end + 1, size):
            last = min(first + size - 1, end)
            append(run_id, actor, map(fact, range(first, last + 1)))
            wiring.nudge().announce({run_id: last})
        print(end, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    serve()
