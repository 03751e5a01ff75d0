"""The table of event kinds: one row has all that pages, API, commands and reports say of a kind.

A sentence is made of the fact alone, never of a content, so it reads alike after contents are erased. It has no
instant, which could not be shown in the reader's own time.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabric.core.values import command_ids
from fabric.core.values.flow import RunState
from fabric.selectors.runs.display import calls, children, control, conversation, decisions, lifecycle, saga
from fabric.selectors.runs.display.row import EventDisplay, Fact, Tone

EVENT_DISPLAY: Mapping[str, EventDisplay] = {
    **lifecycle.ROWS,
    **calls.ROWS,
    **conversation.ROWS,
    **decisions.ROWS,
    **control.ROWS,
    **saga.ROWS,
    **children.ROWS,
}
"""One row for each kind of event; total by test."""
COMPACT_MIN = 2
"""Importance from which the compact list shows a kind: decisions, trips, stage edges, reviews to people, results."""
DETAILS: frozenset[str] = frozenset(kind for kind, row in EVENT_DISPLAY.items() if row.importance < COMPACT_MIN)
"""Kinds that the compact list leaves out. A kind of a newer version is shown, since its weight is not known."""
FAILING: frozenset[str] = frozenset(kind for kind, row in EVENT_DISPLAY.items() if row.fails is not None)
"""Kinds of which an event may be a failure: only these are read for "failed only"."""


def write_sentence(kind: str, fact: Fact) -> str:
    """Return the sentence of an event, without its full stop. A kind of a newer version is named instead."""
    row = EVENT_DISPLAY.get(kind)
    return row.parts(fact).sentence if row is not None else kind.replace("_", " ")


def choose_label(kind: str, fact: Fact | None = None) -> str:
    """Return the kind in two or three words. ``fact``: of this event, where its words depend on it."""
    if kind == "step_failed" and fact and decisions.is_stopped(fact):
        return "Step stopped"
    row = EVENT_DISPLAY.get(kind)
    return row.label if row is not None else kind.replace("_", " ")[:60]


def choose_tone(kind: str, fact: Fact) -> Tone:
    """Return the row's tone, or a graver one where the event is a failure."""
    row = EVENT_DISPLAY.get(kind)
    if row is None:
        return "neutral"
    if kind == "step_failed" and fact and decisions.is_stopped(fact):
        return "neutral"
    if kind == "run_ended" and fact.get("state") in (RunState.FAILED, RunState.ABORTED):
        return "danger"
    return "warn" if row.tone in ("neutral", "ok", "info") and is_failure(kind, fact) else row.tone


def is_failure(kind: str, fact: Fact) -> bool:
    """Return True where the event is a failure or part of its handling."""
    row = EVENT_DISPLAY.get(kind)
    return row is not None and row.fails is not None and row.fails(fact)


def follows_decision(kind: str) -> bool:
    """Return True where ``explain`` lists events of the kind under the decision before them."""
    row = EVENT_DISPLAY.get(kind)
    return row is not None and row.follows


def find_step(fact: Fact) -> str:
    """Return the step of a fact, ``fan_out.1.e0.r0``; empty where it is about no single one."""
    command_id = str(fact.get("command_id") or "")
    return str(fact.get("step_id") or command_ids.read_step(command_id))


def find_stage(fact: Fact) -> str:
    """Return the stage of a fact; empty where it is about the run."""
    scope = str(fact.get("scope") or "").partition(":")[2]
    return str(fact.get("stage") or (find_step(fact) or scope).partition(".")[0])
