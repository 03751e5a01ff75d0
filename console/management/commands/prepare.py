"""`manage.py prepare`: prepares the database of the settings for use.

`manage.py up` runs it before it starts any process. An obstacle is reported in one sentence that names the setting.
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
from console.installation.database_version import database, refuse_other_version
from console.launch.processes import data_directory as datadir
from console.launch.processes.errors import StartRefused
from fabric.management.base import OK, FabricCommand
from fabric.program.name import program
from fabric.services.installation.facts import secret_box
from fabric.worker.host import HostConfig

MIGRATING = 0x666C6F77  # The advisory lock's number: "flow".
BROKER_TIMEOUT_S = 3

_REMEDIES = {
    "permission denied": f"lets this user make no tables: grant CREATE on its schema, or let one who has it run `{program()} django migrate`.",
    "disk is full": "has no room left on its disk: make room there, or choose another with --data or FABRIC_DATA.",
}
"""Remedy of a failed migration, by the database's words."""


class Command(FabricCommand):
    """Brings the database up to date, and reports the parts of this installation."""

    help = "Check the database's address, bring its tables up to date and make what the first start needs."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the option ``--json``."""
        parser.add_argument("--json", action="store_true", help="one line of JSON")

    def act(self, options: dict[str, Any]) -> int:
        """Prepare the database, and print where everything is."""
        refuse_unusable_providers()
        with self._alone():
            refuse_other_version()
            migrate()
            close_database()
            secret_box().newest(b"")  # It makes a missing key ring, and refuses a damaged one.
            said = io.StringIO()
            call_command("bootstrap", "--json", stdout=said)
        made = json.loads(said.getvalue())
        report = {"login": made["url"], "database": database(), "broker": broker(), "workers": workers()}
        report["models"] = models()
        if left_out := made["left_out"]:
            report["left out"] = "; ".join(f"the sample {name}: {reason}" for name, reason in left_out.items())
        if options["json"]:
            self.put(report)
        else:
            for name, text in report.items():
                self.stdout.write(f"{name:<9} {text}")
        return OK

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let one process at a time migrate a PostgreSQL database. `up` has the lock of a data directory."""
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
    """Connect without the pool, which would hide the cause. Raises Refused with PostgreSQL's words."""
    import psycopg

    named = connection.settings_dict
    if not named["NAME"] and not named["OPTIONS"].get("service"):
        raise StartRefused("DATABASE_URL names no database: write it as postgresql://USER:PASSWORD@HOST:PORT/NAME.")
    try:
        return psycopg.connect(**connection.get_connection_params())
    except psycopg.Error as error:
        # "connection failed: connection to server at ... failed: CAUSE Is the server running ...?"
        cause = " ".join(str(error).partition("\n")[0].rpartition(" failed: ")[2].split())[:300].rstrip(".")
        raise StartRefused(f"{database()} cannot be used: {cause}; start the server, or mend DATABASE_URL.") from None


def migrate() -> None:
    """Bring the tables up to date. Raises Refused if the database's user may not, and if the disk is full."""
    try:
        call_command("migrate", interactive=False, verbosity=0)
    except DatabaseError as error:
        for words, remedy in _REMEDIES.items():
            if words in str(error):
                raise StartRefused(f"{database()} {remedy}") from None
        raise


def close_database() -> None:
    """Close the files of SQLite to all but their owner: SQLite makes them as open as it may. Raises Refused."""
    if connection.vendor == "sqlite":
        for end in ("", "-wal", "-shm"):
            datadir.close_file(Path(f"{connection.settings_dict['NAME']}{end}"))


def broker() -> str:
    """Return the name of the broker, without its password, and whether it answers. Raises Refused for an unusable
    one.
    """
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
    """Return how much work is done in parallel."""
    return f"1, for up to {HostConfig().max_owned:,} runs at a time"


def models() -> str:
    """Return the models that the sample fabrics can use."""
    if not settings.FABRIC_MODEL_URL:
        return "scripted agents, no key needed (FABRIC_MODEL_URL adds a real model)"
    return f"{settings.FABRIC_MODEL or 'unnamed'} at {settings.FABRIC_MODEL_URL}"
