"""Notifies webhooks of runs that ended, of the fabrics whose ends the operator wants.

Ends are read from the runs' rows, behind a cursor for each target and fabric: a fabric that is named later is
reported from then on. A run's end is its last event, so its number makes the row's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.db.models import Exists, OuterRef, QuerySet

from fabric.core.texts.notifications import ENDS, EVERY_FABRIC, Target, build_key, rfc3339
from fabric.core.values.fingerprint import digest, encode
from fabric.core.values.flow import RunState
from fabric.core.values.labels import read_labels
from fabric.core.values.units import JSON
from fabric.models import Notification, NotificationTarget, Run, Workspace
from fabric.models.runs.run import ASKED_FOR
from fabric.selectors.runs.labels import find_labels
from fabric.services.notifications.creation import EVENTS_MAX, LOOKBACK_US, about_run, safe


def run_ends_wanted(targets: Sequence[Target]) -> bool:
    """Return True where a target wants the ends of another fabric, or a run ended. Reads once for each of both."""
    return any(known is None or _untold(target, fabric, known).exists() for target, fabric, known in _cursors(targets))


def run_ends_make(targets: Sequence[Target], *, now: int) -> int:
    """Create the missing rows, and return their number. ``now``: microseconds since the epoch on the database's
    clock.

    Several workers may call it at once: a row's id is that of its run and target.
    """
    made = 0
    for target, fabric, known in _cursors(targets):
        cursor_id = _cursor_id(target, fabric)
        fresh = {"since_at": now, "read_to": now}
        cursor = known or NotificationTarget.objects.get_or_create(id=cursor_id, defaults=fresh)[0]
        while found := list(_untold(target, fabric, cursor)[:EVENTS_MAX]):
            Notification.objects.bulk_create((_row(target, run, now) for run in found), ignore_conflicts=True)
            made += len(found)
            if len(found) < EVENTS_MAX:
                break
        NotificationTarget.objects.filter(id=cursor_id, read_to__lt=now).update(read_to=now)
    return made


def _cursors(targets: Sequence[Target]) -> Iterator[tuple[Target, str, NotificationTarget | None]]:
    """Return each wanted fabric of each target, with its cursor; None: it is new."""
    asked = [(target, fabric) for target in targets for fabric in sorted(target.ends)]
    known = NotificationTarget.objects.in_bulk([_cursor_id(*one) for one in asked]) if asked else {}
    return ((target, fabric, known.get(_cursor_id(target, fabric))) for target, fabric in asked)


def _cursor_id(target: Target, fabric: str) -> str:
    return digest("target", "ends", target.id, fabric)


def _untold(target: Target, fabric: str, cursor: NotificationTarget) -> QuerySet[Run]:
    """Return runs whose end is due to a target and has no row, the oldest first. Child runs are part of their
    parents.
    """
    told = Notification.objects.filter(run_id=OuterRef("id"), seq=OuterRef("last_seq"), target=target.id)
    real = Workspace.objects.filter(drills_of=None, **({"id": target.workspace_id} if target.workspace_id else {}))
    since = max(cursor.since_at, cursor.read_to - LOOKBACK_US)
    rows = Run.objects.filter(ASKED_FOR, ~Exists(told), ended_at__gte=since, workspace_id__in=real.values("id"))
    if fabric != EVERY_FABRIC:
        rows = rows.filter(fabric__name=fabric)
    return (
        rows.select_related("fabric", "revision")
        .defer("revision__spec", "revision__source")
        .annotate(labels_text=find_labels())
        .order_by("ended_at")
    )


def _row(target: Target, run: Run, now: int) -> Notification:
    assert run.ended_at is not None
    return Notification(
        id=build_key(run.id, run.last_seq, target.id),
        workspace_id=run.workspace_id,
        run_id=run.id,
        seq=run.last_seq,
        told=ENDS[RunState(run.state)],
        channel=target.channel,
        target=target.id,
        shown=target.public_address,
        content=encode(about_run(run) | _describe_end(run)),
        at=run.ended_at,
        made_at=now,
        next_at=now,
    )


def _describe_end(run: Run) -> dict[str, JSON]:
    assert run.ended_at is not None
    return {
        "revision": run.revision.number,
        "state": run.state,
        "reason": safe(run.reason),
        "cause": run.cause,
        "failure_type": run.failure,
        "recovered": run.recovered,
        "truncated": run.truncated,
        "tokens": run.tokens,
        "labels": dict(read_labels(run.labels_text)),  # type: ignore[attr-defined]
        "started_by": run.created_by,
        "created_at": rfc3339(run.created_at),
        "ended_at": rfc3339(run.ended_at),
    }
