"""An answer that streams in: its calls are told as they become whole, its bytes pass the same looks as those of an answer that comes at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar

import httpx2
from pydantic_ai.messages import ModelResponse, PartEndEvent, TextPart, ToolCallPart
from pydantic_ai.models import StreamedResponse

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.messages import call_of
from fabric.adapters.tools.outbound import EXCHANGE, Exchange, Refused
from fabric.core.inputs import CallStreamed, ToolCall
from fabric.core.text import DEPTH_MAX, nesting
from fabric.runtime.call_ports import ModelRequest

STREAMED: ContextVar[bool] = ContextVar("STREAMED", default=False)
"""Whether the ask of this task wants its answer as a stream."""
STREAM_TYPE = "text/event-stream"
OPTION = "stream"
"""``ModelSpec.options``: true where the endpoint streams calls as the protocol has it. Off unless it says so: many compatible servers do not stream the
calls of an answer, or cut their arguments wrongly, or leave the usage out.
"""


class BrokenOff(httpx2.TransportError):
    """A stream that ended before it said that it was over."""


def wanted(request: ModelRequest) -> bool:
    """Whether an answer is asked for as a stream: calls may be in it, and somebody begins them as they come."""
    offers = bool(request.tools) and request.model.tool_calls
    return offers and request.streamed is not None and request.model.options.get(OPTION) is True


async def drained(request: ModelRequest, stream: StreamedResponse) -> ModelResponse:
    """The whole answer. Each call of it is told as soon as the next part begins, so that nothing more of it can come; the last one comes with the answer."""
    try:
        await _told(request, stream)
    except BaseException:
        if (exchange := EXCHANGE.get()) is not None:
            exchange.said = _said(stream.get())
        raise
    return stream.get()


async def _told(request: ModelRequest, stream: StreamedResponse) -> None:
    calls: list[ToolCall] = []
    async for event in stream:
        if isinstance(event, PartEndEvent) and isinstance(event.part, ToolCallPart):
            call, _ = call_of(event.part, "")
            calls.append(call)
            if event.next_part_kind is not None and call.args is not None and request.streamed is not None:
                request.streamed(
                    CallStreamed(command_id=request.command_id, attempt=request.attempt, calls=tuple(calls))
                )


def _said(response: ModelResponse) -> str:
    """What a model had said, as JSON; empty: nothing."""
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    told = [{"id": part.tool_call_id, "tool": part.tool_name, "args": part.args} for part in calls]
    return json.dumps({"text": text, "calls": told}, ensure_ascii=False) if text or told else ""


class EventStream(httpx2.AsyncByteStream):
    """The body of a 200 of server-sent events, line by line as it comes. Raises what is wrong with it at the line that it is in.

    ``mend`` makes a line fit to be read; ``ends`` and ``says`` look at the JSON of an event: whether the answer is over with it, whether it is a part of one.
    """

    def __init__(
        self,
        response: httpx2.Response,
        exchange: Exchange,
        mend: Callable[[bytes], bytes],
        ends: Callable[[dict[str, object]], bool],
        says: Callable[[dict[str, object]], bool],
        max_bytes: int,
    ) -> None:
        self._response, self._exchange, self._max_bytes = response, exchange, max_bytes
        self._mend, self._ends, self._says = mend, ends, says
        self._over = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        rest = bytearray()
        async for chunk in self._response.aiter_raw():
            self._exchange.body += chunk
            if len(self._exchange.body) > self._max_bytes:
                raise Refused(f"the answer is larger than {self._max_bytes:,} bytes; the rest is not read")
            whole, found, rest_of = (bytes(rest) + chunk).rpartition(b"\n") if b"\n" in chunk else (b"", b"", b"")
            if not found:
                rest += chunk
                continue
            rest = bytearray(rest_of)
            for line in whole.split(b"\n"):
                yield self._looked_at(line) + b"\n"
        if rest:
            yield self._looked_at(bytes(rest))
        if not self._over:
            raise BrokenOff("the stream ended before its answer was over")
        self._exchange.complete = True

    def _looked_at(self, line: bytes) -> bytes:
        mended = self._mend(line)
        self._exchange.mended = self._exchange.mended or mended != line
        if not mended.startswith(b"data:"):
            return mended
        text = mended[5:].decode().strip()
        if text == "[DONE]":
            self._over = True
            return mended
        value = _event(text)
        if value is None or value.get("error"):
            self._exchange.body[:], self._exchange.complete = text.encode(), True
            raise Malformed("with an event that is no JSON object" if value is None else "with an error in its stream")
        self._over = self._over or self._ends(value)
        self._exchange.output = self._exchange.output or self._says(value)
        return mended

    async def aclose(self) -> None:
        """Closes the connection where the answer is not over."""
        await self._response.aclose()


def _event(text: str) -> dict[str, object] | None:
    """The JSON object of an event; None: it is none, or goes too deep."""
    if nesting(text) > DEPTH_MAX:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
