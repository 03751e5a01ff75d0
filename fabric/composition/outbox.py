"""The outbox's composition root: targets and channels of notifications from the settings, and the workers' duties
for them.
"""

from __future__ import annotations

import threading
from functools import partial

from django.conf import settings

from fabric.adapters.notifications.chat import Chats
from fabric.adapters.notifications.mail import Mailer
from fabric.adapters.notifications.webhook import Webhooks, secret_bytes
from fabric.core.texts.notifications import CHATS, MAILED, Channel, Target
from fabric.http.transport import Gate
from fabric.selectors.audit.forwarding import TARGETS, receivers
from fabric.services.audit.forwarding import forward, is_forwarding_due
from fabric.services.installation import facts as here
from fabric.services.notifications import member_mail as notification_members
from fabric.services.notifications.creation import notifications_make, notifications_wanted
from fabric.services.notifications.delivery import (
    NotificationChannels,
    Send,
    notifications_due,
    notifications_prune,
    notifications_send,
    notifications_to_prune,
)
from fabric.services.notifications.member_mail import members_notify, members_reached, members_wanted
from fabric.services.notifications.run_ends import run_ends_make, run_ends_wanted
from fabric.worker.process.duties import DutySpec, database_us

LOOK_S = 5.0
"""Longest delay of a notification after its event, in seconds, while nothing else is being sent."""
FORGET_LOOK_S = 3_600.0
"""Seconds between two looks for a receiver that is no longer named."""
LEASE_S = 300.0
"""Seconds after which a busy worker counts as dead; the leases of single notifications are shorter and independent
of it.
"""


def targets() -> tuple[Target, ...]:
    """Return the targets of alerts and reviews: the operator's mailboxes, webhooks and chats, for all workspaces.

    Webhooks also get the outcomes of reviews, and the ends of runs of the named fabrics. Members are not among them
    (``services.notifications.member_mail``), and members alone get mail about changes of fabrics.
    """
    mail = (Target(channel=Channel.EMAIL, address=one, wants=MAILED) for one in settings.FABRIC_NOTIFY_MAIL)
    ends = frozenset(settings.FABRIC_NOTIFY_RUN_ENDS)
    hooks = (Target(channel=Channel.WEBHOOK, address=one, ends=ends) for one in settings.FABRIC_NOTIFY_WEBHOOKS)
    chats = (
        Target(channel=channel, address=one, wants=MAILED)
        for channel, addresses in (
            (Channel.SLACK, settings.FABRIC_NOTIFY_SLACK),
            (Channel.TEAMS, settings.FABRIC_NOTIFY_TEAMS),
        )
        for one in addresses
    )
    return (*mail, *hooks, *chats)


def mails() -> bool:
    """Return True if the operator has named a mail server: it carries the mail to members."""
    return notification_members.mails()


def post(stopped: threading.Event | None = None) -> NotificationChannels:
    """Return the channels of notifications. ``stopped``: set when no further one may begin."""
    chat = Chats(Gate.trust_hosts(settings.FABRIC_ALLOWED_HOSTS)).send
    sends: dict[Channel, Send] = dict.fromkeys(CHATS, chat)
    if mails():
        sends[Channel.EMAIL] = Mailer(settings.DEFAULT_FROM_EMAIL, settings.FABRIC_PUBLIC_URL).send
    if settings.FABRIC_WEBHOOK_SECRET:
        sends[Channel.WEBHOOK] = Webhooks(secret_bytes(settings.FABRIC_WEBHOOK_SECRET)).send
    return NotificationChannels(
        targets=targets(),
        sends=sends,
        base=settings.FABRIC_PUBLIC_URL,
        now=database_us,
        stopped=(stopped or threading.Event()).is_set,
        box=here.secret_box(),
    )


def has_work() -> bool:
    """Return True if there is something to report or to send: a few reads."""
    those = targets()
    if notifications_wanted(those) or run_ends_wanted(those) or notifications_due(now=database_us()):
        return True
    return members_reached() and members_wanted()


def notify(stopped: threading.Event | None = None) -> None:
    """Create the missing rows, and send the due ones."""
    notifications_make(targets(), now=database_us())
    run_ends_make(targets(), now=database_us())
    if members_reached():
        members_notify(now=database_us(), mailed=mails())
    notifications_send(post(stopped))


def duties(stopped: threading.Event | None = None) -> tuple[tuple[DutySpec, ...], ...]:
    """Return the duties that one worker at a time does for the outbox. Each group has its own thread, so a slow
    receiver delays no other.
    """
    tell = DutySpec(
        name="notify", look_s=LOOK_S, every_s=0.0, lease_s=LEASE_S, wanted=has_work, act=lambda: notify(stopped)
    )
    prune = DutySpec(
        name="notifications",
        look_s=3_600.0,
        every_s=86_400.0,
        lease_s=3_600.0,
        wanted=notifications_to_prune,
        act=notifications_prune,
    )
    return (tell, prune), *((_build_forwarding_duty(target),) for target in TARGETS)


def _build_forwarding_duty(target: str) -> DutySpec:
    return DutySpec(
        name=f"audit_{target}",
        look_s=LOOK_S if target in receivers() else FORGET_LOOK_S,
        every_s=0.0,
        lease_s=LEASE_S,
        wanted=partial(is_forwarding_due, target),
        act=partial(forward, target),
    )
