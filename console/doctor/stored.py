"""Checks of what is in the database: who works, what waits, what nobody looks after. Each is one cheap read."""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from console.database_version import database, find_other_version
from console.doctor.findings import Finding, note, unknown, wrong
from fabric.core.audit import Act
from fabric.core.flow import RunState
from fabric.core.notifications import State
from fabric.models import AuditLine, Duty, Incarnation, Member, Notification, Run, Workspace
from fabric.selectors.store_time import store_now
from fabric.services.workspaces import DEFAULT_WORKSPACE, OWNER
from simulator.drills.models import Schedule

US = 1_000_000
SKEW_S = 2.0
"""Leases and sign-ins compare clocks; a worker's own is good to this."""
LATE_S = 600
"""What is due is done within seconds where somebody does it."""
BACKUP_DAYS = 7


def look_at_database() -> Iterator[Finding]:
    """Whether it answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA quick_check(1)")
            (said,) = cursor.fetchone()
        if said != "ok":
            yield wrong(f"The database file is damaged: {said}.", "Stop everything, and restore the last backup.")


def look_at_migrations() -> Iterator[Finding]:
    """Whether its tables are those of this version."""
    if said := find_other_version():
        yield wrong(said, "Run the version that wrote it, or give this one a new data directory.")
        return
    executor = MigrationExecutor(connection)
    if waiting := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        yield wrong(
            f"{len(waiting)} migrations have not been applied to {database()}.",
            "Run `manage.py migrate` as the user who owns the tables.",
        )


def look_at_workspace() -> Iterator[Finding]:
    """The default workspace and its owner."""
    if not Workspace.objects.filter(name=DEFAULT_WORKSPACE).exists():
        yield wrong("There is no default workspace.", "Run `manage.py bootstrap`.")
    elif not Member.objects.filter(name=OWNER, removed_at__isnull=True, user__is_active=True).exists():
        yield wrong("The local owner is no member: nobody acts at the command line.", "Run `manage.py bootstrap`.")


def look_at_workers() -> Iterator[Finding]:
    """Workers whose lease goes on."""
    now = store_now()
    alive = Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).count()
    if not alive:
        waiting = Run.objects.filter(incarnation__isnull=True, wake_at__lte=now).count()
        yield wrong(
            f"No worker is alive; {waiting:,} runs are due.",
            "Start one: `celery -A console worker --pool threads --concurrency 4`, or `manage.py up`.",
        )


def look_at_scheduler() -> Iterator[Finding]:
    """What workers do now and then: duties and schedules of drills."""
    late = store_now() - LATE_S * US
    duties = Duty.objects.filter(due_at__lt=late, held_until__lt=late).exclude(holder="").filter(held_until__gt=0)
    for name in sorted(duties.values_list("name", flat=True)):
        yield wrong(
            f"A worker ended while it did the duty {name!r}, and no other worker took it over.",
            "See that a worker runs.",
        )
    if overdue := Schedule.objects.filter(paused_by="", next_at__lt=late).count():
        yield wrong(f"{overdue:,} schedules of drills are more than ten minutes late.", "See that a worker runs.")
    oldest = (time.time_ns() // 1_000) - LATE_S * US
    if unsealed := AuditLine.objects.filter(seq__isnull=True, at__lt=oldest).count():
        yield wrong(f"{unsealed:,} audit lines have waited ten minutes to be sealed.", "See that a worker runs.")


def look_at_clock() -> Iterator[Finding]:
    """Whether this machine's clock and the database's agree."""
    before = time.time()
    there = store_now() / US
    between = (before + time.time()) / 2
    if (apart := abs(there - between)) > SKEW_S:
        yield wrong(
            f"This machine's clock and the database's are {apart:.1f} s apart.",
            "Have both follow the same time server (chrony, systemd-timesyncd).",
        )


def look_at_notifications() -> Iterator[Finding]:
    """What was to be told, and was not."""
    if failed := Notification.objects.filter(state=State.FAILED.value).count():
        yield wrong(
            f"{failed:,} notifications could not be delivered.",
            "Look at `manage.py notifications`, and send them again.",
        )
    if late := Notification.objects.filter(state=State.WAITING.value, next_at__lt=store_now() - LATE_S * US).count():
        yield wrong(f"{late:,} notifications have been due for ten minutes.", "See that a worker runs.")


def look_at_quarantine() -> Iterator[Finding]:
    """Runs that no worker touches until a person has answered."""
    if held := Run.objects.filter(state=RunState.QUARANTINED.value).count():
        yield wrong(f"{held:,} runs are quarantined.", "Answer their questions under Reviews, or `manage.py review`.")


def look_at_backups() -> Iterator[Finding]:
    """When the last backup was taken by our own command."""
    last = AuditLine.objects.filter(kind=Act.BACKUP_TAKEN.value).order_by("-at").values_list("at", flat=True).first()
    if not Run.objects.exists():
        return
    if last is None:
        yield note("No backup was ever taken with `manage.py backup`.", "Take one, or see that another way takes them.")
    elif (days := (time.time_ns() // 1_000 - last) // (86_400 * US)) > BACKUP_DAYS:
        yield note(
            f"The last backup with `manage.py backup` is {days:,} days old.",
            "Take one, or see that another way takes them.",
        )


def unreachable(error: Exception) -> Finding:
    """What a check says that could not read the database."""
    said = " ".join(str(error).split())[:200].rstrip(".")
    return unknown(f"{database()} does not answer ({said}).", "Start the server, or mend DATABASE_URL.")
