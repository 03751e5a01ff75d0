"""Handles requests for a second person who approves a change of a fabric: one content over one revision.

1. The author opens the request, another person approves or rejects it.
2. It is needed where the fabric's runs have four eyes, before the change or after it (``core.spec.second_person``).
3. No author approves their own request, and no service account approves any. The sole owner of an installation is no
   exception.
4. ``services.notifications.change_mail`` notifies the people concerned.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial

from django.db import IntegrityError, transaction

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor, may
from fabric.core.people.roles import Right
from fabric.core.values.words import instant
from fabric.models import ChangeRequest, Draft, Fabric, Revision
from fabric.runtime.ports.batch_parts import names_text
from fabric.selectors.drafts.change_requests import (
    AGREEING,
    ChangeState,
    ChangeView,
    change_request_get,
    why_not_agree,
)
from fabric.selectors.reach import match_visible
from fabric.selectors.reviews.history import DIGEST_CHARS_MIN, names
from fabric.services.actors import actor_named
from fabric.services.acts import audit_record
from fabric.services.drafts.changes import draft_remove
from fabric.services.errors import Refused
from fabric.services.fabrics.revisions import (
    PublicationTerms,
    PublishedFabric,
    check_publication,
    clean_message,
    fabric_publish_read,
    refuse_unexpected,
    second_person,
)
from fabric.services.fabrics.yaml.document import FabricSource, fabric_read
from fabric.services.notifications.change_mail import change_asked, change_ended
from fabric.services.rights import right_wanted

_ASKING = "ask for a change of a fabric"
DONE = {
    ChangeState.PUBLISHED: "was agreed to",
    ChangeState.REJECTED: "was rejected",
    ChangeState.WITHDRAWN: "was withdrawn",
    ChangeState.VOIDED: "was voided",
    ChangeState.FAILED: "could not be published at its time",
}
"""Outcome of a request that waits no more, in words; a test shows that it covers every stored state."""


def change_request_open(
    *,
    actor: Actor,
    source: str,
    origin: str = "",
    message: str = "",
    providers: Collection[str] = (),
    expect: int | None = None,
) -> ChangeView:
    """Open a request that a second person approves publishing this text. An identical request is returned; a
    different one replaces the author's last.

    ``expect``: as for ``fabric_publish``. Raises Refused forbidden; invalid or too_large for a text that could not be
    published; conflict where the published revision is not the expected one, where this content is published already,
    and where no approval is needed.
    """
    said = clean_message(message, "message")
    read, standing = read_change(actor, source, origin, providers, expect)
    if not second_person(actor, read.spec):
        message = f"changes of fabric {read.spec.name!r} need no second person: publish it"
        raise Refused(message, code="conflict", field="request")
    return store_request(actor, read, standing, said)


def read_change(
    actor: Actor, source: str, origin: str, providers: Collection[str], expect: int | None
) -> tuple[FabricSource, Revision | None]:
    """Return a change that could be published now, and the published revision. Raises Refused as
    ``change_request_open``.
    """
    right_wanted(actor, Right.EDIT, _ASKING, anywhere=True)
    read = fabric_read(source, origin=origin)
    right_wanted(actor.place_at(read.spec.name), Right.EDIT, _ASKING)
    check_publication(actor, read, providers)
    name, digest = read.spec.name, read.spec.digest()
    standing = _published_revision(actor, name)
    was = standing.number if standing else 0
    if expect is not None and expect != was:
        raise refuse_unexpected(name, expect, was)
    if standing is not None and standing.digest == digest:
        message = f"this content is revision {was}, which is published: there is nothing to publish"
        raise Refused(message, code="conflict")
    return read, standing


def store_request(
    actor: Actor, read: FabricSource, standing: Revision | None, message: str, publish_at: int | None = None
) -> ChangeView:
    """Store a request in place of the author's last one; an identical one is returned. ``publish_at``: time of a
    scheduled publication. Raises Refused conflict.
    """
    try:
        with transaction.atomic():
            return change_request_get(actor, _open_request(actor, read, standing, message, publish_at))
    except IntegrityError:
        named = f"{actor.name}'s for fabric {read.spec.name!r}"
        message = f"another request of {named} was opened at the same moment: look at it"
        raise Refused(message, code="conflict", field="request") from None


def _open_request(
    actor: Actor, read: FabricSource, standing: Revision | None, message: str, publish_at: int | None
) -> str:
    name, digest = read.spec.name, read.spec.digest()
    rows = ChangeRequest.objects.filter(match_visible(actor, ChangeRequest), name=name, author=actor.name, state="open")
    before = rows.first()
    if before is not None:
        same = (before.digest, before.text, before.base_id, before.publish_at)
        if same == (digest, read.text, standing.id if standing else None, publish_at):
            return before.id
        why = "its author asked for another change in its place"
        change_ended(actor=actor, request_id=before.id, state=ChangeState.VOIDED, reason=why)
        audit_record(actor=actor, act=Act.CHANGE_VOIDED, subject=name, request=before.id)
    made = ChangeRequest.objects.create(
        workspace_id=actor.workspace_id,
        name=name,
        author=actor.name,
        caused_by=names_text(actor.behind),
        base=standing,
        text=read.text,
        digest=digest,
        message=message,
        publish_at=publish_at,
        opened_at=datetime.now(UTC),
    )
    if publish_at is None:
        audit_record(actor=actor, act=Act.CHANGE_REQUESTED, subject=name, request=made.id, digest=digest)
        change_asked(made)
    else:
        when = instant(publish_at)
        told = {"request": made.id, "digest": digest, "publish_at": when}
        audit_record(actor=actor, act=Act.PUBLICATION_SCHEDULED, subject=name, **told)
    return made.id


def change_approve(*, actor: Actor, request_id: str, digest: str, providers: Collection[str] = ()) -> PublishedFabric:
    """Approve a change, which publishes exactly that content, judged anew by today's rules. ``digest``: of the shown
    content, or its first 8 characters.

    The author's draft is deleted if it has just that text. Raises Refused not_found; forbidden for its author,
    service accounts and people who may not publish; conflict where it waits no more, is stale or has another content;
    invalid without a digest, and where it can no longer be published.
    """
    found = _find_open_change(actor, request_id)
    if found.publish_at is not None:
        message = f"it is published at {instant(found.publish_at)} without a second person: wait, or reject it"
        raise Refused(message, code="conflict", field="request")
    _check_digest(found, digest)
    _author_may(found, actor)
    read = read_request(found)
    terms = PublicationTerms(
        author=found.author, request=found.id, message=found.message, also=partial(close_change, actor, found)
    )
    return fabric_publish_read(actor=actor, read=read, providers=providers, expect=found.base or 0, terms=terms)


def read_request(found: ChangeView) -> FabricSource:
    """Return the content of a request. Raises Refused invalid, and conflict where it reads as another one by now."""
    read = fabric_read(found.text, origin=f"request of {found.author}")
    if read.spec.digest() != found.digest:
        message = "its text reads as another content since Fabric Flow was upgraded: its author has to ask again"
        raise Refused(message, code="conflict", field="request")
    return read


def change_reject(*, actor: Actor, request_id: str, reason: str) -> ChangeView:
    """Reject a change with a reason. Raises Refused as ``change_approve``, and invalid without a reason; a stale one
    can be rejected.
    """
    why = clean_message(reason, "reason")
    found = _find_open_change(actor, request_id, stale=True)
    if not why:
        raise Refused("say why it is rejected: its author reads the reason", code="invalid", field="reason")
    return _end_request(actor, found, ChangeState.REJECTED, Act.CHANGE_REJECTED, why)


def change_withdraw(*, actor: Actor, request_id: str) -> ChangeView:
    """Withdraw one's own request. Raises Refused not_found, forbidden for another's request, conflict where it waits
    no more.
    """
    right_wanted(actor, Right.EDIT, _ASKING, anywhere=True)
    found = change_request_get(actor, request_id)
    right_wanted(actor.place_at(found.name), Right.EDIT, _ASKING)
    if found.author != actor.name:
        message = f"only {found.author}, who asked for it, withdraws it: reject it instead, and say why"
        raise Refused(message, code="forbidden", field="actor")
    check_open(found, stale=True)
    return _end_request(actor, found, ChangeState.WITHDRAWN, Act.CHANGE_WITHDRAWN, "")


# -- the row -----------------------------------------------------------------------------------------------------------


def _find_open_change(actor: Actor, request_id: str, *, stale: bool = False) -> ChangeView:
    right_wanted(actor, Right.EDIT, AGREEING, anywhere=True)
    found = change_request_get(actor, request_id)
    right_wanted(actor.place_at(found.name), Right.EDIT, AGREEING)
    if why := why_not_agree(actor, found):
        raise Refused(why, code="forbidden", field="actor")
    check_open(found, stale=stale)
    return found


def _check_digest(found: ChangeView, digest: str) -> None:
    """Raise Refused for an approval of a content that was not shown."""
    if names(digest, found.digest):
        return
    if len(digest) < DIGEST_CHARS_MIN:
        message = f"an approval names the content it approves: give the digest of the change, or at least its first {DIGEST_CHARS_MIN} characters"
        raise Refused(message, code="invalid", field="digest")
    message = "the request is about another content than was shown: look at it again"
    raise Refused(message, code="conflict", field="digest")


def check_open(found: ChangeView, *, stale: bool) -> None:
    """Raise Refused conflict for a request that waits no more. ``stale``: a stale one counts as waiting."""
    if found.state in DONE:
        by = f" by {found.decided_by}" if found.decided_by else ""
        raise Refused(f"this request {DONE[found.state]}{by} already", code="conflict", field="request")
    if found.state is ChangeState.STALE and not stale:
        stands = f"r{found.now} is published by now" if found.now else "nothing is published any more"
        message = f"{stands}, and this is a change of {_describe_base(found)}: {found.author} has to bring that in, and ask again"
        raise Refused(message, code="conflict", field="request")


def _describe_base(found: ChangeView) -> str:
    return f"r{found.base}" if found.base else "a fabric that was not published"


def _author_may(found: ChangeView, actor: Actor) -> None:
    try:
        still = may(actor_named(actor.workspace_id, found.author), Right.EDIT, found.name)
    except Refused:
        still = False
    if not still:
        message = f"{found.author}, who asked for this, may not publish fabrics any more, so that two do not agree: ask for it in your own name"
        raise Refused(message, code="conflict", field="request")


def close_change(actor: Actor, found: ChangeView, revision: Revision) -> None:
    """Close the request and delete its draft, in the transaction of the publication."""
    if not change_ended(actor=actor, request_id=found.id, state=ChangeState.PUBLISHED, published=revision):
        raise Refused("another person just decided this request: reload it", code="conflict", field="request")
    drafts = Draft.objects.filter(match_visible(actor, Draft), name=found.name, author=found.author)
    for draft in drafts.filter(text=found.text):
        draft_remove(draft)


def _end_request(actor: Actor, found: ChangeView, state: ChangeState, act: Act, reason: str) -> ChangeView:
    with transaction.atomic():
        if not change_ended(actor=actor, request_id=found.id, state=state, reason=reason):
            message = "another person just decided this request: reload it"
            raise Refused(message, code="conflict", field="request")
        audit_record(actor=actor, act=act, subject=found.name, request=found.id, reason=reason or None)
    return change_request_get(actor, found.id)


def _published_revision(actor: Actor, name: str) -> Revision | None:
    found = Fabric.objects.filter(match_visible(actor, Fabric), name=name).select_related("published").first()
    return found.published if found else None
