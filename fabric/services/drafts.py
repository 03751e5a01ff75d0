"""Drafts: a fabric's text while its author writes it. Every change is a step that can be undone; nothing that was saved is lost by a later save.

A page names the step that it showed. Where the draft has gone on since, what the page sends is merged by path (``draft_merging``); what both
changed is asked, never overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.db import IntegrityError, transaction

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.roles import Right
from fabric.core.text import clean_text
from fabric.models import ChangeRequest, Draft, DraftStep, Revision
from fabric.selectors.change_requests import ChangeState
from fabric.selectors.drafts import DraftView, draft_get, draft_view
from fabric.selectors.fabrics import revision_get
from fabric.selectors.reach import seen_by
from fabric.services.audit import audit_record
from fabric.services.draft_merging import Answer, Choices, merged_edits, merged_text
from fabric.services.errors import Refused
from fabric.services.fabric_text import exported
from fabric.services.holds import unheld_wanted
from fabric.services.notification_changes import change_ended
from fabric.services.rights import right_wanted
from fabric.services.yaml_edit import Edit, EditProblem, text_edited
from fabric.services.yaml_tree import BYTES_MAX, YamlProblem

STEPS_MAX = 200
"""Steps that are kept of one draft, those that were passed over among them."""
FOLD_S = 60
"""Changes of one place by one page that follow each other within so many seconds are undone together."""
ATTEMPTS = 5
NAME_CHARS_MAX = 63
_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{NAME_CHARS_MAX - 1}}}")
EDITING = "change fabrics"
"""What the right to edit is asked for, in words."""


def draft_begin(*, actor: Actor, name: str, text: str, base_id: str | None = None) -> DraftView:
    """Begins a draft with a text, which may be anything: what is wrong with it is said, not refused.

    ``base_id``: the revision that it changes. Raises Refused forbidden; too_large; invalid for a name that none can have; conflict where the
    actor has a draft of that fabric already.
    """
    named = name_wanted(name)
    right_wanted(actor.at(named), Right.EDIT, EDITING)
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
        message = f"{actor.name} has a draft of {named!r} already: go on with it, or discard it first"
        raise Refused(message, code="conflict", field="name") from None
    return draft_view(row)


def draft_of_fabric(*, actor: Actor, name: str) -> DraftView:
    """The actor's draft of a published fabric: the one that there is, or a new one that begins with what is published.

    Raises Refused forbidden, and not_found where no such fabric is published and there is no draft either.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    if Draft.objects.filter(seen_by(actor, Draft), name=clean_text(name)[0], author=actor.name).exists():
        return draft_get(actor, name)
    found = revision_get(actor, name)
    return draft_begin(actor=actor, name=found.fabric.name, text=exported(found), base_id=found.fabric.revision_id)


def draft_own(*, actor: Actor, name: str) -> DraftView:
    """The actor's own draft, to be changed. Raises Refused forbidden and not_found."""
    right_wanted(actor, Right.EDIT, EDITING)
    return draft_get(actor, name)


def draft_shown(*, actor: Actor, name: str, step: int) -> str:
    """The text that a page showed which names this step. Raises Refused forbidden, not_found, and conflict where the step is not kept any more."""
    right_wanted(actor, Right.EDIT, EDITING)
    return _shown(_row(actor, name), step)


def draft_known(*, actor: Actor, name: str, step: int, page: str) -> tuple[int, str]:
    """The newest step that a page knows which shows ``step``, and its text: the present one where all since is the page's own.

    Raises as ``draft_shown``.
    """
    right_wanted(actor, Right.EDIT, EDITING)
    draft = _row(actor, name)
    return (draft.at, draft.text) if _shows(draft, step, page) else (step, _shown(draft, step))


