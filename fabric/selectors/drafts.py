"""Drafts of fabrics, and who has an editor open."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fabric.core.actor import Actor
from fabric.core.text import clean_text
from fabric.models import Draft, DraftStep, Fabric, FabricEditor
from fabric.selectors.errors import Refused
from fabric.selectors.reach import seen_by
from fabric.selectors.store_time import StoreNow

EDITOR_S = 40
"""An editor whose page has not been heard of for so long is closed, seconds."""
EDITORS_MAX = 20
WINDOWS_MAX = 500
"""Open windows that are looked at for it."""
US = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftView:
    """One author's draft."""

    id: str
    name: str
    """The fabric's."""
    author: str
    step: int
    """Number of the step that it stands at: what a page sends back, so that what changed meanwhile is found out."""
    text: str
    base_text: str
    """What it began with."""
    base: int | None
    """Number of the revision that it changes; None: the fabric was not published when it began."""
    base_id: str | None
    published: int | None
    """Number of the revision that is published now; None: none is."""
    published_id: str | None
    changed_at: datetime

    @property
    def moved(self) -> bool:
        """Whether another revision was published since it began."""
        return self.published_id is not None and self.published_id != self.base_id


@dataclass(frozen=True, slots=True)
class DraftLine:
    """A draft in a list."""

    name: str
    author: str
    changed_at: datetime

    @property
    def saved_at(self) -> int:
        """The same instant in microseconds since the epoch."""
        return int(self.changed_at.timestamp() * US)


@dataclass(frozen=True, slots=True)
class StepView:
    """One change of a draft."""

    number: int
    what: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Editor:
    """Somebody who has the editor of a fabric open."""

    name: str
    part: str


def draft_get(actor: Actor, name: str) -> DraftView:
    """The actor's own draft of a fabric. Raises Refused not_found."""
    row = Draft.objects.filter(seen_by(actor, Draft), name=clean_text(name)[0], author=actor.name).first()
    if row is None:
        message = f"{actor.name} has no draft of a fabric {name[:80]!r}: begin one on the fabric's page, or with manage.py fabric import"
        raise Refused(message, code="not_found", field="draft")
    return draft_view(row)


def draft_view(row: Draft) -> DraftView:
    """A row as a view, with what is published now. One statement."""
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
    """All drafts of the workspace, the actor's own first, then by fabric."""
    rows = Draft.objects.filter(seen_by(actor, Draft)).order_by("name", "author")
    found = [DraftLine(*row) for row in rows.values_list("name", "author", "changed_at")]
    return sorted(found, key=lambda line: line.author != actor.name)


def drafts_by_fabric(actor: Actor) -> dict[str, list[DraftLine]]:
    """The same by fabric, its names in order; of each the actor's own first. One statement."""
    found: dict[str, list[DraftLine]] = {}
    for line in sorted(drafts_list(actor), key=lambda line: line.name):
        found.setdefault(line.name, []).append(line)
    return found


def drafts_of(actor: Actor, fabric: str) -> list[DraftLine]:
    """Drafts of one fabric by author, whosever they are. One statement."""
    rows = Draft.objects.filter(seen_by(actor, Draft), name=clean_text(fabric)[0]).order_by("author")
    return [DraftLine(*row) for row in rows.values_list("name", "author", "changed_at")]


def steps_around(draft: DraftView) -> tuple[StepView | None, StepView | None]:
    """What undoing would take back, and what redoing would bring back; None: there is nothing."""
    rows = DraftStep.objects.filter(draft_id=draft.id, folded=False)
    here = rows.filter(number=draft.step).values_list("number", "what", "at").first()
    before = rows.filter(number__lt=draft.step).exists()
    after = rows.filter(number__gt=draft.step).order_by("number").values_list("number", "what", "at").first()
    return (StepView(*here) if here and before else None), (StepView(*after) if after else None)


def editors_of(actor: Actor, fabric: str) -> tuple[Editor, ...]:
    """The others who have that fabric's editor open, by name and each once, with the part that they looked at last; at most 20."""
    rows = FabricEditor.objects.filter(seen_by(actor, FabricEditor), fabric=clean_text(fabric)[0])
    seen = rows.filter(seen_at__gt=StoreNow() - EDITOR_S * US).exclude(name=actor.name)
    parts = dict(seen.order_by("name", "seen_at").values_list("name", "part")[:WINDOWS_MAX])
    return tuple(Editor(*one) for one in list(parts.items())[:EDITORS_MAX])
