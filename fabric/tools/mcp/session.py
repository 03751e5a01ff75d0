"""Runs one session with an MCP server, and explains why one did not begin.

A task of its own begins and ends the session, since the task that entered an SDK context must leave it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolResult,
    Implementation,
    ReadResourceResult,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from fabric.core.spec.mcp import READ_RESOURCE, McpServer
from fabric.core.values.saga import Effect, Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.transport import CALL_HEADER, EXCHANGE, SENDING, Gate, call_name
from fabric.policies.schemas.evaluators import SchemaProblem, compile_schema
from fabric.runtime.ports.calls import ToolRequest
from fabric.tools.answers.outcome import CallBroken, InputAsked, ToolError
from fabric.tools.functions.permits import Permits
from fabric.tools.mcp import http, stdio
from fabric.tools.mcp.answers import build_error, find_resource, find_result, list_all, list_tools
from fabric.tools.mcp.bodies import CallExchange, refused_by
from fabric.tools.mcp.elicitations import Answer, FormsClient, RepeatFields, ServerQuestions
from fabric.tools.mcp.failures import NotStarted, SessionGone
from fabric.tools.mcp.offers import KnownServer, McpServerOffer, McpToolOffer

if TYPE_CHECKING:
    from mcp.client._transport import Transport


log = logging.getLogger(__name__)
LISTEN_AGAIN_S = 30.0
"""Seconds between the end of a subscription to changes and the next one."""
KEY_META, CALL_META = "fabric-flow/idempotency-key", "fabric-flow/call"
"""Fields of a call's ``_meta`` beside its trace: its key, one for all its attempts, and ``call_name``."""


