"""The outbox's composition root: who is told outside the console, and how, from the settings; and the duties that workers have by it."""

from __future__ import annotations

import threading
from functools import partial

from django.conf import settings

from fabric.adapters.duties import DutySpec, database_us
from fabric.adapters.notifications.mail import Mailer
from fabric.adapters.notifications.webhook import Webhooks, secret_bytes
from fabric.core.notifications import MAILED, Channel, Target
from fabric.selectors.audit_forward import TARGETS, receivers
from fabric.services import notification_members
from fabric.services.audit_forwarding import forward, forwarding_wanted
from fabric.services.notification_members import members_notify, members_wanted
from fabric.services.notification_sending import (
    Post,
    Send,
    notifications_due,
    notifications_prune,
    notifications_send,
    notifications_to_prune,
)
from fabric.services.notifications import notifications_make, notifications_wanted

LOOK_S = 5.0
"""So much later than its event a notification leaves, at most, while nothing else is being sent."""
FORGET_LOOK_S = 3_600.0
"""The same of a receiver that is not named."""
LEASE_S = 300.0
"""After this a worker that is at it is taken for dead; the holds of single notifications are shorter and do not depend on it."""


def targets() -> tuple[Target, ...]:
    """Who is told of alerts and questions: the operator's mailboxes and webhooks, for all workspaces.

    Mailboxes are called; webhooks are told too what became of questions. Members are not among them (``services.notification_members``), and of changes of
    fabrics members alone are told.
    """
    mail = (Target(channel=Channel.EMAIL, address=one, wants=MAILED) for one in settings.FABRIC_NOTIFY_MAIL)
    hooks = (Target(channel=Channel.WEBHOOK, address=one) for one in settings.FABRIC_NOTIFY_WEBHOOKS)
    return (*mail, *hooks)


def mails() -> bool:
    """Whether the operator has named a mail server: members who are asked are told by it."""
    return notification_members.mails()


def post(stopped: threading.Event | None = None) -> Post:
    """How notifications go out. ``stopped``: set when no further one may begin."""
    sends: dict[Channel, Send] = {}
    if mails():
        sends[Channel.EMAIL] = Mailer(settings.DEFAULT_FROM_EMAIL, settings.FABRIC_PUBLIC_URL).send
    if settings.FABRIC_WEBHOOK_SECRET:
        sends[Channel.WEBHOOK] = Webhooks(secret_bytes(settings.FABRIC_WEBHOOK_SECRET)).send
    return Post(
        targets=targets(),
        sends=sends,
        base=settings.FABRIC_PUBLIC_URL,
        now=database_us,
        stopped=(stopped or threading.Event()).is_set,
    )


def wanted() -> bool:
    """Whether there is something to tell, or to send: a few reads."""
    if notifications_wanted(targets()) or notifications_due(now=database_us()):
        return True
    return mails() and members_wanted()


def notify(stopped: threading.Event | None = None) -> None:
    """Makes the rows that are missing, and sends what is due."""
    notifications_make(targets(), now=database_us())
    if mails():
        members_notify(now=database_us())
    notifications_send(post(stopped))


def duties(stopped: threading.Event | None = None) -> tuple[tuple[DutySpec, ...], ...]:
    """Duties that one worker at a time does by the outbox. Each group has its own thread, so a slow receiver delays no other."""
    tell = DutySpec(
        name="notify", look_s=LOOK_S, every_s=0.0, lease_s=LEASE_S, wanted=wanted, act=lambda: notify(stopped)
    )
    prune = DutySpec(
        name="notifications",
        look_s=3_600.0,
        every_s=86_400.0,
        lease_s=3_600.0,
        wanted=notifications_to_prune,
        act=notifications_prune,
    )
    return (tell, prune), *((_forwarding(target),) for target in TARGETS)


def _forwarding(target: str) -> DutySpec:
    return DutySpec(
        name=f"audit_{target}",
        look_s=LOOK_S if target in receivers() else FORGET_LOOK_S,
        every_s=0.0,
        lease_s=LEASE_S,
        wanted=partial(forwarding_wanted, target),
        act=partial(forward, target),
    )
