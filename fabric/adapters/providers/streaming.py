"""An answer that streams in: its calls are told as they become whole, its bytes pass the same looks as those of an answer that comes at once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai.messages import ModelResponse, PartEndEvent, TextPart, ToolCallPart
from pydantic_ai.models import StreamedResponse

from fabric.adapters.providers.errors import Malformed
from fabric.adapters.providers.messages import call_of, number_of
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


async def drained(request: ModelRequest, stream: StreamedResponse, *, numbered: bool = False) -> ModelResponse:
    """The whole answer. Each call of it is told as soon as the next part begins, so that nothing more of it can come; the last one comes with the answer.

    ``numbered`` as in ``messages.replied``.
    """
    try:
        await _told(request, stream, numbered)
    except BaseException:
        if (exchange := EXCHANGE.get()) is not None:
            exchange.said = _said(stream.get())
        raise
    return stream.get()


async def _told(request: ModelRequest, stream: StreamedResponse, numbered: bool) -> None:
    calls: list[ToolCall] = []
    async for event in stream:
        if isinstance(event, PartEndEvent) and isinstance(event.part, ToolCallPart):
            call, _ = call_of(event.part, number_of(request, len(calls)) if numbered else "")
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


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the events of a protocol's stream say. Each field is asked about the JSON of one event."""

    ends: Callable[[dict[str, Any]], bool] = lambda value: False
    """Whether the answer is over with it."""
    says: Callable[[dict[str, Any]], bool] = lambda value: False
    """Whether it is a part of the answer."""
    is_one: Callable[[dict[str, Any]], bool] = lambda value: True
    """Whether it is as the protocol has it, as far as its client library would pass over one that is not, and lose a part of the answer."""
    done_line: bool = False
    """Whether a line ``[DONE]`` says that the answer is over. Where it does not, gateways may send one all the same, and it says nothing."""
    settle: Callable[[dict[str, Any]], bool] = lambda value: False
    """Changes what its client library would trip over, ask again for or count wrongly; True: it changed something."""
    name: Callable[[dict[str, Any]], str | None] = lambda value: ""
    """What its client library wants the event called; empty: nothing. None: the library has no use for it, and it is not handed up."""


class EventStream(httpx2.AsyncByteStream):
    """The body of a 200 of server-sent events, event by event as it comes. Raises what is wrong with it at the line that it is in.

    ``mend`` makes a line fit to be read. What is handed up is one event for each line of data, and nothing else: names and comments of the endpoint's are
    not, for a client library takes an event without its name for none, or a comment for an answer.
    """

    def __init__(
        self,
        response: httpx2.Response,
        exchange: Exchange,
        mend: Callable[[bytes], bytes],
        dialect: Dialect,
        max_bytes: int,
    ) -> None:
        self._response, self._exchange, self._max_bytes = response, exchange, max_bytes
        self._mend, self._dialect = mend, dialect
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
                if event := self._looked_at(line):
                    yield event
        if rest and (event := self._looked_at(bytes(rest))):
            yield event
        if not self._over:
            raise BrokenOff("the stream ended before its answer was over")
        self._exchange.complete = True

    def _looked_at(self, line: bytes) -> bytes:
        """The event that a line is; empty: none."""
        mended = self._mend(line)
        self._exchange.mended = self._exchange.mended or mended != line
        if not mended.startswith(b"data:"):
            return b""
        dialect, text = self._dialect, mended[5:].decode().strip()
        if text == "[DONE]":
            self._over = self._over or dialect.done_line
            return b"data: [DONE]\n\n" if dialect.done_line else b""
        value = _event(text)
        if wrong := self._wrong(value):
            self._exchange.body[:], self._exchange.complete = text.encode(), True
            raise Malformed(f"with {wrong}")
        assert value is not None
        self._over = self._over or dialect.ends(value)
        self._exchange.output = self._exchange.output or dialect.says(value)
        if (name := dialect.name(value)) is None:
            return b""
        data = json.dumps(value) if dialect.settle(value) else text
        return f"event: {name}\ndata: {data}\n\n".encode() if name else f"data: {data}\n\n".encode()

    def _wrong(self, value: dict[str, Any] | None) -> str:
        if value is None:
            return "an event that is no JSON object"
        if value.get("error") or value.get("type") == "error":
            return "an error in its stream"
        return "" if self._dialect.is_one(value) else "an event that is not as its protocol has it"

    async def aclose(self) -> None:
        """Closes the connection where the answer is not over."""
        await self._response.aclose()


def _event(text: str) -> dict[str, Any] | None:
    """The JSON object of an event; None: it is none, or goes too deep."""
    if nesting(text) > DEPTH_MAX:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
