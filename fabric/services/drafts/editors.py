"""Lists members who have a fabric's editor open. The page's heartbeat enters them; they leave when it stops or the page
closes.
"""

from __future__ import annotations

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.core.values.units import US
from fabric.models import FabricEditor
from fabric.selectors.database_time import StoreNow
from fabric.selectors.drafts.lookup import EDITOR_S, Editor, draft_get, list_editors
from fabric.selectors.reach import match_visible
from fabric.services.drafts.changes import EDITING
from fabric.services.rights import right_wanted

PART_CHARS_MAX = 40
PAGE_CHARS_MAX = 40


def editor_beat(*, actor: Actor, fabric: str, part: str, page: str = "") -> tuple[Editor, ...]:
    """Record that the actor looks at a part of their draft. Return the other members with that fabric's editor open.

    ``page``: the window's own key. Raises Refused forbidden, not_found.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    draft = draft_get(actor, fabric)
    row = FabricEditor(
        workspace_id=actor.workspace_id,
        fabric=draft.name,
        name=actor.name,
        part=clean_text(part)[0][:PART_CHARS_MAX],
        page=_key(page),
        seen_at=StoreNow(),
    )
    FabricEditor.objects.bulk_create(
        [row],
        update_conflicts=True,
        unique_fields=["workspace", "fabric", "name", "page"],
        update_fields=["part", "seen_at"],
    )
    # A statement each, and no transaction: two pages that forget one another would wait for each other.
    rows = FabricEditor.objects.filter(match_visible(actor, FabricEditor))
    rows.filter(seen_at__lt=StoreNow() - EDITOR_S * US).delete()
    return list_editors(actor, draft.name)


def editor_gone(*, actor: Actor, fabric: str, page: str = "") -> None:
    """Remove one closed window of the actor's editor; their other windows stay. Raises Refused forbidden."""
    right_wanted(actor, Right.EDIT, EDITING)
    rows = FabricEditor.objects.filter(
        match_visible(actor, FabricEditor), fabric=clean_text(fabric)[0], name=actor.name
    )
    rows.filter(page=_key(page)).delete()


def _key(page: str) -> str:
    return clean_text(page)[0][:PAGE_CHARS_MAX]
