"""An answer that streams in: its calls are reported as they become whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import compact
from fabric.adapters.providers.protocols.contract import Answer, Assembly, Protocol
from fabric.adapters.providers.settling import settle_call
from fabric.adapters.providers.wire import DONE, BrokenOff, Reply
from fabric.adapters.tools.outbound import Exchange
from fabric.core.inputs import CallStreamed
from fabric.runtime.call_ports import ModelRequest

JSON = Any
OPTION = "stream"
"""``ModelSpec.options``: true where the endpoint streams calls as the protocol has it. Off unless it says so: many compatible servers do not
stream the calls of an answer, or cut their arguments wrongly, or leave the usage out.
"""

LAST_S = 2.0
"""Behind an answer that is over so long is waited for its usage, for the word that it is over, and for the end of the stream."""
CLOSE_S = 0.02
"""So long before the deadline an answer that is over is taken as it is."""


def wants_stream(request: ModelRequest) -> bool:
    """Whether an answer is asked for as a stream: calls may be in it, and somebody begins them as they come."""
    offers = bool(request.tools) and request.model.tool_calls
    return offers and request.streamed is not None and request.model.options.get(OPTION) is True


async def read_stream(
    request: ModelRequest, protocol: Protocol, reply: Reply, exchange: Exchange, deadline: float | None
) -> Answer:
    """The whole answer of a stream. ``deadline``: by the loop's clock.

    Each call is reported as soon as the next part begins, so that nothing more of it can come; the last one comes with the answer. Raises
    Malformed, BrokenOff and what ``Reply.events`` raises.
    """
    assembly = protocol.assembly()
    try:
        await _take_all(request, protocol, assembly, reply, exchange, deadline)
    except BaseException:
        exchange.said = _said(protocol, assembly)
        raise
    exchange.complete = True
    return protocol.read(assembly.body())


async def _take_all(
    request: ModelRequest,
    protocol: Protocol,
    assembly: Assembly,
    reply: Reply,
    exchange: Exchange,
    deadline: float | None,
) -> None:
    reported, done, ends = 0, False, None
    events = reply.events()
    while True:
        if ends is None and (assembly.over or done):
            last = asyncio.get_running_loop().time() + LAST_S
            ends = last if deadline is None else min(last, deadline - CLOSE_S)
        event = await anext(events, None) if ends is None else await _last(events, ends)
        if event is None:
            break
        if event == DONE:
            done = protocol.done_line
            continue
        if isinstance(event, str):
            raise _malformed(event, "an event that is no JSON object", exchange)
        if (error := _failure(event)) is not None:
            raise _malformed(compact(error), "an error in its stream", exchange)
        try:
            assembly.take(event)
        except Malformed:
            exchange.body[:], exchange.complete = compact(event).encode(), True
            raise
        exchange.output = exchange.output or assembly.output
        reported = _report(request, protocol, assembly, reported)
    if not (assembly.over or done):
        raise BrokenOff("the stream ended before its answer was over")


async def _last(events: AsyncGenerator[dict[str, JSON] | str], ends: float) -> dict[str, JSON] | str | None:
    """Returns the next event behind an answer that is over. None: no event came in time, or the stream ended."""
    try:
        async with asyncio.timeout_at(ends):
            return await anext(events, None)
    except (TimeoutError, OSError, httpx2.TransportError):
        return None


def _report(request: ModelRequest, protocol: Protocol, assembly: Assembly, reported: int) -> int:
    """Reports the calls that have become whole; gives back how many have been."""
    whole = assembly.begun() if assembly.after_calls else assembly.begun() - 1
    if whole <= reported or request.streamed is None:
        return reported
    calls = [settle_call(request, one, protocol.key)[0] for one in protocol.read(assembly.body()).calls]
    for count in range(reported + 1, whole + 1):
        if calls[count - 1].args is not None:
            request.streamed(
                CallStreamed(command_id=request.command_id, attempt=request.attempt, calls=tuple(calls[:count]))
            )
    return whole


def _failure(event: dict[str, JSON]) -> JSON:
    """Returns the object with the error, where an event says that the answer failed: the event, or the response in it. None: it does not say so."""
    inner = event.get("response")
    whole = event if event.get("error") or event.get("type") == "error" else inner
    return whole if whole is event or (isinstance(whole, dict) and whole.get("error")) else None


def _malformed(text: str, what: str, exchange: Exchange) -> Malformed:
    """An event that ends the answer; the event is what is shown of it."""
    exchange.body[:], exchange.complete = text.encode(), True
    return Malformed(f"with {what}")


def _said(protocol: Protocol, assembly: Assembly) -> str:
    """The words and calls that had come, as JSON; empty: none had."""
    try:
        answer = protocol.read(assembly.body())
    except Exception:  # noqa: BLE001 - Half a body need not be readable.
        return ""
    calls = [{"id": call.id, "tool": call.tool, "args": call.arguments} for call in answer.calls]
    return compact({"text": answer.text, "calls": calls}) if answer.text or calls else ""
