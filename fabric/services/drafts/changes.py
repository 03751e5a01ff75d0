"""Drafts: a fabric's text while its author writes it. Every change is a step that can be undone; no later save loses
an earlier one.

A page names the step that it showed. If the draft was changed since, and not by the page itself, the page's change is
refused. No value is overwritten that the page has not shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.text import clean_text
from fabric.models import ChangeRequest, Draft, DraftStep, Revision
from fabric.selectors.drafts.change_requests import ChangeState
from fabric.selectors.drafts.lookup import DraftView, draft_get, draft_view
from fabric.selectors.fabrics.lookup import revision_get
from fabric.selectors.reach import match_visible
from fabric.services.acts import audit_record
from fabric.services.audit.holds import unheld_wanted
from fabric.services.errors import Refused
from fabric.services.fabrics.yaml.edits import Edit, EditProblem, text_edited
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.fabrics.yaml.tree import BYTES_MAX, YamlProblem
from fabric.services.notifications.change_mail import change_ended
from fabric.services.rights import right_wanted

STEPS_MAX = 200
"""Largest number of stored steps of one draft, skipped ones included."""
FOLD_S = 60
"""Seconds within which successive changes of one place by one page are undone together."""
ATTEMPTS = 5
NAME_CHARS_MAX = 63
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}")
EDITING = "change fabrics"
"""The act that needs the right to edit, in words."""


def draft_begin(*, actor: Actor, name: str, text: str, base_id: str | None = None) -> DraftView:
    """Begin a draft with any text; its problems are shown, not refused.

    ``base_id``: the revision that it changes. Raises Refused forbidden; too_large; invalid for a name that no fabric
    can have; conflict where the actor has a draft of that fabric already.
    """
    named = name_wanted(name)
    right_wanted(actor.place_at(named), Right.EDIT, EDITING)
    whole(text)
    now = datetime.now(UTC)
    try:
        with transaction.atomic():
            row = Draft.objects.create(
                workspace_id=actor.workspace_id,
                name=named,
                author=actor.name,
                base_id=base_id,
                base_text=text,
                text=text,
                changed_at=now,
            )
            DraftStep.objects.create(draft=row, number=0, text=text, at=now)
    except IntegrityError:
        message = f"{actor.name} has a draft of {named!r} already: continue it, or discard it first"
        raise Refused(message, code="conflict", field="name") from None
    return draft_view(row)


def draft_of_fabric(*, actor: Actor, name: str) -> DraftView:
    """Return the actor's draft of a published fabric, or begin one with the published text.

    Raises Refused forbidden, and not_found where no such fabric is published and there is no draft either.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    if Draft.objects.filter(match_visible(actor, Draft), name=clean_text(name)[0], author=actor.name).exists():
        return draft_get(actor, name)
    found = revision_get(actor, name)
    return draft_begin(
        actor=actor, name=found.fabric.name, text=export_revision(found), base_id=found.fabric.revision_id
    )


def draft_own(*, actor: Actor, name: str) -> DraftView:
    """Return the actor's own draft, for a change. Raises Refused forbidden and not_found."""
    right_wanted(actor, Right.EDIT, EDITING)
    return draft_get(actor, name)


def draft_shown(*, actor: Actor, name: str, step: int) -> str:
    """Return the text of this step, as a page showed it. Raises Refused forbidden, not_found, and conflict for a
    step that is no longer stored.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    return _text_at_step(_row(actor, name), step)


def draft_known(*, actor: Actor, name: str, step: int, page: str) -> tuple[int, str]:
    """Return the newest step known to a page that shows ``step``, with its text. A page that made all later steps knows
    the present one.

    Raises as ``draft_shown``.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    draft = _row(actor, name)
    return (draft.at, draft.text) if _shows(draft, step, page) else (step, _text_at_step(draft, step))


def draft_change(
    *,
    actor: Actor,
    name: str,
    step: int,
    edits: Sequence[Edit],
    what: str,
    page: str = "",
    place: str = "",
) -> DraftView:
    """Change paths of a draft. ``step``: the step that the page showed; ``what``: the change in a few words;
    ``page``: the page's own key.

    ``place`` is the changed field, if it is one: successive changes of it by one page are one step. Raises Refused
    forbidden, not_found, invalid for an unknown path, conflict where the text is no YAML, and ``PageStale``.
    """

    def change_text(draft: Draft) -> str:
        _require_current_page(draft, step, page)
        return text_edited(draft.text, edits)

    return _save(actor, name, change_text, what=what, page=page, place=place)


def draft_replace(
    *,
    actor: Actor,
    name: str,
    step: int,
    text: str,
    what: str = "the text",
    page: str = "",
) -> DraftView:
    """Replace a draft's text by any text; a text that cannot be read is kept, and its problems are shown. ``what``:
    the change in a few words.

    Raises as ``draft_change``, and Refused too_large.
    """
    whole(text)

    def change_text(draft: Draft) -> str:
        _require_current_page(draft, step, page)
        if step > draft.at:  # The page's own changes were undone since, and its whole text would bring them back.
            raise PageStale
        return text

    return _save(actor, name, change_text, what=what, page=page, place="text")


