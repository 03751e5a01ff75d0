"""Streams answers: their calls arrive one by one, in simulated time. The stream may break off after any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from fabric.core.events.inputs import CallFailed, CallStreamed, ModelReplied, Result, ToolCall
from fabric.core.values import frozen
from fabric.core.values.taxonomy import Cause
from fabric.runtime.ports.calls import ModelRequest

OPTION = "stream"
"""Option in ``ModelSpec.options``, named as for real endpoints."""
Calls = tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and its delay in seconds. ``silent``: not before the deadline, and perhaps billed."""

    delay_s: float
    result: Result
    silent: bool = False
    billed: bool = False
    streamed: tuple[tuple[float, CallStreamed], ...] = ()
    """Parts that arrive before the complete answer, with their delays in seconds."""


def wants_stream(request: ModelRequest) -> bool:
    """Return True if the answer is to be streamed."""
    return bool(request.tools) and request.model.options.get(OPTION) is True


def stream_calls(request: ModelRequest, reply: ModelReplied, delay_s: float) -> tuple[tuple[float, CallStreamed], ...]:
    """Return all calls of an answer except the last, which nothing follows, evenly spread over its delay."""
    many = len(reply.calls)
    return tuple(
        (
            delay_s * (n + 1) / many,
            CallStreamed(command_id=request.command_id, attempt=request.attempt, calls=reply.calls[: n + 1]),
        )
        for n, call in enumerate(reply.calls[:-1])
        if call.args is not None
    )


def add_streamed_parts(request: ModelRequest, reply: Reply) -> Reply:
    """Return the reply with its streamed parts, if it is to be streamed."""
    if not wants_stream(request) or not isinstance(reply.result, ModelReplied):
        return reply
    return replace(reply, streamed=stream_calls(request, reply.result, reply.delay_s))


class Streaming:
    """The streams of one world. They have a generator of their own, so that worlds without streams stay unchanged."""

    def __init__(self, rng: Random, strikes: Callable[[str], bool]) -> None:
        self._rng, self._strikes = rng, strikes
        self._cut: dict[str, Calls] = {}
        """Calls of the last broken-off answer, by request."""

    def propose_calls(self, request: ModelRequest, calls: Calls) -> Calls:
        """Return the calls of a streamed answer: some more, and after a break often repeated ones under other ids."""
        before = self._cut.pop(request.command_id, ())
        if before and self._rng.random() < 0.7:
            return tuple(frozen.replace(one, call_id=f"{one.call_id}-again") for one in before if one.call_id.strip())
        if not wants_stream(request) or not calls:
            return calls
        tools = [tool.name for tool in request.tools]
        turn = request.command_id.rpartition(".t")[2]
        more = (
            ToolCall(call_id=f"m{turn}-{n}", tool=self._rng.choice(tools), args={"query": f"more {turn}.{n}"})
            for n in range(self._rng.randrange(4))
        )
        return (*calls, *more)

    def comes(self, request: ModelRequest, reply: Reply) -> Reply:
        """Return the reply with its streamed parts; it may break off."""
        said, reply = reply.result, add_streamed_parts(request, reply)
        if not wants_stream(request) or not isinstance(said, ModelReplied) or not self._strikes("dropped_stream"):
            return reply
        told = reply.streamed
        cut = self._rng.randrange(len(told) + 1)
        self._cut[request.command_id] = said.calls
        broken = CallFailed(
            command_id=request.command_id,
            attempt=request.attempt,
            cause=Cause.DROPPED_STREAM,
            message="the endpoint broke off in its answer",
            raw=said.text[:20],
            billed=True,
            partial=True,
        )
        after_s = told[cut - 1][0] if cut else 0.0
        return replace(reply, result=broken, delay_s=(after_s + reply.delay_s) / 2, streamed=told[:cut])

    def slow_tool(self, delay_s: float, *, streaming: bool) -> float:
        """Return a tool's delay; some take longer than the next attempt of the answer."""
        return delay_s * 12 if streaming and self._rng.random() < 0.2 else delay_s
