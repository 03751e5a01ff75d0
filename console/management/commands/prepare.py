"""`manage.py prepare`: everything between an address in the settings and a database that can be served from.

`manage.py up` runs it before it starts anything. What stands in the way is one sentence that names the setting.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser
from django.db import DatabaseError, connection
from kombu.connection import Connection
from kombu.exceptions import KombuError

from console.celery import app, refuse_unusable_providers
from console.database_version import database, refuse_other_version
from console.launch import datadir
from console.launch.errors import Refused
from fabric.adapters.host import HostConfig
from fabric.management.base import OK, FabricCommand
from fabric.services.here import secret_box

MIGRATING = 0x666C6F77  # The advisory lock's number: "flow".
BROKER_TIMEOUT_S = 3

_REMEDIES = {
    "permission denied": "lets this user make no tables: grant CREATE on its schema, or let one who has it run `manage.py migrate`.",
    "disk is full": "has no room left on its disk: make room there, or choose another with --data or FABRIC_DATA.",
}
"""What a migration may fail of, by the database's words."""


class Command(FabricCommand):
    """Brings the database up to date and says with what this installation works."""

    help = "Check the database's address, bring its tables up to date and make what the first start needs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Only ``--json``."""
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Prepares the database; prints where everything is."""
        refuse_unusable_providers()
        with self._alone():
            refuse_other_version()
            migrate()
            close_database()
            secret_box().newest(b"")  # Which makes the key ring where there is none, and refuses one that is damaged.
            said = io.StringIO()
            call_command("bootstrap", "--json", stdout=said)
        made = json.loads(said.getvalue())
        report = {"login": made["url"], "database": database(), "broker": broker(), "workers": workers()}
        report["models"] = models()
        if options["json"]:
            self.put(report)
        else:
            for name, text in report.items():
                self.stdout.write(f"{name:<9} {text}")
        return OK

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time migrates a PostgreSQL database; of a data directory, `up` holds the lock."""
        if connection.vendor != "postgresql":
            yield
            return
        with direct_connection() as direct:
            # Of the transaction, not of the session: a transaction pooler may stand between.
            held = direct.execute("SELECT pg_try_advisory_xact_lock(%s)", [MIGRATING]).fetchone()
            if not held[0]:
                self.tell("Another process is bringing the database up to date; waiting for it.")
                direct.execute("SELECT pg_advisory_xact_lock(%s)", [MIGRATING])
            yield


def direct_connection() -> Any:
    """Connect past the pool, whose only complaint would be that it had to wait. Raises Refused with PostgreSQL's words."""
    import psycopg

    named = connection.settings_dict
    if not named["NAME"] and not named["OPTIONS"].get("service"):
        raise Refused("DATABASE_URL names no database: write it as postgresql://USER:PASSWORD@HOST:PORT/NAME.")
    try:
        return psycopg.connect(**connection.get_connection_params())
    except psycopg.Error as error:
        # "connection failed: connection to server at ... failed: CAUSE Is the server running ...?"
        cause = " ".join(str(error).partition("\n")[0].rpartition(" failed: ")[2].split())[:300].rstrip(".")
        raise Refused(f"{database()} cannot be used: {cause}; start the server, or mend DATABASE_URL.") from None


def migrate() -> None:
    """Bring the tables up to date. Raises Refused when the database's user may not make any, and when the disk is full."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except DatabaseError as error:
        for words, remedy in _REMEDIES.items():
            if words in str(error):
                raise Refused(f"{database()} {remedy}") from None
        raise


def close_database() -> None:
    """Close the files of SQLite, wherever they are, to all but their owner: SQLite makes them as open as it may. Raises Refused."""
    if connection.vendor == "sqlite":
        for end in ("", "-wal", "-shm"):
            datadir.close_file(Path(f"{connection.settings_dict['NAME']}{end}"))


def broker() -> str:
    """Say which broker this is, without its password, and whether it answers. Raises Refused for one that cannot be."""
    address = str(app.conf.broker_url)
    if address.startswith("filesystem:"):
        return "files in the data directory"
    try:
        with Connection(address, connect_timeout=BROKER_TIMEOUT_S, transport_options={}) as found:
            shown = found.as_uri().replace("://:**@", "://")
            found.ensure_connection(max_retries=1, interval_start=0, timeout=BROKER_TIMEOUT_S)
    except (OSError, KombuError) as error:
        said = " ".join(str(error).split())[:120].rstrip(".")
        return f"{shown}, which does not answer ({said}): runs are found without it, a little later"
    return shown


def workers() -> str:
    """Say how much work is done side by side."""
    return f"1, for up to {HostConfig().max_owned:,} runs at a time"


def models() -> str:
    """Say which models the sample fabrics can ask."""
    if not settings.FABRIC_MODEL_URL:
        return "scripted agents, no key needed (FABRIC_MODEL_URL adds a real model)"
    return f"{settings.FABRIC_MODEL or 'unnamed'} at {settings.FABRIC_MODEL_URL}"
