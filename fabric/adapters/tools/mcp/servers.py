"""The MCP servers of a worker: a session each, begun with the first call, begun anew after it ended, with a pause that grows while it does not begin.

Sessions live on the loop that calls them. The SDK is imported with the first of them: a process that calls no MCP server never loads it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from fabric.adapters.tools.groups import kill_group
from fabric.adapters.tools.mcp.failing import NotStarted, SessionGone
from fabric.adapters.tools.mcp.offer import Known, Offered
from fabric.adapters.tools.outbound import Gate
from fabric.adapters.tools.outcome import CallBroken
from fabric.adapters.tools.permits import Permits
from fabric.core.saga import Outcome
from fabric.core.spec_mcp import McpServer, parted
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest

if TYPE_CHECKING:
    from fabric.adapters.tools.mcp.session import McpSession

log = logging.getLogger(__name__)
JSON = Any
SESSION = "fabric.adapters.tools.mcp.session"
PAUSE_S, PAUSE_MAX_S = 0.5, 30.0
"""After the first beginning that failed, doubled with each further one, up to the second."""
AGAIN_S = 2.0
"""A call whose session was forgotten goes out once more only with so much of its time left: what is sent and not answered may have been done."""
SERVERS_MAX = 64
"""Sessions at once; the one that no call used for longest is let go of for another."""


async def _session_class() -> type[McpSession]:
    """With the SDK, which takes about a second to import: not on the loop, which has other calls out."""
    found: type[McpSession] = (await asyncio.to_thread(import_module, SESSION)).McpSession
    return found


@dataclass(slots=True)
class _Kept:
    session: McpSession | None = None
    failures: int = 0
    not_before: float = 0.0
    why: str = ""
    used: float = 0.0
    known: Known = field(default_factory=Known)

    def failed(self, why: str, now: float, *, forgiven: int = 0) -> None:
        """Without a session, and with a pause before the next one; ``forgiven``: after how many failures in a row there is none yet."""
        self.session, self.why = None, why
        self.failures += 1
        exponent = self.failures - 1 - forgiven
        self.not_before = now + (min(PAUSE_MAX_S, PAUSE_S * 2.0 ** min(exponent, 10)) if exponent >= 0 else 0.0)


class McpServers:
    """The servers that this process speaks to. On one loop at a time, but for ``kill``."""

    def __init__(self, gate: Gate | None = None, permits: Permits | None = None) -> None:
        self._gate, self._permits = gate or Gate(), permits or Permits()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kept: dict[str, _Kept] = {}
        self._retired: set[McpSession] = set()

    async def call(self, server: McpServer, request: ToolRequest, timeout_s: float) -> JSON:
        """One call. Raises ToolError or CallBroken."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        try:
            return await self._called(server, request, timeout_s, until)
        except SessionGone as gone:
            # The server looked at nothing of it: it goes out once more, in another session.
            if (left := until - loop.time()) < AGAIN_S:
                sentence = f"{gone}; with {max(0.0, left):.1f} seconds left there is no time for a new one"
                raise CallBroken(gone.cause, sentence, status=gone.status, outcome=gone.outcome) from None
            return await self._called(server, request, timeout_s, until)

    async def _called(self, server: McpServer, request: ToolRequest, timeout_s: float, until: float) -> JSON:
        loop = asyncio.get_running_loop()
        session, kept = await self._session(server, until - loop.time())
        kept.used = loop.time()
        answer = await session.call(parted(request.tool.target)[1], request, timeout_s, until)
        kept.failures = 0
        return answer

    async def offered(self, server: McpServer) -> Offered:
        """What a server offers. Raises CallBroken where it cannot be spoken to."""
        session, _ = await self._session(server, server.connect_s * 2)
        try:
            return await session.offered()
        except NotStarted as error:
            raise error.broken(server.name) from None

    async def end(self) -> None:
        """Ends all sessions, and the processes that they started. On the loop that they were used on."""
        found = [kept.session for kept in self._kept.values() if kept.session is not None]
        self._kept = {}
        await asyncio.gather(*(one.end() for one in (*found, *self._retired)))
        self._retired.clear()

    def kill(self) -> None:
        """Kills the processes that are left, from any thread: where their loop ended before they did."""
        for one in (*(kept.session for kept in self._kept.values()), *self._retired):
            if one is not None and (process_id := one.process_id) is not None:
                kill_group(process_id)

    async def _session(self, server: McpServer, timeout_s: float) -> tuple[McpSession, _Kept]:
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
                kept.failed(str(error), loop.time())
            raise error.broken(server.name, max(0.0, kept.not_before - loop.time())) from None
        return session, kept

    def _place(self, server: McpServer) -> _Kept:
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
            kept = self._kept[key] = _Kept(used=loop.time())
        elif kept.session is not None and kept.session.over:
            self._retired.add(kept.session)
            kept.session.retire()
            if kept.session.broke:
                kept.failed("it ended again and again", loop.time(), forgiven=1)
            kept.session = None
        return kept

    def _let_go(self, key: str) -> None:
        session = self._kept.pop(key).session
        if session is not None:
            self._retired.add(session)
            session.retire()
