"""Writes the output of `manage.py fabric`: lines for a person, and JSON, declarations of tools included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from fabric.core.spec.mcp import McpServer
from fabric.core.values.units import JSON
from fabric.core.values.words import count, instant
from fabric.program.name import program
from fabric.selectors.drafts.change_requests import ChangeView
from fabric.selectors.fabrics.differences import SpecChange
from fabric.selectors.fabrics.lookup import FabricView, RevisionPage, RevisionView
from fabric.services.drafts.beginnings import NewDraft
from fabric.services.errors import Placed
from fabric.services.fabrics.checks import CheckedText, LintResult
from fabric.services.fabrics.comparison import Comparison, DryRun
from fabric.services.fabrics.revisions import PublishedFabric
from fabric.services.importers.mcp import ServerOffers
from fabric.services.importers.openapi import Imported
from fabric.services.importers.tool_declarations import DeclaredTool, LeftOut, dump_given

LINE_CHARS = 200
MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": "~"}
"""Mark of a change, by its kind; a test shows that it is total."""


# -- lines -------------------------------------------------------------------------------------------------------------


def outcome(found: PublishedFabric, *, reverted: bool = False) -> str:
    """Return the effect of a publication, in one sentence."""
    number, was = found.number, found.was
    if not found.changed:
        kept = "; its text is replaced, its content is the same" if found.rewritten else "; nothing changed"
        return f"{found.name}: revision {number} was published already{kept}"
    again = f"{found.name}: revision {number} is published again, and revision {was} no longer is; a content keeps its number"
    if reverted:
        return f"{again}, so no new revision was made"
    return again if was is not None and number < was else f"{found.name}: revision {number} is published"


def import_line(found: NewDraft, said: CheckedText) -> str:
    """Return the result of storing a file as a draft, in one sentence."""
    became = "has this text now, and undo brings back the one before" if found.replaced else "is your draft"
    wrong = len(said.errors)
    rest = f"{count(wrong, 'thing')} to mend before it can be published" if wrong else "it could be published"
    return f"{found.draft.name} {became}: {rest}"


def effect_lines(run: DryRun) -> Iterator[str]:
    """Yield the effects of a possible publication."""
    found, was = run.published, run.published.was
    if not found.changed:
        kept = "its text would be replaced" if found.rewritten else "nothing would change"
        yield f"{found.name}: revision {found.number} is published already; {kept}"
        return
    which = "as a new revision" if run.new else "again, since that is this content"
    before = f"in place of revision {was}" if was is not None else "and none is published now"
    yield f"{found.name}: revision {found.number} would be published {which}, {before}"
    yield from map(change, run.changes)
    if run.second:
        yield f"{found.name}: a second person must approve it: ask with --request"


def request_sentence(found: ChangeView) -> str:
    """Return the sentence that a second person was asked to approve."""
    return f"{found.name}: request {found.id} waits for a second person; nothing is published yet"


def schedule_sentence(found: ChangeView) -> str:
    """Return the sentence that a publication was scheduled."""
    at = instant(found.publish_at or 0)
    return f"{found.name}: request {found.id} is published at {at}; `{program()} fabric withdraw {found.id}` cancels it"


def request_line(found: ChangeView) -> str:
    """Return a change request on one line."""
    over = f"over revision {found.base}" if found.base else "not published before"
    made = f" as revision {found.published}" if found.published else ""
    by = f" by {found.decided_by}" if found.decided_by else ""
    why = f": {_cut(found.reason)}" if found.reason else ""
    said = f"  {_cut(found.message)}" if found.message else ""
    at = f" at {instant(found.publish_at)}" if found.publish_at is not None else ""
    return f"{found.id}  {found.name}  {over}  by {found.author}  {found.state}{at}{made}{by}{why}{said}"


def change(one: SpecChange) -> str:
    """Return one difference on one line."""
    between = " -> ".join(_cut(" ".join(value.split())) for value in (one.before, one.after) if value)
    moved = " (in another order)" if one.kind == "moved" else ""
    return f"  {MARKS[one.kind]} {one.path}{moved}: {between or 'empty'}"


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 1]}…"


def lint_lines(found: LintResult) -> Iterator[str]:
    """Yield all findings, and the verdict on a publication."""
    for kind, places in (("error", found.problems), ("warning", found.warnings)):
        yield from (f"{kind}: {place}" for place in places)
    yield from (f"deviation: {one.place} ({one.reason})" for one in found.deviations)
    yield from (f"note: {sentence}" for sentence in found.notes)
    counted = ", ".join(
        count(len(many), what)
        for what, many in (("error", found.problems), ("warning", found.warnings), ("deviation", found.deviations))
        if many
    )
    verdict = "can be published" if found.publishable else "cannot be published"
    yield f"{found.origin}: {verdict}" + (f" ({counted})" if counted else "")


# -- JSON --------------------------------------------------------------------------------------------------------------


def fabric_json(view: FabricView) -> JSON:
    """Return a published fabric as JSON."""
    return {
        "name": view.name,
        "title": view.title,
        "description": view.description,
        "number": view.number,
        "digest": view.digest,
        "tier": view.tier.value,
        "tiers": [tier.value for tier in view.tiers],
        "published_at": view.published_at.isoformat(),
        "published_by": view.published_by,
    }


def revision_json(page: RevisionPage, revisions: list[RevisionView]) -> JSON:
    """Return one revision of a fabric as JSON, with the list of all."""
    return {
        **fabric_json(page.fabric),
        "shown": page.number,
        "shown_digest": page.digest,
        "has_source": bool(page.source),
        "models": [model.name for model in page.spec.models],
        "tools": [tool.name for tool in page.spec.tools],
        "agents": [agent.name for agent in page.spec.agents],
        "reviewers": list(page.spec.reviewers),
        "revisions": [
            {
                "number": one.number,
                "digest": one.digest,
                "published_at": one.published_at.isoformat(),
                "published_by": one.published_by,
                "message": one.message,
                "current": one.current,
            }
            for one in revisions
        ],
    }


def publication_json(found: PublishedFabric) -> JSON:
    """Return a publication as JSON."""
    return {
        "name": found.name,
        "title": found.title,
        "number": found.number,
        "digest": found.digest,
        "changed": found.changed,
        "was": found.was,
        "text_replaced": found.rewritten,
        "deviations": [{"path": one.path, "what": one.what, "reason": one.reason} for one in found.deviations],
        "warnings": list(found.warnings),
    }


def dry_run_json(run: DryRun) -> JSON:
    """Return a dry run of a publication as JSON."""
    return {
        **publication_json(run.published),
        "dry_run": True,
        "new": run.new,
        "second_person": bool(run.second),
        "changes": [*map(_change, run.changes)],
    }


def request_json(found: ChangeView) -> JSON:
    """Return a change request as JSON."""
    return {
        "id": found.id,
        "name": found.name,
        "author": found.author,
        "base": found.base,
        "digest": found.digest,
        "message": found.message,
        "state": found.state.value,
        "publish_at": None if found.publish_at is None else instant(found.publish_at),
        "opened_at": found.opened_at.isoformat(),
        "decided_at": found.decided_at.isoformat() if found.decided_at else None,
        "decided_by": found.decided_by,
        "reason": found.reason,
        "number": found.published,
    }


def comparison_json(found: Comparison, text: str | None) -> JSON:
    """Return the differences of two fabrics as JSON."""
    sides = {"from": found.before.called, "to": found.after.called, "same": found.same}
    return {**sides, "changes": [*map(_change, found.changes)], **({} if text is None else {"text": text})}


def lint_json(found: LintResult) -> JSON:
    """Return all findings as JSON."""
    return {
        "file": found.origin,
        "name": found.name or None,
        "publishable": found.publishable,
        "problems": [*map(_place, found.problems)],
        "warnings": [*map(_place, found.warnings)],
        "deviations": [{**_place(one.place), "reason": one.reason} for one in found.deviations],
        "notes": [*found.notes],
    }


def _place(one: Placed) -> JSON:
    return {"path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence}


def _change(one: SpecChange) -> JSON:
    return {"path": one.path, "kind": one.kind, "before": one.before, "after": one.after}


def import_json(found: NewDraft, said: CheckedText) -> JSON:
    """Return a file that was stored as a draft as JSON."""
    findings = [
        {"level": one.level, "path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence}
        for one in said.findings
    ]
    draft = found.draft
    return {
        "name": draft.name,
        "author": draft.author,
        "step": draft.step,
        "base": draft.base,
        "replaced": found.replaced,
        "publishable": not said.errors,
        "findings": findings,
    }


def offers_json(server: McpServer, found: ServerOffers) -> JSON:
    """Return the offers of one server as JSON."""
    return {
        "server": dump_given(server),
        "tools": [_tool(one) for one in found.tools],
        "left_out": [_build_left_out(one) for one in found.left_out],
        "resources": [asdict(one) for one in found.resources],
        "prompts": [asdict(one) for one in found.prompts],
    }


def declarations_json(found: Imported) -> JSON:
    """Return the tools made of a document as JSON."""
    return {
        "title": found.title,
        "base": found.base,
        "tools": [_tool(one) for one in found.tools],
        "left_out": [_build_left_out(one) for one in found.left_out],
    }


def _tool(one: DeclaredTool) -> JSON:
    return {"tool": dump_given(one.tool), "notes": list(one.notes)}


def _build_left_out(one: LeftOut) -> JSON:
    return {"path": one.path, "reason": one.reason}
