"""Mail to members about changes of fabrics: a possible approver learns of a request, and its author of the outcome.

A change request is in no run's journal, so no cursor can find it. Its rows are created in the transaction that
changes the request, and share its fate. Operators' targets get no mail about changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right, has
from fabric.core.texts.notifications import CHANGES, Channel, NotificationKind, key_of_change
from fabric.core.values.fingerprint import encode
from fabric.core.values.units import JSON
from fabric.models import ChangeRequest, Notification, Revision
from fabric.selectors.drafts.change_requests import ChangeState
from fabric.services.notifications.creation import safe
from fabric.services.notifications.member_mail import MailedMember, mails, people_mailed
from fabric.worker.process.duties import database_us


def change_asked(request: ChangeRequest) -> None:
    """Notify all members who may approve a new change request. Runs within the caller's transaction."""
    if mails():
        may = [one for one in people_mailed(request.workspace_id) if has(one.place_at(request.name).roles, Right.EDIT)]
        others = [one for one in may if one.person.name != request.author]
        _tell(request, ChangeState.OPEN, others, message=safe(request.message))


def change_ended(
    *, actor: Actor, request_id: str, state: ChangeState, reason: str = "", published: Revision | None = None
) -> bool:
    """End an open change request, and notify its author unless they acted; return False if it was closed before.

    Runs within the caller's transaction.
    """
    rows = ChangeRequest.objects.filter(id=request_id, state=ChangeState.OPEN)
    said = {"state": state, "decided_by": actor.name, "reason": reason, "published": published}
    if not rows.update(decided_at=datetime.now(UTC), **said):
        return False
    if CHANGES[state] is not None and mails():
        for of in ChangeRequest.objects.select_related("base").filter(id=request_id).exclude(author=actor.name):
            number = f"r{published.number}" if published else ""
            _tell(of, state, _author(of), by=actor.name, reason=safe(reason), revision=number)
    return True


def changes_passed_over(*, actor: Actor, name: str, before: str | None, revision: Revision) -> None:
    """Notify the authors of changes over the revision ``before`` (None: over none) that another one is published.

    Runs within the caller's transaction.
    """
    if not mails():
        return
    rows = ChangeRequest.objects.filter(workspace_id=actor.workspace_id, name=name, state=ChangeState.OPEN)
    said = {
        "became": "made stale",
        "reason": f"r{revision.number} is published by now: bring it in, and ask again",
        "by": actor.name,
    }
    for one in rows.filter(base_id=before).select_related("base").order_by("id"):
        _tell(one, ChangeState.STALE, _author(one), turn=f"stale:{revision.id}", **said)


def _author(request: ChangeRequest) -> list[MailedMember]:
    return people_mailed(request.workspace_id, request.author)


def _tell(
    request: ChangeRequest, state: ChangeState, people: Sequence[MailedMember], turn: str = "", **said: JSON
) -> None:
    """Add the rows. ``turn``: names this change where a state may be reached repeatedly; empty: the state does."""
    told, now = CHANGES[state], database_us()
    assert told is not None
    about = {
        "change_id": request.id,
        "fabric": request.name,
        "author": request.author,
        "over": f"r{request.base.number}" if request.base else "",
        "became": state if told is NotificationKind.CHANGED else "",
        **said,
    }
    same = {"workspace_id": request.workspace_id, "change": request.id, "seq": 0, "told": told}
    when = {"at": now, "made_at": now, "next_at": now, "channel": Channel.EMAIL, "content": encode(about)}
    rows = [
        Notification(
            id=key_of_change(request.id, turn or state, one.target),
            target=one.target,
            member=one.id,
            shown=one.person.name,
            **same,
            **when,
        )
        for one in people
        if told not in one.unwanted
    ]
    Notification.objects.bulk_create(rows, ignore_conflicts=True)
