"""The MCP servers of a worker: one session each, begun with the first call and again after its end. Failed
beginnings wait longer each time.

Sessions live on the loop that calls them. The SDK is imported with the first of them: a process without calls to MCP
servers never loads it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from fabric.core.spec.mcp import McpServer, split_target
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.http.transport import Gate
from fabric.runtime.ports.calls import ToolRequest
from fabric.tools.answers.outcome import CallBroken
from fabric.tools.functions.permits import Permits
from fabric.tools.mcp.failures import NotStarted, SessionGone
from fabric.tools.mcp.offers import KnownServer, McpServerOffer
from fabric.tools.mcp.process_groups import kill_group

if TYPE_CHECKING:
    from fabric.tools.mcp.session import McpSession

log = logging.getLogger(__name__)
SESSION = "fabric.tools.mcp.session"
PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
"""Seconds of the pause after the first failed beginning, doubled with each further one, up to the second number."""
AGAIN_S = 2.0
"""Least remaining seconds of a call for a repetition in a new session. A request without an answer may have
been done.
"""
SERVERS_MAX = 64
"""Largest number of sessions; the one that was unused for longest makes room for another."""


async def _session_class() -> type[McpSession]:
    """Return the class with the SDK, whose import takes about a second. It runs off the loop, which has other calls in
    flight.
    """
    found: type[McpSession] = (await asyncio.to_thread(import_module, SESSION)).McpSession
    return found


@dataclass(slots=True)
class _KeptSession:
    session: McpSession | None = None
    failures: int = 0
    not_before: float = 0.0
    why: str = ""
    used: float = 0.0
    known: KnownServer = field(default_factory=KnownServer)

    def drop_session(self, why: str, now: float, *, forgiven: int = 0) -> None:
        """Drop the session, and set a pause before the next one; ``forgiven``: number of successive failures without
        a pause.
        """
        self.session, self.why = None, why
        self.failures += 1
        exponent = self.failures - 1 - forgiven
        self.not_before = now + (min(PAUSE_MAX_S, PAUSE_S * 2.0 ** min(exponent, 10)) if exponent >= 0 else 0.0)


class McpServers:
    """The servers that this process uses. On one loop at a time, except ``kill``."""

    def __init__(self, gate: Gate | None = None, permits: Permits | None = None) -> None:
        self._gate, self._permits = gate or Gate(), permits or Permits()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: dict[str, _KeptSession] = {}
        self._retired: set[McpSession] = set()

    async def call(self, server: McpServer, request: ToolRequest, timeout_s: float) -> JSON:
        """Make one call. Raises ToolError or CallBroken."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            return await self._call_server(server, request, timeout_s, until)
        except SessionGone as gone:
            # The server looked at nothing of it: it goes out once more, in another session.
            if (left := until - loop.time()) < AGAIN_S:
                sentence = f"{gone}; with {max(0.0, left):.1f} seconds left there is no time for a new one"
                raise CallBroken(gone.cause, sentence, status=gone.status, outcome=gone.outcome) from None
            return await self._call_server(server, request, timeout_s, until)

    async def _call_server(self, server: McpServer, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        loop = asyncio.get_running_loop()
        session, kept = await self._session(server, until - loop.time())
        kept.used = loop.time()
        answer = await session.call(split_target(request.tool.target)[1], request, timeout_s, until)
        kept.failures = 0
        return answer

    async def read_offer(self, server: McpServer) -> McpServerOffer:
        """Return a server's offers. Raises CallBroken where it cannot be reached."""
        session, _ = await self._session(server, server.connect_s * 2)
        try:
            return await session.read_offer()
        except NotStarted as error:
            raise error.build_failure(server.name) from None

    async def end(self) -> None:
        """End all sessions, and the processes that they started, on the loop of their use."""
        found = [kept.session for kept in self._kept.values() if kept.session is not None]
        self._kept = {}
        await asyncio.gather(*(one.end() for one in (*found, *self._retired)))
        self._retired.clear()

    def kill(self) -> None:
        """Kill the remaining processes, from any thread, where their loop ended before them."""
        for one in (*(kept.session for kept in self._kept.values()), *self._retired):
            if one is not None and (process_id := one.process_id) is not None:
                kill_group(process_id)

    async def _session(self, server: McpServer, timeout_s: float) -> tuple[McpSession, _KeptSession]:
        kept, loop = self._place(server), asyncio.get_running_loop()
        if kept.session is None:
            if (left := kept.not_before - loop.time()) > 0:
                sentence = f"MCP server {server.name!r} is tried again in {left:.1f} seconds: {kept.why}"
                raise CallBroken(Cause.NETWORK, sentence, retry_after_s=left, outcome=Outcome.REJECTED)
            made = await _session_class()
            if kept.session is None:  # No other call was faster.
                kept.session = made(server, self._gate, self._permits, kept.known)
        session = kept.session
        try:
            async with asyncio.timeout(timeout_s) as limit:
                await session.ready()
        except TimeoutError:
            if not limit.expired():
                raise
            sentence = f"MCP server {server.name!r} had not begun within {timeout_s:.1f} seconds"
            raise CallBroken(Cause.TIMEOUT, sentence, outcome=Outcome.REJECTED) from None
        except NotStarted as error:
            if kept.session is session:  # The first of those who waited for it.
                log.warning("MCP server %r: %s", server.name, error)
                kept.drop_session(str(error), loop.time())
            raise error.build_failure(server.name, max(0.0, kept.not_before - loop.time())) from None
        return session, kept

    def _place(self, server: McpServer) -> _KeptSession:
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            # Another loop than before: what lived on that one ended with it.
            self._loop, self._kept, self._retired = loop, {}, set()
        self._retired = {one for one in self._retired if not one.ended}
        key = server.model_dump_json()
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= SERVERS_MAX:
                self._let_go(min(self._kept, key=lambda one: self._kept[one].used))
            kept = self._kept[key] = _KeptSession(used=loop.time())
        elif kept.session is not None and kept.session.over:
            self._retired.add(kept.session)
            kept.session.retire()
            if kept.session.broke:
                kept.drop_session("it ended again and again", loop.time(), forgiven=1)
            kept.session = None
        return kept

    def _let_go(self, key: str) -> None:
        session = self._kept.pop(key).session
        if session is not None:
            self._retired.add(session)
            session.retire()
