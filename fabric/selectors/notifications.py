"""Notifications as they are looked at: what was told outside the console, to whom, and what became of it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery

from fabric.core.actor import Actor
from fabric.core.notifications import MEMBERS_TOLD, State, Told, path_of
from fabric.models import Member, Notification, NotificationPreference, Run
from fabric.models.notifications import FAILED
from fabric.selectors.contents import line_for, may_read, title_for
from fabric.selectors.reach import seen_by

JSON = Any
LIST_MAX = 200
"""In one list at most, the newest first."""
OF_RUN_MAX = 1_000
"""Of one run that are looked through for one question's, and of one change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationView:
    """One notification. Instants are microseconds since the epoch, UTC."""

    id: str
    run_id: str
    """Empty: it is about a change."""
    change_id: str
    """The change request that it is about; empty: it is about a run."""
    seq: int
    """The event that it tells; of a change 0."""
    told: str
    """``notifications.Told``."""
    channel: str
    shown: str
    """What of the address may be seen."""
    state: State
    attempts: int
    made_at: int
    next_at: int | None
    """When it is tried next; None: it is not."""
    sent_at: int | None
    error: str
    """What the last attempt came to; empty: it was taken, or there was none."""
    data: dict[str, JSON] = field(repr=False)
    """What was told."""
    title: str
    """First line of the run's request, which no notification tells; empty: there is no run, or not any more."""
    reads: bool = True
    """True: the reader may read contents of its fabric."""

    @property
    def fabric(self) -> str:
        """Name of the fabric whose run or change it is about."""
        return str(self.data.get("fabric", ""))

    @property
    def reason(self) -> str:
        """What it is about, in a sentence."""
        return line_for(str(self.data.get("reason") or self.data.get("message", "")), reads=self.reads)

    @property
    def came(self) -> str:
        """Of a change, who asked for it, or what became of it and by whom; else empty."""
        if not self.change_id:
            return ""
        became = self.data.get("became")
        return f"{became} by {self.data.get('by')}" if became else f"asked for by {self.data.get('author')}"

    @property
    def failure_type(self) -> str:
        """What failed; empty: nothing, or it is not known."""
        return str(self.data.get("failure_type", ""))

    @property
    def path(self) -> str:
        """Where the console shows what it is about."""
        return path_of(self.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class MailView:
    """What a member is told by e-mail, where a mail server is configured."""

    email: str
    """Empty: nothing reaches them."""
    wants: tuple[Told, ...]
    """What they want to be told, of ``MEMBERS_TOLD``; empty: nothing."""


def notifications_list(
    actor: Actor, state: State | None = None, limit: int = LIST_MAX
) -> tuple[list[NotificationView], bool]:
    """The workspace's newest, and whether there are more. ``state``: only those that stand so."""
    rows = _titled(actor).filter(state=state.value) if state else _titled(actor)
    limit = min(limit, LIST_MAX)
    found = list(rows.order_by("-made_at", "id")[: limit + 1])
    return [_view(actor, row) for row in found[:limit]], len(found) > limit


def notifications_count(actor: Actor) -> dict[State, int]:
    """How many stand where."""
    counted = dict(_of(actor).order_by().values_list("state").annotate(Count("id")))
    return {state: counted.get(state.value, 0) for state in State}


def notifications_failed(actor: Actor) -> QuerySet[Notification]:
    """Those that were given up, the newest first."""
    return _of(actor).filter(FAILED).order_by("-made_at")


def notification_view(actor: Actor, notification_id: str) -> NotificationView | None:
    """One of them."""
    row = _titled(actor).filter(id=notification_id).first()
    return None if row is None else _view(actor, row)


def mail_of(actor: Actor) -> MailView | None:
    """What the actor is told by e-mail; None: they are no member. One statement."""
    said = NotificationPreference.objects.filter(member=OuterRef("id"))
    off, unwanted = Exists(said.filter(questions=False)), Subquery(said.values("unwanted")[:1])
    rows = Member.objects.filter(workspace_id=actor.workspace_id, name=actor.name, removed_at__isnull=True)
    row = rows.annotate(off=off, unwanted=unwanted).values_list("user__email", "off", "unwanted").first()
    if row is None:
        return None
    but = (row[2] or "").split(",")
    return MailView(email=row[0], wants=() if row[1] else tuple(one for one in MEMBERS_TOLD if one not in but))


def members_mailed(actor: Actor) -> int:
    """How many members have an address and want to be told something by e-mail. One statement."""
    off = Exists(NotificationPreference.objects.filter(member=OuterRef("id"), questions=False))
    here = Member.objects.filter(workspace_id=actor.workspace_id, removed_at__isnull=True, service=False)
    mailed = here.filter(user__is_active=True).exclude(user__email="")
    return mailed.filter(~off).count()


def notifications_of(actor: Actor, run_id: str, escalation_id: str) -> list[NotificationView]:
    """What was told of one question, in the order in which it happened, and what became of each: one statement."""
    rows = _titled(actor).filter(run_id=run_id).order_by("seq", "shown", "id")[:OF_RUN_MAX]
    views = (_view(actor, row) for row in rows)
    return [one for one in views if one.data.get("escalation_id") == escalation_id]


def notifications_of_change(actor: Actor, change_id: str) -> list[NotificationView]:
    """What was told of one change request, in the order in which it happened, and what became of each: one statement."""
    rows = _titled(actor).filter(change=change_id).exclude(change="").order_by("at", "shown", "id")[:OF_RUN_MAX]
    return [_view(actor, row) for row in rows]


def _of(actor: Actor) -> QuerySet[Notification]:
    return Notification.objects.filter(seen_by(actor, Notification))


def _titled(actor: Actor) -> QuerySet[Notification]:
    """With their runs' titles; without a join, since a run that was deleted leaves what was told of it."""
    title = Subquery(Run.objects.filter(id=OuterRef("run_id")).values("title")[:1])
    return _of(actor).annotate(title=title)


def _view(actor: Actor, row: Notification) -> NotificationView:
    state = State(row.state)
    data = json.loads(bytes(row.content))
    # What is about a change quotes no run.
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
        next_at=row.next_at if state is State.WAITING else None,
        sent_at=row.sent_at,
        error=row.error,
        data=data,
        title=title_for(row.title or "", reads=reads),  # type: ignore[attr-defined]
        reads=reads,
    )
