"""Retention: what runs were given, said and were answered is erased some days after they ended. That they ran, and how, stays.

Erased are the contents of events, inputs, attached documents, what questions showed, and the title. Headers stay, and with them the chain:
they hold hashes, names, numbers and sentences about failures, no content.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from django.db import connection, transaction
from django.db.models import Q

from fabric.core.actor import Actor
from fabric.core.audit import Act
from fabric.core.flow import RunState
from fabric.core.roles import Right
from fabric.models import Attachment, Escalation, Event, Inbox, Run, Snapshot, TicketClosure, Workspace
from fabric.models.runs import BAD_STATES, ENDED, ERASED_TITLE
from fabric.selectors.audit import was_erased
from fabric.selectors.holds import run_is_held, runs_held
from fabric.services.audit import audit_record
from fabric.services.errors import Refused
from fabric.services.memory_retention import values_erase
from fabric.services.rights import right_wanted
from fabric.services.workspaces import system_actor

DAYS_MAX = 36_500
DAY_US = 86_400 * 1_000_000
RUNS = 200
NOTHING = b"{}"
"""What a question shows whose content is gone; the fold of the journal gives the same."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased of one run, or would be."""

    run_id: str
    ended_at: int
    events: int
    """Events that lost their content."""


class Beside(Protocol):
    """What keeps runs of a workspace elsewhere, by a clock of its own, and erases them when their time has come."""

    def __call__(self, workspace: Workspace, until: int, *, dry_run: bool) -> Iterable[tuple[str, int, int]]:
        """Erases what ended up to ``until``, microseconds since the epoch: ``(run id, when it ended, events)`` each. ``dry_run``: what would be."""
        ...


BESIDE: list[Beside] = []
"""What goes by a workspace's retention too; an application adds its own when it is ready."""


def retention_set(*, actor: Actor, days: int | None) -> None:
    """Says how many days after its end a run's contents are kept in the actor's workspace; None: for good. Refused forbidden, invalid."""
    right_wanted(actor, Right.OPERATE, "say how long contents are kept")
    if days is not None and not 1 <= days <= DAYS_MAX:
        raise Refused(f"contents cannot be kept {days:,} days; give 1 to {DAYS_MAX:,}", code="invalid", field="days")
    with transaction.atomic():
        mine = Workspace.objects.filter(id=actor.workspace_id)
        was = mine.values_list("retention_days", flat=True).first()
        mine.update(retention_days=days)
        audit_record(actor=actor, act=Act.RETENTION_SET, subject=actor.workspace_id, days=days or 0, before_days=was)


def retention_wanted() -> bool:
    """Whether any workspace erases anything."""
    return Workspace.objects.filter(retention_days__isnull=False).exists()


def retention_apply(*, dry_run: bool = False, now: int | None = None) -> list[Erased]:
    """Erases, in every workspace that says so, what is older than it says; what was erased. ``dry_run``: what would be.

    Each run is one transaction with its audit line, so that it can be stopped anywhere and be done by several at once.
    """
    at = time.time_ns() // 1_000 if now is None else now
    done = []
    for workspace in Workspace.objects.filter(retention_days__isnull=False).order_by("id"):
        until = at - (workspace.retention_days or 0) * DAY_US
        for run_id, ended_at in _due(workspace, until):
            erased = _would(run_id, ended_at) if dry_run else _erase(workspace, run_id, ended_at)
            if erased is not None:
                done.append(erased)
        for beside in BESIDE:
            done += [Erased(*one) for one in beside(workspace, until, dry_run=dry_run)]
        if not dry_run:
            # Only forwards: a longer retention brings nothing back, and nothing before this is looked at again.
            Workspace.objects.filter(id=workspace.id, erased_until__lt=until).update(erased_until=until)
    return done


def _due(workspace: Workspace, until: int) -> Iterator[tuple[str, int]]:
    """Runs that ended after what is erased already and up to ``until``, by the two indexes of what ended."""
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


def _kept(run_id: str) -> Q:
    return Q(run_id=run_id, payload__isnull=False)


def _would(run_id: str, ended_at: int) -> Erased | None:
    if runs_held([run_id]):
        return None
    count = Event.objects.filter(_kept(run_id)).count()
    return Erased(run_id, ended_at, count) if count else None


def _erase(workspace: Workspace, run_id: str, ended_at: int) -> Erased | None:
    with transaction.atomic():
        # Nobody else writes the row of an ended run. Of several who do this at once, the second waits here for the first's audit line.
        if not Run.objects.filter(~run_is_held(), id=run_id, state__in=ENDED).update(title=ERASED_TITLE):
            return None
        if was_erased(workspace.id, run_id):
            return None
        events = Event.objects.filter(_kept(run_id)).update(payload=None)
        Inbox.objects.filter(run_id=run_id).update(body=b"")
        documents = Attachment.objects.filter(run_id=run_id).update(text="")
        Escalation.objects.filter(run_id=run_id).update(content=NOTHING)
        TicketClosure.objects.filter(run_id=run_id).update(note="")
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
    return Erased(run_id, ended_at, events)
