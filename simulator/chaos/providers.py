"""Model providers for chaos runs, named by dotted path in FABRIC_PROVIDERS. What they do is on disk, in a folder of their own.

``FABRIC_CHAOS`` names that folder. Its ``ledger.ndjson`` is appended to before an answer is given and is the ground truth of what was asked;
``kill-N`` files are the kills that are still to be done; ``peak.json`` holds the most calls in flight and the threads seen.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from pathlib import Path

from fabric.core.draw import unit
from fabric.core.inputs import CallFailed, ModelReplied
from fabric.runtime.ports import ModelRequest
from simulator.kernel.scripted import answer

FOLDER = "FABRIC_CHAOS"
KILL_WITHIN_S = 0.02
KILL_SHARE = 0.25


def folder() -> Path:
    """Where the chaos run keeps its files; KeyError when FABRIC_CHAOS is not set."""
    return Path(os.environ[FOLDER])


class KillingProvider:
    """Appends to its ledger, answers, and then, as long as there are kills left, kills its own process with SIGKILL.

    The kill comes up to 20 ms after the answer: before the result was journaled, while it is, or after. One a process.
    """

    def __init__(self) -> None:
        self._dying = False
        self._ledger = os.open(folder() / "ledger.ndjson", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The scripted answer, written down first."""
        line = {"run": request.run_id, "command": request.command_id, "attempt": request.attempt}
        os.write(self._ledger, json.dumps({**line, "key": request.idempotency_key}).encode() + b"\n")
        os.fsync(self._ledger)
        drawn = unit(0, "kill", f"{request.run_id}/{request.command_id}/{request.attempt}")
        if drawn < KILL_SHARE and not self._dying and self._take_a_kill():
            self._dying = True
            delay = drawn / KILL_SHARE * KILL_WITHIN_S
            asyncio.get_running_loop().call_later(delay, os.kill, os.getpid(), signal.SIGKILL)
        scripted = answer(request)
        await asyncio.sleep(scripted.delay_s)
        return scripted.result

    def _take_a_kill(self) -> bool:
        """Whether there was a kill left, and it is this one now: a file is removed by exactly one process."""
        for ticket in sorted(folder().glob("kill-*")):
            try:
                ticket.unlink()
            except FileNotFoundError:
                continue
            return True
        return False


class WatchingProvider:
    """Scripted answers; writes down the most calls that were in flight at once and the operating system's threads then."""

    def __init__(self) -> None:
        self._out = self._peak = 0

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The scripted answer after its delay."""
        scripted = answer(request)
        self._out += 1
        if self._out > self._peak:
            self._peak = self._out
            self._note()
        try:
            await asyncio.sleep(scripted.delay_s)
        finally:
            self._out -= 1
        return scripted.result

    def _note(self) -> None:
        found = {"in_flight": self._peak, "threads": _os_threads(), "python_threads": threading.active_count()}
        draft = folder() / "peak.json.new"
        draft.write_text(json.dumps(found))
        draft.replace(folder() / "peak.json")


def _os_threads() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Threads:"):
            return int(line.split()[1])
    return 0
