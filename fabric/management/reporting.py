"""The commands' words about a run: progress lines, its open questions, the result, the exit code."""

from __future__ import annotations

import json
from typing import Any

from fabric.core.actor import Actor
from fabric.core.flow import RunState
from fabric.core.words import clock, dollars
from fabric.management.base import OK, OTHER_END, WAITING, FabricCommand
from fabric.management.card import question, questions_json
from fabric.management.following import ASKING, Say
from fabric.runtime.origin import EXCERPT_CHARS
from fabric.selectors.advice import advice_of
from fabric.selectors.display import EVENT_DISPLAY
from fabric.selectors.escalations import escalations_open
from fabric.selectors.run_inputs import DocumentView, documents_of
from fabric.selectors.run_story import run_story
from fabric.selectors.runs import EventView, RunView, run_outcome
from fabric.selectors.token_kinds import part_words

JSON = Any


def progress(command: FabricCommand) -> Say | None:
    """Writes one line an event to standard error, where that is a terminal; None where it is not."""
    if not command.stderr.isatty():
        return None

    def say(event: EventView) -> None:
        row = EVENT_DISPLAY.get(event.kind)
        label = row.label if row else event.kind
        command.stderr.write(f"{clock(event.at)}  {label:<20}  {event.summary}", style_func=str)

    return say


def summary(actor: Actor, run: RunView) -> dict[str, JSON]:
    """The last line of ``--json``."""
    return {
        "run_id": run.id,
        "state": run.state.value,
        "outcome": run_outcome(actor, run.id),
        "reason": run.reason,
        "advice": advice_of(run),
        "cost_usd_micros": run.cost_usd_micros,
        "tokens": run.tokens,
        "tokens_by_kind": dict(run_story(actor, run.id).total.kinds),
        "events": run.last_seq,
    }


def documents_read(run_id: str) -> list[JSON]:
    """Returns the reading of each attached file, for the last line of ``run --json``."""
    return [_document(view) for view in documents_of(run_id, 4 * EXCERPT_CHARS)]


def _document(view: DocumentView) -> dict[str, JSON]:
    origin = view.origin
    read = {} if origin is None else {"kind": origin.kind, "sha256": origin.sha256, "notes": list(origin.notes)}
    return {"name": view.name, "read": "" if origin is None else origin.words(), "excerpt": view.excerpt} | read


def report(command: FabricCommand, actor: Actor, run: RunView, *, as_json: bool, **more: JSON) -> int:
    """Says how the run stands: as JSON, or for a person. The exit code."""
    if run.state in ASKING:
        items = escalations_open(actor, run.id, family=True)
        for item in items:
            command.tell(*question(item))
        more["questions"] = questions_json(items)
    if as_json:
        command.put(summary(actor, run) | more)
    else:
        _for_people(command, actor, run)
    if run.state is RunState.COMPLETED:
        return OK
    return OTHER_END if run.terminal else WAITING


def _for_people(command: FabricCommand, actor: Actor, run: RunView) -> None:
    outcome = run_outcome(actor, run.id)
    if outcome is not None:
        command.stdout.write(outcome["text"])
        if outcome["citations"]:
            command.stdout.write(f"\nSources: {', '.join(outcome['citations'])}")
        if "data" in outcome:
            command.stdout.write(f"Data: {json.dumps(outcome['data'], ensure_ascii=False, indent=2)}")
        for gap in outcome["gaps"]:
            command.stdout.write(f"Missing: {gap}")
        command.stdout.write("")
    how = f"{run.state} after recovery" if run.recovered and run.state is RunState.COMPLETED else str(run.state)
    reason = f": {run.reason}" if run.reason else ""
    parts = part_words(run_story(actor, run.id).total)
    of_them = f" ({parts})" if parts else ""
    spent = f"{dollars(run.cost_usd_micros)}, {run.tokens:,} tokens{of_them}, {run.last_seq} events"
    command.stdout.write(f"Run {run.id} {how}{reason} ({spent})")
    if advice := advice_of(run):
        command.stdout.write(f"What to do: {advice}")
    command.stdout.flush()
