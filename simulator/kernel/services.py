"""A service outside the virtual world's engine: it books under keys, cancels, says what it has done, and loses answers as the seed says.

A key is done once, and a key that was cancelled before it arrived is not done any more. Its own books are what the journals are held against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fabric.core.inputs import CallFailed, ToolFinished
from fabric.core.saga import Outcome
from fabric.core.taxonomy import Cause
from fabric.runtime.call_ports import ToolRequest

JSON = Any
BOOK, CANCEL, FIND, WIRE = "book", "unbook", "find", "wire"
PROBE = "probe"
"""What oracles ask, and agents are not offered."""
TOOLS = frozenset({BOOK, CANCEL, FIND, WIRE})


@dataclass(frozen=True, slots=True)
class Served:
    """What the service does with a request. ``silent``: nobody hears of it before the deadline."""

    result: ToolFinished | CallFailed
    silent: bool = False


@dataclass(slots=True)
class Service:
    """The books: what was done under which key, and what was undone."""

    strikes: Callable[[str], bool]
    sticky: Callable[[], bool]
    """Whether what is stuck still is."""
    done: dict[str, str] = field(default_factory=dict)
    """Run by key, of what was booked or wired."""
    cancelled: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)

    def run(self, request: ToolRequest) -> Served:
        """Serves one request."""
        if request.tool.name == CANCEL:
            return self._cancel(request)
        if request.tool.name == FIND:
            return self._find(request)
        return self._book(request)

    def _book(self, request: ToolRequest) -> Served:
        key = request.idempotency_key
        if self.strikes("effect_refused") or key in self.cancelled:
            return Served(_finished(request, None, error="409: refused", outcome=Outcome.REJECTED))
        if self.strikes("effect_not_done"):
            return Served(_failed(request, Outcome.UNKNOWN), silent=True)
        if self.strikes("effect_never_sent"):
            return Served(_failed(request, Outcome.REJECTED))
        self.done.setdefault(key, request.run_id)
        return Served(_finished(request, {"id": key[:8]}), silent=self.strikes("effect_lost_answer"))

    def _cancel(self, request: ToolRequest) -> Served:
        key = request.args["key"]
        if self.strikes("compensation_stuck"):
            self.stuck.add(key)
        if (key in self.stuck and self.sticky()) or self.strikes("compensation_fails"):
            return Served(_failed(request, Outcome.UNKNOWN))
        self.cancelled.add(key)
        return Served(_finished(request, {"status": "cancelled"}), silent=self.strikes("effect_lost_answer"))

    def _find(self, request: ToolRequest) -> Served:
        if self.strikes("reconcile_fails"):
            return Served(_failed(request, Outcome.UNKNOWN))
        key = request.args["key"]
        return Served(_finished(request, {"executed": key in self.done, "result": {"id": key[:8]}}))


def _finished(request: ToolRequest, result: JSON, **more: Any) -> ToolFinished:
    return ToolFinished(command_id=request.command_id, attempt=request.attempt, result=result, **more)


def _failed(request: ToolRequest, outcome: Outcome) -> CallFailed:
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.SERVER_ERROR,
        message="503",
        status=503,
        outcome=outcome,
    )
