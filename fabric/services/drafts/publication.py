"""A draft becomes a revision: published by its author, or put to a second person where two have to agree."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.spec.fabric import FabricSpec
from fabric.core.values.words import duration
from fabric.models import Draft, Revision
from fabric.selectors.drafts.change_requests import ChangeView
from fabric.selectors.drafts.lookup import DraftView, draft_get
from fabric.selectors.fabrics.lookup import revision_get
from fabric.services.actors import find_people
from fabric.services.drafts.change_requests import change_request_open
from fabric.services.drafts.changes import GONE_ON, draft_rebase, draft_remove, void_request
from fabric.services.drafts.merges import BroughtIn, Choices, DraftConflict, brought_in
from fabric.services.drafts.scheduled import publication_schedule
from fabric.services.errors import Refused
from fabric.services.fabrics.checks import check_text
from fabric.services.fabrics.revisions import PublicationTerms, PublishedFabric, clean_message, fabric_publish_read
from fabric.services.fabrics.yaml.document import FabricSource, fabric_read
from fabric.services.fabrics.yaml.export import export_revision
from fabric.services.fabrics.yaml.tree import YamlProblem
from fabric.services.installation import facts as here
from fabric.services.rights import right_wanted

_PUBLISHING = "publish fabrics"


def draft_publish(
    *, actor: Actor, name: str, step: int, message: str = "", providers: Collection[str] = ()
) -> PublishedFabric:
    """Publish a draft, which ends it. ``step``: that of the page that showed the content; ``message``: reason for the
    change.

    Raises Refused: forbidden; not_found; invalid, with every problem in ``problems``; conflict in these cases:
    1. The draft has moved on since ``step``.
    2. Another revision was published since it began.
    3. Its content is the published one already.
    4. A second person has to approve.
    """
    right_wanted(actor, Right.EDIT, _PUBLISHING)
    draft = draft_get(actor, name)
    read = _ready(actor, draft, step, providers)
    terms = PublicationTerms(message=clean_message(message, "message"), also=partial(_delete_draft, actor, draft))
    return fabric_publish_read(actor=actor, read=read, providers=providers, expect=draft.base or 0, terms=terms)


def draft_request(
    *, actor: Actor, name: str, step: int, message: str = "", providers: Collection[str] = ()
) -> ChangeView:
    """Ask a second person to approve a draft. The draft stays; a change of it voids the request.

    Raises as ``draft_publish``, and conflict where no approval is needed.
    """
    right_wanted(actor, Right.EDIT, _PUBLISHING)
    draft = draft_get(actor, name)
    _ready(actor, draft, step, providers)
    return change_request_open(
        actor=actor,
        source=draft.text,
        origin=f"draft of {name}",
        message=message,
        providers=providers,
        expect=draft.base or 0,
    )


def draft_schedule(
    *, actor: Actor, name: str, step: int, publish_at: int, message: str = "", providers: Collection[str] = ()
) -> ChangeView:
    """Schedule the publication of a draft. The draft stays until then; a change of it voids the publication.

    Raises as ``draft_publish``, and invalid for a time that is past or too far away.
    """
    right_wanted(actor, Right.EDIT, _PUBLISHING)
    draft = draft_get(actor, name)
    _ready(actor, draft, step, providers)
    return publication_schedule(
        actor=actor,
        source=draft.text,
        publish_at=publish_at,
        origin=f"draft of {name}",
        message=message,
        providers=providers,
        expect=draft.base or 0,
    )


def _ready(actor: Actor, draft: DraftView, step: int, providers: Collection[str]) -> FabricSource:
    """Return the draft ready for publication. Raises Refused."""
    if draft.step != step:
        raise Refused(GONE_ON, code="conflict", field="step")
    if draft.moved or (draft.published_id is None and draft.base_id is not None):
        raise Refused(moved_words(actor, draft), code="conflict", field="base")
    found = check_text(
        draft.text,
        here.installation(
            providers, people=find_people(actor.workspace_id, draft.name), workspace_id=actor.workspace_id
        ),
        name=draft.name,
    )
    if found.errors:
        said = [one.sentence_with_place for one in found.errors]
        raise Refused(said[0], code="invalid", field=found.errors[0].path or "text", problems=tuple(said))
    read = fabric_read(draft.text, origin=f"draft of {draft.name}")
    if read.spec.digest() == _published_digest(draft):
        message = f"this draft has the content of r{draft.published}, which is published: change something, or discard the draft"
        raise Refused(message, code="conflict", field="draft")
    return read


def _published_digest(draft: DraftView) -> str:
    rows = Revision.objects.filter(id=draft.published_id or "")
    return rows.values_list("digest", flat=True).first() or ""


def moved_words(actor: Actor, draft: DraftView) -> str:
    """Return a sentence with the author and age of the revision that was published since the draft began."""
    row = (
        Revision.objects.filter(id=draft.published_id or "")
        .values_list("number", "published_by", "published_at")
        .first()
    )
    if row is None:
        return f"r{draft.base} is no longer published: discard the draft and start again"
    number, by, at = row
    if (
        draft.base is not None and number < draft.base
    ):  # An older revision has the time of its creation, not of its second publication.
        return f"r{number} was published again since this draft began: bring it in first"
    whom, ago = "you" if by == actor.name else by, duration(time.time() - at.timestamp())
    return f"r{number} was published by {whom} {ago} ago: bring it in first"


def _delete_draft(actor: Actor, draft: DraftView, _revision: Revision) -> None:
    """Delete the draft in the publishing transaction, if it is still the judged text."""
    rows = Draft.objects.filter(id=draft.id, at=draft.step, text=draft.text)
    if not rows.update(changed_at=datetime.now(UTC)):
        raise Refused(GONE_ON, code="conflict", field="step")
    for row in rows:
        void_request(actor, row, "its draft was published")
        draft_remove(row)


# -- later publications ------------------------------------------------------------------------------------------------


def draft_incoming(*, actor: Actor, name: str, choices: Choices | None = None) -> tuple[DraftView, BroughtIn]:
    """Return a draft with later publications merged in, and the conflicts. Nothing is saved.

    Raises Refused not_found; conflict where nothing was published since, where the draft's text is no YAML, and where
    a revision cannot be read.
    """
    draft = draft_get(actor, name)
    if not draft.moved:
        message = f"nothing was published since this draft of {draft.name} began: there is nothing to bring in"
        raise Refused(message, code="conflict", field="base")
    base = _spec(actor, draft, draft.base)
    published = _spec(actor, draft, draft.published)
    assert published is not None
    try:
        found = brought_in(base_text=draft.base_text, text=draft.text, base=base, published=published, choices=choices)
    except YamlProblem as error:
        message = f"the draft's text is no YAML just now ({error}): mend it in the YAML part first"
        raise Refused(message, code="conflict", field="text") from None
    return draft, found


def draft_bring_in(*, actor: Actor, name: str, step: int, base: int, choices: Choices) -> DraftView:
    """Merge later publications into a draft. ``base``: number of the revision that the page showed; ``choices``: by
    path, where both changed.

    It is a step, which can be undone. Raises as ``draft_incoming``, forbidden, DraftConflict for open choices, and
    conflict where another revision was published or the draft has moved on since.
    """
    right_wanted(actor, Right.EDIT, "change fabrics")
    draft, found = draft_incoming(actor=actor, name=name, choices=choices)
    if draft.published != base:
        message = f"r{draft.published} is published by now: look at what comes in again, and choose once more"
        raise Refused(message, code="conflict", field="base")
    if found.conflicts:
        raise DraftConflict(found.conflicts)
    assert draft.published_id is not None
    return draft_rebase(
        actor=actor,
        name=name,
        step=step,
        text=found.text,
        base_id=draft.published_id,
        base_text=found.base_text
        if draft.base is not None
        else export_revision(revision_get(actor, name, draft.published)),
    )


def _spec(actor: Actor, draft: DraftView, number: int | None) -> FabricSpec | None:
    return revision_get(actor, draft.name, number).spec if number is not None else None
