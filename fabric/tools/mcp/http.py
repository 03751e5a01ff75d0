"""An MCP server at an address: streamable HTTP through the SDK's session, by the rules of all outgoing requests
(``http.transport.Gate``).

With the SDK an exchange that breaks below HTTP breaks the whole session. The SDK also keeps an answer of any length,
and takes any answer for that of its own request. Here an exchange ends alone: its ``CallExchange`` notes the failure,
and the SDK gets an answer that ends that one request.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
from mcp.client.streamable_http import streamable_http_client

from fabric.core.spec.mcp import McpServer
from fabric.core.values.taxonomy import Cause
from fabric.http.transport import EXCHANGE, ExchangeRefused, Gate, VettedTransport, transport_failure
from fabric.tools.answers.outcome import CallBroken
from fabric.tools.functions.permits import Permits
from fabric.tools.http.exchange import try_again, unread, url_for_message
from fabric.tools.mcp.bodies import CallExchange, read_answer, read_refusal
from fabric.tools.mcp.failures import MESSAGE_BYTES_MAX, NotStarted, SessionGone

LAST_WORDS_S = 2.0
"""Seconds for the messages that must still go out after a call's end."""
LISTEN_PACE_S = 1.0
"""Least seconds between two requests for a server's own notices, or for the rest of an answer."""
SESSION_HEADER, RESUMED = "mcp-session-id", "last-event-id"
LISTENING = "subscriptions/listen"


class BoundedTransport(VettedTransport):
    """Passes an answer on as it comes, to its bound. Raises only on cancellation. ``gone``: called where the server
    does not know the session.
    """

    def __init__(self, gate: Gate, gone: Callable[[], None]) -> None:
        super().__init__(gate, max_bytes=MESSAGE_BYTES_MAX)
        self._gone = gone
        self._listening = CallExchange(until=math.inf)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, or one that ends the request."""
        listens = request.method == "GET" and RESUMED not in request.headers
        asked = self._listening if listens else _build_exchange(request)
        if request.method == "GET" and not await _may_get(asked):
            return httpx2.Response(405, request=request)
        request.headers.update(asked.own)
        where = url_for_message(str(request.url))
        ends = max(asked.until, asyncio.get_running_loop().time() + LAST_WORDS_S)
        try:
            async with asyncio.timeout_at(None if math.isinf(ends) else ends):
                response = await self.open_exchange(request, asked)
        except TimeoutError:
            asked.failure = CallBroken(Cause.TIMEOUT, f"{where} did not answer in time", outcome=unread(asked))
            return _end_response(request, asked)
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            if isinstance(error, ExchangeRefused):
                asked.failure = CallBroken(Cause.BAD_CONFIGURATION, str(error), outcome=unread(asked))
            else:
                asked.failure = CallBroken(*transport_failure(error, asked, where), outcome=unread(asked))
            return _end_response(request, asked)
        try:
            return await self._answer(request, response, asked, where, ends) or _end_response(request, asked)
        except Exception as error:  # noqa: BLE001 - An odd answer must not end the session, and with it all other calls.
            await response.aclose()
            sentence = f"{where} answered what cannot be read: {error} ({type(error).__name__})"
            asked.failure = CallBroken(Cause.MALFORMED_ANSWER, sentence, outcome=unread(asked))
            return _end_response(request, asked)

    async def _answer(
        self, request: httpx2.Request, response: httpx2.Response, asked: CallExchange, where: str, ends: float
    ) -> httpx2.Response | None:
        """Return the answer as the SDK reads it. None: there is none, and ``asked`` has the reason."""
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


async def _may_get(asked: CallExchange) -> bool:
    """Wait for the pace; return False if no call waits for the rest any more."""
    now = asyncio.get_running_loop().time()
    begins = max(now, asked.next_get)
    asked.next_get = begins + LISTEN_PACE_S
    await asyncio.sleep(begins - now)
    return asyncio.get_running_loop().time() < asked.until


def _build_exchange(request: httpx2.Request) -> CallExchange:
    """Return the notes of a request. A call's own notes go with the requests for its answer alone; other requests
    leave them unchanged.
    """
    found = EXCHANGE.get()
    call = found if isinstance(found, CallExchange) else CallExchange()
    if request.method == "GET":
        return call
    if request.method != "POST":
        return CallExchange(own=call.own)
    try:
        said = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return CallExchange(own=call.own)
    if "id" not in said or "method" not in said:
        return CallExchange(own=call.own)
    if said["method"] == LISTENING:
        call = CallExchange(own=call.own, until=math.inf)
    call.begin(said["id"], said["method"])
    return call


def _end_response(request: httpx2.Request, asked: CallExchange) -> httpx2.Response:
    """Return a response that the SDK takes for the server's own refusal of this one request."""
    said = {"jsonrpc": "2.0", "id": 0, "error": {"code": -32_603, "message": str(asked.failure or "it ended")}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(502, headers=headers, content=json.dumps(said).encode(), request=request)


@asynccontextmanager
async def connect_http(
    server: McpServer, gate: Gate, permits: Permits, gone: Callable[[], None]
) -> AsyncIterator[object]:
    """Yield the SDK's pair of streams to the server; nothing is sent yet. Raises NotStarted."""
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
