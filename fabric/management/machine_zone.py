"""Finds the time zone in which a command reads days and hours: the named one, else the machine's."""

from __future__ import annotations

from datetime import UTC, tzinfo
from pathlib import Path

from fabric.selectors.runs.query.values import read_zone, require_zone

LOCALTIME = Path("/etc/localtime")
"""Link to the machine's zone in a folder ``zoneinfo``. Django sets the process itself to UTC."""


def choose_zone(name: str = "") -> tzinfo:
    """Return a time zone by its name; without one the machine's, or UTC if it has none. Raises Refused invalid."""
    if name:
        return require_zone(name)
    _, found, of_machine = str(LOCALTIME.resolve()).partition("/zoneinfo/")
    return (read_zone(of_machine) if found else None) or UTC
