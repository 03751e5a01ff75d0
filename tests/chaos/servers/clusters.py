"""A cluster with the tables of an installation and nothing in them, to be copied: making one costs five seconds of processor time, a copy next to nothing."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from simulator.installation import database
from tests.chaos.servers.local import PostgresqlServer


def cluster(environment: Mapping[str, str]) -> Path:
    """Its data directory; nothing runs on it. Made when the first is asked for, as other tables are.

    ``environment``: of a program, without an installation's settings. ServerMissing where PostgreSQL is not installed.
    """
    with database.lock_folder() as shared:
        made = shared / "cluster"
        if not made.exists():
            # Not in the shared folder, which is closed to PostgreSQL's user.
            with TemporaryDirectory(prefix="cluster-") as folder, TemporaryDirectory() as data:
                server = PostgresqlServer(Path(folder))
                try:
                    server.create()
                    settings = {"DATABASE_URL": server.url(), "DJANGO_SETTINGS_MODULE": "console.settings"}
                    database.migrate({**environment, **settings, "FABRIC_DATA": data})
                    whole = server.close()
                finally:
                    server.stop()
                shutil.move(whole, made)
    return made
