"""The published revisions of a fabric."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fabric.core.actor import Actor
from fabric.models import Revision
from fabric.selectors.fabrics import FabricView, fabric_get
from fabric.selectors.reach import seen_by

REVISIONS_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionView:
    """One published version."""

    id: str
    number: int
    digest: str
    published_at: datetime
    published_by: str
    current: bool
    """Whether a new run pins it."""


def fabric_revisions(actor: Actor, name: str) -> tuple[FabricView, list[RevisionView]]:
    """A published fabric and its revisions, the newest first; at most 200. Refused not_found."""
    view = fabric_get(actor, name)
    rows = Revision.objects.filter(seen_by(actor, Revision), fabric_id=view.id).order_by("-number")
    columns = ("id", "number", "digest", "published_at", "published_by")
    found = rows.values(*columns)[:REVISIONS_MAX]
    return view, [RevisionView(**row, current=row["id"] == view.revision_id) for row in found]
