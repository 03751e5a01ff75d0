"""The commands' words about a run: progress lines, its open reviews, the result, the exit code."""

from __future__ import annotations

import json

from fabric.core.people.actor import Actor
from fabric.core.values.flow import RunState
from fabric.core.values.units import JSON
from fabric.core.values.words import clock, dollars
from fabric.management.base import OK, OTHER_END, WAITING, FabricCommand
from fabric.management.output.colours import paint
from fabric.management.output.reviews import review_lines, reviews_json
from fabric.management.run_follower import ASKING, Say
from fabric.runtime.ports.batch_parts import EXCERPT_CHARS
from fabric.selectors.reviews.lookup import list_open_reviews
from fabric.selectors.runs.display import choose_label
from fabric.selectors.runs.inputs import DocumentView, list_documents
from fabric.selectors.runs.lookup import EventView, RunView, run_outcome, write_advice
from fabric.selectors.runs.story.figures import part_words
from fabric.selectors.runs.story.fold import run_story


def progress(command: FabricCommand) -> Say | None:
    """Return a function that writes one line an event to standard error, where that is a terminal; else None."""
    if not command.stderr.isatty():
        return None

    def say(event: EventView) -> None:
        command.stderr.write(f"{clock(event.at)}  {choose_label(event.kind):<20}  {event.summary}", style_func=str)

    return say


def summary(actor: Actor, run: RunView) -> dict[str, JSON]:
    """Return the last line of ``--json``."""
    return {
        "run_id": run.id,
        "state": run.state.value,
        "outcome": run_outcome(actor, run.id),
        "reason": run.reason,
        "labels": dict(run.labels),
        "advice": write_advice(run),
        "cost_usd_micros": run.cost_usd_micros,
        "tokens": run.tokens,
        "tokens_by_kind": dict(run_story(actor, run.id).total.kinds),
        "events": run.last_seq,
    }


def documents_read(run_id: str) -> list[JSON]:
    """Return the reading of each attached file, for the last line of ``run --json``."""
    return [_document(view) for view in list_documents(run_id, 4 * EXCERPT_CHARS)]


def _document(view: DocumentView) -> dict[str, JSON]:
    origin = view.origin
    read = {} if origin is None else {"kind": origin.kind, "sha256": origin.sha256, "notes": list(origin.notes)}
    return {"name": view.name, "read": "" if origin is None else origin.words(), "excerpt": view.excerpt} | read


def report(command: FabricCommand, actor: Actor, run: RunView, *, as_json: bool, **more: JSON) -> int:
    """Report the state of a run, as JSON or for a person; return the exit code."""
    if run.state in ASKING:
        items = list_open_reviews(actor, run.id, family=True)
        for item in items:
            command.tell(*review_lines(item))
        more["reviews"] = reviews_json(items)
    if as_json:
        command.put(summary(actor, run) | more)
    else:
        _write_for_people(command, actor, run)
    if run.state is RunState.COMPLETED:
        return OK
    return OTHER_END if run.terminal else WAITING


def _write_for_people(command: FabricCommand, actor: Actor, run: RunView) -> None:
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
    state = paint(how, run.state, terminal=command.stdout.isatty())
    command.stdout.write(f"Run {run.id} {state}{reason} ({spent})")
    if advice := write_advice(run):
        command.stdout.write(f"Next step: {advice}")
    command.stdout.flush()
