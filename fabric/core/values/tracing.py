"""Place of an event in its trace, with its source and destination. Computed from the fact, so that no journal row
repeats it (docs/specification/protections.md).
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from fabric.core.values.command_ids import read_step


@lru_cache(maxsize=4_096)
def build_span(trace_id: str, *names: str | int) -> str:
    """Return a W3C span id, 16 hex digits, computed from the arguments alone."""
    return blake2b("|".join((trace_id, *map(str, names))).encode(), digest_size=8).hexdigest()


def spans(trace_id: str, fact: Any) -> tuple[str, str]:
    """Return ``(span, parent span)`` of a fact: call under step under run (docs/specification/protections.md)."""
    step = getattr(fact, "step_id", "")
    command = getattr(fact, "command_id", "")
    if command:
        above = step or read_step(command)
        return build_span(trace_id, command, getattr(fact, "attempt", 1)), build_span(trace_id, above)
    if step:
        return build_span(trace_id, step), build_span(trace_id)
    return build_span(trace_id), ""


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
