"""Each check finds what it is there for, and says what to do; a healthy installation has nothing of it."""

import os
import socket
import time
from datetime import date
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from console.installation.doctor import checks
from console.installation.doctor.checks import CHECKS, Asks, Level, examine
from console.launch.processes.data_directory import ROOT
from fabric.composition import engine as wiring
from fabric.core.audit.lines import Act
from fabric.core.values.units import US
from fabric.models import AuditLine, Incarnation, Member, Notification, Run
from fabric.services.actors import owner_actor
from fabric.services.acts import audit_record
from fabric.services.fabrics.revisions import fabric_publish
from fabric.services.runs.start import run_start
from tests.fabric.services.world import SMALL, HeardNudge
from tests.servers.ports import free_port

pytestmark = pytest.mark.django_db


def now():
    return time.time_ns() // 1_000


def alive():
    Incarnation.objects.create(name="w1", started_at=now(), lease_until=now() + 60 * US)


@pytest.fixture
def healthy(settings, tmp_path):
    """An installation with which nothing is wrong."""
    owner_actor()
    alive()
    settings.FABRIC_DATA = tmp_path
    tmp_path.chmod(0o700)
    return tmp_path


def old_python(monkeypatch, **_):
    monkeypatch.setattr(checks, "SUPPORTED_UNTIL", dict.fromkeys(checks.SUPPORTED_UNTIL, date(2020, 1, 1)))


def bad_variable(monkeypatch, **_):
    monkeypatch.setenv("FABRIC_PORT", "banana")


def no_room(monkeypatch, **_):
    monkeypatch.setattr(checks, "FREE_BYTES_MIN", 1 << 60)


def open_key(healthy, **_):
    (healthy / "secret.key").write_text("x")
    (healthy / "secret.key").chmod(0o644)
    healthy.chmod(0o755)


def plain_http(settings, **_):
    settings.FABRIC_PUBLIC_URL = "http://fabric.example.org"


def weak_key(settings, **_):
    settings.SECRET_KEY = "ab" * 40


def away(settings, **_):
    connection.close()
    connection.settings_dict["NAME"] = "/proc/none/db"


def migration_missing(**_):
    from django.db.migrations.recorder import MigrationRecorder

    MigrationRecorder(connection).record_unapplied("fabric", "0001_initial")


def no_owner(**_):
    Member.objects.all().delete()


def no_worker(**_):
    Incarnation.objects.update(lease_until=now() - US)


def unsealed(**_):
    audit_record(actor=owner_actor(), act=Act.BUDGET_SET, subject="x")
    AuditLine.objects.bulk_create(
        [AuditLine(workspace_id=owner_actor().workspace_id, at=now() - 3_600 * US, actor="a", kind="x", body=b"{}")]
    )


def undelivered(**_):
    Notification.objects.create(
        id="n", workspace_id=owner_actor().workspace_id, seq=1, told="asked", channel="email", target="t", shown="s",
        content=b"{}", at=1, state="failed", made_at=1, next_at=1,
    )  # fmt: skip


def asked(actor):
    """A run that was asked for, and that no worker drives."""
    name = fabric_publish(actor=actor, source=SMALL).name
    return run_start(store=wiring.store(), nudge=HeardNudge(), actor=actor, fabric=name, text="What?").run_id


def put_away(actor, **_):
    Run.objects.filter(id=asked(actor)).update(state="quarantined")


def never_backed_up(actor, **_):
    asked(actor)


def broker_away(**_):

    settings.CELERY_BROKER_URL = f"redis://127.0.0.1:{free_port()}/0"


def channels_away(settings, **_):
    host = {"address": f"redis://127.0.0.1:{free_port()}/0"}
    settings.CHANNEL_LAYERS = {"default": {"BACKEND": "x", "CONFIG": {"hosts": [host]}}}


def provider_away(settings, **_):
    settings.FABRIC_MODEL_URL = f"http://127.0.0.1:{free_port()}/v1"


def skewed(monkeypatch, **_):
    here = time.time
    monkeypatch.setattr(time, "time", lambda: here() - 5)


BROKEN = {
    "python": (old_python, "gets no security fixes"),
    "settings": (bad_variable, "FABRIC_PORT is 'banana'"),
    "disk": (no_room, "MB left"),
    "modes": (open_key, "secret.key has the mode 0644"),
    "https": (plain_http, "is not encrypted"),
    "secrets": (weak_key, "80 characters, 2 of them different"),
    "database": (away, "does not answer"),
    "migrations": (migration_missing, "1 migrations have not been applied"),
    "workspace": (no_owner, "local owner is no member"),
    "clock": (skewed, "s apart"),
    "workers": (no_worker, "No worker is alive"),
    "scheduler": (unsealed, "1 audit lines have waited"),
    "notifications": (undelivered, "1 notifications could not be delivered"),
    "quarantine": (put_away, "1 run is quarantined"),
    "backups": (never_backed_up, "No backup was ever taken"),
    "broker": (broker_away, "The broker does not answer"),
    "channels": (channels_away, "The channel layer does not answer"),
    "providers": (provider_away, "FABRIC_MODEL_URL cannot be reached"),
}


def test_every_check_is_broken_once_and_is_in_the_document():
    assert list(BROKEN) == list(CHECKS)
    text = (ROOT / "docs" / "how-to" / "check-an-installation.md").read_text()
    rows = [line.split("`")[1] for line in text.splitlines() if line.startswith("| `") and line.split("`")[1] in CHECKS]
    assert rows == list(CHECKS)


@pytest.fixture
def mended():
    """Put back what a test set of this process."""

    before, name = settings.CELERY_BROKER_URL, connection.settings_dict["NAME"]
    yield
    settings.CELERY_BROKER_URL = before
    connection.settings_dict["NAME"] = name
    if not connection.in_atomic_block:
        connection.close()  # It may be to the other one.


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ("database", "backups", "quarantine")])
def test_a_check_finds_what_is_wrong_and_nothing_where_nothing_is(name, healthy, settings, monkeypatch):
    broken, words = BROKEN[name]
    assert examine(name) == []
    broken(settings=settings, monkeypatch=monkeypatch, healthy=healthy)
    (found,) = [one for one in examine(name) if words in one.says]
    assert found.level is Level.WRONG
    assert found.do.endswith(".")


@pytest.mark.parametrize("name", ["backups", "quarantine"])
def test_a_check_of_runs_finds_what_is_wrong(name, healthy, actor):
    broken, words = BROKEN[name]
    assert examine(name) == []
    broken(actor=actor)
    (found,) = examine(name)
    assert words in found.says
    assert found.level is (Level.NOTE if name == "backups" else Level.WRONG)


def test_a_backup_that_was_taken_is_enough(healthy, actor):
    asked(actor)
    audit_record(actor=actor, act=Act.BACKUP_TAKEN, subject="one.backup", keys=False)
    assert examine("backups") == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("name", [name for name, check in CHECKS.items() if check.asks is Asks.DATABASE])
def test_a_database_that_is_away_is_unknown_and_no_success(name, settings):
    if name == "backups":
        assert examine(name) == []
    away(settings)
    (found,) = examine(name)
    assert found.level is Level.UNKNOWN
    assert BROKEN["database"][1] in found.says


def test_a_provider_that_takes_a_connection_is_reached(settings):
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.FABRIC_MODEL_URL = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        assert examine("providers") == []


def test_a_directory_that_is_another_users_is_said(healthy, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4_242)
    (found,) = examine("modes")
    assert found.level is Level.NOTE
    assert Path(healthy).exists()
