"""Sends waiting notifications. A worker claims each with a lease, and retries where that may help, else gives up and
shows it.

Delivery is at least once: where a worker dies between sending and marking, its lease lapses and the row is sent again
under its key.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.texts.notifications import (
    ATTEMPTS_MAX,
    OVER,
    TRANSITIONS,
    Channel,
    Delivery,
    Message,
    NotificationHappening,
    NotificationKind,
    NotificationState,
    Target,
    delay_s,
    read_path,
)
from fabric.core.values.units import US
from fabric.models import Notification, NotificationRead, NotificationTarget, Review
from fabric.models.notifications import WAITING
from fabric.program.name import program
from fabric.secrets.secret_box import SecretBox
from fabric.selectors.drafts.change_requests import ChangeState, change_state
from fabric.selectors.reach import match_visible
from fabric.selectors.runs.trace import read_trace
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.notifications.chats import find_chat
from fabric.services.notifications.creation import LOOKBACK_US
from fabric.services.notifications.member_mail import member_target
from fabric.services.rights import right_wanted
from fabric.worker.process.duties import database_us

Send = Callable[[Target, Message], Delivery]
HOLD_S = 120.0
"""Seconds for which one attempt has a row to itself: far longer than any attempt may take."""
_id = re.compile(r"[0-9a-f]{32}", re.ASCII)
TRIES = 5
RIVALS_MAX = 16
"""Rows that are read to claim one: rivals may have claimed the first ones."""
PASS_MAX = 100
"""Largest number of attempts in one go, so that a stop is noticed."""
WITHDRAWN = "withdrawn"
"""The verb of a review that needs no answer any more (``projection``)."""
BEFORE: Mapping[ChangeState, str] = {
    ChangeState.STALE: "another revision was published before it was sent",
    ChangeState.PUBLISHED: "agreed to before it was sent",
    ChangeState.REJECTED: "rejected before it was sent",
    ChangeState.WITHDRAWN: "withdrawn before it was sent",
    ChangeState.VOIDED: "voided before it was sent",
    ChangeState.FAILED: "not published at its time before it was sent",
}
"""Reason why a change needs no approval any more; a test shows that it covers every closed state."""
KEPT_US = 30 * 86_400 * US
"""Time for which sent and abandoned notifications are stored, in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationChannels:
    """Channels through which notifications go out, put together by ``outbox.post``."""

    targets: Sequence[Target]
    sends: Mapping[Channel, Send]
    """Sender of each configured channel."""
    base: str
    """The console's address, for the link."""
    now: Callable[[], int]
    """Microseconds since the epoch on the database's clock."""
    stopped: Callable[[], bool] = lambda: False
    box: SecretBox | None = None
    """Opens the stored addresses of chats; None: none is opened."""


def notifications_due(*, now: int) -> bool:
    """Return True if a notification is due now: a cheap read."""
    return Notification.objects.filter(WAITING, next_at__lte=now, held_until__lte=now).exists()


def notifications_send(post: NotificationChannels) -> int:
    """Send the due notifications, the longest due first, and return the number of attempts. A failed target waits
    for the next look.
    """
    targets = {one.id: one for one in post.targets}
    away: set[str] = set()
    members_away = False
    for tried in range(PASS_MAX):
        row = None if post.stopped() else _take(post.now(), away, members=not members_away)
        if row is None:
            return tried
        target, over = _find_target(row, targets, post.box)
        over = over or _close_delivery(row, target)
        delivery = over or _attempt(post, row, target)
        if over is None and delivery.happened is not NotificationHappening.DELIVERED:
            away.add(row.target)
            # One mail server has all of their mail: a refusal for now applies to every mailbox.
            members_away |= (
                row.channel == Channel.EMAIL and bool(row.member) and delivery.happened is NotificationHappening.FAILED
            )
        notification_mark(row, delivery, now=post.now(), tried=over is None)
    return PASS_MAX


def _find_target(
    row: Notification, targets: Mapping[str, Target], box: SecretBox | None
) -> tuple[Target | None, Delivery | None]:
    """Return a row's target, or the delivery that ends it without one."""
    found = targets.get(row.target) or find_chat(row, box)
    if isinstance(found, Delivery):
        return None, found
    if found is None and row.member:
        found = member_target(row.member, row.told)
    return found, None


def _take(now: int, away: set[str], *, members: bool) -> Notification | None:
    """Claim the next due notification. The update decides between rivals. ``members``: whether members' mail is
    taken too.
    """
    due = Notification.objects.filter(WAITING, next_at__lte=now, held_until__lte=now).exclude(target__in=away)
    if not members:
        due = due.exclude(~Q(member=""), channel=Channel.EMAIL)
    for row in due.order_by("next_at", "at", "seq", "id")[:RIVALS_MAX]:
        mine = Notification.objects.filter(WAITING, id=row.id, attempts=row.attempts, held_until__lte=now)
        if mine.update(held_until=now + round(HOLD_S * US), attempts=F("attempts") + 1):
            row.attempts += 1
            return row
    return None


def _close_delivery(row: Notification, target: Target | None) -> Delivery | None:
    """Return the delivery of a notification whose review or change is closed, so that it calls for nothing. None: it
    is to be sent.

    An answer that can still be taken back does not close a review. A review whose time ran out before its
    notification is still sent: people have to know of it.
    """
    if row.member and target is None:
        return Delivery(
            NotificationHappening.ANSWERED,
            f"{row.shown} wants no mail of this, has no address or is no member (any more)",
        )
    if row.told not in OVER:
        return None
    return _change_over(row) if row.change else _review_over(row)


def _change_over(row: Notification) -> Delivery | None:
    said = BEFORE.get(change_state(row.workspace_id, row.change) or ChangeState.OPEN)
    return Delivery(NotificationHappening.ANSWERED, said) if said else None


