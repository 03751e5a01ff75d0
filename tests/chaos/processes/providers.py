"""A model provider that watches its worker, named by dotted path in FABRIC_PROVIDERS. What it sees is on disk, in a folder of its own.

``FABRIC_CHAOS`` names that folder; its ``peak.json`` holds the most calls in flight and the threads seen.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents.script import answer
from tests.chaos.faults.failpoints import FOLDER


def folder() -> Path:
    """Where the chaos run keeps its files; KeyError when FABRIC_CHAOS is not set."""
    return Path(os.environ[FOLDER])


class WatchingProvider:
    """Scripted answers; writes down the most calls that were in flight at once and the operating system's threads then."""

    def __init__(self) -> None:
        self._out = self._peak = 0
        self._folder = folder()

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
        draft = self._folder / "peak.json.new"
        draft.write_text(json.dumps(found))
        draft.replace(self._folder / "peak.json")


def _os_threads() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("Threads:"):
            return int(line.split()[1])
    return 0
