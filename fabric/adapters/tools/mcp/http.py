"""A server that is an address: streamable HTTP through the SDK's session, by the same rules as all requests that go out (``outbound.Gate``).

With the SDK an exchange that breaks below HTTP breaks the whole session. The SDK also keeps an answer of any length,
and takes any answer for that of its own request. Here an exchange ends alone: its ``Asked`` notes the failure,
and the SDK gets an answer that ends that one request.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from fabric.adapters.tools.mcp.bodies import Asked, read_answer, read_refusal
from fabric.adapters.tools.mcp.failing import MESSAGE_BYTES_MAX, NotStarted, SessionGone
from fabric.adapters.tools.outbound import EXCHANGE, Gate, Refused, VettedTransport, transport_failure
from fabric.adapters.tools.outcome import CallBroken
from fabric.adapters.tools.permits import Permits
from fabric.adapters.tools.web import shown, try_again, unread
from fabric.core.spec_mcp import McpServer
from fabric.core.taxonomy import Cause

JSON = Any
LAST_WORDS_S = 2.0
"""Seconds for the messages that must still go out after a call's end."""
LISTEN_PACE_S = 1.0
"""Between two requests for a server's own notices, or for the rest of an answer, even if the server asks for less."""
SESSION_HEADER, RESUMED = "mcp-session-id", "last-event-id"
LISTENING = "subscriptions/listen"


class BoundedTransport(VettedTransport):
    """Hands on an answer as it comes, to its bound. It never raises but on cancellation. ``gone``: called where the server does not know the session."""

    def __init__(self, gate: Gate, gone: Callable[[], None]) -> None:
        super().__init__(gate, max_bytes=MESSAGE_BYTES_MAX)
        self._gone = gone
        self._listening = Asked(until=math.inf)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, or one that ends the request."""
        listens = request.method == "GET" and RESUMED not in request.headers
        asked = self._listening if listens else _asked(request)
        if request.method == "GET" and not await _may_get(asked):
            return httpx2.Response(405, request=request)
        request.headers.update(asked.own)
        where = shown(str(request.url))
        ends = max(asked.until, asyncio.get_running_loop().time() + LAST_WORDS_S)
        try:
            async with asyncio.timeout_at(None if math.isinf(ends) else ends):
                response = await self.opened(request, asked)
        except TimeoutError:
            asked.failure = CallBroken(Cause.TIMEOUT, f"{where} did not answer in time", outcome=unread(asked))
            return _ended(request, asked)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if isinstance(error, Refused):
                asked.failure = CallBroken(Cause.BAD_CONFIGURATION, str(error), outcome=unread(asked))
            else:
                asked.failure = CallBroken(*transport_failure(error, asked, where), outcome=unread(asked))
            return _ended(request, asked)
        try:
            return await self._answer(request, response, asked, where, ends) or _ended(request, asked)
        except Exception as error:  # noqa: BLE001 - An odd answer must not end the session, and with it all other calls.
            await response.aclose()
            sentence = f"{where} answered what cannot be read: {error} ({type(error).__name__})"
            asked.failure = CallBroken(Cause.MALFORMED_ANSWER, sentence, outcome=unread(asked))
            return _ended(request, asked)

    async def _answer(
        self, request: httpx2.Request, response: httpx2.Response, asked: Asked, where: str, ends: float
    ) -> httpx2.Response | None:
        """The answer as the SDK reads it. None: there is none, and ``asked`` says why."""
        asked.failure = try_again(response, where) or asked.failure
        if response.status_code < 400 or request.method != "POST":
            return await read_answer(request, response, asked, where, ends)
        in_session = SESSION_HEADER in request.headers
        if in_session and response.status_code == 404:
            # Also where its body, with the server's words, does not end in time.
            asked.failure = SessionGone("", 404)
            self._gone()
        passed_on = await read_refusal(request, response, asked, where, ends, in_session=in_session)
        if isinstance(asked.failure, SessionGone):
            self._gone()
        return passed_on


async def _may_get(asked: Asked) -> bool:
    """Waits for the pace; False: no call waits for the rest any more."""
    now = asyncio.get_running_loop().time()
    begins = max(now, asked.next_get)
    asked.next_get = begins + LISTEN_PACE_S
    await asyncio.sleep(begins - now)
    return asyncio.get_running_loop().time() < asked.until


def _asked(request: httpx2.Request) -> Asked:
    """Returns the notes of a request. A call's own notes go with the requests for its answer alone; other requests leave them unchanged."""
    found = EXCHANGE.get()
    call = found if isinstance(found, Asked) else Asked()
    if request.method == "GET":
        return call
    if request.method != "POST":
        return Asked(own=call.own)
    try:
        said = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return Asked(own=call.own)
    if "id" not in said or "method" not in said:
        return Asked(own=call.own)
    if said["method"] == LISTENING:
        call = Asked(own=call.own, until=math.inf)
    call.begin(said["id"], said["method"])
    return call


def _ended(request: httpx2.Request, asked: Asked) -> httpx2.Response:
    """What the SDK takes for the server's own refusal of this one request."""
    said = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32_603, "message": str(asked.failure or "it ended")}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(502, headers=headers, content=json.dumps(said).encode(), request=request)


@asynccontextmanager
async def connected(server: McpServer, gate: Gate, permits: Permits, gone: Callable[[], None]) -> AsyncIterator[object]:
    """The SDK's pair of streams to the server; nothing is sent yet. Raises NotStarted."""
    if problem := gate.problem(server.url) or permits.headers_problem(server.url, server.headers_from):
        raise NotStarted(Cause.BAD_CONFIGURATION, problem)
    try:
        headers = permits.headers(server.headers_from)
    except LookupError as error:
        raise NotStarted(Cause.BAD_CONFIGURATION, str(error)) from None
    client = httpx2.AsyncClient(transport=BoundedTransport(gate, gone), headers=headers, timeout=None, trust_env=False)
    async with (
        client,
        # An event is let through as large as an answer may be, with what stands around it.
        streamable_http_client(server.url, http_client=client, max_sse_event_size=2 * MESSAGE_BYTES_MAX) as streams,
    ):
        yield streams