def _review_over(row: Notification) -> Delivery | None:
    asked = json.loads(bytes(row.content)).get("review_id", "")
    closed = Review.objects.filter(id=asked, run_id=row.run_id, decided_at__isnull=False)
    found = closed.values_list("verb", "by_system").first() if asked else None
    if found is None:
        return None
    verb, by_system = found
    if verb == WITHDRAWN:
        return Delivery(NotificationHappening.ANSWERED, "withdrawn before it was sent")
    if by_system:
        return Delivery(NotificationHappening.REFUSED, "its time ran out before it was sent")
    return Delivery(NotificationHappening.ANSWERED, "answered before it was sent")


def _attempt(post: NotificationChannels, row: Notification, target: Target | None) -> Delivery:
    if target is None:
        # Another worker may know it: one that was started with newer settings.
        return Delivery(
            NotificationHappening.FAILED, f"{row.shown} is not among the targets that this worker was started with"
        )
    send = post.sends.get(target.channel)
    if send is None:
        return Delivery(NotificationHappening.FAILED, f"sending by {target.channel} is not configured on this worker")
    data = json.loads(bytes(row.content))
    message = Message(
        key=row.id,
        at=row.at,
        told=NotificationKind(row.told),
        data=data,
        link=post.base + read_path(data),
        trace_headers=_find_headers(row) if target.channel is Channel.WEBHOOK else {},
    )
    return send(target, message)


def _find_headers(row: Notification) -> dict[str, str]:
    """Return the headers that carry the run's trace to a receiver; none for a notification without a run."""
    trace = read_trace(row.run_id) if row.run_id else None
    return trace.write_headers(trace.root) if trace is not None else {}


def notification_mark(row: Notification, delivery: Delivery, *, now: int, tried: bool = True) -> None:
    """Record the result of an attempt. ``tried`` False: no request was sent, so it counts as no attempt.

    An attempt whose lease had lapsed changes nothing, except that it was delivered.
    """
    happened, failures = delivery.happened, row.attempts - row.attempts_before
    if happened is NotificationHappening.FAILED and failures >= ATTEMPTS_MAX:
        happened = NotificationHappening.EXHAUSTED
    changed: dict[str, object] = {"held_until": 0, "error": delivery.error}
    if happened is NotificationHappening.DELIVERED:
        changed["sent_at"] = now
    if not tried:
        changed["attempts"] = row.attempts - 1
    for state in NotificationState:
        after = TRANSITIONS[state, happened]
        assert after is not None
        if after is NotificationState.WAITING:
            changed["next_at"] = now + round(delay_s(row.id, failures, delivery.retry_after_s) * US)
        stands = Notification.objects.filter(id=row.id, state=state.value)
        mine = stands if happened is NotificationHappening.DELIVERED else stands.filter(attempts=row.attempts)
        if mine.update(state=after.value, **changed):
            return


def may_resend(actor: Actor) -> bool:
    """Return True if the actor may have a notification sent again."""
    return actor.may(Right.OPERATE)


def notification_resend(*, actor: Actor, notification_id: str) -> Notification:
    """Queue a notification again with all its attempts. It keeps its key, so a recipient can recognise a repetition.

    Raises Refused: forbidden, not_found, conflict (it was sent, or was not needed), unavailable.
    """
    right_wanted(actor, Right.OPERATE, "have notifications sent again", anywhere=True)
    for _ in range(TRIES):
        mine = Notification.objects.filter(match_visible(actor, Notification), id=notification_id)
        found = mine.first() if _id.fullmatch(notification_id) else None
        if found is None:
            message = f"there is no notification {notification_id[:80]!r} in this workspace; `{program()} notification list` lists them"
            raise Refused(message, code="not_found", field="notification")
        after = TRANSITIONS[NotificationState(found.state), NotificationHappening.ASKED]
        if after is None:
            what = "was sent already" if found.state == NotificationState.SENT else f"was not needed ({found.error})"
            message = f"notification {found.id} {what}: there is nothing to send again"
            raise Refused(message, code="conflict", field="notification")
        if _put_back(actor, found, after):
            found.refresh_from_db()
            return found
    raise Refused(
        f"notification {notification_id[:80]} moves while it is looked at; try again",
        code="unavailable",
        field="notification",
    )


def _put_back(actor: Actor, found: Notification, after: NotificationState) -> bool:
    """Queue the notification again, and return False if it changed since it was read."""
    with transaction.atomic():
        same = Notification.objects.filter(id=found.id, state=found.state, attempts=found.attempts)
        done = same.update(state=after.value, attempts_before=found.attempts, next_at=database_us())
        if done:
            whose = {"change": found.change} if found.change else {"run": found.run_id}
            about = {**whose, "to": found.shown, "was": found.state}
            audit_record(actor=actor, act=Act.NOTIFICATION_RESENT, subject=found.id, **about)
    return bool(done)


# -- pruning ---------------------------------------------------------------------------------------------------------


def notifications_to_prune() -> bool:
    """Return True if the outbox has any row."""
    return Notification.objects.exists()


def notifications_prune(*, now: int | None = None) -> int:
    """Delete notifications that were sent or given up ``KEPT_US`` ago, and return their number. ``now``:
    microseconds since the epoch.

    Waiting ones stay. So do those whose event is still in the lookback: without its row it would be reported anew.
    """
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    near = NotificationTarget.objects.filter(id=OuterRef("target"), read_to__lte=OuterRef("at") + LOOKBACK_US)
    NotificationRead.objects.filter(at__lte=until).delete()
    return Notification.objects.exclude(WAITING).filter(~Exists(near), made_at__lte=until).delete()[0]
