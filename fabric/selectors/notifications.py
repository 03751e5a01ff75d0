"""Notifications for people: messages sent outside the console, with their targets and fates."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery

from fabric.core.people.actor import Actor
from fabric.core.texts.notifications import MEMBER_KINDS, NotificationKind, NotificationState, read_path
from fabric.core.values.units import JSON
from fabric.models import Member, Notification, NotificationPreference, Run
from fabric.models.notifications import FAILED
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.reach import match_visible

LIST_MAX = 200
"""Largest length of a list, the newest first."""
OF_RUN_MAX = 1_000
"""Largest number of a run's notifications searched for one review's, and of one change's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationView:
    """One notification. Instants are microseconds since the epoch, UTC."""

    id: str
    run_id: str
    """Empty: it is about a change."""
    change_id: str
    """The change request that it is about; empty: it is about a run."""
    seq: int
    """Number of the reported event; 0 for a change."""
    told: str
    """Kind: a value of ``notifications.NotificationKind``."""
    channel: str
    shown: str
    """Visible part of the address."""
    state: NotificationState
    attempts: int
    made_at: int
    next_at: int | None
    """Time of the next attempt; None: there is none."""
    sent_at: int | None
    error: str
    """Error of the last attempt; empty: it succeeded, or there was none."""
    data: dict[str, JSON] = field(repr=False)
    """Fields of the notification."""
    title: str
    """First line of the run's request, which no notification contains; empty: there is no run, or not any more."""
    reads: bool = True
    """True: the reader may read contents of its fabric."""

    @property
    def fabric(self) -> str:
        """Return the name of the fabric of its run or change."""
        return str(self.data.get("fabric", ""))

    @property
    def reason(self) -> str:
        """Return the notification's subject in a sentence."""
        return line_for(str(self.data.get("reason") or self.data.get("message", "")), reads=self.reads)

    @property
    def came(self) -> str:
        """Return a change's author, or its outcome with the person who caused it; else empty."""
        if not self.change_id:
            return ""
        became = self.data.get("became")
        return f"{became} by {self.data.get('by')}" if became else f"asked for by {self.data.get('author')}"

    @property
    def failure_type(self) -> str:
        """Return the type of the failure; empty: there was none, or it is unknown."""
        return str(self.data.get("failure_type", ""))

    @property
    def path(self) -> str:
        """Return the console's path of its subject."""
        return read_path(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailView:
    """A member's settings for e-mail, where a mail server is configured."""

    email: str
    """Address; empty: no mail reaches them."""
    wants: tuple[NotificationKind, ...]
    """Wanted kinds out of ``MEMBER_KINDS``."""


def notifications_list(
    actor: Actor, state: NotificationState | None = None, limit: int = LIST_MAX
) -> tuple[list[NotificationView], bool]:
    """Return the workspace's newest notifications, and True if there are more. ``state``: only those in this state."""
    rows = _query_titled(actor).filter(state=state.value) if state else _query_titled(actor)
    limit = min(limit, LIST_MAX)
    found = list(rows.order_by("-made_at", "id")[: limit + 1])
    return [_view(actor, row) for row in found[:limit]], len(found) > limit


def notifications_count(actor: Actor) -> dict[NotificationState, int]:
    """Return the number of notifications in each state."""
    counted = dict(_notifications_in_reach(actor).order_by().values_list("state").annotate(Count("id")))
    return {state: counted.get(state.value, 0) for state in NotificationState}


def notifications_failed(actor: Actor) -> QuerySet[Notification]:
    """Return the abandoned notifications, the newest first."""
    return _notifications_in_reach(actor).filter(FAILED).order_by("-made_at")


def notification_view(actor: Actor, notification_id: str) -> NotificationView | None:
    """Return one notification; None if the reader may not see it or it does not exist."""
    row = _query_titled(actor).filter(id=notification_id).first()
    return None if row is None else _view(actor, row)


def find_mail(actor: Actor) -> MailView | None:
    """Return the actor's settings for e-mail; None: they are no member. One statement."""
    said = NotificationPreference.objects.filter(member=OuterRef("id"))
    off, unwanted = Exists(said.filter(mailed=False)), Subquery(said.values("unwanted")[:1])
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    row = rows.annotate(off=off, unwanted=unwanted).values_list("user__email", "off", "unwanted").first()
    if row is None:
        return None
    but = (row[2] or "").split(",")
    return MailView(email=row[0], wants=() if row[1] else tuple(one for one in MEMBER_KINDS if one not in but))


def members_mailed(actor: Actor) -> int:
    """Return the number of members who have an address and want any e-mail. One statement."""
    off = Exists(NotificationPreference.objects.filter(member=OuterRef("id"), mailed=False))
    here = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True, service=False)
    mailed = here.filter(user__is_active=True).exclude(user__email="")
    return mailed.filter(~off).count()


def list_notifications(actor: Actor, run_id: str, review_id: str) -> list[NotificationView]:
    """Return the notifications of one review with their fates, in the order of their events: one statement."""
    rows = _query_titled(actor).filter(run_id=run_id).order_by("seq", "shown", "id")[:OF_RUN_MAX]
    views = (_view(actor, row) for row in rows)
    return [one for one in views if one.data.get("review_id") == review_id]


def notifications_of_change(actor: Actor, change_id: str) -> list[NotificationView]:
    """Return the notifications of one change request with their fates, in their order: one statement."""
    rows = _query_titled(actor).filter(change=change_id).exclude(change="").order_by("at", "shown", "id")[:OF_RUN_MAX]
    return [_view(actor, row) for row in rows]


def _notifications_in_reach(actor: Actor) -> QuerySet[Notification]:
    return Notification.objects.filter(match_visible(actor, Notification))


def _query_titled(actor: Actor) -> QuerySet[Notification]:
    """Return notifications with their runs' titles; without a join, since a deleted run leaves its notifications."""
    title = Subquery(Run.objects.filter(id=OuterRef("run_id")).values("title")[:1])
    return _notifications_in_reach(actor).annotate(title=title)


def _view(actor: Actor, row: Notification) -> NotificationView:
    state = NotificationState(row.state)
    data = json.loads(bytes(row.content))
    # A notification about a change quotes no run.
    reads = not row.run_id or may_read(actor, str(data.get("fabric", "")))
    return NotificationView(
        id=row.id,
        run_id=row.run_id or "",
        change_id=row.change,
        seq=row.seq,
        told=row.told,
        channel=row.channel,
        shown=row.shown,
        state=state,
        attempts=row.attempts,
        made_at=row.made_at,
        next_at=row.next_at if state is NotificationState.WAITING else None,
        sent_at=row.sent_at,
        error=row.error,
        data=data,
        title=title_for(row.title or "", reads=reads),  # type: ignore[attr-defined]
        reads=reads,
    )
