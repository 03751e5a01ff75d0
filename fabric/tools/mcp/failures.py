"""Failures in the communication with an MCP server, before the SDK turns them into its own words."""

from __future__ import annotations

from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.tools.answers.outcome import CallBroken

MESSAGE_BYTES_MAX = 4_000_000
"""Largest message of a server, in bytes; a longer one is never whole in memory. A result is in it twice, as text and
as structure.
"""
TOO_LARGE = -31_999
"""Our error code for an answer that was too large to be read. Outside of JSON-RPC's reserved range."""
LARGER = f"its answer is larger than {MESSAGE_BYTES_MAX:,} bytes; the rest is not read; ask for less"


class NotStarted(Exception):
    """A server could not be reached at all, so it got no request. The message is one sentence without its name."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause

    def build_failure(self, server: str, wait_s: float | None = None) -> CallBroken:
        """Return this as the failure of a call."""
        return CallBroken(self.cause, f"MCP server {server!r}: {self}", retry_after_s=wait_s, outcome=Outcome.REJECTED)


class SessionGone(CallBroken):
    """The server does not know the session. It did not read the request, so a new session may send it."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(Cause.DROPPED_STREAM, message, status=status, outcome=Outcome.REJECTED)

    def name_server(self, server: str) -> SessionGone:
        """Return this for a named server; until then the message is the server's own words."""
        words = f"; it says: {self}" if str(self) else ""
        return SessionGone(f"MCP server {server!r} does not know this session any more{words}", self.status or 404)
