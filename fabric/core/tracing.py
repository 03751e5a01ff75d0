"""Where an event stands in its trace, and between whom it passes: worked out from the fact, so that no journal row repeats it (semantics.md 7)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from fabric.core.command_ids import step_of


@lru_cache(maxsize=4_096)
def span_of(trace_id: str, *names: str | int) -> str:
    """A W3C span id, 16 hex digits, the same wherever it is computed."""
    return blake2b("|".join((trace_id, *map(str, names))).encode(), digest_size=8).hexdigest()


def spans(trace_id: str, fact: Any) -> tuple[str, str]:
    """``(span, parent span)`` of a fact: call under step under run (semantics.md 7 "Tracing")."""
    step = getattr(fact, "step_id", "")
    command = getattr(fact, "command_id", "")
    if command:
        above = step or step_of(command)
        return span_of(trace_id, command, getattr(fact, "attempt", 1)), span_of(trace_id, above)
    if step:
        return span_of(trace_id, step), span_of(trace_id)
    return span_of(trace_id), ""


def parties(fact: Any) -> tuple[str, str]:
    """``(source, destination)`` of a fact as ``layer/agent``."""
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
        case "escalation_opened" | "alert_raised":
            return ENGINE, f"human/{getattr(fact, 'required_role', '')}"
        case "run_ended":
            return ENGINE, "caller/"
    return (f"human/{fact.actor}", ENGINE) if fact.kind in BY_PEOPLE else (ENGINE, ENGINE)


ENGINE = "flow/engine"
BY_PEOPLE = frozenset(
    {
        *("escalation_decided", "cap_raised", "budget_raised", "compensation_by_hand"),
        *("cancel_accepted", "terminate_accepted", "run_paused", "run_resumed", "person_said"),
    }
)
"""Kinds of what a person does to a run."""