def draft_change(
    *,
    actor: Actor,
    name: str,
    step: int,
    edits: Sequence[Edit],
    what: str,
    page: str = "",
    place: str = "",
    choices: Choices | None = None,
    answered: int | None = None,
) -> DraftView:
    """Changes paths of a draft. ``step``: what the page had shown; ``what``: the change in a few words; ``page``: the page's own key.

    ``place``: what is changed, where it is one field: what a page sends of it in a row is one step. ``choices``: which is to stand where two
    changed the same, by path; ``answered``: the step whose text the question showed as the others', without it the present one. What they
    changed again since is asked anew. Raises Refused forbidden, not_found, invalid for a path that is not there, conflict where the text is no YAML or the page's step is too old, and ``DraftConflict`` where
    somebody has changed the same since.
    """

    def changed(draft: Draft) -> str:
        if _shows(draft, step, page):
            return text_edited(draft.text, edits)
        return merged_edits(_shown(draft, step), draft.text, edits, _answer(draft, choices, answered))

    return _save(actor, name, changed, what=what, page=page, place=place)


def draft_replace(
    *,
    actor: Actor,
    name: str,
    step: int,
    text: str,
    what: str = "the text",
    page: str = "",
    choices: Choices | None = None,
    answered: int | None = None,
) -> DraftView:
    """Replaces a draft's text, by whatever it is: what cannot be read is kept and said. ``what``: the change in a few words. Raises as ``draft_change``, and Refused too_large."""
    whole(text)

    def changed(draft: Draft) -> str:
        if _shows(draft, step, page):
            return text
        return merged_text(_shown(draft, step), draft.text, text, _answer(draft, choices, answered))

    return _save(actor, name, changed, what=what, page=page, place="text")


def draft_undo(*, actor: Actor, name: str, step: int, page: str = "") -> DraftView:
    """Goes back before the last change. Raises Refused conflict where there is none, or somebody else than the ``page`` has moved the draft on since ``step``."""
    return _moved(actor, name, step, page, back=True)


def draft_redo(*, actor: Actor, name: str, step: int, page: str = "") -> DraftView:
    """Brings back what was undone last. Raises as ``draft_undo``."""
    return _moved(actor, name, step, page, back=False)


def draft_rebase(*, actor: Actor, name: str, step: int, text: str, base_id: str, base_text: str) -> DraftView:
    """Gives a draft another beginning, and the text that follows from it; undoing goes back no further. Raises Refused forbidden, not_found, conflict where it went on since."""
    right_wanted(actor, Right.EDIT, EDITING)
    whole(text)
    try:
        with transaction.atomic():
            draft = _row(actor, name)
            _unmoved(draft, step)
            number = Revision.objects.values_list("number", flat=True).get(id=base_id)
            _void(actor, draft, _CHANGED)
            _put(draft, text, what=f"r{number} was brought in", page="", place="")
            # Undone past this, the draft would take back what was brought in, and be published over it unasked.
            DraftStep.objects.filter(draft_id=draft.id, number__lte=draft.at).update(folded=True)
            Draft.objects.filter(id=draft.id).update(base_id=base_id, base_text=base_text)
    except _Raced:
        raise Refused(GONE_ON, code="conflict", field="step") from None
    return draft_get(actor, name)


def draft_discard(*, actor: Actor, name: str, step: int) -> None:
    """Throws a draft away. Raises Refused forbidden, not_found, conflict where it has gone on since ``step``."""
    right_wanted(actor, Right.EDIT, EDITING)
    with transaction.atomic():
        draft = _row(actor, name)
        unheld_wanted(actor, draft.name, "thrown away")
        _unmoved(draft, step)
        _void(actor, draft, "the draft was discarded")
        draft_remove(draft)
        audit_record(actor=actor, act=Act.DRAFT_DISCARDED, subject=draft.name)


_CHANGED = "the draft was changed"


def _void(actor: Actor, draft: Draft, why: str) -> None:
    """Nobody can agree to a draft's text any more once it is another: its request is voided, within the caller's transaction."""
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
                    _void(actor, draft, _CHANGED)
                    _put(draft, text, what=what, page=page, place=place)
        except _Raced:
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


