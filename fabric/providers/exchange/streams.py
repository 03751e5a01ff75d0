"""An answer that streams in: its calls are reported as they become whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

import httpx2

from fabric.core.events.inputs import CallStreamed
from fabric.core.values.units import JSON
from fabric.http.transport import Exchange
from fabric.providers.exchange.settlement import settle_call
from fabric.providers.exchange.wire import DONE, BrokenOff, no_answer, open_envelope, parse_body, parsed_list
from fabric.providers.protocols.contract import Assembly, ModelAnswer, Protocol, SaidCall, dicts
from fabric.providers.protocols.fitting import compact
from fabric.providers.refusals.errors import MalformedAnswer
from fabric.runtime.ports.calls import ModelRequest

OPTION = "stream"
"""Option in ``ModelSpec.options``: true where the endpoint streams calls as the protocol has it.

Off by default: many compatible servers do not stream the calls of an answer, or cut their arguments wrongly, or leave
the usage out, and OpenAI refuses to stream some models to accounts that are not verified.
"""

LAST_S = 2.0
"""Seconds that a stream has, after its answer is over, for its usage, its end mark and its end."""
CLOSE_S = 0.02
"""Seconds before the deadline at which a finished answer is taken as it is."""


def wants_stream(request: ModelRequest) -> bool:
    """Return True if the answer is requested as a stream. It may contain calls, and a reader begins them as
    they come.
    """
    offers = bool(request.tools) and request.model.tool_calls
    return offers and request.streamed is not None and request.model.options.get(OPTION) is True


def read_body(protocol: Protocol, raw: bytes) -> ModelAnswer:
    """Return the answer in a body that came at once. Raises MalformedAnswer for one that has none."""
    text = raw.decode()
    value = open_envelope(_chunks(protocol, text) or parse_body(text, protocol.url_hint), protocol.wanted)
    if not protocol.is_answer(value):
        raise no_answer(value, raw, protocol.wanted)
    return protocol.read(value)


def _chunks(protocol: Protocol, text: str) -> dict[str, JSON] | None:
    """Return the body of a stream's chunks in one list. Google sends that where a gateway removes ``alt=sse``. None: it
    is no such list.
    """
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
) -> ModelAnswer | None:
    """Return the whole answer of a stream; None: no event came. ``deadline``: by the loop's clock.

    A call is reported as soon as its own JSON object is whole, the last one too; else once the next part begins, so
    that nothing more of it can come. Raises MalformedAnswer, BrokenOff and the errors of ``Reply.events``.
    """
    assembly = protocol.assembly()
    try:
        came = await _take_all(request, protocol, assembly, events, exchange, deadline)
    except BaseException:
        exchange.said = _received_part(protocol, assembly)
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
    """Read the events; return True where there was one."""
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
    """Read one event; return True where it brought a part of the answer. Raises MalformedAnswer."""
    if isinstance(event, str):
        raise _build_malformed(event, "an event that is no JSON object", exchange)
    event = open_envelope(event, protocol.wanted) if protocol.enveloped else event
    if (error := _failure(event)) is not None:
        raise _build_malformed(compact(error), "an error in its stream", exchange)
    assembly.output = False
    try:
        assembly.take(event)
    except MalformedAnswer:
        exchange.body[:], exchange.complete = compact(event).encode(), True
        raise
    exchange.output = exchange.output or assembly.output
    return assembly.output


async def _last(
    events: AsyncGenerator[dict[str, JSON] | str], ends: float, *, sure: bool
) -> dict[str, JSON] | str | None:
    """Return the next event behind a finished answer. None: no event came in time, or the stream ended. ``sure``:
    True lets it break off.
    """
    try:
        async with asyncio.timeout_at(ends):
            return await anext(events, None)
    except (TimeoutError, OSError, httpx2.TransportError):
        if not sure:
            raise BrokenOff("the stream broke off, and what said that it was over had said so before") from None
        return None


def _report(request: ModelRequest, protocol: Protocol, assembly: Assembly, reported: int) -> int:
    """Report the calls that have become whole; return their number."""
    begun = assembly.count_begun()
    # Number of calls that are surely complete.
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
    """Return True if the last call is complete. It has an id, an offered tool, and one JSON object that is not empty.

    Some servers send an empty object first. Further text after a whole object makes another call of it, and the whole
    answer contradicts it then.
    """
    if not call.id or not isinstance(call.arguments, str) or all(call.tool != one.name for one in request.tools):
        return False
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and bool(value)


def _failure(event: dict[str, JSON]) -> JSON:
    """Return the object with the error, where an event reports that the answer failed. It is the event, its response or
    its choice. None: it does not.
    """
    if event.get("error") or "error" in (event.get("type"), event.get("object")):
        return event
    return next((one for one in (event.get("response"), *dicts(event.get("choices"))) if _is_error(one)), None)


def _is_error(value: JSON) -> bool:
    return isinstance(value, dict) and bool(value.get("error"))


def _build_malformed(text: str, what: str, exchange: Exchange) -> MalformedAnswer:
    """Return the error for an event that ends the answer, with the event's visible part."""
    exchange.body[:], exchange.complete = text.encode(), True
    return MalformedAnswer(f"with {what}")


def _received_part(protocol: Protocol, assembly: Assembly) -> str:
    """Return the received words and calls, as JSON; empty: there are none."""
    try:
        answer = protocol.read(assembly.body())
    except Exception:  # noqa: BLE001 - Half a body need not be readable.
        return ""
    calls = [{"id": call.id, "tool": call.tool, "args": call.arguments} for call in answer.calls]
    return compact({"text": answer.text, "calls": calls}) if answer.text or calls else ""
