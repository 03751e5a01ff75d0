"""Checks an installation: the table of the checks, their findings, and each check.

1. This machine and the settings are checked without any contact.
2. The services besides the database are the broker, the channel layer and, on request, model providers.
3. The database's contents are workers, waiting work and neglected work. Each is one cheap read.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import stat
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import Enum, StrEnum
from pathlib import Path
from urllib.parse import urlsplit

import redis
from django.conf import settings
from django.core import checks
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from kombu.connection import Connection
from kombu.exceptions import KombuError

from console.installation.database_version import database, find_other_version
from console.launch.processes.errors import StartRefused
from console.launch.variables import table as variables
from fabric.core.audit.lines import Act
from fabric.core.texts.notifications import NotificationState
from fabric.core.values.flow import RunState
from fabric.core.values.units import US
from fabric.models import AuditLine, Duty, Incarnation, Member, Notification, Run, Workspace
from fabric.program.name import program
from fabric.selectors.database_time import store_now
from fabric.services.actors import DEFAULT_WORKSPACE, OWNER
from simulator.drills.models.tables import Schedule


class Level(StrEnum):
    """Severity of a finding."""

    WRONG = "wrong"
    """Does not work, or is not safe."""
    UNKNOWN = "unknown"
    """Could not be checked. Never counts as success."""
    NOTE = "note"
    """Works, but deserves attention."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding and its remedy: two sentences."""

    level: Level
    says: str
    do: str


def wrong(says: str, do: str) -> Finding:
    """Return a finding about something that does not work, or is not safe."""
    return Finding(Level.WRONG, says, do)


def unknown(says: str, do: str) -> Finding:
    """Return a finding about something that could not be checked."""
    return Finding(Level.UNKNOWN, says, do)


def note(says: str, do: str) -> Finding:
    """Return a finding about something that works, but deserves attention."""
    return Finding(Level.NOTE, says, do)


SKEW_S = 2.0
"""Seconds by which a worker's clock may differ: leases and sign-ins compare clocks."""
LATE_S = 600
"""Seconds after which due work counts as late; a healthy installation does it within seconds."""
BACKUP_DAYS = 7


def look_at_database() -> Iterator[Finding]:
    """Check that the database answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA quick_check(1)")
            (said,) = cursor.fetchone()
        if said != "ok":
            yield wrong(f"The database file is damaged: {said}.", "Stop everything, and restore the last backup.")


def look_at_migrations() -> Iterator[Finding]:
    """Check that its tables are those of this version."""
    if said := find_other_version():
        yield wrong(said, "Run the version that wrote it, or give this one a new data directory.")
        return
    executor = MigrationExecutor(connection)
    if waiting := executor.migration_plan(executor.loader.graph.leaf_nodes()):
        yield wrong(
            f"{len(waiting)} migrations have not been applied to {database()}.",
            f"Run `{program()} django migrate` as the user who owns the tables.",
        )


def look_at_workspace() -> Iterator[Finding]:
    """Check the default workspace and its owner."""
    if not Workspace.objects.filter(name=DEFAULT_WORKSPACE).exists():
        yield wrong("There is no default workspace.", f"Run `{program()} bootstrap`.")
    elif not Member.objects.filter(name=OWNER, removed_at__isnull=True, user__is_active=True).exists():
        yield wrong("The local owner is no member: the command line has no actor.", f"Run `{program()} bootstrap`.")


def look_at_workers() -> Iterator[Finding]:
    """Check that workers with a valid lease exist."""
    now = store_now()
    alive = Incarnation.objects.filter(retired_at__isnull=True, lease_until__gt=now).count()
    if not alive:
        waiting = Run.objects.filter(incarnation__isnull=True, wake_at__lte=now).count()
        yield wrong(
            f"No worker is alive; {waiting:,} {'run is' if waiting == 1 else 'runs are'} due.",
            f"Start one: `python -m console.worker`, or `{program()} up`.",
        )


def look_at_scheduler() -> Iterator[Finding]:
    """Check the workers' periodic work: duties and schedules of drills."""
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
    """Check that the clocks of this machine and the database agree."""
    connection.ensure_connection()  # SQLite's clock is the machine's, which answers without a database
    before = time.time()
    there = store_now() / US
    between = (before + time.time()) / 2
    if (apart := abs(there - between)) > SKEW_S:
        yield wrong(
            f"This machine's clock and the database's are {apart:.1f} s apart.",
            "Have both follow the same time server (chrony, systemd-timesyncd).",
        )