class _Raced(Exception):
    """Somebody changed the row between reading and writing."""


def _put(draft: Draft, text: str, *, what: str, page: str, place: str) -> None:
    """Makes a new step, the only one after the present; what was undone stays for pages that show it. Raises _Raced."""
    now, number = datetime.now(UTC), draft.last + 1
    rows = Draft.objects.filter(id=draft.id, last=draft.last, at=draft.at)
    if not rows.update(text=text, at=number, last=number, changed_at=now):
        raise _Raced
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


def _moved(actor: Actor, name: str, step: int, page: str, *, back: bool) -> DraftView:
    right_wanted(actor, Right.EDIT, EDITING)
    for _ in range(ATTEMPTS):
        with suppress(_Raced), transaction.atomic():
            _move(actor, _row(actor, name), step, page, back=back)
            break
    else:
        raise Refused(GONE_ON, code="conflict", field="step")
    return draft_get(actor, name)


def _move(actor: Actor, draft: Draft, step: int, page: str, *, back: bool) -> None:
    """Makes the step before the present one, or the one after it, the present one. Raises Refused conflict, _Raced."""
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
        raise _Raced
    _void(actor, draft, _CHANGED)


GONE_ON = "the draft has gone on since this page was loaded: load it again, and look at what changed"


def _unmoved(draft: Draft, step: int) -> None:
    if draft.at != step:
        raise Refused(GONE_ON, code="conflict", field="step")


def _shows(draft: Draft, step: int, page: str) -> bool:
    """Whether a page that showed ``step`` knows the present text: it is that step's, or all since is the page's own."""
    return step == draft.at or (step < draft.at and _own(draft, step, page))


def _own(draft: Draft, step: int, page: str) -> bool:
    """Whether all between a step and the present one, before it or after, is a page's own."""
    since = DraftStep.objects.filter(draft_id=draft.id, number__gt=min(step, draft.at), number__lte=max(step, draft.at))
    pages = {made.partition("/")[0] for made in since.values_list("page", flat=True)}
    return bool(page) and pages == {page}


def _shown(draft: Draft, step: int) -> str:
    """The text that a page showed. Raises Refused conflict where it is not kept any more."""
    if step == draft.at:
        return draft.text
    found = DraftStep.objects.filter(draft_id=draft.id, number=step).values_list("text", flat=True).first()
    if found is None:
        raise Refused(GONE_ON, code="conflict", field="step")
    return found


def _answer(draft: Draft, choices: Choices | None, answered: int | None) -> Answer | None:
    if not choices:
        return None
    return Answer(choices, draft.text if answered is None else _shown(draft, answered))


def _row(actor: Actor, name: str) -> Draft:
    found = Draft.objects.filter(seen_by(actor, Draft), name=clean_text(name)[0], author=actor.name).first()
    if found is None:
        draft_get(actor, name)  # Says so.
        raise AssertionError("the draft was not there, and then it was")
    return found


def is_name(name: str) -> bool:
    """Whether a fabric can have that name."""
    return _NAME.fullmatch(name) is not None


def name_wanted(name: str) -> str:
    """A name as it is kept. Raises Refused invalid for one that no fabric can have."""
    named = clean_text(name)[0].strip()
    if not is_name(named):
        message = f"{name[:80]!r} is no name of a fabric: use lower-case letters, digits, - and _, a letter first, {NAME_CHARS_MAX} at most"
        raise Refused(message, code="invalid", field="name")
    return named


def whole(text: str) -> None:
    """Raises Refused too_large or invalid for what is no text that can be kept."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > BYTES_MAX:
        message = f"the text has {size:,} bytes; at most {BYTES_MAX:,} are taken: make it shorter; what was saved before is kept"
        raise Refused(message, code="too_large", field="text")
    if clean_text(text)[1]:
        message = "the text holds NUL characters or broken Unicode: take them out; what was saved before is kept"
        raise Refused(message, code="invalid", field="text")
