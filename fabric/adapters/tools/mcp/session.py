"""One session with an MCP server: begun, kept and ended by a task of its own, since the SDK's contexts are left by the task that entered them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Tool,
)
from pydantic import ValidationError

from fabric.adapters.evaluators import SchemaProblem, compile_schema
from fabric.adapters.tools.mcp import http, stdio
from fabric.adapters.tools.mcp.answers import error_of, result_of
from fabric.adapters.tools.mcp.failing import NotStarted
from fabric.adapters.tools.mcp.offer import Offer
from fabric.adapters.tools.outbound import CALL_HEADER, EXCHANGE, SENDING, Gate, call_name
from fabric.adapters.tools.outcome import CallBroken, ToolError
from fabric.adapters.tools.permits import Permits
from fabric.adapters.tools.web import outcome_of
from fabric.core.saga import Outcome
from fabric.core.spec_mcp import McpServer
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest

if TYPE_CHECKING:
    from mcp.client._transport import Transport

JSON = Any
PAGES_MAX, OFFERED_MAX = 50, 2_000
"""Pages of a listing, and tools, that are read of one server."""
SESSION_GONE, NO_WORD = "Session terminated", "Server returned an error response"
"""What the SDK puts in place of an HTTP refusal that says nothing in the protocol's own words; one that does is judged by its code."""
KEY_META, CALL_META = "fabric-flow/idempotency-key", "fabric-flow/call"
"""What a call carries in its ``_meta``: its key, the same for all its attempts, and ``call_name``."""


