"""A server that is an address: streamable HTTP under the SDK's session, held to what all that goes out is held to (``outbound.Gate``).

The SDK lets an exchange that breaks below HTTP break the whole session, and keeps an answer whole however long it grows. Here an exchange ends alone:
what went wrong is noted in its ``Asked``, and the SDK is given an answer that ends that one request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
from mcp.client.streamable_http import streamable_http_client

from fabric.adapters.tools.mcp.failing import LARGER, MESSAGE_BYTES_MAX, TOO_LARGE, NotStarted
from fabric.adapters.tools.outbound import EXCHANGE, Exchange, Gate, Refused, VettedTransport, transport_failure
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.adapters.tools.permits import Permits
from fabric.adapters.tools.web import outcome_of, shown, try_again, unread
from fabric.core.spec_mcp import McpServer
from fabric.core.taxonomy import Cause


@dataclass(slots=True)
class Asked(Exchange):
    """One call's exchange, and what became of it that the SDK does not tell."""

    own: Mapping[str, str] = field(default_factory=dict)
    """Headers of this call."""
    until: float = 0.0
    """When it is let go of, by the loop's clock: the SDK does not for servers of before 2026, which are told that nobody waits any more, and may not hear it."""
    failure: CallBroken | ToolError | None = None

    def limit(self) -> asyncio.Timeout:
        """Ends what waits for the server; what still has to be said afterwards is given a little more."""
        return asyncio.timeout_at(max(self.until, asyncio.get_running_loop().time() + LAST_WORDS_S))


LAST_WORDS_S = 2.0


class BoundedTransport(VettedTransport):
    """Hands on an answer as it comes, to its bound. It never raises but on cancellation."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, or one that ends the request."""
        if request.method == "GET" and "last-event-id" not in request.headers:
            # What a server would say by itself is not wanted: nothing here answers it.
            return httpx2.Response(405, request=request)
        found = EXCHANGE.get()
        asked = found if isinstance(found, Asked) else Asked()
        request.headers.update(asked.own)
        where = shown(str(request.url))
        try:
            async with asked.limit():
                response = await self.opened(request, asked)
        except TimeoutError:
            asked.failure = CallBroken(Cause.TIMEOUT, f"{where} did not answer in time", outcome=unread(asked))
            return _ended(request, str(asked.failure))
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if isinstance(error, Refused):
                asked.failure = CallBroken(Cause.BAD_CONFIGURATION, str(error), outcome=unread(asked))
            else:
                asked.failure = CallBroken(*transport_failure(error, asked, where), outcome=unread(asked))
            return _ended(request, str(asked.failure))
        asked.failure = try_again(response, where) or asked.failure
        if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
            await response.aclose()
            asked.failure = ToolError(
                f"{where} answers compressed although that was not asked for; it is not read",
                outcome=outcome_of(response.status_code),
            )
            return _ended(request, str(asked.failure))
        body = _Bounded(response, asked, where)
        return httpx2.Response(response.status_code, headers=response.headers, stream=body, request=request)


class _Bounded(httpx2.AsyncByteStream):
    """A body that ends at its bound, or where the connection does; its ``Asked`` says so."""

    def __init__(self, response: httpx2.Response, asked: Asked, where: str) -> None:
        self._response, self._asked, self._where = response, asked, where

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read, chunks = 0, aiter(self._response.aiter_raw())
        try:
            while (chunk := await self._next(chunks)) is not None:
                read += len(chunk)
                if read > MESSAGE_BYTES_MAX:
                    outcome = outcome_of(self._response.status_code)
                    self._asked.failure = ToolError(LARGER, outcome=outcome, code=TOO_LARGE)
                    return
                yield chunk
        except (httpx2.HTTPError, OSError):
            sentence = f"{self._where} broke off after {read} bytes of its answer"
            self._asked.failure = CallBroken(Cause.DROPPED_STREAM, sentence)

    async def _next(self, chunks: AsyncIterator[bytes]) -> bytes | None:
        async with self._asked.limit():
            return await anext(chunks, None)

    async def aclose(self) -> None:
        await self._response.aclose()


def _ended(request: httpx2.Request, message: str) -> httpx2.Response:
    """What the SDK takes for the server's own refusal of this one request."""
    said = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32_603, "message": message}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(502, headers=headers, content=json.dumps(said).encode(), request=request)


@asynccontextmanager
async def connected(server: McpServer, gate: Gate, permits: Permits) -> AsyncIterator[object]:
    """The SDK's pair of streams to the server; nothing is sent yet. Raises NotStarted."""
    if problem := gate.problem(server.url) or permits.headers_problem(server.url, server.headers_from):
        raise NotStarted(Cause.BAD_CONFIGURATION, problem)
    try:
        headers = permits.headers(server.headers_from)
    except LookupError as error:
        raise NotStarted(Cause.BAD_CONFIGURATION, str(error)) from None
    transport = BoundedTransport(gate, max_bytes=MESSAGE_BYTES_MAX)
    client = httpx2.AsyncClient(transport=transport, headers=headers, timeout=None, trust_env=False)
    async with (
        client,
        # An event is let through as large as an answer may be, with what stands around it.
        streamable_http_client(server.url, http_client=client, max_sse_event_size=2 * MESSAGE_BYTES_MAX) as streams,
    ):
        yield streams
