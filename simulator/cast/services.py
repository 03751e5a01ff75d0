"""A service outside the engine: it books under keys, cancels, lists its bookings, and loses answers by the seed.

A key is done once. A key that was cancelled before it arrived is not done any more. The journals are checked against
the service's own books.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fabric.core.events.inputs import CallFailed, ToolFinished
from fabric.core.values.saga import Outcome
from fabric.core.values.taxonomy import Cause
from fabric.core.values.units import JSON
from fabric.runtime.ports.calls import ToolRequest

BOOK, CANCEL, FIND, WIRE = "book", "unbook", "find", "wire"
PROBE = "probe"
"""Tool that oracles use, and agents are not offered."""
TOOLS = frozenset({BOOK, CANCEL, FIND, WIRE})


@dataclass(frozen=True, slots=True)
class Served:
    """The service's handling of a request. ``silent``: no answer arrives before the deadline."""

    result: ToolFinished | CallFailed
    silent: bool = False


@dataclass(slots=True)
class Service:
    """The books: calls done and undone by key."""

    strikes: Callable[[str], bool]
    sticky: Callable[[], bool]
    """Returns True while a stuck call stays stuck."""
    done: dict[str, str] = field(default_factory=dict)
    """Run of each booking or payment, by key."""
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
            return Served(_finish_call(request, None, error="409: refused", outcome=Outcome.REJECTED))
        if self.strikes("effect_not_done"):
            return Served(_fail_call(request, Outcome.UNKNOWN), silent=True)
        if self.strikes("effect_never_sent"):
            return Served(_fail_call(request, Outcome.REJECTED))
        self.done.setdefault(key, request.run_id)
        return Served(_finish_call(request, {"id": key[:8]}), silent=self.strikes("effect_lost_answer"))

    def _cancel(self, request: ToolRequest) -> Served:
        key = request.args["key"]
        if self.strikes("compensation_stuck"):
            self.stuck.add(key)
        if (key in self.stuck and self.sticky()) or self.strikes("compensation_fails"):
            return Served(_fail_call(request, Outcome.UNKNOWN))
        self.cancelled.add(key)
        return Served(_finish_call(request, {"status": "cancelled"}), silent=self.strikes("effect_lost_answer"))

    def _find(self, request: ToolRequest) -> Served:
        if self.strikes("reconcile_fails"):
            return Served(_fail_call(request, Outcome.UNKNOWN))
        key = request.args["key"]
        return Served(_finish_call(request, {"executed": key in self.done, "result": {"id": key[:8]}}))


def _finish_call(request: ToolRequest, result: JSON, **more: Any) -> ToolFinished:
    return ToolFinished(command_id=request.command_id, attempt=request.attempt, result=result, **more)


def _fail_call(request: ToolRequest, outcome: Outcome) -> CallFailed:
    return CallFailed(
        command_id=request.command_id,
        attempt=request.attempt,
        cause=Cause.SERVER_ERROR,
        message="503",
        status=503,
        outcome=outcome,
    )
