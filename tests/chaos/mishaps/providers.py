"""Model providers, named by dotted path in FABRIC_PROVIDERS, with which a worker is interrupted in the middle of a call.

Each call is noted in the chaos ledger first. What goes wrong does so as long as a file of its name lies beside the ledger.
"""

import asyncio
import os
import signal

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.http.transport import CALL_HEADER, call_name
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents.script import answer
from simulator.booking import Ledger
from tests.chaos.processes.providers import folder

LEDGER = "ledger.ndjson"
KILL = "kill-0000"
HANG = "hang"
ASKED = "asked"
"""A pipe that is told of each call that hangs."""


class DyingProvider:
    """Takes the file KILL away, if there is one, and kills its process with a call out."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The scripted answer, or none at all."""
        _note(request)
        try:
            (folder() / KILL).unlink()
        except FileNotFoundError:
            return await _scripted(request)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("no process outlives SIGKILL")


class HangingProvider:
    """Does not answer as long as there is a file HANG, and says into the pipe ASKED that it was asked."""

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The scripted answer, or none until it is given up."""
        _note(request)
        if (folder() / HANG).exists():
            (folder() / ASKED).write_text("asked\n")
            await asyncio.Event().wait()
        return await _scripted(request)


def _note(request: ModelRequest) -> None:
    ledger = Ledger(folder() / LEDGER)
    ledger.note("model", {CALL_HEADER.lower(): call_name(request)}, applied=True)
    ledger.close()


async def _scripted(request: ModelRequest) -> ModelReplied | CallFailed:
    scripted = answer(request)
    await asyncio.sleep(scripted.delay_s)
    return scripted.result
