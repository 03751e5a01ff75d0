"""Making notifications: the journal is read behind a cursor, and each event that is to be told gets a row for each target, once.

The journal's writer has no part in it: what is told is found in a partial index that holds nothing else. An event's time is older than its
commit, so every look goes back ``LOOKBACK_US`` behind the cursor and takes what has no row yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet

from fabric.core import events as ev
from fabric.core.envelope import from_row
from fabric.core.fingerprint import encode
from fabric.core.notifications import Target, Told, key_of, rfc3339
from fabric.core.reasons import WHAT_TO_DO
from fabric.core.text import clean_text
from fabric.guardrails.compiled import looking, masked
from fabric.models import Escalation, Event, Notification, NotificationTarget, Run, Workspace
from fabric.models.journal import NOTIFIED

JSON = Any
US = 1_000_000
LOOKBACK_US = 3_600 * US
"""How much later than its time an event may commit: a worker whose lease lapsed, ten seconds, commits nothing any more, and clocks may differ."""
EVENTS_MAX = 500
"""Told to one target in one transaction."""
REASON_CHARS_MAX = 500
MOSTLY: Mapping[str, Told] = {
    "alert_raised": Told.ALERT,
    "escalation_opened": Told.QUESTION,
    "escalation_reminded": Told.REMINDER,
    "escalation_approved": Told.SECOND,
    "escalation_decided": Told.DECIDED,
}
"""As what an event is told that this program cannot read; total over ``EVENTS``."""
DRILLS = Workspace.objects.filter(drills_of__isnull=False).values("id")
"""Where drills run: nobody is told of a failure that was made on purpose."""


def notifications_wanted(targets: Sequence[Target]) -> bool:
    """Whether somebody new is to be told, or something new: a read for each target."""
    known = dict(NotificationTarget.objects.values_list("id", "read_to"))
    return any(one.id not in known or _untold(one, known[one.id]).exists() for one in targets)


def notifications_make(targets: Sequence[Target], *, now: int) -> int:
    """Makes the rows that are missing; how many. ``now``: microseconds since the epoch on the database's clock.

    Whoever is new is told what happens from now on. It is right however many do it at once: a row's id is that of its event and target.
    """
    made = 0
    for target in targets:
        known, _ = NotificationTarget.objects.get_or_create(id=target.id, defaults={"since_at": now, "read_to": now})
        while True:
            found = list(_untold(target, known.read_to)[:EVENTS_MAX])
            rows = Notification.objects.bulk_create(_rows(target, found, now), ignore_conflicts=True)
            made += len(rows)
            if len(found) < EVENTS_MAX or not rows:
                break
        NotificationTarget.objects.filter(id=target.id, read_to__lt=now).update(read_to=now)
    return made


def _untold(target: Target, read_to: int) -> QuerySet[Event]:
    """Events that are to be told to a target and have no row, the oldest first."""
    since = NotificationTarget.objects.filter(id=target.id).values("since_at")
    told = Notification.objects.filter(run_id=OuterRef("run_id"), seq=OuterRef("seq"), target=target.id)
    found = Event.objects.filter(NOTIFIED, ~Exists(told), at__gte=read_to - LOOKBACK_US, kind__in=target.wants)
    found = found.filter(at__gte=since[:1]).exclude(workspace_id__in=DRILLS)
    return (found.filter(workspace_id=target.workspace_id) if target.workspace_id else found).order_by("at")


def _rows(target: Target, found: Sequence[Event], now: int) -> list[Notification]:
    runs = {run.id: run for run in Run.objects.filter(id__in={row.run_id for row in found}).select_related("fabric")}
    return [_row(target, event, runs[event.run_id], now) for event in found if event.run_id in runs]


def _row(target: Target, event: Event, run: Run, now: int) -> Notification:
    told, said = said_of(event)
    return Notification(
        id=key_of(run.id, event.seq, target.id),
        workspace_id=run.workspace_id,
        run_id=run.id,
        seq=event.seq,
        told=told,
        channel=target.channel,
        target=target.id,
        shown=target.shown,
        content=encode(about_run(run) | said),
        at=event.at,
        made_at=now,
        next_at=now,
    )


def about_run(run: Run) -> dict[str, JSON]:
    """What each notification says of its run."""
    return {
        "run_id": run.id,
        "fabric": run.fabric.name,
        "tier": run.tier,
        "stage": run.stage,
        "cost_usd_micros": run.cost_usd_micros,
    }


def said_of(event: Event) -> tuple[Told, dict[str, JSON]]:
    """What an event is told as, and its part of what is told. One that this program cannot read is told as what its kind is mostly."""
    try:
        fact = from_row(event.seq, event.kind, event.version, bytes(event.header)).fact
    except (ValueError, LookupError):
        return MOSTLY[event.kind], {"reason": "this program cannot read the event; look at the run"}
    if isinstance(fact, ev.AlertRaised):
        said = {"reason": safe(fact.message), "mechanism": fact.mechanism, "cause": fact.cause.value}
        said |= {"reaction": fact.reaction, "failure_type": _failure_type(event), "advice": WHAT_TO_DO[fact.cause]}
        return Told.ALERT, said
    if isinstance(fact, ev.EscalationOpened):
        return Told.TICKET if fact.item == "ticket" else Told.QUESTION, {
            "reason": safe(fact.reason),
            "failure_type": fact.failure_type.value if fact.failure_type else "",
            "stage": fact.stage.value,
            **_asked(fact.escalation_id, fact.item, fact.required_role, fact.due_at),
        }
    if isinstance(fact, ev.EscalationApproved):
        return Told.SECOND, _question(fact.escalation_id) | {"approved_by": fact.actor}
    if isinstance(fact, ev.EscalationDecided):
        told = Told.EXPIRED if fact.system else Told.DECIDED
        came = {"verb": fact.verb, "decided_by": fact.actor, "decided_at": rfc3339(event.at)}
        return told, _question(fact.escalation_id) | came
    assert isinstance(fact, ev.EscalationReminded)
    return Told(fact.step), _question(fact.escalation_id)


def _asked(escalation_id: str, item: str, role: str, due_at: int) -> dict[str, JSON]:
    return {
        "escalation_id": escalation_id,
        "item": item,
        "required_role": role,
        "due_at": rfc3339(due_at),
    }


def _question(escalation_id: str) -> dict[str, JSON]:
    asked = Escalation.objects.filter(id=escalation_id).first()
    if asked is None:
        return {"escalation_id": escalation_id, "reason": ""}
    said = {"reason": safe(asked.reason), "failure_type": asked.failure_type, "stage": asked.stage}
    return said | _asked(asked.id, asked.item, asked.required_role, asked.due_at)


def _failure_type(event: Event) -> str:
    """Of the decision that an alert accompanies: the event before it."""
    before = Event.objects.filter(run_id=event.run_id, seq=event.seq - 1, kind=ev.ReactionDecided.kind).first()
    if before is None:
        return ""
    try:
        fact = from_row(before.seq, before.kind, before.version, bytes(before.header)).fact
    except (ValueError, LookupError):
        return ""
    return str(fact.failure_type.value) if isinstance(fact, ev.ReactionDecided) and fact.failure_type else ""


def safe(text: str) -> str:
    """A reason on one line and not long. Sentences quote what endpoints answer: what looks like a credential in them does not leave the console."""
    said = " ".join(clean_text(text)[0].split())
    for one in looking("credentials"):
        for taken in set(one.matches(said)):
            said = said.replace(taken, f"({masked(taken)})")
    return said if len(said) <= REASON_CHARS_MAX else said[: REASON_CHARS_MAX - 1] + "…"
