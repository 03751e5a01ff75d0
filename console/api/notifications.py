"""Notifications: what was told outside the console, and sending again what failed."""

from __future__ import annotations

from typing import Annotated, Literal

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from console.api.callers import actor_of
from console.api.schemas import Given, Instant, Told, instant
from fabric.core.notifications import State
from fabric.selectors.notifications import LIST_MAX, NotificationView, mail_of, notification_view, notifications_list
from fabric.services.notification_members import EMAIL_CHARS_MAX, notification_preference_set
from fabric.services.notification_sending import notification_resend

router = Router(tags=["notifications"])
MailKind = Literal["question", "reminder", "onward", "ticket", "change", "changed"]
"""``fabric.core.notifications.MEMBERS_TOLD``."""


class NotificationOut(Told):
    """One thing told to one target."""

    id: str = Field(
        description="The same at every attempt, and in what the receiver gets.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"]
    )  # fmt: skip
    told: Literal[
        "alert", "question", "reminder", "onward", "ticket", "second", "decided", "expired", "change", "changed"
    ] = Field(
        description="What is said. Reminder and onward: half and three quarters of a question's time have passed. Second: one of two has agreed. "
        "Expired: nobody answered in time. Change: a change of a fabric waits for a second person. Changed: what became of one."
    )
    run_id: str = Field(
        description="The run; empty: it is about a change.", examples=["01a1bb74-7a3c-7b11-9c2f-0a54d3a2c4f1"]
    )
    change_id: str = Field(description="The change request that it is about; empty: it is about a run.", examples=[""])
    seq: int = Field(description="The event that it tells; of a change 0.", examples=[17])
    fabric: str = Field(description="Name of the fabric.", examples=["research-desk"])
    reason: str = Field(description="What it is about.", examples=["429 from the provider"])
    failure_type: str = Field(description="What failed; empty: not known, or nothing.", examples=["provider"])
    path: str = Field(
        description="Where the console shows it.", examples=["/runs/01a1bb74-7a3c-7b11-9c2f-0a54d3a2c4f1"]
    )
    channel: Literal["email", "webhook"] = Field(description="How.")
    to: str = Field(
        description="A mailbox; of a webhook scheme and host alone; of a member the name.", examples=["ops@example.org"]
    )
    state: Literal["waiting", "skipped", "sent", "failed"] = Field(
        description="failed: it is not tried any more; skipped: what it asks was answered or withdrawn before it was sent, or its member wants none."
    )
    attempts: int = Field(description="How often it was tried.", examples=[1])
    made_at: Instant = Field(description="When it was made.")
    next_at: Instant | None = Field(description="Not before this is it tried; null: it is not tried any more.")
    sent_at: Instant | None = Field(description="When the other side took it; null: it has not.")
    error: str = Field(
        description="What the last attempt came to, or why there was none; empty: taken, or not tried yet.",
        examples=[""],
    )


class NotificationsOut(Told):
    """Notifications of the workspace."""

    notifications: list[NotificationOut] = Field(description=f"The newest first, {LIST_MAX} at most.")
    more: bool = Field(description="Whether there are older ones.", examples=[False])


@router.get("/notifications", response=NotificationsOut, url_name="api-notifications", operation_id="listNotifications")
def list_notifications(
    request: HttpRequest,
    state: Annotated[
        Literal["waiting", "skipped", "sent", "failed"] | None, Query(description="Only those that stand so.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=LIST_MAX, description="At most so many.")] = LIST_MAX,
) -> NotificationsOut:
    """List notifications. Alerts, questions and changes of fabrics that were told, or are to be told, by e-mail or webhook, the newest first."""
    found, more = notifications_list(actor_of(request), State(state) if state else None, limit)
    return NotificationsOut(notifications=[_told(one) for one in found], more=more)


@router.post(
    "/notifications/{notification_id}/resend",
    response=NotificationOut,
    url_name="api-notification-resend",
    operation_id="resendNotification",
)
def resend_notification(
    request: HttpRequest,
    notification_id: Annotated[str, Path(description="Its id, as listed.", example="7d5e3c1f0a9b48269f1e2d3c4b5a6978")],
) -> NotificationOut:
    """Send a notification again. It is due at once and has all its attempts again; it keeps its id. For the owner and operators."""
    actor = actor_of(request)
    row = notification_resend(actor=actor, notification_id=notification_id)
    seen = notification_view(actor, row.id)
    assert seen is not None
    return _told(seen)


class MailOut(Told):
    """What the caller is told by e-mail, where a mail server is configured."""

    email: str = Field(description="Where; empty: nothing reaches them.", examples=["ana@example.org"])
    wants: list[MailKind] = Field(
        description="What of it they want: questions that ask them, reminders, those passed on to them, tickets.",
        examples=[["question", "onward"]],
    )


class MailIn(Given):
    """What the caller wants to be told by e-mail."""

    wants: list[MailKind] = Field(
        max_length=4, description="All that they want; empty: nothing.", examples=[["question"]]
    )
    email: str | None = Field(
        None,
        max_length=EMAIL_CHARS_MAX,
        description="Where from now on; empty: nowhere; null: it stays. Not by a token.",
        examples=["ana@example.org"],
    )


@router.get("/notifications/mine", response=MailOut, url_name="api-notifications-mine", operation_id="getMyMail")
def get_my_mail(request: HttpRequest) -> MailOut:
    """See what you are mailed. The address, and what of the questions and changes that concern you is told there."""
    return _mail(request)


@router.post("/notifications/mine", response=MailOut, url_name="api-notifications-mine", operation_id="setMyMail")
def set_my_mail(request: HttpRequest, body: MailIn) -> MailOut:
    """Say what you want to be mailed. A token may change what, and never where to."""
    notification_preference_set(actor=actor_of(request), wants=body.wants, email=body.email)
    return _mail(request)


def _mail(request: HttpRequest) -> MailOut:
    seen = mail_of(actor_of(request))
    assert seen is not None  # Who is no member is not let in.
    return MailOut(email=seen.email, wants=[one.value for one in seen.wants])


def _told(one: NotificationView) -> NotificationOut:
    return NotificationOut(
        id=one.id,
        told=one.told,
        run_id=one.run_id,
        change_id=one.change_id,
        seq=one.seq,
        fabric=one.fabric,
        reason=one.reason,
        failure_type=one.failure_type,
        path=one.path,
        channel=one.channel,
        to=one.shown,
        state=one.state.value,
        attempts=one.attempts,
        made_at=instant(one.made_at),
        next_at=instant(one.next_at),
        sent_at=instant(one.sent_at),
        error=one.error,
    )
