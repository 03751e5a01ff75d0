"""Creates notifications: reads the journal behind a cursor, and gives each event to be reported one row for each
target.

The journal's writer takes no part: a partial index has exactly these events. An event's time is older than its
commit, so every look goes back ``LOOKBACK_US`` behind the cursor and takes events without a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.db.models import Exists, OuterRef, QuerySet

from fabric.core import events as ev
from fabric.core.events.envelope import from_row
from fabric.core.texts.notifications import NotificationKind, Target, build_key, rfc3339
from fabric.core.texts.text import clean_text
from fabric.core.values.fingerprint import encode
from fabric.core.values.taxonomy import CLASSIFY
from fabric.core.values.units import JSON, US
from fabric.models import Event, Notification, NotificationTarget, Review, Run, Workspace
from fabric.models.runs.journal import NOTIFIED
from fabric.policies.guardrails.compiled import compile_patterns, mask_hit

LOOKBACK_US = 3_600 * US
"""Largest delay of an event's commit after its time, in microseconds.

A worker whose lease lapsed, ten seconds, commits nothing any more, and clocks may differ.
"""
EVENTS_MAX = 500
"""Largest number of events for one target in one transaction."""
REASON_CHARS_MAX = 500
MOSTLY: Mapping[str, NotificationKind] = {
    "alert_raised": NotificationKind.ALERT,
    "review_opened": NotificationKind.REVIEW,
    "review_reminded": NotificationKind.REMINDER,
    "review_approved": NotificationKind.SECOND,
    "review_decided": NotificationKind.DECIDED,
}
"""Usual kind of notification of each event, for events that this program cannot read; total over ``EVENTS``."""
DRILLS = Workspace.objects.filter(drills_of__isnull=False).values("id")
"""Workspaces of drills: their failures were caused on purpose and notify no one."""


def notifications_wanted(targets: Sequence[Target]) -> bool:
    """Return True where a target or a notification is new. Reads once for each target."""
    known = dict(NotificationTarget.objects.values_list("id", "read_to"))
    return any(one.id not in known or _untold(one, known[one.id]).exists() for one in targets)


def notifications_make(targets: Sequence[Target], *, now: int) -> int:
    """Create the missing rows, and return their number. ``now``: microseconds since the epoch on the database's
    clock.

    A new target gets events from now on. Several workers may call it at once: a row's id is that of its event and
    target.
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
    """Return events that are due to a target and have no row, the oldest first."""
    since = NotificationTarget.objects.filter(id=target.id).values("since_at")
    told = Notification.objects.filter(run_id=OuterRef("run_id"), seq=OuterRef("seq"), target=target.id)
    found = Event.objects.filter(NOTIFIED, ~Exists(told), at__gte=read_to - LOOKBACK_US, kind__in=target.wants)
    found = found.filter(at__gte=since[:1]).exclude(workspace_id__in=DRILLS)
    return (found.filter(workspace_id=target.workspace_id) if target.workspace_id else found).order_by("at")


def _rows(target: Target, found: Sequence[Event], now: int) -> list[Notification]:
    runs = {run.id: run for run in Run.objects.filter(id__in={row.run_id for row in found}).select_related("fabric")}
    return [_row(target, event, runs[event.run_id], now) for event in found if event.run_id in runs]


def _row(target: Target, event: Event, run: Run, now: int) -> Notification:
    told, said = describe_event(event)
    return Notification(
        id=build_key(run.id, event.seq, target.id),
        workspace_id=run.workspace_id,
        run_id=run.id,
        seq=event.seq,
        told=told,
        channel=target.channel,
        target=target.id,
        shown=target.public_address,
        content=encode(about_run(run) | said),
        at=event.at,
        made_at=now,
        next_at=now,
    )


def about_run(run: Run) -> dict[str, JSON]:
    """Return the facts about its run that each notification has."""
    return {
        "run_id": run.id,
        "fabric": run.fabric.name,
        "tier": run.tier,
        "stage": run.stage,
        "cost_usd_micros": run.cost_usd_micros,
    }


def describe_event(event: Event) -> tuple[NotificationKind, dict[str, JSON]]:
    """Return the kind of an event's notification with its fields. An event that this program cannot read gets the
    usual kind of its class.
    """
    try:
        fact = from_row(event.seq, event.kind, event.version, bytes(event.header)).fact
    except (ValueError, LookupError):
        return MOSTLY[event.kind], {"reason": "this program cannot read the event; look at the run"}
    if isinstance(fact, ev.AlertRaised):
        said = {"reason": safe(fact.message), "mechanism": fact.mechanism, "cause": fact.cause.value}
        said |= {"reaction": fact.reaction, "failure_type": _failure_type(event), "advice": CLASSIFY[fact.cause].advice}
        return NotificationKind.ALERT, said
    if isinstance(fact, ev.ReviewOpened):
        return NotificationKind.FOLLOW_UP if fact.item == "follow_up" else NotificationKind.REVIEW, {
            "reason": safe(fact.reason),
            "failure_type": fact.failure_type.value if fact.failure_type else "",
            "stage": fact.stage.value,
            **_review_fields(fact.review_id, fact.item, fact.required_role, fact.due_at),
        }
    if isinstance(fact, ev.ReviewApproved):
        return NotificationKind.SECOND, _review(fact.review_id) | {"approved_by": fact.actor}
    if isinstance(fact, ev.ReviewDecided):
        told = NotificationKind.EXPIRED if fact.system else NotificationKind.DECIDED
        came = {"verb": fact.verb, "decided_by": fact.actor, "decided_at": rfc3339(event.at)}
        return told, _review(fact.review_id) | came
    assert isinstance(fact, ev.ReviewReminded)
    return NotificationKind(fact.step), _review(fact.review_id)


def _review_fields(review_id: str, item: str, role: str, due_at: int) -> dict[str, JSON]:
    return {
        "review_id": review_id,
        "item": item,
        "required_role": role,
        "due_at": rfc3339(due_at),
    }


def _review(review_id: str) -> dict[str, JSON]:
    asked = Review.objects.filter(id=review_id).first()
    if asked is None:
        return {"review_id": review_id, "reason": ""}
    said = {"reason": safe(asked.reason), "failure_type": asked.failure_type, "stage": asked.stage}
    return said | _review_fields(asked.id, asked.item, asked.required_role, asked.due_at)


def _failure_type(event: Event) -> str:
    """Return the failure type of the decision that an alert accompanies: the event before it."""
    before = Event.objects.filter(run_id=event.run_id, seq=event.seq - 1, kind=ev.ReactionDecided.kind).first()
    if before is None:
        return ""
    try:
        fact = from_row(before.seq, before.kind, before.version, bytes(before.header)).fact
    except (ValueError, LookupError):
        return ""
    return str(fact.failure_type.value) if isinstance(fact, ev.ReactionDecided) and fact.failure_type else ""


def safe(text: str) -> str:
    """Return a reason on one short line. Sentences quote endpoints: credentials in them must not leave the console."""
    said = " ".join(clean_text(text)[0].split())
    for one in compile_patterns("credentials"):
        for taken in set(one.matches(said)):
            said = said.replace(taken, f"({mask_hit(taken)})")
    return said if len(said) <= REASON_CHARS_MAX else said[: REASON_CHARS_MAX - 1] + "…"
