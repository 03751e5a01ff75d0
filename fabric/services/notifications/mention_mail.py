"""Mail to members whom a comment on a review mentions. It quotes nothing of the comment, which may quote a run."""

from __future__ import annotations

from collections.abc import Collection

from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import Channel, NotificationKind, build_key
from fabric.core.values.fingerprint import encode
from fabric.models import Notification, ReviewComment
from fabric.selectors.reviews.review_view import ReviewView
from fabric.services.notifications.member_mail import mails, people_mailed
from fabric.worker.process.duties import database_us


def mentions_notify(*, actor: Actor, item: ReviewView, comment: ReviewComment, names: Collection[str]) -> None:
    """Add a row to the outbox for each mentioned member who wants mail of this.

    Runs within the caller's transaction. A comment is no event: its row has the comment's number, below zero.
    """
    if not names or not mails():
        return
    now = database_us()
    content = encode(
        {"run_id": item.run_id, "review_id": item.id, "fabric": item.fabric_name, "stage": item.stage, "by": actor.name}
    )
    Notification.objects.bulk_create(
        [
            Notification(
                id=build_key(item.run_id, -comment.number, one.target),
                workspace_id=item.workspace_id,
                run_id=item.run_id,
                seq=-comment.number,
                told=NotificationKind.MENTION,
                channel=Channel.EMAIL,
                target=one.target,
                member=one.id,
                shown=one.person.name,
                content=content,
                at=comment.at,
                made_at=now,
                next_at=now,
            )
            for one in people_mailed(item.workspace_id)
            if one.person.name in names and NotificationKind.MENTION not in one.unwanted
        ],
        ignore_conflicts=True,
    )