class McpSession:
    """A session. ``ready`` once; then any number of calls at once; ``retire`` when no new ones are to come."""

    def __init__(self, server: McpServer, gate: Gate, permits: Permits, known: KnownServer) -> None:
        self.server = server
        self._known, self._questions = known, ServerQuestions(server.name, known)
        self._gate, self._permits = gate, permits
        self._client: Client | None = None
        self._process: stdio.StdioServer | None = None
        self._greeting = CallExchange()
        self._offered: dict[str, McpToolOffer] = {}
        self._changed, self._listing = False, asyncio.Lock()
        self._calls = 0
        self._leave = asyncio.Event()
        self._retired = self._died = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(), name=f"mcp-{server.name}")

    @property
    def over(self) -> bool:
        """Return True if no new call may use it."""
        return self._retired or self._task.done() or (self._process is not None and self._process.gone)

    @property
    def broke(self) -> bool:
        """Return True if it ended without being asked to."""
        left = self._process is not None and self._process.gone and not self._leave.is_set()
        return self._died or left

    @property
    def ended(self) -> bool:
        """Return True if the session's task has ended."""
        return self._task.done()

    @property
    def process_id(self) -> int | None:
        """Return the id of its running process."""
        return None if self._process is None else self._process.process_id

    async def ready(self) -> None:
        """Wait until it has begun. Raises NotStarted."""
        # Several calls may wait for it, and a cancelled one must not end it for the others.
        await asyncio.shield(self._ready)

    async def read_offer(self) -> McpServerOffer:
        """Return the server's present offer. Raises NotStarted where the server gives none."""
        client = self._client
        assert client is not None
        token = EXCHANGE.set(asked := CallExchange(until=asyncio.get_running_loop().time() + self.server.connect_s))
        try:
            async with asyncio.timeout(self.server.connect_s):
                await self._look_again(client)
                return await list_all(client.session, self._offered.values())
        except (MCPError, ValidationError, TimeoutError) as error:
            raise not_started(error, self._process, asked) from None
        finally:
            EXCHANGE.reset(token)

    def retire(self) -> None:
        """End it once its last call is over."""
        self._retired = True
        if not self._calls:
            self._leave.set()

    def _forget(self) -> None:
        if not self._retired:
            log.warning("MCP server %r does not know its session any more; another one is begun", self.server.name)
        self.retire()

    async def end(self) -> None:
        """End it now, with calls under way."""
        self._retired = True
        self._leave.set()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # -- its own task --

    async def _keep(self) -> None:
        try:
            async with self._open_client() as client:
                self._client = client
                self._ready.set_result(None)
                leaving = [asyncio.create_task(self._leave.wait())]
                watching = asyncio.create_task(self._watch(client))
                if self._process is not None:
                    leaving.append(asyncio.create_task(self._process.ended.wait()))
                try:
                    await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in (*leaving, watching):
                        one.cancel()
                    await asyncio.gather(watching, return_exceptions=True)
        except (Exception, asyncio.CancelledError) as error:
            if self._ready.done():
                if isinstance(error, asyncio.CancelledError):
                    raise
                return  # It broke: the SDK failed the waiting calls, and the next call begins another session.
            self._ready.set_exception(not_started(error, self._process, self._greeting))
            self._ready.exception()  # There may be no waiting call any more.
            if isinstance(error, asyncio.CancelledError):
                raise

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[Client]:
        self._greeting.until = asyncio.get_running_loop().time() + self.server.connect_s
        EXCHANGE.set(self._greeting)  # In this task alone.
        SENDING.set(None)
        us = Implementation(name="fabric-flow", version="1")
        client = FormsClient(
            cast("Transport", self._streams()),
            client_info=us,
            cache=None,
            message_handler=self._hear,
            elicitation_callback=self._questions.answer,
        )
        try:
            async with asyncio.timeout(self.server.connect_s) as limit:
                await client.__aenter__()
        except TimeoutError:
            if not limit.expired():
                raise
            process = self._process
            so_far = f": {self._greeting.so_far}" if process is None else process.noise + process.last_words
            sentence = f"it did not answer the first greeting within {self.server.connect_s:g} seconds{so_far}"
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
            async with http.connect_http(self.server, self._gate, self._permits, self._forget) as streams:
                yield streams
            return
        async with stdio.start_server(self.server, self._permits) as (self._process, streams):
            yield streams

    async def _hear(self, message: IncomingMessage) -> None:
        """Handle the server's own notices. Resources and prompts are not cached, so their changes need nothing here."""
        if isinstance(message, ToolListChangedNotification):
            self._changed = True

    async def _watch(self, client: Client) -> None:
        """Subscribe to changes: servers of 2026 and later announce them to subscribers alone. For other servers this
        ends at once.
        """
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or tools is None or not tools.list_changed:
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    async for _ in changes:
                        self._changed = True
            except (SubscriptionLost, TimeoutError):
                pass
            except (MCPError, ListenNotSupportedError):
                return
            self._changed = True  # Notices since then are lost.
            await asyncio.sleep(LISTEN_AGAIN_S)

    # -- on the loop, by the caller --

    async def _list(self, client: Client) -> None:
        self._changed = False
        try:
            self._offered = await list_tools(client.session)
        except BaseException:
            self._changed = True
            raise
        self._known.tools.update(self._offered)

    async def _look_again(self, client: Client) -> None:
        """List the tools again after the server's notice of a change; simultaneous calls list once."""
        async with self._listing:
            if self._changed:
                await self._list(client)

    async def call(self, tool: str, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        """Return the tool's answer. ``until``, by the loop's clock, is the end of ``timeout_s``. Raises ToolError or
        CallBroken.
        """
        client = self._client
        assert client is not None
        self._calls += 1
        try:
            return await self._call_tool(client, tool, request, timeout_s, until)
        finally:
            self._calls -= 1
            if self._retired and not self._calls:
                self._leave.set()

    async def _call_tool(self, client: Client, tool: str, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        name, asked = self.server.name, _make_exchange(request, until)
        token, sent = EXCHANGE.set(asked), False
        try:
            async with asyncio.timeout_at(until) as limit:
                await self._fits(client, tool, request)
                async with self._questions.turn(asked):
                    sending = SENDING.get()
                    if sending is not None and not sending.is_allowed():
                        raise CallBroken(Cause.NETWORK, "it may not go out any more", outcome=Outcome.REJECTED)
                    sent = True
                    answer = await self._questions.answer_call(asked, partial(self._send, client, tool, request))
            return self._read(answer)
        except InputAsked:
            raise
        except ToolError as error:
            raise self._questions.asks(asked, str(error)) or error from None
        except TimeoutError:
            if not limit.expired():
                raise
            if self.server.transport == "stdio":
                # It may be stuck for good, as its process would stay: calls to come get another.
                self.retire()
            if (refused := refused_by(asked, name)) is not None:
                raise refused from None
            so_far = self._process.noise if self._process is not None else f": {asked.so_far}" if sent else ""
            sentence = f"MCP server {name!r} did not answer within {timeout_s:.1f} seconds{so_far}"
            if not sent:
                why = f"another call, or its list of tools, took all of the {timeout_s:.1f} seconds{so_far}"
                sentence = f"MCP server {name!r} was not called: {why}"
            outcome = Outcome.UNKNOWN if sent else Outcome.REJECTED
            raise CallBroken(Cause.TIMEOUT, sentence, outcome=outcome) from None
        except MCPError as error:
            failure = self._failure(error, asked, sent=sent)
            raise self._questions.asks(asked, str(failure)) or failure from None
        except NotStarted as error:
            raise error.build_failure(name) from None
        except (ValidationError, RuntimeError) as error:
            # The call was done; only its answer cannot be used.
            said = " ".join(str(error).split())
            sentence = f"MCP server {name!r} answered what its protocol or its own schema does not allow: {said}"
            raise ToolError(sentence, outcome=Outcome.ANSWERED if sent else Outcome.REJECTED) from None
        finally:
            EXCHANGE.reset(token)

    async def _send(self, client: Client, tool: str, request: ToolRequest, replies: RepeatFields) -> Answer:
        """Send the call once."""
        meta: Any = {**request.trace_headers, KEY_META: request.idempotency_key, CALL_META: call_name(request)}
        session = client.session
        if self._reads(tool):
            return await session.read_resource(request.args["uri"], meta=meta, allow_input_required=True, **replies)
        return await session.call_tool(tool, dict(request.args), meta=meta, allow_input_required=True, **replies)

    def _read(self, answer: Answer) -> JSON:
        name, most = self.server.name, self.server.result_bytes
        if isinstance(answer, ReadResourceResult):
            return find_resource(answer, name, most)
        assert isinstance(answer, CallToolResult)
        return find_result(answer, name, most)

    def _reads(self, tool: str) -> bool:
        """Return True for the reading of a resource, which is no tool of the server's."""
        return tool == READ_RESOURCE and tool not in self._offered

    async def _fits(self, client: Client, tool: str, request: ToolRequest) -> None:
        """Raise ToolError or CallBroken, before the call, if the server no longer offers the declared tool."""
        name = self.server.name
        self._changed = self._changed or not (tool in self._offered or self._reads(tool))
        await self._look_again(client)
        if self._reads(tool):
            if not isinstance(request.args.get("uri"), str):
                raise ToolError(f"to read a resource of MCP server {name!r}, give its address as `uri`, a text")
            return
        if tool not in self._offered:
            there = ", ".join(sorted(self._offered)[:20]) or "none"
            if tool in self._known.tools:
                sentence = f"MCP server {name!r} no longer offers the tool {tool[:100]!r}; it offers: {there}"
                raise ToolError(sentence)
            sentence = f"MCP server {name!r} offers no tool {tool[:100]!r}; it offers: {there}"
            raise CallBroken(Cause.BAD_CONFIGURATION, sentence, outcome=Outcome.REJECTED)
        try:
            wrong = compile_schema(self._offered[tool].schema)(dict(request.args))
        except SchemaProblem:
            return  # The server looks at them itself.
        if wrong:
            raise ToolError(f"MCP server {name!r} takes other arguments than the fabric declares: {'; '.join(wrong)}")

    def _failure(self, error: MCPError, asked: CallExchange, *, sent: bool) -> CallBroken | ToolError:
        name = self.server.name
        unsure = Outcome.UNKNOWN if sent else Outcome.REJECTED
        if isinstance(asked.failure, SessionGone):
            return asked.failure.name_server(name)
        if asked.failure is not None:
            told = f"MCP server {name!r}: {asked.failure}"
            if isinstance(asked.failure, ToolError):
                return ToolError(told, outcome=asked.failure.outcome, code=asked.failure.code)
            asked.failure.message = told
            return asked.failure
        if error.error.code == CONNECTION_CLOSED:
            self._died = True
            why = self._process.why if self._process is not None else error.error.message
            self.retire()
            sentence = f"MCP server {name!r} was gone before it answered: {why}"
            return CallBroken(Cause.DROPPED_STREAM, sentence, outcome=unsure)
        return build_error(error.error, name, sent=sent)


def _make_exchange(request: ToolRequest, until: float) -> CallExchange:
    own = {**request.trace_headers, "Idempotency-Key": request.idempotency_key, CALL_HEADER: call_name(request)}
    changes = Effect(request.tool.effect) is not Effect.READ_ONLY
    return CallExchange(own=own, until=until, answers=request.answers, changes=changes)


ADVICE: Mapping[int, str] = {
    401: "; give it a key by headers_from",
    403: "; give it a key by headers_from, or have its owner let it be used from here",
    404: "; look at the path of its address",
    405: "; look at its address: the older transport of two addresses, HTTP with SSE, is not spoken",
}
"""Advice about an HTTP refusal of the first greeting."""


def not_started(error: BaseException, process: stdio.StdioServer | None, asked: CallExchange) -> NotStarted:
    """Return the reason why a session did not begin, through groups of exceptions."""
    if isinstance(error, NotStarted):
        return error
    if isinstance(error, BaseExceptionGroup):
        found = [not_started(one, process, asked) for one in error.exceptions]
        return next((one for one in found if one.cause is not Cause.UNKNOWN), found[0])
    if isinstance(error, asyncio.CancelledError):
        return NotStarted(Cause.NETWORK, "it was let go of before it had begun")
    if isinstance(asked.failure, SessionGone):
        return NotStarted(Cause.MALFORMED_ANSWER, "it does not know the session that it has just begun")
    if isinstance(asked.failure, CallBroken):
        return NotStarted(asked.failure.cause, str(asked.failure))
    if asked.status is not None and asked.status >= 400:
        cause = Cause.AUTH if asked.status in (401, 403) else Cause.BAD_CONFIGURATION
        return NotStarted(cause, f"it answered HTTP {asked.status} to the first greeting{ADVICE.get(asked.status, '')}")
    if asked.failure is not None:
        return NotStarted(Cause.MALFORMED_ANSWER, str(asked.failure))
    unfit = isinstance(error, RuntimeError | ValidationError)
    if process is not None and process.gone and not unfit:
        return NotStarted(Cause.NETWORK, f"it was gone before it answered the first greeting: {process.why}")
    if isinstance(error, TimeoutError):
        return NotStarted(Cause.TIMEOUT, "it did not say in time what it offers")
    said = " ".join(str(error).split())[:300]
    if isinstance(error, MCPError):
        return NotStarted(Cause.MALFORMED_ANSWER, f"it answers the first greeting with an error: {said}")
    return NotStarted(Cause.MALFORMED_ANSWER, f"it does not keep to the protocol: {said} ({type(error).__name__})")
