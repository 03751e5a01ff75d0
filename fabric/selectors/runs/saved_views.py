"""Read saved views of the list of runs, and the columns that a member sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Q

from fabric.core.people.actor import Actor
from fabric.models import ColumnChoice, SavedView

VIEWS_MAX = 50
"""Largest number of views of one member."""
SHARED_MAX = 200
"""Largest number of shared views that a list of them shows."""
COLUMNS: tuple[str, ...] = ("state", "fabric", "stages", "when", "cost", "tokens", "protections")
"""Columns that can be left out, in their order. The run itself is always shown."""


@dataclass(frozen=True, slots=True)
class RunsView:
    """A saved view."""

    id: str
    name: str
    owner: str
    query: str
    sort: str
    """Order as an address has it; empty: the newest first."""
    columns: tuple[str, ...]
    """Shown columns; empty: as each reader chose."""
    shared: bool


def list_saved_views(actor: Actor) -> list[RunsView]:
    """Return the member's own views, then those that others share, each in alphabetical order.

    A member who does not see all fabrics gets no shared views, since their queries may name the others.
    """
    seen = Q(owner=actor.name) if actor.narrow else Q(owner=actor.name) | Q(shared=True)
    rows = SavedView.objects.filter(seen, workspace_id=actor.workspace_id).order_by("folded", "id")
    found = [make_view(row) for row in rows[: VIEWS_MAX + SHARED_MAX]]
    return sorted(found, key=lambda view: view.owner != actor.name)


def list_chosen_columns(actor: Actor) -> frozenset[str]:
    """Return the columns that the member chose for the list of runs; without a choice, all of them."""
    chosen = ColumnChoice.objects.filter(workspace_id=actor.workspace_id, owner=actor.name)
    text = chosen.values_list("columns", flat=True).first()
    return frozenset(COLUMNS) if text is None else frozenset(keep_columns(text.split(",")))


def keep_columns(names: Iterable[str]) -> tuple[str, ...]:
    """Return the known ones of some columns, in their order: one that was removed since is left out."""
    given = set(names)
    return tuple(name for name in COLUMNS if name in given)


def make_view(row: SavedView) -> RunsView:
    """Return a view's row as a value."""
    columns = keep_columns(row.columns.split(","))
    return RunsView(row.id, row.name, row.owner, row.query, row.sort, columns, row.shared)
