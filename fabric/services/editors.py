"""Who has a fabric's editor open: told by its page's sign of life, and forgotten when that stops or the page says that it closes."""

from __future__ import annotations

from fabric.core.actor import Actor
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.models import FabricEditor
from fabric.selectors.drafts import EDITOR_S, US, Editor, draft_get, editors_of
from fabric.selectors.reach import seen_by
from fabric.selectors.store_time import StoreNow
from fabric.services.drafts import EDITING
from fabric.services.rights import right_wanted

PART_CHARS_MAX = 40
PAGE_CHARS_MAX = 40


def editor_beat(*, actor: Actor, fabric: str, part: str, page: str = "") -> tuple[Editor, ...]:
    """Notes that the actor looks at a part of their draft, and says who else has that fabric's editor open. ``page``: the window's own key. Raises Refused forbidden, not_found."""
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
    rows = FabricEditor.objects.filter(seen_by(actor, FabricEditor))
    rows.filter(seen_at__lt=StoreNow() - EDITOR_S * US).delete()
    return editors_of(actor, draft.name)


def editor_gone(*, actor: Actor, fabric: str, page: str = "") -> None:
    """Forgets one window in which the actor had the editor open: it has closed. Those that they have open besides stay. Raises Refused forbidden."""
    right_wanted(actor, Right.EDIT, EDITING)
    rows = FabricEditor.objects.filter(seen_by(actor, FabricEditor), fabric=clean_text(fabric)[0], name=actor.name)
    rows.filter(page=_key(page)).delete()


def _key(page: str) -> str:
    return clean_text(page)[0][:PAGE_CHARS_MAX]
