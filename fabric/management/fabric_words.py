"""What `manage.py fabric` says: as lines for a person, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fabric.core.words import count
from fabric.selectors.change_requests import ChangeView
from fabric.selectors.fabrics import FabricView, RevisionPage
from fabric.selectors.revision_diff import Change
from fabric.selectors.revisions import RevisionView
from fabric.services.checking import Checked
from fabric.services.draft_beginning import Beginning
from fabric.services.errors import Placed
from fabric.services.fabric_compare import Comparison, DryRun
from fabric.services.fabric_lint import Lint
from fabric.services.fabrics import Published

JSON = Any
LINE_CHARS = 200
MARKS = {"added": "+", "removed": "-", "changed": "~", "moved": "~"}
"""What stands before a change, by its kind; total by test."""


# -- lines -------------------------------------------------------------------------------------------------------------


def outcome(found: Published, *, reverted: bool = False) -> str:
    """What a publication did, in one sentence."""
    number, was = found.number, found.was
    if not found.changed:
        kept = "; its text is replaced, its content is the same" if found.rewritten else "; nothing changed"
        return f"{found.name}: revision {number} was published already{kept}"
    again = (
        f"{found.name}: revision {number} is published again, and revision {was} no more; a content keeps its number"
    )
    if reverted:
        return f"{again}, so no new revision was made"
    return again if was is not None and number < was else f"{found.name}: revision {number} is published"


def import_line(found: Beginning, said: Checked) -> str:
    """What became of a file that was stored as a draft, in one sentence."""
    became = "has this text now, and undo brings back the one before" if found.replaced else "is your draft"
    wrong = len(said.errors)
    rest = f"{count(wrong, 'thing')} to mend before it can be published" if wrong else "it could be published"
    return f"{found.draft.name} {became}: {rest}"


def would(run: DryRun) -> Iterator[str]:
    """What a publication would do."""
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
        yield f"{found.name}: somebody else has to agree to it: ask with --request"


def asked(found: ChangeView) -> str:
    """That a second person was asked for, in one sentence."""
    return f"{found.name}: request {found.id} waits for somebody else who approves it; nothing is published yet"


def request_line(found: ChangeView) -> str:
    """A change request on one line."""
    over = f"over revision {found.base}" if found.base else "not published before"
    made = f" as revision {found.published}" if found.published else ""
    by = f" by {found.decided_by}" if found.decided_by else ""
    why = f": {_cut(found.reason)}" if found.reason else ""
    said = f"  {_cut(found.message)}" if found.message else ""
    return f"{found.id}  {found.name}  {over}  by {found.author}  {found.state}{made}{by}{why}{said}"


def change(one: Change) -> str:
    """One difference on one line."""
    between = " -> ".join(_cut(" ".join(value.split())) for value in (one.before, one.after) if value)
    moved = " (in another order)" if one.kind == "moved" else ""
    return f"  {MARKS[one.kind]} {one.path}{moved}: {between or 'empty'}"


def _cut(text: str) -> str:
    return text if len(text) <= LINE_CHARS else f"{text[: LINE_CHARS - 1]}…"


def lint_lines(found: Lint) -> Iterator[str]:
    """Everything that was found, and whether it could be published."""
    for kind, places in (("error", found.problems), ("warning", found.warnings)):
        yield from (f"{kind}: {place}" for place in places)
    yield from (f"deviation: {one.place} ({one.reason})" for one in found.deviations)
    counted = ", ".join(
        count(len(many), what)
        for what, many in (("error", found.problems), ("warning", found.warnings), ("deviation", found.deviations))
        if many
    )
    verdict = "can be published" if found.publishable else "cannot be published"
    yield f"{found.origin}: {verdict}" + (f" ({counted})" if counted else "")


# -- JSON --------------------------------------------------------------------------------------------------------------


def listed(view: FabricView) -> JSON:
    """A published fabric."""
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


def shown(page: RevisionPage, revisions: list[RevisionView]) -> JSON:
    """One revision of a fabric, and which there are."""
    return {
        **listed(page.fabric),
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
                "current": one.current,
            }
            for one in revisions
        ],
    }


def published(found: Published) -> JSON:
    """A publication."""
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


def dry(run: DryRun) -> JSON:
    """A publication that was not one."""
    return {
        **published(run.published),
        "dry_run": True,
        "new": run.new,
        "second_person": bool(run.second),
        "changes": [*map(_change, run.changes)],
    }


def request(found: ChangeView) -> JSON:
    """A change request."""
    return {
        "id": found.id,
        "name": found.name,
        "author": found.author,
        "base": found.base,
        "digest": found.digest,
        "message": found.message,
        "state": found.state.value,
        "opened_at": found.opened_at.isoformat(),
        "decided_at": found.decided_at.isoformat() if found.decided_at else None,
        "decided_by": found.decided_by,
        "reason": found.reason,
        "number": found.published,
    }


def compared(found: Comparison, text: str | None) -> JSON:
    """How two fabrics differ."""
    sides = {"from": found.before.called, "to": found.after.called, "same": found.same}
    return {**sides, "changes": [*map(_change, found.changes)], **({} if text is None else {"text": text})}


def linted(found: Lint) -> JSON:
    """Everything that was found."""
    return {
        "file": found.origin,
        "name": found.name or None,
        "publishable": found.publishable,
        "problems": [*map(_place, found.problems)],
        "warnings": [*map(_place, found.warnings)],
        "deviations": [{**_place(one.place), "reason": one.reason} for one in found.deviations],
    }


def _place(one: Placed) -> JSON:
    return {"path": one.path, "line": one.line, "column": one.column, "sentence": one.sentence}


def _change(one: Change) -> JSON:
    return {"path": one.path, "kind": one.kind, "before": one.before, "after": one.after}


def imported(found: Beginning, said: Checked) -> JSON:
    """A file that was stored as a draft."""
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