def look_at_notifications() -> Iterator[Finding]:
    """Check for failed and late notifications."""
    if failed := Notification.objects.filter(state=NotificationState.FAILED.value).count():
        yield wrong(
            f"{failed:,} notifications could not be delivered.",
            f"Look at `{program()} notification list`, and send them again.",
        )
    if late := Notification.objects.filter(
        state=NotificationState.WAITING.value, next_at__lt=store_now() - LATE_S * US
    ).count():
        yield wrong(f"{late:,} notifications have been due for ten minutes.", "See that a worker runs.")


def look_at_quarantine() -> Iterator[Finding]:
    """Check for quarantined runs, which wait for a person."""
    if held := Run.objects.filter(state=RunState.QUARANTINED.value).count():
        yield wrong(
            f"{held:,} {'run is' if held == 1 else 'runs are'} quarantined.",
            f"Answer their reviews under Reviews, or `{program()} review list`.",
        )


def look_at_backups() -> Iterator[Finding]:
    """Check the age of the last backup taken by our own command."""
    last = AuditLine.objects.filter(kind=Act.BACKUP_TAKEN.value).order_by("-at").values_list("at", flat=True).first()
    if not Run.objects.exists():
        return
    if last is None:
        yield note(
            f"No backup was ever taken with `{program()} backup`.", "Take one, or see that another way takes them."
        )
    elif (days := (time.time_ns() // 1_000 - last) // (86_400 * US)) > BACKUP_DAYS:
        yield note(
            f"The last backup with `{program()} backup` is {days:,} days old.",
            "Take one, or see that another way takes them.",
        )


def unreachable(error: Exception) -> Finding:
    """Return the finding of a check that could not read the database."""
    said = " ".join(str(error).split())[:200].rstrip(".")
    return unknown(f"{database()} does not answer ({said}).", "Start the server, or mend DATABASE_URL.")


TIMEOUT_S = 3.0
BROKER = "CELERY_BROKER_URL"
"""Setting that the variables of the environment make."""
_PROVIDERS = ("MODEL", "ANTHROPIC", "GOOGLE", "AZURE", "BEDROCK", "VERTEX")


def look_at_broker() -> Iterator[Finding]:
    """Check that the broker accepts messages."""
    address = str(getattr(settings, BROKER))
    if address.startswith("filesystem:"):
        if connection.vendor == "postgresql":
            yield note(
                "The broker is files of this machine, and the database is a server's.",
                "Set CELERY_BROKER_URL where workers run on other machines: else they find runs by looking alone.",
            )
        return
    try:
        with Connection(address, connect_timeout=TIMEOUT_S, transport_options={}) as found:
            found.ensure_connection(max_retries=1, interval_start=0, timeout=TIMEOUT_S)
    except (OSError, KombuError) as error:
        yield wrong(
            f"The broker does not answer ({describe_error(error)}).",
            "Start it, or mend CELERY_BROKER_URL. Runs go on without it, later.",
        )


def look_at_channel_layer() -> Iterator[Finding]:
    """Check that several web servers can reach one another."""
    layer = settings.CHANNEL_LAYERS["default"]
    hosts = layer.get("CONFIG", {}).get("hosts")
    if not hosts:
        if connection.vendor == "postgresql":
            yield note(
                "The channel layer is this process's memory.",
                "Set CHANNEL_URL where there is more than one web server.",
            )
        return
    try:
        with redis.Redis.from_url(
            hosts[0]["address"], socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S
        ) as client:
            client.ping()
    except (OSError, redis.RedisError) as error:
        yield wrong(
            f"The channel layer does not answer ({describe_error(error)}).",
            "Start it, or mend CHANNEL_URL. Pages are live again once it answers.",
        )


def look_at_providers() -> Iterator[Finding]:
    """Check that each configured model endpoint accepts a connection. Sends no data."""
    for name in _PROVIDERS:
        address = getattr(settings, f"FABRIC_{name}_URL")
        if not address or not (name == "MODEL" or getattr(settings, f"FABRIC_{name}_KEY")):
            continue
        try:
            connect(address)
        except OSError as error:
            yield wrong(
                f"FABRIC_{name}_URL cannot be reached ({describe_error(error)}).",
                "See that this machine may connect there, or correct the address.",
            )


def connect(address: str) -> None:
    """Open a connection to a web address's host, with TLS for https. Raises OSError."""
    parts = urlsplit(address)
    port = parts.port or {"http": 80, "https": 443}[parts.scheme]
    with socket.create_connection((parts.hostname, port), timeout=TIMEOUT_S) as plain:
        if parts.scheme == "https":
            with ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname):
                pass


def describe_error(error: Exception) -> str:
    """Return the first words of an error, without an address that may contain a password."""
    return " ".join((getattr(error, "strerror", None) or type(error).__name__).split())[:120]


SUPPORTED_UNTIL: Mapping[tuple[int, int], date] = {
    (3, 11): date(2027, 10, 31),
    (3, 12): date(2028, 10, 31),
    (3, 13): date(2029, 10, 31),
    (3, 14): date(2030, 10, 31),
}
"""End of a Python's security fixes (devguide.python.org/versions)."""
FREE_BYTES_MIN = 1 << 30
FREE_SHARE_MIN = 0.05
KEY_CHARS_GOOD = 50
KEY_LETTERS_GOOD = 10
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def look_at_python() -> Iterator[Finding]:
    """Check for a Python without security fixes."""
    running = sys.version_info[:2]
    until = SUPPORTED_UNTIL.get(running)
    if until is None or datetime.now(UTC).date() > until:
        newest = max(SUPPORTED_UNTIL)
        yield wrong(
            f"Python {running[0]}.{running[1]} gets no security fixes (any more).",
            f"Run Fabric Flow with Python {newest[0]}.{newest[1]}.",
        )


def look_at_settings() -> Iterator[Finding]:
    """Check for variables with unusable values."""
    try:
        variables.refuse_unusable()
    except StartRefused as refused:
        yield wrong(refused.sentence, "Correct that variable, and restart every process.")


def look_at_disk() -> Iterator[Finding]:
    """Check the free space of the data directory."""
    used = shutil.disk_usage(settings.FABRIC_DATA)
    if used.free < FREE_BYTES_MIN or used.free < used.total * FREE_SHARE_MIN:
        yield wrong(
            f"The disk of the data directory has {used.free / 2**20:,.0f} MB left of {used.total / 2**20:,.0f}.",
            f"Make room there, or set `{program()} admin retention`: runs are refused once it is full.",
        )


def look_at_modes() -> Iterator[Finding]:
    """Check for files that other users can read or write (OWASP ASVS 5.0, 13.3.2)."""
    data = settings.FABRIC_DATA
    private = [data, *data.glob("*.key"), *data.glob("*.ring")]
    if connection.vendor == "sqlite":
        private += [Path(str(connection.settings_dict["NAME"]) + suffix) for suffix in ("", "-wal", "-shm")]
    for path in private:
        # Files in a directory that is closed to others are closed to them too.
        if not path.exists() or (path != data and not stat.S_IMODE(path.parent.stat().st_mode) & 0o077):
            continue
        if (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
            name = "The data directory" if path == data else path.name
            yield wrong(
                f"{name} has the mode {mode:04o}: others on this machine can get at it.",
                f"Run `chmod {'700' if path == data else '600'} {path}`.",
            )
    if data.stat().st_uid != os.getuid():
        yield note("The data directory belongs to another user than this.", "Run this as the user whom it belongs to.")


def look_at_https() -> Iterator[Finding]:
    """Check for addresses without TLS, and run Django's deployment checks."""
    public = urlsplit(settings.FABRIC_PUBLIC_URL)
    if public.scheme != "https" and public.hostname not in LOOPBACK:
        yield wrong(
            f"People reach this installation at {settings.FABRIC_PUBLIC_URL}, which is not encrypted.",
            "Put a proxy that ends TLS before it, and set FABRIC_PUBLIC_URL to its https address (deploy/compose.yaml).",
        )
    if public.scheme == "https":
        for message in checks.run_checks(tags=[checks.Tags.security], include_deployment_checks=True):
            yield wrong(f"Django: {message.msg.strip().split(chr(10))[0]}", f"See {message.id} of `check --deploy`.")
    if settings.DEBUG:
        yield wrong("FABRIC_DEBUG is set: errors show settings and code.", "Leave it out, and restart every process.")


def look_at_secrets() -> Iterator[Finding]:
    """Check for keys that can be guessed, or are not kept."""
    key = settings.SECRET_KEY
    if len(key) < KEY_CHARS_GOOD or len(set(key)) < KEY_LETTERS_GOOD:
        yield wrong(
            f"The secret key has {len(key)} characters, {len(set(key))} of them different: it can be guessed.",
            "Make one with `openssl rand -base64 48`. All members sign in again, and owners store the provider keys again.",
        )
    if settings.FABRIC_NOTIFY_WEBHOOKS and not settings.FABRIC_WEBHOOK_SECRET:
        yield wrong("Webhooks are sent unsigned.", "Set FABRIC_WEBHOOK_SECRET.")
    if settings.EMAIL_HOST and not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL):
        yield note("Mail goes to its server unencrypted.", "Set FABRIC_SMTP_TLS to starttls or tls.")


class Asks(Enum):
    """Systems that a check contacts."""

    MACHINE = "this machine alone"
    DATABASE = "the database"
    SERVERS = "broker and channel layer"
    NETWORK = "the network, with --network alone"


@dataclass(frozen=True, slots=True)
class Check:
    """One check."""

    what: str
    asks: Asks
    look: Callable[[], Iterator[Finding]]


CHECKS: Mapping[str, Check] = {
    "python": Check("the Python gets security fixes", Asks.MACHINE, look_at_python),
    "settings": Check("every variable can be used", Asks.MACHINE, look_at_settings),
    "disk": Check("there is room for more runs", Asks.MACHINE, look_at_disk),
    "modes": Check("no other account can read keys and database", Asks.MACHINE, look_at_modes),
    "https": Check("people come by TLS, and Django has no complaint", Asks.MACHINE, look_at_https),
    "secrets": Check("keys cannot be guessed", Asks.MACHINE, look_at_secrets),
    "database": Check("the database answers and is whole", Asks.DATABASE, look_at_database),
    "migrations": Check("its tables are those of this version", Asks.DATABASE, look_at_migrations),
    "workspace": Check("there is a workspace with its owner", Asks.DATABASE, look_at_workspace),
    "clock": Check("this clock and the database's agree", Asks.DATABASE, look_at_clock),
    "workers": Check("a worker is alive", Asks.DATABASE, look_at_workers),
    "scheduler": Check("what is due is done", Asks.DATABASE, look_at_scheduler),
    "notifications": Check("notifications are delivered", Asks.DATABASE, look_at_notifications),
    "quarantine": Check("no run is put away", Asks.DATABASE, look_at_quarantine),
    "backups": Check("a backup was taken", Asks.DATABASE, look_at_backups),
    "broker": Check("the broker answers", Asks.SERVERS, look_at_broker),
    "channels": Check("the channel layer answers", Asks.SERVERS, look_at_channel_layer),
    "providers": Check("model endpoints can be reached", Asks.NETWORK, look_at_providers),
}


def examine(name: str) -> list[Finding]:
    """Run one check. A check that cannot run returns a finding; nothing is raised."""
    try:
        return list(CHECKS[name].look())
    except DatabaseError as error:
        return [unreachable(error)]
    except OSError as error:
        said = f"{error.filename or 'something'}: {error.strerror or type(error).__name__}"
        return [
            unknown(
                f"This could not be looked at ({said}).", "Run this as the user whom the data directory belongs to."
            )
        ]
