"""Registers the installation's checks for `manage.py check`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.checks import Error, Tags, Warning, register  # noqa: A004 - Django's own name.
from django.db import DEFAULT_DB_ALIAS

from console.launch.variables.readers import open_to_others
from console.launch.variables.table import SECRETS


@register(Tags.security)
def secret_files_closed(**_: Any) -> list[Warning]:
    """Return a warning for each file with a secret that other users may read."""
    return [Warning(sentence, id="console.W001") for sentence in open_to_others(SECRETS)]


@register(Tags.database)
def check_tables(databases: Iterable[str] | None = None, **_: Any) -> list[Error]:
    """Return an error for a database that another version wrote, for `migrate` and `check --database default`."""
    from console.installation.database_version import find_other_version

    said = find_other_version() if databases and DEFAULT_DB_ALIAS in databases else ""
    return [Error(said, id="console.E001")] if said else []
