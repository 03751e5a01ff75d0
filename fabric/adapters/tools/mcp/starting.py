"""Explains why a session with an MCP server did not begin."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mcp import MCPError
from pydantic import ValidationError

from fabric.adapters.tools.mcp import stdio
from fabric.adapters.tools.mcp.bodies import Asked
from fabric.adapters.tools.mcp.failing import NotStarted, SessionGone
from fabric.adapters.tools.outcome import CallBroken
from fabric.core.taxonomy import Cause

ADVICE: Mapping[int, str] = {
    401: "; give it a key by headers_from",
    403: "; give it a key by headers_from, or have its owner let it be used from here",
    404: "; look at the path of its address",
    405: "; look at its address: the older transport of two addresses, HTTP with SSE, is not spoken",
}
"""The advice about an HTTP refusal of the first greeting."""


def not_started(error: BaseException, process: stdio.StdioServer | None, asked: Asked) -> NotStarted:
    """Returns why a session did not begin, whatever groups of exceptions it comes in."""
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
