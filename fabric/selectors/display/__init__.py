"""How events read to people: one row a kind in one table, total by test. The sentences have the numbers and leave out what the row's place says.

A summary is made of the fact alone, never of a content: it reads the same after those were erased. It has no instant, which could not be localised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fabric.core import command_ids
from fabric.selectors.display import calls, children, control, decisions, lifecycle, saga
from fabric.selectors.display.row import Display, Fact, Tone

EVENT_DISPLAY: Mapping[str, Display] = {
    **lifecycle.ROWS,
    **calls.ROWS,
    **decisions.ROWS,
    **control.ROWS,
    **saga.ROWS,
    **children.ROWS,
}
"""One row a kind of event."""


def summary_of(kind: str, fact: Fact) -> str:
    """The sentence for an event; what a newer version wrote is named by its kind."""
    row = EVENT_DISPLAY.get(kind)
    return row.summary(fact) if row is not None else kind.replace("_", " ")


def tone_of(kind: str, fact: Fact) -> Tone:
    """The row's tone, or a graver one where the fact itself says so: a failed gate, an answer that cannot be used, a bad end."""
    row = EVENT_DISPLAY.get(kind)
    if row is None:
        return "neutral"
    if kind == "run_ended":
        return _END_TONES.get(fact.get("state", ""), "danger")
    bad = fact.get("error") or fact.get("verdict") == "rejected" or (fact.get("gate") or {}).get("cause")
    bad = bad or (kind == "child_answered" and fact.get("state") != "completed")
    return "warn" if bad or (kind == "stage_left" and fact.get("outcome") != "passed") else row.tone


_END_TONES: Mapping[str, Tone] = {"completed": "ok", "stopped": "warn", "cancelled": "warn"}

# -- what a row is about -----------------------------------------------------------------------------------------------

COMPACT_MIN = 2
"""Importance from which the compact list shows a kind: decisions, trips, stage edges, questions to people, results."""

DETAILS: frozenset[str] = frozenset(kind for kind, row in EVENT_DISPLAY.items() if row.importance < COMPACT_MIN)
"""Kinds that the compact list leaves out. What a newer version wrote is shown: nobody here can say that it is a detail."""


def step_of(fact: Fact) -> str:
    """The step that a fact is about, ``fan_out.1.e0.r0``; empty when it is about no single one."""
    command_id = str(fact.get("command_id") or "")
    return str(fact.get("step_id") or command_ids.step_of(command_id))


def stage_of(fact: Fact) -> str:
    """The stage that a fact is about; empty when it is about the run."""
    scope = str(fact.get("scope") or "").partition(":")[2]
    return str(fact.get("stage") or (step_of(fact) or scope).partition(".")[0])


def _always(fact: Fact) -> bool:
    return True


def _gate_refused(fact: Fact) -> bool:
    return bool((fact.get("gate") or {}).get("cause"))


EVENT_FAILS: Mapping[str, Callable[[Fact], bool]] = {
    "stage_entered": _gate_refused,
    "stage_left": lambda fact: _gate_refused(fact) or fact.get("outcome") != "passed",
    "replanned": _always,
    "run_ending": lambda fact: fact.get("state") != "completed",
    "run_ended": lambda fact: fact.get("state") != "completed",
    "model_answered": lambda fact: fact.get("verdict") == "rejected",
    "tool_answered": lambda fact: bool(fact.get("error")),
    "call_refused": _always,
    "attempt_failed": _always,
    "attempt_interrupted": _always,
    "reaction_decided": _always,
    "step_failed": _always,
    "escalation_opened": lambda fact: fact.get("item") in ("failure", "compensation"),
    "mutation_settled": lambda fact: fact.get("status") == "unknown",
    "unwinding_started": _always,
    "compensation_failed": _always,
    "compensation_stuck": _always,
    "compensation_skipped": _always,
    "compensation_abandoned": _always,
    "unwinding_omitted": _always,
    "child_answered": lambda fact: fact.get("state") != "completed" or bool(fact.get("missing")),
    "child_quarantined": _always,
}
"""Kinds that may tell of a failure, and when they do: what "failed only" shows."""


def failed(kind: str, fact: Fact) -> bool:
    """Whether the event tells of something that went wrong, or of what was done about it."""
    return kind in EVENT_FAILS and EVENT_FAILS[kind](fact)
