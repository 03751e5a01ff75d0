"""Checks that this version can read the database, or a backup, by the applied migrations."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db import connection
from django.db.migrations.loader import MigrationLoader

from console.launch.processes.errors import StartRefused

DEVELOPMENT = "fabric.0002_login_links"
"""Every development version had this migration, and no release has it."""


def refuse_other_version() -> None:
    """Raise Refused if the database has migrations unknown to this version, which would misread the tables."""
    if sentence := find_other_version():
        raise StartRefused(sentence)


def find_other_version() -> str:
    """Return a sentence if another version wrote the database and this one cannot read its tables; else empty."""
    loader = MigrationLoader(connection)
    known = set(loader.disk_migrations or ())
    for migration in (loader.disk_migrations or {}).values():
        known.update(migration.replaces)
    # Apps that are no longer installed leave their rows behind; those say nothing about our tables.
    applied = [(app, name) for app, name in loader.applied_migrations or {} if app in loader.migrated_apps]
    return describe_other_version(
        f"The database ({database()})", applied, known, "choose another database or data directory"
    )


def describe_other_version(
    what: str, applied: Iterable[tuple[str, str]], known: Collection[tuple[str, str]], otherwise: str
) -> str:
    """Return a sentence if ``applied`` has migrations that are not ``known``; else empty.

    It names the version that wrote ``what``, and the remedy.
    """
    unknown = sorted(f"{app}.{name}" for app, name in applied if (app, name) not in known)
    if DEVELOPMENT in unknown:
        return (
            f"{what} was written by a development version before 1.0.0, whose data no release reads: "
            "start with a new data directory or an empty database."
        )
    if unknown:
        return (
            f"{what} was written by a newer Fabric Flow, which has {unknown[-1]}: start that version, or {otherwise}."
        )
    return ""


def database() -> str:
    """Return the name of the database, without its password."""
    named = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"SQLite, {named['NAME']}"
    where = named["HOST"] or named["OPTIONS"].get("host") or "the local socket"
    port = f":{named['PORT']}" if named["PORT"] else ""
    return f"PostgreSQL at {where}{port}, database {named['NAME'] or 'of the service'}"
