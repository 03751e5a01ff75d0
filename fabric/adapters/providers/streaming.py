"""An answer that streams in: its calls are reported as they become whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.fitting import compact
from fabric.adapters.providers.protocols.contract import Answer, Assembly, Protocol, SaidCall, dicts
from fabric.adapters.providers.settling import settle_call
from fabric.adapters.providers.wire import DONE, BrokenOff, in_envelope, no_answer, parsed, parsed_list
from fabric.adapters.tools.outbound import Exchange
from fabric.core.inputs import CallStreamed
from fabric.runtime.call_ports import ModelRequest

JSON = Any
OPTION = "stream"
"""``ModelSpec.options``: true where the endpoint streams calls as the protocol has it. Off unless it says so: many compatible servers do not
stream the calls of an answer, or cut their arguments wrongly, or leave the usage out, and OpenAI refuses to stream some models to accounts
that are not verified.
"""

LAST_S = 2.0
"""Behind an answer that is over so long is waited for its usage, for the word that it is over, and for the end of the stream."""
CLOSE_S = 0.02
"""So long before the deadline an answer that is over is taken as it is."""


def wants_stream(request: ModelRequest) -> bool:
    """Whether an answer is asked for as a stream: calls may be in it, and somebody begins them as they come."""
    offers = bool(request.tools) and request.model.tool_calls
    return offers and request.streamed is not None and request.model.options.get(OPTION) is True


def read_body(protocol: Protocol, raw: bytes) -> Answer:
    """The answer in a body that came at once. Raises Malformed for one that has none."""
    text = raw.decode()
    value = in_envelope(_chunks(protocol, text) or parsed(text, protocol.url_hint), protocol.wanted)
    if not protocol.is_answer(value):
        raise no_answer(value, raw, protocol.wanted)
    return protocol.read(value)


def _chunks(protocol: Protocol, text: str) -> dict[str, JSON] | None:
    """The body that the chunks of a stream make, which Google sends as one list where a gateway takes ``alt=sse`` away; None: it is none."""
    several = parsed_list(text) if protocol.listed else []
    if len(several) < 2 or any(_failure(one) is not None for one in several):
        return None
    assembly = protocol.assembly()
    for chunk in several:
        assembly.take(chunk)
    if not assembly.over:
        raise BrokenOff("the list ended before its answer was over")
    return assembly.body()


async def read_stream(
    request: ModelRequest,
    protocol: Protocol,
    events: AsyncGenerator[dict[str, JSON] | str],
    exchange: Exchange,
    deadline: float | None,
) -> Answer | None:
    """The whole answer of a stream; None: no event came. ``deadline``: by the loop's clock.

    Each call is reported as soon as its own JSON object is whole, the last one too; else once the next part begins, so that nothing more of it can come. Raises
    Malformed, BrokenOff and what ``Reply.events`` raises.
    """
    assembly = protocol.assembly()
    try:
        came = await _take_all(request, protocol, assembly, events, exchange, deadline)
    except BaseException:
        exchange.said = _said(protocol, assembly)
        raise
    if not came:
        return None
    exchange.complete = True
    return protocol.read(assembly.body())


async def _take_all(
    request: ModelRequest,
    protocol: Protocol,
    assembly: Assembly,
    events: AsyncGenerator[dict[str, JSON] | str],
    exchange: Exchange,
    deadline: float | None,
) -> bool:
    """Takes the events in; returns True where there was one."""
    reported, done, came, ends = 0, False, False, None
    sure = True
    while True:
        if ends is None and (assembly.over or done):
            last = asyncio.get_running_loop().time() + LAST_S
            ends = last if deadline is None else min(last, deadline - CLOSE_S)
        event = await anext(events, None) if ends is None else await _last(events, ends, sure=sure or done)
        if event is None:
            break
        came = True
        if event == DONE:
            done = protocol.done_line
            continue
        more = _take(protocol, assembly, event, exchange)
        reported = _report(request, protocol, assembly, reported)
        if more and ends is not None and not done:
            # This stream names its end too early, so only its own end counts.
            ends, sure = None, False
    if came and not (assembly.over or done):
        raise BrokenOff("the stream ended before its answer was over")
    return came


def _take(protocol: Protocol, assembly: Assembly, event: dict[str, JSON] | str, exchange: Exchange) -> bool:
    """Takes one event in; returns True where it brought a part of the answer. Raises Malformed."""
    if isinstance(event, str):
        raise _malformed(event, "an event that is no JSON object", exchange)
    event = in_envelope(event, protocol.wanted) if protocol.enveloped else event
    if (error := _failure(event)) is not None:
        raise _malformed(compact(error), "an error in its stream", exchange)
    assembly.output = False
    try:
        assembly.take(event)
    except Malformed:
        exchange.body[:], exchange.complete = compact(event).encode(), True
        raise
    exchange.output = exchange.output or assembly.output
    return assembly.output


async def _last(
    events: AsyncGenerator[dict[str, JSON] | str], ends: float, *, sure: bool
) -> dict[str, JSON] | str | None:
    """Returns the next event behind an answer that is over. None: no event came in time, or the stream ended. ``sure``: it may break off."""
    try:
        async with asyncio.timeout_at(ends):
            return await anext(events, None)
    except (TimeoutError, OSError, httpx2.TransportError):
        if not sure:
            raise BrokenOff("the stream broke off, and what said that it was over had said so before") from None
        return None


def _report(request: ModelRequest, protocol: Protocol, assembly: Assembly, reported: int) -> int:
    """Reports the calls that have become whole; gives back how many have been."""
    begun = assembly.begun()
    # Of so many nothing more comes.
    sure = begun if assembly.after_calls or assembly.whole_at_once else begun - 1
    if request.streamed is None or max(sure, begun if assembly.closes else 0) <= reported:
        return reported
    said = protocol.read(assembly.body()).calls
    calls = [settle_call(request, one, protocol.key)[0] for one in said]
    for count in range(reported + 1, begun + 1):
        one = said[count - 1]
        if count > sure and not _is_whole(request, one):
            return count - 1
        if one.arguments in (None, "", {}) and not assembly.whole_at_once:
            return count - 1  # Some servers begin every call before the arguments of the first.
        if calls[count - 1].args is not None:
            request.streamed(
                CallStreamed(command_id=request.command_id, attempt=request.attempt, calls=tuple(calls[:count]))
            )
    return begun


def _is_whole(request: ModelRequest, call: SaidCall) -> bool:
    """Whether a call that nothing follows yet has all that it needs: its id, an offered tool, and one JSON object that is not empty.

    Some servers send an empty object first. What comes behind a whole object makes another call of it, and the whole answer contradicts it then.
    """
    if not call.id or not isinstance(call.arguments, str) or all(call.tool != one.name for one in request.tools):
        return False
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value)


def _failure(event: dict[str, JSON]) -> JSON:
    """Returns the object with the error, where an event says that the answer failed: the event, or the response or the choice in it. None: it does not say so."""
    if event.get("error") or "error" in (event.get("type"), event.get("object")):
        return event
    return next((one for one in (event.get("response"), *dicts(event.get("choices"))) if _failed(one)), None)


def _failed(value: JSON) -> bool:
    return isinstance(value, dict) and bool(value.get("error"))


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
