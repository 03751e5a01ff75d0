"""A check finds more than its first fault (`test_checks`): the doctor says each of its sentences once here."""

from __future__ import annotations

import inspect
import re
import sqlite3
from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from console.installation.doctor import checks
from console.installation.doctor.checks import CHECKS, Level, examine
from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import AuditLine, Duty, Fabric, Incarnation, Notification, Workspace
from fabric.services.actors import owner_actor
from fabric.services.fabrics.revisions import fabric_publish
from simulator.drills.models.tables import Schedule
from tests.console.installation.doctor.test_checks import BROKEN, asked, healthy, mended, now
from tests.fabric.services.world import SMALL

__all__ = ["healthy", "mended"]
pytestmark = pytest.mark.django_db
DAY_US = 86_400 * US
LATE = 660 * US


def unknown_python(monkeypatch, **_):
    monkeypatch.setattr(checks, "SUPPORTED_UNTIL", {(9, 9): date(2099, 1, 1)})


def small_share(monkeypatch, **_):
    monkeypatch.setattr(checks, "FREE_SHARE_MIN", 1.1)


def open_directory(healthy, **_):
    healthy.chmod(0o750)


def open_database(healthy, **_):
    named = healthy / "fabric.sqlite3"
    named.write_bytes(b"")
    named.chmod(0o640)
    healthy.chmod(0o711)
    connection.settings_dict["NAME"] = str(named)


def open_ring(healthy, **_):
    (healthy / "key.ring").write_text("x")
    (healthy / "key.ring").chmod(0o604)
    healthy.chmod(0o701)


def anothers(monkeypatch, **_):
    monkeypatch.setattr(checks.os, "getuid", lambda: 4_242)


def complaint(settings, **_):
    settings.FABRIC_PUBLIC_URL = "https://fabric.example.org"
    settings.SECURE_HSTS_SECONDS = 0


def debugging(settings, **_):
    settings.DEBUG = True


def short_key(settings, **_):
    settings.SECRET_KEY = "abcdefghijklmnopqrstuvwxyz"


def unsigned(settings, **_):
    settings.FABRIC_NOTIFY_WEBHOOKS = ("https://hooks.example.org/x",)


def mail_in_the_clear(settings, **_):
    settings.EMAIL_HOST, settings.EMAIL_USE_TLS, settings.EMAIL_USE_SSL = "mail.example.org", False, False


def damaged(healthy, **_):
    named = healthy / "damaged.sqlite3"
    with sqlite3.connect(named) as made:
        made.execute("CREATE TABLE a (b TEXT)")
        made.executemany("INSERT INTO a VALUES (?)", [("x" * 3_000,)] * 20)
    made.close()
    raw = bytearray(named.read_bytes())
    raw[8_192:8_300] = b"\xff" * 108
    named.write_bytes(raw)
    connection.close()
    connection.settings_dict["NAME"] = str(named)


def newer(**_):
    MigrationRecorder(connection).record_applied("fabric", "9999_of_tomorrow")


def no_workspace(**_):
    Workspace.objects.update(name="another")


def retired(**_):
    Incarnation.objects.update(retired_at=now())


def left_duty(**_):
    Duty.objects.create(name="seal", holder="w1", held_until=now() - LATE, due_at=now() - LATE)


def late_schedule(**_):
    fabric_publish(actor=owner_actor(), source=SMALL)
    Schedule.objects.create(
        workspace_id=owner_actor().workspace_id, fabric=Fabric.objects.get(), cron="0 3 * * *", made_by="owner", made_at=1,
        next_at=now() - LATE,
    )  # fmt: skip


def late_notification(**_):
    Notification.objects.create(
        id="n", workspace_id=owner_actor().workspace_id, seq=1, told="asked", channel="email", target="t", shown="s",
        content=b"{}", at=1, state="waiting", made_at=1, next_at=now() - LATE,
    )  # fmt: skip


