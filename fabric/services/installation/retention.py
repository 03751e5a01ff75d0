"""Retention: erases the content of runs some days after their end. The record that they ran, and how, stays.

It erases the contents of events, inputs, attached documents, what reviews showed, and the title. Headers stay, and
with them the chain: they have hashes, names, numbers and sentences about failures, no content.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from django.db import connection, transaction
from django.db.models import Q

from fabric.core.audit.lines import Act
from fabric.core.people.actor import Actor
from fabric.core.people.roles import Right
from fabric.core.values.flow import RunState
from fabric.models import Attachment, Event, FollowUpClosure, Inbox, Review, ReviewComment, Run, Snapshot, Workspace
from fabric.models.runs.run import BAD_STATES, ENDED, ERASED_TITLE
from fabric.selectors.audit.holds import run_is_held, runs_held
from fabric.selectors.audit.lookup import was_erased
from fabric.services.actors import system_actor
from fabric.services.acts import audit_record
from fabric.services.errors import Refused
from fabric.services.memories.retention import values_erase
from fabric.services.rights import right_wanted

DAYS_MAX = 36_500
DAY_US = 86_400 * 1_000_000
RUNS = 200
NOTHING = b"{}"
"""Content of a review after its erasure; the fold of the journal gives this value too."""


@dataclass(frozen=True, slots=True)
class RunErasure:
    """Counts of one run's erased content, or of content due to be erased."""

    run_id: str
    ended_at: int
    events: int
    """Events that lost their content."""


class OtherRetention(Protocol):
    """A store of a workspace's runs elsewhere, which erases them by a clock of its own."""

    def __call__(self, workspace: Workspace, until: int, *, dry_run: bool) -> Iterable[tuple[str, int, int]]:
        """Erase runs that ended up to ``until``, microseconds since the epoch; yield ``(run id, end, events)`` of
        each. ``dry_run``: erase nothing.
        """
        ...


BESIDE: list[OtherRetention] = []
"""Further stores that obey a workspace's retention; an application adds its own when it is ready."""


def retention_set(*, actor: Actor, days: int | None) -> None:
    """Set the days after its end for which a run's contents are stored in the actor's workspace; None: for ever.

    Raises Refused forbidden, invalid.
    """
    right_wanted(actor, Right.OPERATE, "say how long contents are kept")
    if days is not None and not 1 <= days <= DAYS_MAX:
        raise Refused(f"contents cannot be kept {days:,} days; give 1 to {DAYS_MAX:,}", code="invalid", field="days")
    with transaction.atomic():
        mine = Workspace.objects.filter(id=actor.workspace_id)
        was = mine.values_list("retention_days", flat=True).first()
        mine.update(retention_days=days)
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=actor.workspace_id, days=days or 0, before_days=was)


def retention_wanted() -> bool:
    """Return True if any workspace erases content."""
    return Workspace.objects.filter(retention_days__isnull=False).exists()


def retention_apply(*, dry_run: bool = False, now: int | None = None) -> list[RunErasure]:
    """Erase contents beyond their retention in every workspace that has one, and return the erasures. ``dry_run``:
    erase nothing.

    Each run is one transaction with its audit line, so that it can stop anywhere and several workers can do it at
    once.
    """
    at = time.time_ns() // 1_000 if now is None else now
    done = []
    for workspace in Workspace.objects.filter(retention_days__isnull=False).order_by("id"):
        until = at - (workspace.retention_days or 0) * DAY_US
        for run_id, ended_at in _due_runs(workspace, until):
            erased = _preview_erasure(run_id, ended_at) if dry_run else _erase(workspace, run_id, ended_at)
            if erased is not None:
                done.append(erased)
        for beside in BESIDE:
            done += [RunErasure(*one) for one in beside(workspace, until, dry_run=dry_run)]
        if not dry_run:
            # Only forwards: a longer retention brings nothing back, and nothing before this is looked at again.
            Workspace.objects.filter(id=workspace.id, erased_until__lt=until).update(erased_until=until)
    return done


def _due_runs(workspace: Workspace, until: int) -> Iterator[tuple[str, int]]:
    """Yield runs that ended after the last erased ones and up to ``until``, by the two indexes of ended runs."""
    bad = ", ".join(f"'{state}'" for state in BAD_STATES)
    for condition in (f"state = '{RunState.COMPLETED.value}'", f"state IN ({bad})"):
        at: tuple[int, str] = (workspace.erased_until, "")
        statement = (
            f"SELECT id, ended_at FROM fabric_run WHERE workspace_id = %s AND {condition} AND ended_at <= %s "  # noqa: S608 - constants.
            f"AND (ended_at, id) > (%s, %s) ORDER BY ended_at, id LIMIT {RUNS}"
        )
        while True:
            with connection.cursor() as cursor:
                cursor.execute(statement, [workspace.id, until, *at])
                page = cursor.fetchall()
            yield from page
            if len(page) < RUNS:
                break
            at = (page[-1][1], page[-1][0])


def _match_held_rows(run_id: str) -> Q:
    return Q(run_id=run_id, payload__isnull=False)


def _preview_erasure(run_id: str, ended_at: int) -> RunErasure | None:
    if runs_held([run_id]):
        return None
    count = Event.objects.filter(_match_held_rows(run_id)).count()
    return RunErasure(run_id, ended_at, count) if count else None


def _erase(workspace: Workspace, run_id: str, ended_at: int) -> RunErasure | None:
    with transaction.atomic():
        # No other writer changes the row of an ended run. Of several workers at once, the second waits here for the
        # first's audit line.
        if not Run.objects.filter(~run_is_held(), id=run_id, state__in=ENDED).update(title=ERASED_TITLE):
            return None
        if was_erased(workspace.id, run_id):
            return None
        events = Event.objects.filter(_match_held_rows(run_id)).update(payload=None)
        Inbox.objects.filter(run_id=run_id).update(body=b"")
        documents = Attachment.objects.filter(run_id=run_id).update(text="")
        Review.objects.filter(run_id=run_id).update(content=NOTHING)
        FollowUpClosure.objects.filter(run_id=run_id).update(note="")
        ReviewComment.objects.filter(run_id=run_id).update(text="")
        Snapshot.objects.filter(run_id=run_id).delete()
        memories = values_erase(run_id)
        audit_record(
            actor=system_actor(workspace.id),
            act=Act.RUN_ERASED,
            subject=run_id,
            days=workspace.retention_days,
            ended_at=ended_at,
            events=events,
            documents=documents,
            memories=memories,
        )
    return RunErasure(run_id, ended_at, events)
