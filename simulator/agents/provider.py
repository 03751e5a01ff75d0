"""Scripted agents as a model provider in real time: the answers of the virtual world, after real delays."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from fabric.core.events.inputs import CallFailed, ModelReplied
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ModelRequest
from simulator.agents import streams
from simulator.agents.script import answer


class ScriptedProvider:
    """A ``ModelPort`` (provider ``scripted``) over ``simulator.agents.script``.

    With the option ``stream`` calls arrive one by one during the delay. ``now``: microseconds since the epoch.
    """

    def __init__(self, *, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._now = now

    async def ask(self, request: ModelRequest) -> ModelReplied | CallFailed:
        """Return the scripted answer after its delay, or a timeout at the deadline."""
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
        if request.streamed is not None and streams.wants_stream(request) and isinstance(scripted.result, ModelReplied):
            for at_s, given in streams.stream_calls(request, scripted.result, scripted.delay_s):
                await asyncio.sleep(at_s - waited_s)
                waited_s = at_s
                request.streamed(given)
        if scripted.delay_s:
            await asyncio.sleep(scripted.delay_s - waited_s)
        return scripted.result
