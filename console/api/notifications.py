"""Operations on notifications: list them, send failed ones again, set one's own mail, and route reviews to chats."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from django.http import HttpRequest
from ninja import Body, Path, Query, Router
from pydantic import Field

from console.api.shapes.common import NAME_CHARS_MAX, Instant, RequestShape, ResponseShape, instant
from console.site.access.callers import find_actor
from fabric.core.texts.notifications import NotificationKind, NotificationState
from fabric.selectors.chat_routes import ChatRouteView, list_chat_routes
from fabric.selectors.notifications import (
    LIST_MAX,
    NotificationView,
    find_mail,
    notification_view,
    notifications_list,
)
from fabric.services.notifications.delivery import notification_resend
from fabric.services.notifications.member_mail import EMAIL_CHARS_MAX, notification_preference_set
from fabric.services.people.chat_routes import ADDRESS_CHARS_MAX, chat_route_add, chat_route_remove

router = Router(tags=["notifications"])
MailKind = Literal["review", "reminder", "onward", "follow_up", "change", "changed", "mention"]
"""``fabric.core.texts.notifications.MEMBER_KINDS``."""


class NotificationOut(ResponseShape):
    """A notification to one target."""

    id: str = Field(
        description="The same at every attempt, and in what the receiver gets.", examples=["7d5e3c1f0a9b48269f1e2d3c4b5a6978"]
    )  # fmt: skip
    told: NotificationKind = Field(
        description="Kind of the message. Reminder and onward: half and three quarters of a review's time have passed. Second: one of two people has agreed. Expired: no one answered in time. Change: a change of a fabric waits for a second person. Changed: such a change was decided. Mention: a comment mentions the member. The rest: a run ended.",
        examples=["review"],
    )
    run_id: str = Field(
        description="The run; empty: it is about a change.", examples=["01a1bb74-7a3c-7b11-9c2f-0a54d3a2c4f1"]
    )
    change_id: str = Field(description="The change request that it is about; empty: it is about a run.", examples=[""])
    seq: int = Field(description="The event that it tells; of a change 0.", examples=[17])
    fabric: str = Field(description="Name of the fabric.", examples=["research-desk"])
    reason: str = Field(description="Object of the message.", examples=["429 from the provider"])
    failure_type: str = Field(description="Failure type; empty: unknown or none.", examples=["provider"])
    path: str = Field(
        description="Where the console shows it.", examples=["/runs/01a1bb74-7a3c-7b11-9c2f-0a54d3a2c4f1"]
    )
    channel: Literal["email", "webhook", "slack", "teams"] = Field(description="How.")
    to: str = Field(
        description="A mailbox; of a webhook or chat scheme and host alone; of a member the name.",
        examples=["ops@example.org"],
    )
    state: Literal["waiting", "skipped", "sent", "failed"] = Field(
        description="failed: it is not tried any more; skipped: what it asks was answered or withdrawn before it was sent, or its member wants none."
    )
    attempts: int = Field(description="How often it was tried.", examples=[1])
    made_at: Instant = Field(description="When it was made.")
    next_at: Instant | None = Field(description="Not before this is it tried; null: it is not tried any more.")
    sent_at: Instant | None = Field(description="When the other side took it; null: it has not.")
    error: str = Field(
        description="Result of the last attempt, or the reason for none; empty: accepted, or not tried yet.",
        examples=[""],
    )


class NotificationsOut(ResponseShape):
    """Notifications of the workspace."""

    notifications: list[NotificationOut] = Field(description=f"The newest first, {LIST_MAX} at most.")
    more: bool = Field(description="True if there are older ones.", examples=[False])


@router.get("/notifications", response=NotificationsOut, url_name="api-notifications", operation_id="listNotifications")
def list_notifications(
    request: HttpRequest,
    state: Annotated[
        Literal["waiting", "skipped", "sent", "failed"] | None, Query(description="Only those that stand so.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=LIST_MAX, description="At most so many.")] = LIST_MAX,
) -> NotificationsOut:
    """List notifications. Alerts, reviews and changes of fabrics, sent or waiting, by e-mail or webhook, newest
    first.
    """
    found, more = notifications_list(find_actor(request), NotificationState(state) if state else None, limit)
    return NotificationsOut(notifications=[_notification_shape(one) for one in found], more=more)


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
    """Send a notification again. It is due at once and has all its attempts again; it keeps its id. For the owner
    and operators.
    """
    actor = find_actor(request)
    row = notification_resend(actor=actor, notification_id=notification_id)
    seen = notification_view(actor, row.id)
    assert seen is not None
    return _notification_shape(seen)


class MailOut(ResponseShape):
    """Notifications that the caller gets by e-mail, where a mail server is configured."""

    email: str = Field(description="Where; empty: nothing reaches them.", examples=["ana@example.org"])
    wants: list[MailKind] = Field(
        description="Messages they want: reviews for them, reminders, reviews passed on to them, follow-ups.",
        examples=[["review", "onward"]],
    )


class MailIn(RequestShape):
    """Notifications that the caller wants by e-mail."""

    wants: list[MailKind] = Field(
        max_length=len(get_args(MailKind)), description="All that they want; empty: nothing.", examples=[["review"]]
    )
    email: str | None = Field(
        None,
        max_length=EMAIL_CHARS_MAX,
        description="Where from now on; empty: nowhere; null: it stays. Not by a token.",
        examples=["ana@example.org"],
    )


@router.get("/notifications/mine", response=MailOut, url_name="api-notifications-mine", operation_id="getMyMail")
def get_my_mail(request: HttpRequest) -> MailOut:
    """Get your mail settings. The address, and the kinds of reviews and changes that you are mailed."""
    return _mail(request)


@router.post("/notifications/mine", response=MailOut, url_name="api-notifications-mine", operation_id="setMyMail")
def set_my_mail(request: HttpRequest, body: MailIn) -> MailOut:
    """Set your mail settings. A token may change the kinds, but never the address."""
    notification_preference_set(actor=find_actor(request), wants=body.wants, email=body.email)
    return _mail(request)


def _mail(request: HttpRequest) -> MailOut:
    seen = find_mail(find_actor(request))
    assert seen is not None  # Only members are let in.
    return MailOut(email=seen.email, wants=[one.value for one in seen.wants])


class ChatOut(ResponseShape):
    """A channel of a chat to which reviews go."""

    id: str = Field(description="Its id.", examples=["019a8b5e4a537c1e9a643f7d2b1c0e55"])
    channel: Literal["slack", "teams"] = Field(description="Which chat.")
    fabric: str = Field(
        description="Fabric of whose reviews it hears; empty: of those that ask the caller.", examples=["research-desk"]
    )
    host: str = Field(
        description="Scheme and host of its address, which is never shown whole.", examples=["https://hooks.slack.com"]
    )
    added_at: Instant = Field(description="Since when.")
    added_by: str = Field(description="Person who added it.", examples=["ana"])


class ChatsOut(ResponseShape):
    """Channels of chats."""

    channels: list[ChatOut] = Field(description="The oldest first: the caller's own, and those of fabrics.")


class ChatIn(RequestShape):
    """A channel of a chat."""

    channel: Literal["slack", "teams"] = Field(description="Which chat.", examples=["slack"])
    address: str = Field(
        min_length=1,
        max_length=ADDRESS_CHARS_MAX,
        description="Address of its incoming webhook, a secret. It has to be public, or in FABRIC_ALLOWED_HOSTS.",
        examples=["https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX"],
    )
    fabric: str = Field(
        default="",
        max_length=NAME_CHARS_MAX,
        description="Fabric of whose reviews it hears, for its editors; empty: of those that ask the caller, not by a token.",
        examples=[""],
    )


@router.get(
    "/notifications/channels",
    response=ChatsOut,
    url_name="api-notifications-channels",
    operation_id="listChatChannels",
)
def list_channels(request: HttpRequest) -> ChatsOut:
    """List the channels of chats to which reviews go. Your own, and those of the fabrics that you see."""
    return ChatsOut(channels=[_chat_shape(one) for one in list_chat_routes(find_actor(request))])


@router.post(
    "/notifications/channels",
    response=ChatOut,
    url_name="api-notifications-channels",
    operation_id="addChatChannel",
)
def add_channel(request: HttpRequest, body: Annotated[ChatIn, Body()]) -> ChatOut:
    """Route reviews to a channel of Slack or Teams. Those of a fabric, or those that ask you."""
    actor = find_actor(request)
    return _chat_shape(chat_route_add(actor=actor, channel=body.channel, address=body.address, fabric=body.fabric))


@router.post(
    "/notifications/channels/{channel_id}/remove",
    response=ChatOut,
    url_name="api-notifications-channel-remove",
    operation_id="removeChatChannel",
)
def remove_channel(
    request: HttpRequest,
    channel_id: Annotated[str, Path(description="Its id, as listed.", example="019a8b5e4a537c1e9a643f7d2b1c0e55")],
) -> ChatOut:
    """Remove a channel of a chat. Its address is erased, and waiting messages are not sent."""
    return _chat_shape(chat_route_remove(actor=find_actor(request), route_id=channel_id))


def _chat_shape(one: ChatRouteView) -> ChatOut:
    return ChatOut(
        id=one.id,
        channel=one.channel,
        fabric=one.fabric,
        host=one.host,
        added_at=instant(one.added_at),
        added_by=one.added_by,
    )


def _notification_shape(one: NotificationView) -> NotificationOut:
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
