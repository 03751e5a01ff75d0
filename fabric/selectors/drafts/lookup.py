"""Drafts of fabrics, and the members with an open editor."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fabric.core.people.actor import Actor
from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.models import Draft, DraftStep, Fabric, FabricEditor
from fabric.program.name import program
from fabric.selectors.database_time import StoreNow
from fabric.selectors.errors import Refused
from fabric.selectors.reach import match_visible

EDITOR_S = 40
"""Seconds without a heartbeat after which an editor counts as closed."""
EDITORS_MAX = 20
WINDOWS_MAX = 500
"""Largest number of open windows that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftView:
    """One author's draft."""

    id: str
    name: str
    """Name of the fabric."""
    author: str
    step: int
    """Number of the present step: a page sends it back, so that changes made meanwhile are detected."""
    text: str
    base_text: str
    """Text that it began with."""
    base: int | None
    """Number of the revision that it changes; None: the fabric was not published at its beginning."""
    base_id: str | None
    published: int | None
    """Number of the published revision; None: there is none."""
    published_id: str | None
    changed_at: datetime

    @property
    def moved(self) -> bool:
        """Return True if another revision was published since the draft began."""
        return self.published_id is not None and self.published_id != self.base_id


@dataclass(frozen=True, slots=True)
class DraftLine:
    """A draft in a list."""

    name: str
    author: str
    changed_at: datetime

    @property
    def saved_at(self) -> int:
        """Return the instant in microseconds since the epoch."""
        return int(self.changed_at.timestamp() * US)


@dataclass(frozen=True, slots=True)
class StepView:
    """One change of a draft."""

    number: int
    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Editor:
    """A member who has the editor of a fabric open."""

    name: str
    part: str


def draft_get(actor: Actor, name: str) -> DraftView:
    """Return the actor's own draft of a fabric. Raises Refused not_found."""
    row = Draft.objects.filter(match_visible(actor, Draft), name=clean_text(name)[0], author=actor.name).first()
    if row is None:
        message = f"{actor.name} has no draft of a fabric {name[:80]!r}: begin one on the fabric's page, or with {program()} fabric import"
        raise Refused(message, code="not_found", field="draft")
    return draft_view(row)


def draft_view(row: Draft) -> DraftView:
    """Return a row as a view, with the published revision. One statement."""
    fabric = Fabric.objects.filter(workspace_id=row.workspace_id, name=row.name)
    published = fabric.values_list("published_id", "published__number").first() or (None, None)
    base = row.base
    return DraftView(
        id=row.id,
        name=row.name,
        author=row.author,
        step=row.at,
        text=row.text,
        base_text=row.base_text,
        base=base.number if base else None,
        base_id=row.base_id,
        published=published[1],
        published_id=published[0],
        changed_at=row.changed_at,
    )


def drafts_list(actor: Actor) -> list[DraftLine]:
    """Return all drafts of the workspace, the actor's own first, then by fabric."""
    rows = Draft.objects.filter(match_visible(actor, Draft)).order_by("name", "author")
    found = [DraftLine(*row) for row in rows.values_list("name", "author", "changed_at")]
    return sorted(found, key=lambda line: line.author != actor.name)


def drafts_by_fabric(actor: Actor) -> dict[str, list[DraftLine]]:
    """Return the drafts by fabric, with the names in order and the actor's own first. One statement."""
    found: dict[str, list[DraftLine]] = {}
    for line in sorted(drafts_list(actor), key=lambda line: line.name):
        found.setdefault(line.name, []).append(line)
    return found


def list_drafts(actor: Actor, fabric: str) -> list[DraftLine]:
    """Return the drafts of one fabric by author. One statement."""
    rows = Draft.objects.filter(match_visible(actor, Draft), name=clean_text(fabric)[0]).order_by("author")
    return [DraftLine(*row) for row in rows.values_list("name", "author", "changed_at")]


def steps_around(draft: DraftView) -> tuple[StepView | None, StepView | None]:
    """Return the steps that undoing and redoing would change; None: there is nothing."""
    rows = DraftStep.objects.filter(draft_id=draft.id, folded=False)
    here = rows.filter(number=draft.step).values_list("number", "what", "at").first()
    before = rows.filter(number__lt=draft.step).exists()
    after = rows.filter(number__gt=draft.step).order_by("number").values_list("number", "what", "at").first()
    return (StepView(*here) if here and before else None), (StepView(*after) if after else None)


def list_editors(actor: Actor, fabric: str) -> tuple[Editor, ...]:
    """Return the other members with that fabric's editor open, by name and with their last part. At most 20."""
    rows = FabricEditor.objects.filter(match_visible(actor, FabricEditor), fabric=clean_text(fabric)[0])
    seen = rows.filter(seen_at__gt=StoreNow() - EDITOR_S * US).exclude(name=actor.name)
    parts = dict(seen.order_by("name", "seen_at").values_list("name", "part")[:WINDOWS_MAX])
    return tuple(Editor(*one) for one in list(parts.items())[:EDITORS_MAX])