def draft_undo(*, actor: Actor, name: str, step: int, page: str = "") -> DraftView:
    """Undo the last change. Raises Refused conflict where there is none, or where a page other than ``page`` has
    moved the draft on since ``step``.
    """
    return _move_to_step(actor, name, step, page, back=True)


def draft_redo(*, actor: Actor, name: str, step: int, page: str = "") -> DraftView:
    """Redo the last undone step. Raises as ``draft_undo``."""
    return _move_to_step(actor, name, step, page, back=False)


def draft_rebase(*, actor: Actor, name: str, step: int, text: str, base_id: str, base_text: str) -> DraftView:
    """Give a draft another beginning, and the text that follows from it; undoing goes back no further.

    Raises Refused forbidden, not_found, conflict where it moved on since.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    whole(text)
    try:
        with transaction.atomic():
            draft = _row(actor, name)
            _require_unmoved(draft, step)
            number = Revision.objects.values_list("number", flat=True).get(id=base_id)
            void_request(actor, draft, _CHANGED)
            _put(draft, text, what=f"r{number} was brought in", page="", place="")
            # Undone past this, the draft would take back what was brought in, and be published over it unasked.
            DraftStep.objects.filter(draft_id=draft.id, number__lte=draft.at).update(folded=True)
            Draft.objects.filter(id=draft.id).update(base_id=base_id, base_text=base_text)
    except _DraftRaced:
        raise Refused(GONE_ON, code="conflict", field="step") from None
    return draft_get(actor, name)


def draft_discard(*, actor: Actor, name: str, step: int) -> None:
    """Discard a draft. Raises Refused forbidden, not_found, conflict where it has moved on since ``step``."""
    right_wanted(actor, Right.EDIT, EDITING)
    with transaction.atomic():
        draft = _row(actor, name)
        unheld_wanted(actor, draft.name, "thrown away")
        _require_unmoved(draft, step)
        void_request(actor, draft, "the draft was discarded")
        draft_remove(draft)
        audit_record(actor=actor, act=Act.DRAFT_DISCARDED, subject=draft.name)


_CHANGED = "the draft was changed"


def void_request(actor: Actor, draft: Draft, why: str) -> None:
    """Void the request for a draft's text once the text changed, within the caller's transaction."""
    rows = ChangeRequest.objects.filter(workspace_id=draft.workspace_id, name=draft.name, author=draft.author)
    asked = rows.filter(state="open", text=draft.text).values_list("id", flat=True).first()
    if asked is not None and change_ended(actor=actor, request_id=asked, state=ChangeState.VOIDED, reason=why):
        audit_record(actor=actor, act=Act.CHANGE_VOIDED, subject=draft.name, request=asked)


def draft_remove(draft: Draft) -> None:
    """Deletes a draft's row, within the caller's transaction."""
    draft.delete()


# -- steps -------------------------------------------------------------------------------------------------------------


def _save(actor: Actor, name: str, changed: Callable[[Draft], str], *, what: str, page: str, place: str) -> DraftView:
    right_wanted(actor, Right.EDIT, EDITING)
    for _ in range(ATTEMPTS):
        try:
            with transaction.atomic():
                draft = _row(actor, name)
                text = changed(draft)
                whole(text)
                if text != draft.text:
                    void_request(actor, draft, _CHANGED)
                    _put(draft, text, what=what, page=page, place=place)
        except _DraftRaced:
            continue
        except YamlProblem as error:
            message = (
                f"the draft's text is no YAML just now ({error}): mend it in the YAML part, or undo the last change"
            )
            raise Refused(message, code="conflict", field="text") from None
        except EditProblem as error:
            raise Refused(str(error), code="invalid", field="path") from None
        return draft_get(actor, name)
    raise Refused(
        f"the draft of {name[:80]!r} is being changed by others: try again", code="unavailable", field="draft"
    )


class _DraftRaced(Exception):
    """Another transaction changed the row between reading and writing."""


def _put(draft: Draft, text: str, *, what: str, page: str, place: str) -> None:
    """Add a step, the only one after the present; undone steps stay for pages that show them. Raises _Raced."""
    now, number = datetime.now(UTC), draft.last + 1
    rows = Draft.objects.filter(id=draft.id, last=draft.last, at=draft.at)
    if not rows.update(text=text, at=number, last=number, changed_at=now):
        raise _DraftRaced
    steps = DraftStep.objects.filter(draft_id=draft.id)
    steps.filter(number__gt=draft.at).update(folded=True)
    here = f"{page}/{place}" if page and place else page
    fresh = {"draft_id": draft.id, "number": draft.at, "page": here, "at__gt": now - timedelta(seconds=FOLD_S)}
    if page and place:
        steps.filter(**fresh).update(folded=True)
    DraftStep.objects.create(draft=draft, number=number, text=text, what=what, page=here, at=now)
    kept = list(steps.order_by("-number").values_list("number", flat=True)[STEPS_MAX : STEPS_MAX + 1])
    if kept:
        steps.filter(number__lte=kept[0]).delete()


def _move_to_step(actor: Actor, name: str, step: int, page: str, *, back: bool) -> DraftView:
    right_wanted(actor, Right.EDIT, EDITING)
    for _ in range(ATTEMPTS):
        with suppress(_DraftRaced), transaction.atomic():
            _move(actor, _row(actor, name), step, page, back=back)
            break
    else:
        raise Refused(GONE_ON, code="conflict", field="step")
    return draft_get(actor, name)


def _move(actor: Actor, draft: Draft, step: int, page: str, *, back: bool) -> None:
    """Make an adjacent step the present one. Raises Refused conflict, _Raced."""
    steps = DraftStep.objects.filter(draft_id=draft.id, folded=False)
    known = step == draft.at or _own(draft, step, page)
    # Where all since has been going back, going back once more is what is meant, by whichever page.
    if not known and not (back and step > draft.at and steps.filter(number=step).exists()):
        raise Refused(GONE_ON, code="conflict", field="step")
    found = (
        steps.filter(number__lt=draft.at).order_by("-number")
        if back
        else steps.filter(number__gt=draft.at).order_by("number")
    ).first()
    if found is None:
        raise Refused(f"there is nothing to {'undo' if back else 'redo'}", code="conflict", field="step")
    rows = Draft.objects.filter(id=draft.id, at=draft.at, last=draft.last)
    if not rows.update(text=found.text, at=found.number, changed_at=datetime.now(UTC)):
        raise _DraftRaced
    void_request(actor, draft, _CHANGED)


class PageStale(Refused):
    """Raised where the draft was changed since the page was loaded, and not by the page itself. Nothing was saved."""

    def __init__(self) -> None:
        message = (
            "the draft was changed since this page was loaded, so nothing was saved: "
            "look at both values, then save yours or discard them"
        )
        super().__init__(message, code="conflict", field="step")


GONE_ON = "the draft changed since this page was loaded: reload it and look at the changes"


def _require_unmoved(draft: Draft, step: int) -> None:
    if draft.at != step:
        raise Refused(GONE_ON, code="conflict", field="step")


def _require_current_page(draft: Draft, step: int, page: str) -> None:
    """Raise PageStale where a page does not show what it would save over."""
    if not _shows(draft, step, page):
        raise PageStale


def _shows(draft: Draft, step: int, page: str) -> bool:
    """Return True if a page that showed ``step`` knows the present text. It is that step's text, or the page made all
    steps since.
    """
    return step == draft.at or _own(draft, step, page)


def _own(draft: Draft, step: int, page: str) -> bool:
    """Return True if one page made every step between ``step`` and the present one, before it or after."""
    since = DraftStep.objects.filter(draft_id=draft.id, number__gt=min(step, draft.at), number__lte=max(step, draft.at))
    pages = {made.partition("/")[0] for made in since.values_list("page", flat=True)}
    return bool(page) and pages == {page}


def _text_at_step(draft: Draft, step: int) -> str:
    """Return the text that a page showed. Raises Refused conflict where it is no longer stored."""
    if step == draft.at:
        return draft.text
    found = DraftStep.objects.filter(draft_id=draft.id, number=step).values_list("text", flat=True).first()
    if found is None:
        raise Refused(GONE_ON, code="conflict", field="step")
    return found


def _row(actor: Actor, name: str) -> Draft:
    found = Draft.objects.filter(match_visible(actor, Draft), name=clean_text(name)[0], author=actor.name).first()
    if found is None:
        draft_get(actor, name)  # Raises Refused.
        raise AssertionError("the draft was not there, and then it was")
    return found


def is_name(name: str) -> bool:
    """Return True if a fabric can have that name."""
    return _NAME.fullmatch(name) is not None


def name_wanted(name: str) -> str:
    """Return a name as it is stored. Raises Refused invalid for one that no fabric can have."""
    named = clean_text(name)[0].strip()
    if not is_name(named):
        message = f"{name[:80]!r} is no name of a fabric: use lower-case letters, digits, - and _, a letter first, {NAME_CHARS_MAX} at most"
        raise Refused(message, code="invalid", field="name")
    return named


def whole(text: str) -> None:
    """Raise Refused too_large or invalid for input that cannot be stored as text."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > BYTES_MAX:
        message = f"the text has {size:,} bytes; at most {BYTES_MAX:,} are taken: make it shorter; what was saved before is kept"
        raise Refused(message, code="too_large", field="text")
    if clean_text(text)[1]:
        message = "the text holds NUL characters or broken Unicode: take them out; what was saved before is kept"
        raise Refused(message, code="invalid", field="text")