def old_backup(**_):
    asked(owner_actor())
    told = {"workspace_id": owner_actor().workspace_id, "actor": "owner", "kind": Act.BACKUP_TAKEN.value, "body": b"{}"}
    AuditLine.objects.bulk_create([AuditLine(at=now() - days * DAY_US, **told) for days in (8, 30)])


def server_database(monkeypatch, **_):
    monkeypatch.setattr(connection, "vendor", "postgresql")


def other_provider(settings, **_):
    settings.FABRIC_AZURE_URL, settings.FABRIC_AZURE_KEY = "http://127.0.0.1:9/v1", "k"


FAULTS: Mapping[str, tuple[tuple[Any, str, Level], ...]] = {
    "python": ((unknown_python, "gets no security fixes", Level.WRONG),),
    "disk": ((small_share, "MB left", Level.WRONG),),
    "modes": (
        (open_directory, "The data directory has the mode 0750", Level.WRONG),
        (open_database, "fabric.sqlite3 has the mode 0640", Level.WRONG),
        (open_ring, "key.ring has the mode 0604", Level.WRONG),
        (anothers, "belongs to another user", Level.NOTE),
    ),
    "https": (
        (complaint, "Django: You have not set a value for the SECURE_HSTS_SECONDS", Level.WRONG),
        (debugging, "FABRIC_DEBUG is set", Level.WRONG),
    ),
    "secrets": (
        (short_key, "26 characters, 26 of them different", Level.WRONG),
        (unsigned, "Webhooks are sent unsigned", Level.WRONG),
        (mail_in_the_clear, "Mail goes to its server unencrypted", Level.NOTE),
    ),
    "database": ((damaged, "The database file is damaged", Level.WRONG),),
    "migrations": ((newer, "was written by a newer Fabric Flow", Level.WRONG),),
    "workspace": ((no_workspace, "There is no default workspace", Level.WRONG),),
    "workers": ((retired, "No worker is alive; 0 runs are due", Level.WRONG),),
    "scheduler": (
        (left_duty, "ended while it did the duty 'seal'", Level.WRONG),
        (late_schedule, "1 schedules of drills are more than ten minutes late", Level.WRONG),
    ),
    "notifications": ((late_notification, "1 notifications have been due", Level.WRONG),),
    "backups": ((old_backup, "is 8 days old", Level.NOTE),),
    "broker": ((server_database, "The broker is files of this machine", Level.NOTE),),
    "channels": ((server_database, "The channel layer is this process's memory", Level.NOTE),),
    "providers": ((other_provider, "FABRIC_AZURE_URL cannot be reached", Level.WRONG),),
}
OWN_CONNECTIONS = (old_backup, damaged)
"""They need a connection of their own: one run is written by another one, and one opens another file."""
ROWS = [
    pytest.param(name, *row, id=row[0].__name__, marks=pytest.mark.django_db(transaction=row[0] in OWN_CONNECTIONS))
    for name, rows in FAULTS.items()
    for row in rows
]


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize(("name", "fault", "words", "level"), ROWS)
def test_each_fault_is_found_and_nothing_before_it(name, fault, words, level, healthy, settings, monkeypatch):
    assert examine(name) == []
    fault(settings=settings, monkeypatch=monkeypatch, healthy=healthy)
    (found,) = [one for one in examine(name) if words in one.says]
    assert found.level is level
    assert found.do.endswith(".")


def test_every_sentence_is_said():
    """A check that can say three things has three faults, here and in ``test_checks``."""
    says = {
        name: len(re.findall(r"yield (?:wrong|note)\(", inspect.getsource(one.look))) for name, one in CHECKS.items()
    }
    said = Counter(
        {name: len({words, *(row[1] for row in FAULTS.get(name, ()))}) for name, (_, words) in BROKEN.items()}
    )
    assert {name: count for name, count in says.items() if said[name] < count} == {}
