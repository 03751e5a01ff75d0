"""How speaking to an MCP server fails, before the SDK makes its own words of it."""

from __future__ import annotations

from fabric.adapters.tools.outcome import CallBroken
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause

MESSAGE_BYTES_MAX = 4_000_000
"""Bytes of one message of a server: what is longer never stands in memory whole. A result comes twice in one, as text and as structure."""
TOO_LARGE = -31_999
"""Error code, of ours, of an answer that was not read because it is larger. Outside of what JSON-RPC reserves."""
LARGER = f"its answer is larger than {MESSAGE_BYTES_MAX:,} bytes; the rest is not read; ask for less"


class NotStarted(Exception):
    """A server could not be spoken to at all, so nothing was asked of it. The message is one sentence without its name."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause

    def broken(self, server: str, wait_s: float | None = None) -> CallBroken:
        """The same of a call."""
        return CallBroken(self.cause, f"MCP server {server!r}: {self}", retry_after_s=wait_s, outcome=Outcome.REJECTED)


class SessionGone(CallBroken):
    """The server does not know the session: it looked at nothing of the request, which may go out in a new one."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(Cause.DROPPED_STREAM, message, status=status, outcome=Outcome.REJECTED)

    def of(self, server: str) -> SessionGone:
        """The same of a server; the message was its own words until then."""
        words = f"; it says: {self}" if str(self) else ""
        return SessionGone(f"MCP server {server!r} does not know this session any more{words}", self.status or 404)
