"""Answers that stream in: the calls of one come one by one, in virtual time, before it is whole; and the stream may break off after any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from fabric.core import frozen
from fabric.core.inputs import CallFailed, CallStreamed, ModelReplied, Result, ToolCall
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ModelRequest

OPTION = "stream"
"""``ModelSpec.options``, as real endpoints have it."""
Calls = tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class Reply:
    """What comes back and after how many seconds. ``silent``: not before the deadline, and perhaps billed."""

    delay_s: float
    result: Result
    silent: bool = False
    billed: bool = False
    streamed: tuple[tuple[float, CallStreamed], ...] = ()
    """What of the answer comes before it is whole, and after how many seconds each."""


def wanted(request: ModelRequest) -> bool:
    """Whether an answer to it streams in."""
    return bool(request.tools) and request.model.options.get(OPTION) is True


def streamed(request: ModelRequest, reply: ModelReplied, delay_s: float) -> tuple[tuple[float, CallStreamed], ...]:
    """All calls of an answer but the last, which nothing follows: evenly over the time that it takes."""
    many = len(reply.calls)
    return tuple(
        (
            delay_s * (n + 1) / many,
            CallStreamed(command_id=request.command_id, attempt=request.attempt, calls=reply.calls[: n + 1]),
        )
        for n, call in enumerate(reply.calls[:-1])
        if call.args is not None
    )


def coming(request: ModelRequest, reply: Reply) -> Reply:
    """The same answer as it comes in, where it does so a call at a time."""
    if not wanted(request) or not isinstance(reply.result, ModelReplied):
        return reply
    return replace(reply, streamed=streamed(request, reply.result, reply.delay_s))


class Streaming:
    """The streams of one world. What it draws is drawn beside everything else, so that worlds without streams stay as they were."""

    def __init__(self, rng: Random, strikes: Callable[[str], bool]) -> None:
        self._rng, self._strikes = rng, strikes
        self._cut: dict[str, Calls] = {}
        """What the answer to a request would have proposed that broke off last."""

    def proposed(self, request: ModelRequest, calls: Calls) -> Calls:
        """What an answer proposes that streams in: a few calls more, and after one that broke off often the same once more under other ids."""
        before = self._cut.pop(request.command_id, ())
        if before and self._rng.random() < 0.7:
            return tuple(frozen.replace(one, call_id=f"{one.call_id}-again") for one in before if one.call_id.strip())
        if not wanted(request) or not calls:
            return calls
        tools = [tool.name for tool in request.tools]
        turn = request.command_id.rpartition(".t")[2]
        more = (
            ToolCall(call_id=f"m{turn}-{n}", tool=self._rng.choice(tools), args={"query": f"more {turn}.{n}"})
            for n in range(self._rng.randrange(4))
        )
        return (*calls, *more)

    def comes(self, request: ModelRequest, reply: Reply) -> Reply:
        """The same answer as it comes in, where it does so a call at a time; it may break off."""
        said, reply = reply.result, coming(request, reply)
        if not wanted(request) or not isinstance(said, ModelReplied) or not self._strikes("dropped_stream"):
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

    def slowed(self, delay_s: float, *, streaming: bool) -> float:
        """How long a tool takes, some of them longer than an answer is asked for again."""
        return delay_s * 12 if streaming and self._rng.random() < 0.2 else delay_s
