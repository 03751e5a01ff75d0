"""The scripted agents as a model provider in real time: the same answers as in the virtual world, after real waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fabric.core.inputs import CallFailed, ModelReplied
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelRequest
from simulator.kernel import streams
from simulator.kernel.scripted import answer


class ScriptedProvider:
    """A ``ModelPort`` (provider ``scripted``) over ``simulator.kernel.scripted``; with the option ``stream`` calls come one by one while it waits. ``now`` is microseconds since the epoch."""

    def __init__(self, *, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._now = now

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """The scripted answer after its delay, or a timeout at the deadline."""
        left_s = (request.deadline_at - self._now()) / 1e6
        scripted = answer(request)
        if left_s <= scripted.delay_s:
            await asyncio.sleep(max(0.0, left_s))
            return CallFailed(
                command_id=request.command_id,
                attempt=request.attempt,
                cause=Cause.TIMEOUT,
                message=f"the scripted model takes {scripted.delay_s:g} seconds, and {max(0.0, left_s):.1f} were left",
                billed=left_s > 0,
            )
        waited_s = 0.0
        if request.streamed is not None and streams.wanted(request) and isinstance(scripted.result, ModelReplied):
            for at_s, given in streams.streamed(request, scripted.result, scripted.delay_s):
                await asyncio.sleep(at_s - waited_s)
                waited_s = at_s
                request.streamed(given)
        if scripted.delay_s:
            await asyncio.sleep(scripted.delay_s - waited_s)
        return scripted.result