class McpSession:
    """A session. ``ready`` once; then calls, as many at once as there are; ``retire`` when no new ones are to come."""

    def __init__(self, server: McpServer, gate: Gate, permits: Permits) -> None:
        self.server = server
        self._gate, self._permits = gate, permits
        self._client: Client | None = None
        self._process: stdio.StdioServer | None = None
        self._greeting = http.Asked()
        self._offered: dict[str, Offer] = {}
        self._calls = 0
        self._leave = asyncio.Event()
        self._retired = self._died = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(), name=f"mcp-{server.name}")

    @property
    def over(self) -> bool:
        """Whether no new call may use it."""
        return self._retired or self._task.done() or (self._process is not None and self._process.ended.is_set())

    @property
    def broke(self) -> bool:
        """Whether it ended by itself."""
        left = self._process is not None and self._process.ended.is_set() and not self._leave.is_set()
        return self._died or left

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left."""
        return self._task.done()

    @property
    def process_id(self) -> int | None:
        """The process that it started and that has not ended yet."""
        return None if self._process is None else self._process.process_id

    async def ready(self) -> None:
        """Waits until it has begun. Raises NotStarted."""
        # Several calls may wait for it, and one that is let go of must not end it for the others.
        await asyncio.shield(self._ready)

    def offered(self) -> list[Offer]:
        """What the server offered when it was last asked."""
        return list(self._offered.values())

    def retire(self) -> None:
        """Ends it once its last call is over."""
        self._retired = True
        if not self._calls:
            self._leave.set()

    async def end(self) -> None:
        """Ends it now, whatever is out."""
        self._retired = True
        self._leave.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- its own task --

    async def _keep(self) -> None:
        try:
            async with self._opened() as client:
                self._client = client
                self._ready.set_result(None)
                leaving = [asyncio.create_task(self._leave.wait())]
                if self._process is not None:
                    leaving.append(asyncio.create_task(self._process.ended.wait()))
                try:
                    await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in leaving:
                        one.cancel()
        except (Exception, asyncio.CancelledError) as error:
            if self._ready.done():
                if isinstance(error, asyncio.CancelledError):
                    raise
                return  # It broke: who waits for an answer was told by the SDK, and the next call begins another.
            self._ready.set_exception(_not_started(error, self._process, self._greeting))
            self._ready.exception()  # Nobody may be waiting any more.
            if isinstance(error, asyncio.CancelledError):
                raise

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Client]:
        self._greeting.until = asyncio.get_running_loop().time() + self.server.connect_s
        EXCHANGE.set(self._greeting)  # In this task alone.
        SENDING.set(None)
        us = Implementation(name="fabric-flow", version="1")
        client = Client(cast("Transport", self._streams()), client_info=us, cache=None)
        try:
            async with asyncio.timeout(self.server.connect_s) as limit:
                await client.__aenter__()
        except TimeoutError:
            if not limit.expired():
                raise
            noise = self._process.noise if self._process is not None else ""
            sentence = f"it did not answer the first greeting within {self.server.connect_s:g} seconds{noise}"
            raise NotStarted(Cause.TIMEOUT, sentence) from None
        try:
            async with asyncio.timeout(self.server.connect_s):
                await self._list(client)
            yield client
        finally:
            await client.__aexit__(None, None, None)

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[object]:
        if self.server.transport == "http":
            async with http.connected(self.server, self._gate, self._permits) as streams:
                yield streams
            return
        async with stdio.started(self.server, self._permits) as (self._process, streams):
            yield streams

    # -- on the loop, by whoever calls --

    async def _list(self, client: Client) -> None:
        found: dict[str, Offer] = {}
        cursor = None
        for _ in range(PAGES_MAX):
            page = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            found |= {tool.name: _offered(tool) for tool in page.tools[: OFFERED_MAX - len(found)]}
            cursor = page.next_cursor
            if cursor is None or len(found) >= OFFERED_MAX:
                break
        self._offered = found

    async def call(self, tool: str, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        """What the tool answered. ``until``, by the loop's clock, is when ``timeout_s`` are over. Raises ToolError or CallBroken."""
        client = self._client
        assert client is not None
        self._calls += 1
        try:
            return await self._called(client, tool, request, timeout_s, until)
        finally:
            self._calls -= 1
            if self._retired and not self._calls:
                self._leave.set()

    async def _called(self, client: Client, tool: str, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        name, asked = self.server.name, _asked(request, until)
        token, sent = EXCHANGE.set(asked), False
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._fits(client, tool, request)
                sending = SENDING.get()
                if sending is not None and not sending.allowed():
                    raise CallBroken(Cause.NETWORK, "it may not go out any more", outcome=Outcome.REJECTED)
                sent = True
                meta = {KEY_META: request.idempotency_key, CALL_META: call_name(request)}
                answer = await client.session.call_tool(
                    tool, dict(request.args), meta=cast("Any", meta), allow_input_required=True
                )
        except TimeoutError:
            if not limit.expired():
                raise
            if self.server.transport == "stdio":
                # It may be stuck for good, as its process would stay: calls to come get another.
                self.retire()
            outcome = Outcome.UNKNOWN if sent else Outcome.REJECTED
            noise = self._process.noise if self._process is not None else ""
            sentence = f"MCP server {name!r} did not answer within {timeout_s:.1f} seconds{noise}"
            raise CallBroken(Cause.TIMEOUT, sentence, outcome=outcome) from None
        except MCPError as error:
            raise self._failure(error, asked, sent=sent) from None
        except (ValidationError, RuntimeError) as error:
            # What was done was done; only what it said of it cannot be used.
            said = " ".join(str(error).split())
            sentence = f"MCP server {name!r} answered what its protocol or its own schema does not allow: {said}"
            raise ToolError(sentence, outcome=Outcome.ANSWERED if sent else Outcome.REJECTED) from None
        finally:
            EXCHANGE.reset(token)
        if isinstance(answer, InputRequiredResult):
            sentence = f"MCP server {name!r} asks for more input in the middle of the call, which is not given"
            raise ToolError(sentence, outcome=Outcome.UNKNOWN)
        return result_of(answer, name, self.server.result_bytes)

    async def _fits(self, client: Client, tool: str, request: ToolRequest) -> None:
        """Whether the server still offers what the fabric declares, before anything is asked."""
        name = self.server.name
        if tool not in self._offered:
            await self._list(client)
        if tool not in self._offered:
            there = ", ".join(sorted(self._offered)[:20]) or "none"
            sentence = f"MCP server {name!r} offers no tool {tool[:100]!r}; it offers: {there}"
            raise CallBroken(Cause.BAD_CONFIGURATION, sentence, outcome=Outcome.REJECTED)
        try:
            wrong = compile_schema(self._offered[tool].schema)(dict(request.args))
        except SchemaProblem:
            return  # The server looks at them itself.
        if wrong:
            raise ToolError(f"MCP server {name!r} takes other arguments than the fabric declares: {'; '.join(wrong)}")

    def _failure(self, error: MCPError, asked: http.Asked, *, sent: bool) -> CallBroken | ToolError:
        name = self.server.name
        unsure = Outcome.UNKNOWN if sent else Outcome.REJECTED
        if asked.failure is not None:
            told = f"MCP server {name!r}: {asked.failure}"
            if isinstance(asked.failure, ToolError):
                return ToolError(told, outcome=asked.failure.outcome, code=asked.failure.code)
            asked.failure.message = told
            return asked.failure
        if asked.status == 404 and error.error.message == SESSION_GONE:
            # The server has forgotten the session: it did nothing, and the next call begins another one.
            self.retire()
            sentence = f"MCP server {name!r} does not know this session any more"
            return CallBroken(Cause.DROPPED_STREAM, sentence, status=404, outcome=Outcome.REJECTED)
        if asked.status is not None and asked.status >= 400 and error.error.message == NO_WORD:
            sentence = f"MCP server {name!r} answered HTTP {asked.status}"
            return ToolError(sentence, outcome=outcome_of(asked.status))
        if error.error.code == CONNECTION_CLOSED:
            self._died = True
            why = self._process.why if self._process is not None else error.error.message
            self.retire()
            sentence = f"MCP server {name!r} was gone before it answered: {why}"
            return CallBroken(Cause.DROPPED_STREAM, sentence, outcome=unsure)
        return error_of(error.error, name, sent=sent)


def _asked(request: ToolRequest, until: float) -> http.Asked:
    own = {"Idempotency-Key": request.idempotency_key, CALL_HEADER: call_name(request)}
    return http.Asked(own=own, until=until)


def _offered(tool: Tool) -> Offer:
    hints = tool.annotations
    return Offer(
        tool.name,
        tool.description or "",
        tool.input_schema,
        hints.read_only_hint if hints else None,
        hints.idempotent_hint if hints else None,
        hints.destructive_hint if hints else None,
    )


def _not_started(error: BaseException, process: stdio.StdioServer | None, asked: http.Asked) -> NotStarted:
    """Why a session did not begin, whatever groups of exceptions it comes in."""
    if isinstance(error, NotStarted):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [_not_started(one, process, asked) for one in error.exceptions]
        return next((one for one in found if one.cause is not Cause.UNKNOWN), found[0])
    if isinstance(error, asyncio.CancelledError):
        return NotStarted(Cause.NETWORK, "it was let go of before it had begun")
    if asked.failure is not None:
        cause = asked.failure.cause if isinstance(asked.failure, CallBroken) else Cause.MALFORMED_ANSWER
        return NotStarted(cause, str(asked.failure))
    if asked.status is not None and asked.status >= 400:
        cause = Cause.AUTH if asked.status in (401, 403) else Cause.BAD_CONFIGURATION
        return NotStarted(cause, f"it answered HTTP {asked.status} to the first greeting")
    if process is not None and process.ended.is_set():
        return NotStarted(Cause.NETWORK, f"it was gone before it answered the first greeting: {process.why}")
    if isinstance(error, TimeoutError):
        return NotStarted(Cause.TIMEOUT, "it did not say in time what it offers")
    said = " ".join(str(error).split())[:300]
    return NotStarted(Cause.MALFORMED_ANSWER, f"it does not keep to the protocol: {said} ({type(error).__name__})")
