"""Saves, renames and deletes views of the list of runs, and stores the columns that a member chose."""

from __future__ import annotations

import time
from collections.abc import Iterable

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.models import ColumnChoice, SavedView
from fabric.selectors.runs.query.choices import read_query
from fabric.selectors.runs.query.list_pages import fabric_ids
from fabric.selectors.runs.query.orders import NEWEST, read_order
from fabric.selectors.runs.saved_views import VIEWS_MAX, RunsView, keep_columns, make_view
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.rights import right_wanted

NAME_CHARS_MAX = 40


def view_save(
    *,
    actor: Actor,
    name: str,
    query: str = "",
    sort: str = "",
    columns: Iterable[str] = (),
    shared: bool = False,
) -> RunsView:
    """Save a query, an order and columns under a name. ``columns``: none given, as each reader chose.

    Raises Refused: invalid (name, query, sort), conflict (the name is taken, too many views), forbidden (to share).
    """
    if shared:
        right_wanted(actor, Right.EDIT, "share views")
    called, now = _read_name(name), time.time_ns() // 1_000
    asked = read_query(query, now=now, fabrics=tuple(fabric_ids(actor)))
    order = read_order(sort, asked)
    mine = SavedView.objects.filter(workspace_id=actor.workspace_id, owner=actor.name)
    if mine.count() >= VIEWS_MAX:
        message = f"you have {VIEWS_MAX} saved views, which is the most: delete one first"
        raise Refused(message, code="conflict", field="name")
    row = SavedView(
        workspace_id=actor.workspace_id,
        owner=actor.name,
        name=called,
        folded=called.casefold(),
        query=asked.text,
        sort="" if order == NEWEST else order.name,
        columns=",".join(keep_columns(columns)),
        shared=shared,
        created_at=now,
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            audit_record(actor=actor, act=Act.VIEW_SAVED, subject=row.id, shared=shared)
    except IntegrityError:
        raise _refuse_taken(called) from None
    return make_view(row)


def view_rename(*, actor: Actor, view_id: str, name: str) -> RunsView:
    """Rename a view. Its owner may, and who manages members may rename a shared one.

    Raises Refused: not_found, forbidden, invalid (name), conflict (the name is taken).
    """
    row, called = _find_own(actor, view_id, "rename"), _read_name(name)
    row.name, row.folded = called, called.casefold()
    try:
        with transaction.atomic():
            row.save(update_fields=["name", "folded"])
            audit_record(actor=actor, act=Act.VIEW_RENAMED, subject=row.id)
    except IntegrityError:
        raise _refuse_taken(called) from None
    return make_view(row)


def view_delete(*, actor: Actor, view_id: str) -> None:
    """Delete a view. Raises Refused as ``view_rename``."""
    row = _find_own(actor, view_id, "delete")
    with transaction.atomic():
        audit_record(actor=actor, act=Act.VIEW_DELETED, subject=row.id, shared=row.shared)
        row.delete()


def columns_set(*, actor: Actor, columns: Iterable[str]) -> None:
    """Store the columns that the member sees in the list of runs. Unknown ones are left out."""
    ColumnChoice.objects.update_or_create(
        workspace_id=actor.workspace_id, owner=actor.name, defaults={"columns": ",".join(keep_columns(columns))}
    )


def may_share(actor: Actor) -> bool:
    """Return True if an actor may share views with the workspace."""
    return actor.may(Right.EDIT)


def may_change(actor: Actor, view: RunsView) -> bool:
    """Return True if an actor may rename and delete a view that they see."""
    return view.owner == actor.name or (view.shared and actor.may(Right.MEMBERS))


def _find_own(actor: Actor, view_id: str, verb: str) -> SavedView:
    row = SavedView.objects.filter(workspace_id=actor.workspace_id, id=view_id).first()
    if row is None or (row.owner != actor.name and (not row.shared or actor.narrow)):
        raise Refused("there is no such view (any more)", code="not_found", field="view")
    if row.owner != actor.name:
        right_wanted(actor, Right.MEMBERS, f"{verb} views of others")
    return row


def _read_name(name: str) -> str:
    called = " ".join(clean_text(name)[0].split())
    if not called:
        raise Refused("a view needs a name: write one", code="invalid", field="name")
    if len(called) > NAME_CHARS_MAX:
        message = f"the name has {len(called)} characters; at most {NAME_CHARS_MAX} are taken: shorten it"
        raise Refused(message, code="invalid", field="name")
    return called


def _refuse_taken(name: str) -> Refused:
    return Refused(f"a view of yours is named {name!r} already; take another name", code="conflict", field="name")
