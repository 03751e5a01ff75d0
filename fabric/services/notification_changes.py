"""Telling members of changes of fabrics, by e-mail: whoever may agree that one waits for them, and its author what became of it.

A change request is in no run's journal, so there is nothing to read behind a cursor: the rows are made in the transaction in which the request comes to
stand so, and stand or fall with it. Operator's targets are not told of changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.fingerprint import encode
from fabric.core.notifications import CHANGES, Channel, Told, key_of_change
from fabric.core.roles import Right, has
from fabric.models import ChangeRequest, Notification, Revision
from fabric.selectors.change_requests import ChangeState
from fabric.services.notification_members import Mailed, mails, people_mailed
from fabric.services.notifications import safe

JSON = Any


def change_asked(request: ChangeRequest) -> None:
    """Tells everybody who may agree to a change that was just asked for. Within the caller's transaction."""
    if mails():
        may = [one for one in people_mailed(request.workspace_id) if has(one.at(request.name).roles, Right.EDIT)]
        others = [one for one in may if one.person.name != request.author]
        _tell(request, ChangeState.OPEN, others, message=safe(request.message))


def change_ended(
    *, actor: Actor, request_id: str, state: ChangeState, reason: str = "", published: Revision | None = None
) -> bool:
    """Ends a change request that waits, and tells its author, unless they did it; False: it waits no more. Within the caller's transaction."""
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
    """Tells the authors of changes over the revision ``before`` (None: over none) that another one is published. Within the caller's transaction."""
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


def _author(request: ChangeRequest) -> list[Mailed]:
    return people_mailed(request.workspace_id, request.author)


def _tell(request: ChangeRequest, state: ChangeState, people: Sequence[Mailed], turn: str = "", **said: JSON) -> None:
    """``turn``: names this way of coming to stand so, where there may be several; empty: the state does."""
    told, now = CHANGES[state], database_us()
    assert told is not None
    about = {
        "change_id": request.id,
        "fabric": request.name,
        "author": request.author,
        "over": f"r{request.base.number}" if request.base else "",
        "became": state if told is Told.CHANGED else "",
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
