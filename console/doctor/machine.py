"""Checks of this machine and of the settings: they ask nobody."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.db import connection

from console import variables
from console.doctor.findings import Finding, note, wrong
from console.launch.errors import Refused

SUPPORTED_UNTIL: Mapping[tuple[int, int], date] = {
    (3, 11): date(2027, 10, 31),
    (3, 12): date(2028, 10, 31),
    (3, 13): date(2029, 10, 31),
    (3, 14): date(2030, 10, 31),
}
"""When a Python gets no security fixes any more (devguide.python.org/versions)."""
FREE_BYTES_MIN = 1 << 30
FREE_SHARE_MIN = 0.05
KEY_CHARS_GOOD = 50
KEY_LETTERS_GOOD = 10
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def look_at_python() -> Iterator[Finding]:
    """A Python without security fixes."""
    running = sys.version_info[:2]
    until = SUPPORTED_UNTIL.get(running)
    if until is None or datetime.now(UTC).date() > until:
        newest = max(SUPPORTED_UNTIL)
        yield wrong(
            f"Python {running[0]}.{running[1]} gets no security fixes (any more).",
            f"Run Fabric Flow with Python {newest[0]}.{newest[1]}.",
        )


def look_at_settings() -> Iterator[Finding]:
    """Variables whose values cannot be used."""
    try:
        variables.refuse_unusable()
    except Refused as refused:
        yield wrong(refused.sentence, "Correct that variable, and restart every process.")


def look_at_disk() -> Iterator[Finding]:
    """Room in the data directory."""
    used = shutil.disk_usage(settings.FABRIC_DATA)
    if used.free < FREE_BYTES_MIN or used.free < used.total * FREE_SHARE_MIN:
        yield wrong(
            f"The disk of the data directory has {used.free / 2**20:,.0f} MB left of {used.total / 2**20:,.0f}.",
            "Make room there, or set `manage.py retention`: runs are refused once it is full.",
        )


def look_at_modes() -> Iterator[Finding]:
    """Files that others than their owner can read or write (OWASP ASVS 5.0, 13.3.2)."""
    data = settings.FABRIC_DATA
    private = [data, *data.glob("*.key"), *data.glob("*.ring")]
    if connection.vendor == "sqlite":
        private += [Path(str(connection.settings_dict["NAME"]) + suffix) for suffix in ("", "-wal", "-shm")]
    for path in private:
        # What lies in a directory that is closed to others is closed to them too.
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
    """What people use without TLS, and what Django says of a deployment."""
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
    """Keys that can be guessed, or that nobody keeps."""
    key = settings.SECRET_KEY
    if len(key) < KEY_CHARS_GOOD or len(set(key)) < KEY_LETTERS_GOOD:
        yield wrong(
            f"The secret key has {len(key)} characters, {len(set(key))} of them different: it can be guessed.",
            "Make one with `openssl rand -base64 48`. Everybody signs in again, and stored provider keys are stored again.",
        )
    if settings.FABRIC_NOTIFY_WEBHOOKS and not settings.FABRIC_WEBHOOK_SECRET:
        yield wrong("Webhooks are sent unsigned.", "Set FABRIC_WEBHOOK_SECRET.")
    if settings.EMAIL_HOST and not (settings.EMAIL_USE_TLS or settings.EMAIL_USE_SSL):
        yield note("Mail goes to its server unencrypted.", "Set FABRIC_SMTP_TLS to starttls or tls.")
