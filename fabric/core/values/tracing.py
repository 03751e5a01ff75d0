"""Place of an event in its trace, with its source and destination. Computed from the fact, so that no journal row
repeats it (docs/specification/protections.md).
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from fabric.core.values.command_ids import read_step
from fabric.core.values.frozen import value

TRACE_DIGITS = 32
SAMPLED = "01"
"""Trace flags of a run that no caller's trace surrounds."""
STATE_MAX = 512
"""Characters of a ``tracestate`` that are carried (W3C Trace Context, section 3.3.1.5)."""
BAGGAGE_MAX = 8_192
"""Bytes of a ``baggage`` that are carried (W3C Baggage, section 3.3.2)."""
_TRACEPARENT = re.compile(
    "(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)


@lru_cache(maxsize=4_096)
def build_span(trace_id: str, *names: str | int) -> str:
    """Return a W3C span id, 16 hex digits, computed from the arguments alone."""
    return blake2b("|".join((trace_id, *map(str, names))).encode(), digest_size=8).hexdigest()


@value()
class Caller:
    """The trace in which a caller asks for a run (W3C Trace Context, level 1, and W3C Baggage)."""

    trace_id: str = ""
    """32 hex digits; "": the caller has no trace."""
    span_id: str = ""
    flags: str = SAMPLED
    state: str = ""
    baggage: str = ""

    def pack(self) -> str:
        """Return the text that a run's row keeps beside its trace id; "" without a trace and baggage."""
        if not self.span_id and not self.baggage:
            return ""
        return f"{self.span_id}\n{self.flags}\n{self.state}\n{self.baggage}"


def read_caller(traceparent: str = "", tracestate: str = "", baggage: str = "") -> Caller:
    """Return the caller's trace by its headers.

    A header that breaks its rules counts as absent, as both recommendations ask (W3C Trace Context, section 4.3).
    """
    kept = baggage.strip() if _carried(baggage, BAGGAGE_MAX) else ""
    found = _TRACEPARENT.fullmatch(traceparent.strip())
    if found is None or found["version"] == "ff" or not int(found["trace"], 16) or not int(found["span"], 16):
        return Caller(baggage=kept)
    if found["version"] == "00" and found["more"]:
        return Caller(baggage=kept)
    state = tracestate.strip() if _carried(tracestate, STATE_MAX) else ""
    return Caller(found["trace"], found["span"], f"{int(found['flags'], 16) & 1:02x}", state, kept)


def _carried(header: str, most: int) -> bool:
    """Return True if a header is printable ASCII of at most ``most`` characters."""
    return len(header) <= most and header.isascii() and header.isprintable()


@value()
class Trace:
    """A run's place in its trace: all spans of its events and calls."""

    trace_id: str
    run_id: str
    above: str = ""
    """Span around the run: of the call that spawned it, or of its caller; "": it is the outermost."""
    flags: str = SAMPLED
    state: str = ""
    baggage: str = ""

    @property
    def root(self) -> str:
        """Return the span of the run itself."""
        return build_span(self.trace_id, self.run_id)

    def call(self, command_id: str, attempt: int = 1) -> str:
        """Return the span of one attempt at a command."""
        return build_span(self.trace_id, self.run_id, command_id, attempt)

    def place(self, fact: Any) -> tuple[str, str]:
        """Return ``(span, parent span)`` of a fact: call under step under run (docs/specification/protections.md)."""
        step = getattr(fact, "step_id", "")
        command = getattr(fact, "command_id", "")
        if command:
            above = step or read_step(command)
            return self.call(command, getattr(fact, "attempt", 1)), build_span(self.trace_id, self.run_id, above)
        if step:
            return build_span(self.trace_id, self.run_id, step), self.root
        return self.root, self.above

    def write_headers(self, span_id: str) -> dict[str, str]:
        """Return the headers that carry the trace to a peer which is called in that span."""
        if len(self.trace_id) != TRACE_DIGITS:
            return {}
        headers = {"traceparent": f"00-{self.trace_id}-{span_id}-{self.flags}"}
        beside = {"tracestate": self.state, "baggage": self.baggage}
        return headers | {name: text for name, text in beside.items() if text}


def find_trace(
    trace_id: str, run_id: str, *, parent_run_id: str | None = None, parent_command: str = "", context: str = ""
) -> Trace:
    """Return a run's place in its trace by the columns of its row. ``context``: see ``Caller.pack``."""
    span, flags, state, baggage = context.split("\n", 3) if context else ("", SAMPLED, "", "")
    above = Trace(trace_id, parent_run_id).call(parent_command) if parent_run_id else span
    return Trace(trace_id, run_id, above, flags, state, baggage)


def parties(fact: Any) -> tuple[str, str]:
    """Return ``(source, destination)`` of a fact as ``layer/agent``."""
    match fact.kind:
        case "call_issued":
            return f"agent/{fact.agent}", f"{fact.call}/{fact.target}"
        case "model_answered" | "call_streamed":
            return "model/", f"step/{fact.step_id}"
        case "tool_answered":
            return f"tool/{fact.tool}", f"step/{fact.step_id}"
        case "input_requested":
            return f"tool/{fact.tool}", "human/"
        case "input_given":
            return f"human/{fact.actor}", f"tool/{fact.tool}"
        case "compensation_issued" | "reconciliation_issued":
            return ENGINE, f"tool/{fact.tool}"
        case "compensation_answered":
            return f"tool/{fact.tool}", ENGINE
        case "run_started":
            return f"caller/{fact.requested_by}", ENGINE
        case "review_opened" | "alert_raised":
            return ENGINE, f"human/{getattr(fact, 'required_role', '')}"
        case "run_ended":
            return ENGINE, "caller/"
    return (f"human/{fact.actor}", ENGINE) if fact.kind in BY_PEOPLE else (ENGINE, ENGINE)


ENGINE = "flow/engine"
BY_PEOPLE = frozenset(
    {
        *("review_decided", "cap_raised", "budget_raised", "compensation_by_hand"),
        *("cancel_accepted", "terminate_accepted", "run_paused", "run_resumed", "person_said"),
    }
)
"""Kinds of facts about people's acts on a run."""
