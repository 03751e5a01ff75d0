"""Sending what waits in the outbox: taken one by one with a hold that lapses, tried again later where that may help, given up and shown where not.

At least once: a worker that dies between sending and marking leaves its hold to lapse, and the row is sent again under the same key.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Exists, F, OuterRef

from fabric.adapters.duties import database_us
from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.notifications import (
    ATTEMPTS_MAX,
    OVER,
    TRANSITIONS,
    Channel,
    Delivery,
    Happened,
    Message,
    State,
    Target,
    Told,
    delay_s,
    path_of,
)
from fabric.core.roles import Right
from fabric.models import Escalation, Notification, NotificationRead, NotificationTarget
from fabric.models.notifications import WAITING
from fabric.selectors.change_requests import ChangeState, change_state
from fabric.selectors.reach import seen_by
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.notification_members import member_target
from fabric.services.notifications import LOOKBACK_US
from fabric.services.rights import right_wanted

Send = Callable[[Target, Message], Delivery]
US = 1_000_000
HOLD_S = 120.0
"""How long one attempt has a row to itself: far longer than any may take."""
_id = re.compile(r"[0-9a-f]{32}", re.ASCII)
TRIES = 5
RIVALS_MAX = 16
"""Rows that are read to take one: others may have been quicker with those before it."""
PASS_MAX = 100
"""Attempts in one go, so that a stop is heard."""
WITHDRAWN = "withdrawn"
"""The verb of a question that nobody has to answer any more (``projection``)."""
BEFORE: Mapping[ChangeState, str] = {
    ChangeState.STALE: "another revision was published before it was sent",
    ChangeState.PUBLISHED: "agreed to before it was sent",
    ChangeState.REJECTED: "rejected before it was sent",
    ChangeState.WITHDRAWN: "withdrawn before it was sent",
    ChangeState.VOIDED: "voided before it was sent",
}
"""Why nobody is asked any more to agree to a change; total over the states in which it waits no more, by test."""
KEPT_US = 30 * 86_400 * US
"""How long what was sent or given up is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """How notifications go out, put together by ``outbox.post``."""

    targets: Sequence[Target]
    sends: Mapping[Channel, Send]
    """By channel; one that is not configured has none."""
    base: str
    """The console's address, for the link."""
    now: Callable[[], int]
    """Microseconds since the epoch on the database's clock."""
    stopped: Callable[[], bool] = lambda: False


def notifications_due(*, now: int) -> bool:
    """Whether there is something to send now: a cheap read."""
    return Notification.objects.filter(WAITING, next_at__lte=now, held_until__lte=now).exists()


def notifications_send(post: Post) -> int:
    """Sends what is due, the longest due first; how many were taken. A target that fails is left alone until the next look, the others go on."""
    targets = {one.id: one for one in post.targets}
    away: set[str] = set()
    members_away = False
    for tried in range(PASS_MAX):
        row = None if post.stopped() else _take(post.now(), away, members=not members_away)
        if row is None:
            return tried
        target = member_target(row.member, row.told) if row.member else targets.get(row.target)
        over = _over(row, target)
        delivery = over or _attempt(post, row, target)
        if over is None and delivery.happened is not Happened.DELIVERED:
            away.add(row.target)
            # One mail server has all of their mail: what it does not take now for one it does not take for the others.
            members_away |= bool(row.member) and delivery.happened is Happened.FAILED
        notification_mark(row, delivery, now=post.now(), tried=over is None)
    return PASS_MAX


def _take(now: int, away: set[str], *, members: bool) -> Notification | None:
    """The next one that is due, held. The update decides between those who ask at once. ``members``: whether theirs are taken too."""
    due = Notification.objects.filter(WAITING, next_at__lte=now, held_until__lte=now).exclude(target__in=away)
    if not members:
        due = due.filter(member="")
    for row in due.order_by("next_at", "at", "seq", "id")[:RIVALS_MAX]:
        mine = Notification.objects.filter(WAITING, id=row.id, attempts=row.attempts, held_until__lte=now)
        if mine.update(held_until=now + round(HOLD_S * US), attempts=F("attempts") + 1):
            row.attempts += 1
            return row
    return None


def _over(row: Notification, target: Target | None) -> Delivery | None:
    """What becomes of one whose question, or change, is not open any more: it would call somebody to nothing. None: it is to be sent.

    An answer that can still be taken back is none yet. A question whose time ran out before anybody was told is not skipped: that is for somebody to know.
    """
    if row.member and target is None:
        return Delivery(
            Happened.ANSWERED, f"{row.shown} wants no mail of this, has no address or is no member (any more)"
        )
    if row.told not in OVER:
        return None
    return _change_over(row) if row.change else _question_over(row)


def _change_over(row: Notification) -> Delivery | None:
    said = BEFORE.get(change_state(row.workspace_id, row.change) or ChangeState.OPEN)
    return Delivery(Happened.ANSWERED, said) if said else None


def _question_over(row: Notification) -> Delivery | None:
    asked = json.loads(bytes(row.content)).get("escalation_id", "")
    closed = Escalation.objects.filter(id=asked, run_id=row.run_id, decided_at__isnull=False)
    found = closed.values_list("verb", "by_system").first() if asked else None
    if found is None:
        return None
    verb, by_system = found
    if verb == WITHDRAWN:
        return Delivery(Happened.ANSWERED, "withdrawn before it was sent")
    if by_system:
        return Delivery(Happened.REFUSED, "its time ran out before it was sent")
    return Delivery(Happened.ANSWERED, "answered before it was sent")


def _attempt(post: Post, row: Notification, target: Target | None) -> Delivery:
    if target is None:
        # Another worker may know it: one that was started with newer settings.
        return Delivery(Happened.FAILED, f"{row.shown} is not among the targets that this worker was started with")
    send = post.sends.get(target.channel)
    if send is None:
        return Delivery(Happened.FAILED, f"sending by {target.channel} is not configured on this worker")
    data = json.loads(bytes(row.content))
    link = post.base + path_of(data)
    return send(target, Message(key=row.id, at=row.at, told=Told(row.told), data=data, link=link))


def notification_mark(row: Notification, delivery: Delivery, *, now: int, tried: bool = True) -> None:
    """Writes down what an attempt came to; not ``tried``: nobody was asked, so it was none. One whose hold had lapsed changes nothing, but that it was delivered."""
    happened, failures = delivery.happened, row.attempts - row.attempts_before
    if happened is Happened.FAILED and failures >= ATTEMPTS_MAX:
        happened = Happened.EXHAUSTED
    changed: dict[str, object] = {"held_until": 0, "error": delivery.error}
    if happened is Happened.DELIVERED:
        changed["sent_at"] = now
    if not tried:
        changed["attempts"] = row.attempts - 1
    for state in State:
        after = TRANSITIONS[state, happened]
        assert after is not None
        if after is State.WAITING:
            changed["next_at"] = now + round(delay_s(row.id, failures, delivery.retry_after_s) * US)
        stands = Notification.objects.filter(id=row.id, state=state.value)
        mine = stands if happened is Happened.DELIVERED else stands.filter(attempts=row.attempts)
        if mine.update(state=after.value, **changed):
            return


def may_resend(actor: Actor) -> bool:
    """Whether somebody may have a notification sent again."""
    return actor.may(Right.OPERATE)


def notification_resend(*, actor: Actor, notification_id: str) -> Notification:
    """Has a notification sent again, with all its attempts, as soon as a worker looks. It keeps its key, so whoever has it already can tell.

    Raises Refused: forbidden, not_found, conflict (it was sent, or was not needed), unavailable.
    """
    right_wanted(actor, Right.OPERATE, "have notifications sent again", anywhere=True)
    for _ in range(TRIES):
        mine = Notification.objects.filter(seen_by(actor, Notification), id=notification_id)
        found = mine.first() if _id.fullmatch(notification_id) else None
        if found is None:
            message = f"there is no notification {notification_id[:80]!r} in this workspace; `manage.py notifications list` lists them"
            raise Refused(message, code="not_found", field="notification")
        after = TRANSITIONS[State(found.state), Happened.ASKED]
        if after is None:
            what = "was sent already" if found.state == State.SENT else f"was not needed ({found.error})"
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


def _put_back(actor: Actor, found: Notification, after: State) -> bool:
    """Whether it still stood as it was read."""
    with transaction.atomic():
        same = Notification.objects.filter(id=found.id, state=found.state, attempts=found.attempts)
        done = same.update(state=after.value, attempts_before=found.attempts, next_at=database_us())
        if done:
            whose = {"change": found.change} if found.change else {"run": found.run_id}
            about = {**whose, "to": found.shown, "was": found.state}
            audit_record(actor=actor, act=Act.NOTIFICATION_RESENT, subject=found.id, **about)
    return bool(done)


# -- what is over ------------------------------------------------------------------------------------------------------


def notifications_to_prune() -> bool:
    """Whether there is anything in the outbox at all."""
    return Notification.objects.exists()


def notifications_prune(*, now: int | None = None) -> int:
    """Deletes what was sent or given up ``KEPT_US`` ago; how many. What waits stays, and so does that whose event is still looked at: without its
    row it would be told anew. ``now``: microseconds since the epoch.
    """
    until = (time.time_ns() // 1_000 if now is None else now) - KEPT_US
    near = NotificationTarget.objects.filter(id=OuterRef("target"), read_to__lte=OuterRef("at") + LOOKBACK_US)
    NotificationRead.objects.filter(at__lte=until).delete()
    return Notification.objects.exclude(WAITING).filter(~Exists(near), made_at__lte=until).delete()[0]
